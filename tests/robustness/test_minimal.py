"""Minimal perturbations: exact for linear classifiers, the same alone or in a batch, honest about what is not found."""

import math

import pytest
import torch
from torch import nn

from vergence.core.errors import VergenceError
from vergence.robustness.minimal import CarliniWagner, DeepFool, IterativeL2, Minimal, Strongest, nearer
from vergence.robustness.whitebox import input_gradients, margins

ATTACKS = {
    "deepfool": DeepFool(bisections=20),
    "bim": IterativeL2(searches=24, bisections=12),
    "cw": CarliniWagner(searches=6, steps=150, rate=0.01, constant=0.1, bisections=20),
}


def linear(classes, scale=0.3, seed=0):
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Flatten(), nn.Linear(48, classes)).double().eval()
    with torch.no_grad():
        network[1].weight.mul_(scale / 0.08)
    return network


def pictures(count=20, seed=1):
    return 0.4 + 0.2 * torch.rand(count, 3, 4, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def distances(network, x, y):
    """The closed form: the margin to each class over the norm of the difference of weights, the smallest of them."""
    with torch.no_grad():
        weight, logits = network[1].weight, network(x)
        gaps = logits.gather(1, y[:, None]) - logits
        norms = (weight[y][:, None] - weight).norm(dim=-1)
        return (gaps / norms).scatter(1, y[:, None], math.inf).amin(1)


def curved(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 6, 3), nn.Tanh(), nn.Flatten(), nn.Linear(24, 4)).double().eval()


@pytest.mark.parametrize("name", ATTACKS)
def test_two_linear_classes_are_fooled_at_the_distance_of_their_boundary(name):
    network, x = linear(2), pictures()
    y = network(x).argmax(1)
    found = ATTACKS[name](network, x, y)
    expected = distances(network, x, y)
    assert (network(found.adversarial).argmax(1) != y).all()
    assert (found.sizes >= expected * (1 - 1e-9)).all()  # nothing can be closer
    assert torch.allclose(found.sizes, expected, rtol=1e-2 if name == "cw" else 1e-4)


def test_deepfool_finds_the_nearest_of_several_linear_boundaries():
    network, x = linear(7), pictures()
    y = network(x).argmax(1)
    found = DeepFool(bisections=30)(network, x, y)
    assert torch.allclose(found.sizes, distances(network, x, y), rtol=1e-5)
    few = DeepFool(candidates=1, bisections=30)(network, x, y)
    assert (few.sizes >= found.sizes - 1e-9).all()


@pytest.mark.parametrize("name", ATTACKS)
def test_what_is_found_is_misclassified_within_bounds_and_as_far_as_it_says(name):
    network, x = curved(), pictures()
    y = network(x).argmax(1)
    y[:3] = (y[:3] + 1) % 4  # wrong already
    found = ATTACKS[name](network, x, y)
    assert found.found.all()
    assert (found.sizes[:3] == 0).all()
    assert torch.equal(found.adversarial[:3], x[:3])
    assert (network(found.adversarial).argmax(1) != y).all()
    assert float(found.adversarial.min()) >= 0
    assert float(found.adversarial.max()) <= 1
    assert torch.allclose(found.sizes, (found.adversarial - x).flatten(1).norm(dim=1))


@pytest.mark.parametrize("name", ATTACKS)
def test_a_picture_gets_the_same_perturbation_alone_and_in_a_batch(name):
    network, x = curved(), pictures(3)
    y = network(x).argmax(1)
    attack = {
        "deepfool": DeepFool(), "bim": IterativeL2(searches=4), "cw": CarliniWagner(2, 30, 0.02, constant=10.0)
    }[name]  # fmt: skip
    together = attack(network, x, y)
    alone = [attack(network, x[i : i + 1], y[i : i + 1]).sizes for i in range(3)]
    assert torch.allclose(together.sizes, torch.cat(alone), rtol=1e-9)


@pytest.mark.parametrize("name", ATTACKS)
def test_a_classifier_that_cannot_be_fooled_is_told_so(name):
    class Stubborn(nn.Module):
        def forward(self, x):
            return torch.stack([x.sum((1, 2, 3)) * 0 + 5, x.sum((1, 2, 3)) * 1e-9], 1)

    x = pictures(3)
    attack = {
        "deepfool": DeepFool(steps=3),
        "bim": IterativeL2(growths=3, searches=1),
        "cw": CarliniWagner(searches=2, steps=5),
    }[name]
    found = attack(Stubborn().eval(), x, torch.zeros(3).long())
    assert found.sizes.isinf().all()
    assert torch.equal(found.adversarial, x)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_other_float_types_are_kept(kind):
    network, x = curved().to(kind), pictures(4).to(kind)
    y = network(x).argmax(1)
    for attack in (DeepFool(), CarliniWagner(searches=2, steps=20, constant=10.0), IterativeL2(searches=4)):
        found = attack(network, x, y)
        assert found.adversarial.dtype == kind
        assert found.found.any()


def test_points_without_bounds_are_moved_beyond_them():
    network, x = linear(2), pictures() * 40 - 20
    y = network(x).argmax(1)
    for attack in (DeepFool(bisections=20, bounds=None), CarliniWagner(6, 100, 0.1, 1.0, bounds=None)):
        found = attack(network, x, y)
        assert torch.allclose(found.sizes, distances(network, x, y), rtol=0.03, atol=0.03)


def test_the_strongest_is_the_smallest_of_each_picture():
    x = torch.zeros(3, 1, 2, 2)

    def fixed(*sizes):
        sizes = torch.tensor(sizes)
        return lambda *_: Minimal(x + sizes.view(-1, 1, 1, 1) / 2, sizes)

    best = Strongest([fixed(1.0, 4.0, math.inf), fixed(2.0, 3.0, 5.0)])(None, x, None)
    assert best.sizes.tolist() == [1.0, 3.0, 5.0]
    assert best.adversarial[:, 0, 0, 0].tolist() == [0.5, 1.5, 2.5]


def test_bisection_only_comes_nearer():
    network, x = curved(), pictures(6)
    y = network(x).argmax(1)
    far = DeepFool(bisections=0, overshoot=0.5)(network, x, y)
    near = nearer(network, x, y, far.adversarial, 12)
    assert (network(near).argmax(1) != y).all()
    assert ((near - x).flatten(1).norm(dim=1) <= far.sizes + 1e-12).all()


def test_gradients_do_not_depend_on_the_batch_and_follow_the_definition():
    network, x = curved(), pictures(4)
    y = torch.tensor([0, 1, 2, 3])
    together = input_gradients(network, x, y)
    assert torch.allclose(together[2:3], input_gradients(network, x[2:3], y[2:3]))
    step = torch.zeros_like(x[:1])
    step[0, 1, 2, 3] = 1e-6
    loss = lambda images: nn.functional.cross_entropy(network(images), y[:1]).item()  # noqa: E731
    assert (loss(x[:1] + step) - loss(x[:1] - step)) / 2e-6 == pytest.approx(float(together[0, 1, 2, 3]), rel=1e-5)
    assert margins(torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([1])).tolist() == [1.0]
    assert margins(torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([0])).tolist() == [-2.0]


class NaN(nn.Module):
    def forward(self, x):
        return torch.stack([(x - x).sum((1, 2, 3)).sqrt(), x.sum((1, 2, 3)) * 0 - 1], 1)  # an infinite slope


@pytest.mark.parametrize(
    ("classifier", "images", "labels", "said"),
    [
        (linear(2), pictures(2) + 1, torch.zeros(2).long(), "pictures are from 0 to 1"),
        (linear(2), pictures(2) * math.nan, torch.zeros(2).long(), "not finite numbers"),
        (linear(2), pictures(2), torch.zeros(3).long(), r"2 pictures need labels of shape \(2,\)"),
        (linear(2), pictures(2), torch.full((2,), 2), "a label is outside 0 to 1"),
        (linear(2).train(), pictures(2), torch.zeros(2).long(), "in training mode"),
        (linear(1), pictures(2), torch.zeros(2).long(), "has 1 class"),
        (NaN().eval(), pictures(2), torch.zeros(2).long(), "gradient of the classifier NaN is not finite at picture 0"),
        (lambda x: torch.ones(len(x), 2), pictures(2), torch.zeros(2).long(), "has no gradient"),
        (lambda x: x, pictures(2), torch.zeros(2).long(), "expected"),
        (lambda x: torch.full((2, 2), math.nan), pictures(2), torch.zeros(2).long(), "logits that are not finite"),
    ],
)
def test_what_cannot_be_attacked_is_refused(classifier, images, labels, said):
    with pytest.raises(VergenceError, match=said):
        input_gradients(classifier, images, labels)
    with pytest.raises(VergenceError, match=said):
        DeepFool()(classifier, images, labels)


@pytest.mark.parametrize(
    "make",
    [
        lambda: DeepFool(steps=0), lambda: DeepFool(candidates=0), lambda: IterativeL2(radius=0),
        lambda: CarliniWagner(searches=0), lambda: CarliniWagner(bisections=-1),
    ],
)  # fmt: skip
def test_nonsense_is_refused(make):
    with pytest.raises(VergenceError, match="got"):
        make()
