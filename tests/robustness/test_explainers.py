"""Black boxes that are checked, and baselines against closed forms: linear models, games, and known masks."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

from vergence.core.errors import VergenceError
from vergence.robustness import explainers, gradients
from vergence.robustness.blackbox import BlackBox, Subject, chances_of
from vergence.robustness.sufficiency import deletion, insertion, sufficient

PATCH = (slice(4, 10), slice(12, 20))


def source(seed=0):
    return torch.Generator().manual_seed(seed)


def bright(images):
    """Two scores: the mean of a patch, and a bar."""
    seen = images[:, :, PATCH[0], PATCH[1]].mean((1, 2, 3))
    return 20 * torch.stack([torch.full_like(seen, 0.75), seen], 1)


def white(height=24, width=28):
    return torch.ones(3, height, width)


# Black boxes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (lambda x: torch.full((len(x), 3), math.nan), "not a finite number"),
        (lambda x: torch.full((len(x), 3), math.inf), "not a finite number"),
        (lambda x: torch.zeros(len(x) + 1, 3), "for 2 pictures"),
        (lambda x: torch.zeros(len(x)), "expected scores"),
        (lambda x: torch.zeros(len(x), 0), "expected scores"),
        (lambda x: torch.tensor(1), "expected scores"),
        (lambda x: {"logits": x}, "returned a dict"),
        (lambda x: None, "returned a NoneType"),
        (nn.Sequential(nn.Flatten(), nn.Linear(12, 2), nn.Dropout()), "in training mode"),
    ],
)
def test_wrong_answers_are_refused_by_name(answers, said):
    with pytest.raises(VergenceError, match=said) as refusal:
        Subject.of(answers, torch.ones(3, 2, 2))
    assert "the classifier" in str(refusal.value)


def test_a_classifier_that_changes_its_answer_is_refused():
    with pytest.raises(VergenceError, match=r"changes its answer for the picture \(class 0, then 1\)"):
        Subject.of(lambda x: torch.arange(len(x)), white())
    calls = itertools.count()

    def moody(images):  # the first two answers agree, and no later one does
        return torch.full((len(images),), next(calls))

    subject = Subject.of(moody, white())
    with pytest.raises(VergenceError, match="changes its answer for one picture"):
        sufficient(subject, torch.arange(24 * 28))


@pytest.mark.parametrize("picture", [torch.ones(2, 2), torch.full((3, 2, 2), 1.5), torch.full((3, 2, 2), math.nan),
                                     torch.ones(3, 0, 2), torch.ones(3, 2, 2, dtype=torch.int64)])  # fmt: skip
def test_what_is_no_picture_is_refused(picture):
    with pytest.raises(VergenceError, match="the picture"):
        Subject.of(bright, picture)


def test_labels_arrays_and_probabilities_are_answers_too():
    picture = white()
    labels = Subject.of(lambda x: bright(x).argmax(1), picture)
    answers = (lambda x: bright(x).numpy(), lambda x: bright(x).argmax(1).tolist(), lambda x: bright(x).softmax(1))
    for classifier in answers:
        assert Subject.of(classifier, picture).label == 1
    assert (labels.label, labels.chance) == (1, 1)
    scores = bright(picture[None])
    torch.testing.assert_close(chances_of(scores, 1), chances_of(scores.softmax(1), 1))


def test_no_graph_is_made_and_queries_are_counted():
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 2)).eval()
    asked = []
    box = BlackBox(network, 3, asked=asked.append)
    assert not box(torch.rand(7, 3, 2, 2)).requires_grad
    assert (box.queries, asked) == (7, [3, 6, 7])


# Baselines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["rise", "occlusion", "lime", "shap"])
def test_a_baseline_finds_the_patch_that_decides(method):
    image = 0.7 + 0.3 * torch.rand(3, 24, 28, generator=source())
    image[:, PATCH[0], PATCH[1]] = 1
    subject = Subject.of(bright, image)
    scores = getattr(explainers, method)(subject, 600, source(1))
    assert scores.shape == (24, 28)
    assert scores.dtype == torch.float64
    outside = torch.ones(24, 28, dtype=torch.bool)
    outside[PATCH] = False
    assert scores[PATCH].mean() > scores[outside].mean() + 2 * scores[outside].std()


def test_superpixels_divide_what_slic_merges():
    halves = torch.zeros(3, 32, 32)
    halves[0, :, 16:] = 1
    segments = explainers.superpixels(halves)
    assert all(len(segments[:, part].unique()) > 3 for part in (slice(0, 16), slice(16, 32)))
    assert not set(segments[:, :16].unique().tolist()) & set(segments[:, 16:].unique().tolist())
    merged = explainers.superpixels(torch.rand(3, 24, 28, generator=source()))
    assert merged.unique().tolist() == list(range(int(merged.max()) + 1))
    assert merged.max() > 10


def test_rise_is_the_mean_of_its_masks_weighted_by_the_probability():
    subject = Subject.of(BlackBox(bright, 4), white())
    scores = explainers.rise(subject, 8, source(3))
    again = source(3)
    masks = torch.cat([explainers.rise_masks(4, 24, 28, again) for _ in range(2)]).double()
    chances = subject.chances(subject.blended(masks.float()))
    torch.testing.assert_close(scores, (chances[:, None, None] * masks).sum(0) / 4, rtol=1e-6, atol=1e-8)
    assert 0.4 < float(explainers.rise_masks(500, 24, 28, source()).mean()) < 0.6


def test_shapley_values_of_all_coalitions_are_the_mean_over_orders():
    players, worth = 4, {}
    values = torch.randn(2**players, generator=source(), dtype=torch.float64)
    for number, coalition in enumerate(itertools.product((False, True), repeat=players)):
        worth[coalition] = float(values[number])
    expected = np.zeros(players)
    for order in itertools.permutations(range(players)):
        coalition = [False] * players
        for player in order:
            before = worth[tuple(coalition)]
            coalition[player] = True
            expected[player] += (worth[tuple(coalition)] - before) / math.factorial(players)
    coalitions, weight = explainers.shapley_coalitions(players, 100, source())
    inner = torch.tensor([worth[tuple(row)] for row in coalitions.tolist()], dtype=torch.float64)
    ours = explainers.shapley_values(coalitions, weight, inner, values[0], values[-1])
    np.testing.assert_allclose(ours.numpy(), expected, atol=1e-10)


def test_drawn_coalitions_come_with_their_complements():
    coalitions, weight = explainers.shapley_coalitions(20, 101, source())
    assert torch.equal(coalitions[:50], ~coalitions[50:])
    assert len(weight) == 100
    assert coalitions.any(1).all()
    assert not coalitions.all(1).any()


def linear():
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 6 * 5, 4)).double().eval()
    return network, torch.rand(3, 6, 5, generator=source(), dtype=torch.float64)


def test_integrated_gradients_of_a_linear_model_are_its_terms():
    network, image = linear()
    subject = Subject.of(network, image)
    weights = network[1].weight[subject.label].detach().view(3, 6, 5)
    torch.testing.assert_close(gradients.integrated(subject, 5), weights * (image - subject.colour))


def test_integrated_gradients_add_up_to_the_change_of_the_score():
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(4 * 4 * 3, 4)).double().eval()
    subject = Subject.of(network, linear()[1])
    empty = subject.colour.expand_as(subject.image)
    change = network(torch.stack([empty, subject.image]))[:, subject.label].diff()
    torch.testing.assert_close(gradients.integrated(subject, 400).sum(), change[0], rtol=1e-4, atol=1e-6)


def test_grad_cam_of_a_pooled_map_is_its_weighted_channels():
    """Behind a global mean, the gradient of channel k is its weight / area: the map is the class activation map."""
    network = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))
    network = network.double().eval()
    subject = Subject.of(network, linear()[1])
    maps = network[0](subject.image[None])[0]
    expected = (network[3].weight[subject.label].view(-1, 1, 1) * maps).sum(0).relu().detach() / 30
    torch.testing.assert_close(gradients.gradcam(subject, 1, source()), expected)


def test_extremal_masks_show_the_patch():
    network = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(3 * 36, 2)).eval()
    with torch.no_grad():
        network[2].weight.zero_()
        network[2].weight[1].view(3, 6, 6)[:, 1:3, 3:5] = 3.0  # rows 4 to 12, columns 12 to 20
    scores = gradients.extremal(Subject.of(network, white(24, 24)), 240, source())
    inside = torch.zeros(24, 24, dtype=torch.bool)
    inside[4:12, 12:20] = True
    assert scores[inside].mean() > scores[~inside].mean() + 1


@pytest.mark.parametrize("method", ["gradcam", "ig", "extremal"])
def test_methods_that_need_gradients_say_so(method):
    with pytest.raises(VergenceError, match=rf"{method} needs gradients.*use deepcover, rise"):
        getattr(gradients, method)(Subject.of(lambda x: bright(x).detach(), white()), 12, source())


# Worth of a ranking ---------------------------------------------------------------------------------------------------


def test_curves_and_sets_of_a_known_rule():
    """The answer needs half of the patch's 48 pixels or more: with grey for hidden ones, the mean must exceed 0.75."""
    subject = Subject.of(BlackBox(bright, 5), white())
    first = torch.zeros(24, 28)
    first[PATCH] = 1
    order = first.flatten().argsort(descending=True, stable=True)
    found = sufficient(subject, order)
    assert found.count == 24  # of hidden pixels at 128/255: (24 + 24 * 0.502) / 48 > 0.75 > the same with 23
    assert not found.trivial
    shown, hidden = insertion(subject, order, 672), deletion(subject, order, 672)
    assert shown.kept.tolist() == [count >= 24 for count in range(673)]
    assert hidden.kept.tolist() == [count <= 24 for count in range(673)]
    assert shown.chances[-1] == hidden.chances[0] == pytest.approx(subject.chance)
    assert shown.area > hidden.area
    assert hidden.area == pytest.approx(float(np.trapezoid(hidden.chances, hidden.shares)))
