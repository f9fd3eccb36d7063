"""The loop of gradient-sign attacks: each part against its equation, all in their order, and what is refused."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from vergence.core.errors import VergenceError
from vergence.reference import patchwise as plain
from vergence.robustness.attacks import (
    Diversity,
    SignAttack,
    bounds,
    di_fgsm,
    fgsm,
    i_fgsm,
    mi_fgsm,
    quantised,
    ti_bim,
    ti_fgsm,
)
from vergence.robustness.patchwise.model import Projection, patch_map, pi_fgsm

EPS = 1 / 16


def source(seed=0):
    return torch.Generator().manual_seed(seed)


def network(dtype=torch.float64):
    """Takes any size: what DI makes of a picture is larger."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(3, 6, 3), nn.Tanh(), nn.Conv2d(6, 6, 3), nn.Tanh(), nn.AdaptiveAvgPool2d(3))
    return nn.Sequential(layers, nn.Flatten(), nn.Linear(54, 4)).to(dtype).eval()


def pictures(dtype=torch.float64, count=3, height=14, width=12):
    x = torch.rand(count, 3, height, width, generator=source(), dtype=torch.float64)
    return x.to(dtype), torch.arange(count) % 4


def gradient(model, x, y):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(F.cross_entropy(model(x), y, reduction="sum"), x)[0]


# Each part ----------------------------------------------------------------------------------------------------------


def test_fgsm_on_a_linear_classifier_is_the_sign_of_its_weights():
    weights = torch.randn(2, 12, generator=source(), dtype=torch.float64)
    x = torch.full((1, 3, 2, 2), 0.5, dtype=torch.float64)
    found = fgsm(EPS)(lambda v: v.flatten(1) @ weights.T, x, torch.tensor([0]))
    expected = x + EPS * (weights[1] - weights[0]).sign().view_as(x)  # the loss of label 0 rises with class 1
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-15)


def test_i_fgsm_is_a_loop_of_small_steps():
    model, (x, y) = network(), pictures()
    expected = x
    for _ in range(8):
        step = expected + EPS / 8 * gradient(model, expected, y).sign()
        expected = torch.min(torch.max(step, x - EPS), x + EPS).clamp(0, 1)
    torch.testing.assert_close(i_fgsm(EPS, 8)(model, x, y), expected, rtol=0, atol=1e-15)


def test_momentum_takes_the_same_signs_whether_it_divides_by_the_sum_or_the_mean():
    model, (x, y) = network(), pictures()
    expected, memory = x, 0
    for _ in range(8):
        g = gradient(model, expected, y)
        memory = 0.9 * memory + g / g.abs().mean((1, 2, 3), keepdim=True)  # as the public code has it
        step = expected + EPS / 8 * memory.sign()
        expected = torch.min(torch.max(step, x - EPS), x + EPS).clamp(0, 1)
    torch.testing.assert_close(mi_fgsm(EPS, 8, momentum=0.9)(model, x, y), expected, rtol=0, atol=1e-15)


def test_ti_smooths_the_gradient_with_the_kernel_written_out():
    model, (x, y) = network(), pictures()
    smooth = plain.depthwise(gradient(model, x, y), plain.gaussian_kernel(5))
    expected = (x + EPS * smooth.sign()).clamp(0, 1)
    torch.testing.assert_close(ti_fgsm(EPS, smoothing=5)(model, x, y), expected, rtol=0, atol=1e-15)
    assert not torch.equal(ti_bim(EPS, 4, smoothing=5)(model, x, y), expected)


def test_diversity_puts_an_enlarged_picture_somewhere_on_black():
    image = torch.arange(1, 301.0).view(1, 1, 15, 20)
    sizes, places = set(), set()
    for seed in range(60):
        made = Diversity(chance=1.0, grow=1.4)(image, source(seed))
        assert made.shape == (1, 1, 21, 28)
        inside = made[0, 0].nonzero()
        (top, left), (bottom, right) = inside.min(0).values.tolist(), inside.max(0).values.tolist()
        height, width = bottom - top + 1, right - left + 1
        assert 15 <= height < 21
        assert 20 <= width < 28
        shown = made[..., top : bottom + 1, left : right + 1]
        assert torch.equal(shown, F.interpolate(image, (height, width), mode="nearest"))
        sizes.add(height)
        places.add((top, left))
    assert len(sizes) > 3
    assert len(places) > 10


def test_diversity_leaves_as_many_pictures_alone_as_its_chance_says():
    image = torch.rand(1, 3, 20, 20)
    kept = sum(Diversity()(image, source(seed)) is image for seed in range(400))
    assert 85 <= kept <= 155  # 0.3 of 400, with four deviations
    assert Diversity(chance=0.0)(image, source()) is image


def test_parts_come_in_the_order_of_the_paper():
    """DI, gradient, TI, MI, sign, PI, each written out here from its equation."""
    model, (x, y) = network(), pictures()
    diversity, steps, beta, gamma = Diversity(chance=0.8, grow=1.3), 8, 4.0, EPS / 4
    attack = pi_fgsm(EPS, steps, beta, Projection(3, gamma), diversity=diversity, smoothing=5, momentum=0.5)
    draws, memory = source(3), [0]

    def direction(current):
        seen = current.detach().requires_grad_()
        loss = F.cross_entropy(model(diversity(seen, draws)), y, reduction="sum")
        g = plain.depthwise(torch.autograd.grad(loss, seen)[0], plain.gaussian_kernel(5))
        memory[0] = 0.5 * memory[0] + g / g.abs().sum((1, 2, 3), keepdim=True)
        return memory[0]

    expected = plain.pi_fgsm(direction, x, EPS, steps, beta, gamma, 3)
    torch.testing.assert_close(attack(model, x, y, source(3)), expected, rtol=0, atol=1e-14)


# What must hold for all ---------------------------------------------------------------------------------------------

ATTACKS = {
    "fgsm": fgsm(EPS),
    "mi": mi_fgsm(EPS),
    "ti": ti_bim(EPS, smoothing=5),
    "pi": pi_fgsm(EPS),
    "pi7": pi_fgsm(EPS, projection=Projection(7)),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_flipped_picture_gets_the_flipped_perturbation(name):
    model, (x, y) = network(), pictures()

    def even(images):
        return model(images) + model(images.flip(-1))

    found, mirrored = ATTACKS[name](even, x, y), ATTACKS[name](even, x.flip(-1), y)
    torch.testing.assert_close(mirrored.flip(-1), found, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ATTACKS)
def test_a_picture_is_attacked_the_same_alone_and_in_company(name):
    model, (x, y) = network(), pictures()
    alone = torch.cat([ATTACKS[name](model, x[i : i + 1], y[i : i + 1]) for i in range(len(x))])
    torch.testing.assert_close(ATTACKS[name](model, x, y), alone, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ATTACKS)
def test_the_loss_rises(name):
    model, (x, y) = network(), pictures()
    with torch.no_grad():
        before, after = (F.cross_entropy(model(v), y) for v in (x, ATTACKS[name](model, x, y)))
    assert after > before


def test_the_same_seed_gives_the_same_pictures_and_another_does_not():
    model, (x, y) = network(), pictures()
    attack = di_fgsm(EPS, diversity=Diversity(grow=1.4))
    assert torch.equal(attack(model, x, y, source(1)), attack(model, x, y, source(1)))
    assert not torch.equal(attack(model, x, y, source(1)), attack(model, x, y, source(2)))


def test_nothing_of_the_classifier_or_the_pictures_is_touched():
    model, (x, y) = network(), pictures()
    before, kept = {k: v.clone() for k, v in model.state_dict().items()}, x.clone()
    pi_fgsm(EPS)(model, x, y)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert torch.equal(x, kept)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_it_works_where_gradients_are_off(mode):
    model, (x, y) = network(), pictures()
    expected = pi_fgsm(EPS)(model, x, y)
    with mode():
        assert torch.equal(pi_fgsm(EPS)(model, x.clone(), y), expected)


def test_a_gradient_of_zero_changes_nothing_even_with_momentum():
    x, y = pictures()
    found = replace(pi_fgsm(EPS), momentum=1.0)(lambda v: 0 * v.flatten(1)[:, :4], x, y)
    assert torch.equal(found, x)


@given(st.floats(1e-4, 1.0), st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]))
@settings(max_examples=60, deadline=None)
def test_bounds_never_reach_beyond_the_budget_and_are_as_wide_as_the_type_allows(eps, dtype):
    x = torch.rand(1, 3, 8, 8, generator=source(), dtype=torch.float64).to(dtype)
    x[0, 0, 0, :3] = torch.tensor([0.0, 1.0, 0.5])
    least, most = bounds(x, eps)
    wide, exact = (least.double(), most.double()), x.double()
    assert (exact - wide[0]).max() <= eps
    assert (wide[1] - exact).max() <= eps
    assert wide[0].min() >= 0
    assert wide[1].max() <= 1
    loss = 2 * torch.finfo(dtype).eps  # at most a step of the type is given away
    assert torch.all(wide[0] - (exact - eps).clamp(min=0) <= loss)
    assert torch.all((exact + eps).clamp(max=1) - wide[1] <= loss)


@given(st.floats(1.0, 40.0))
@settings(max_examples=40, deadline=None)
def test_bytes_keep_the_budget_that_rounding_would_break(budget):
    clean = torch.randint(0, 256, (2, 3, 9, 9), generator=source(), dtype=torch.uint8)
    noise = budget / 255 * (2 * torch.rand(clean.shape, generator=source(1)) - 1).sign()
    adversarial = (clean / 255 + noise).clamp(0, 1)
    saved = quantised(adversarial, clean, budget / 255)
    # A budget of 16/255 times 255 is 16 up to rounding, which is not held against it.
    assert int((saved.int() - clean.int()).abs().max()) <= budget + 1e-6
    assert torch.equal(quantised(saved / 255, clean, budget / 255), saved)
    assert (saved.float() - 255 * adversarial).abs().max() <= 1


def test_patch_map_is_eq_7_with_what_a_byte_does_to_256():
    noise = torch.tensor([0, 4, -8, 15, 16, -16]) / 255
    assert patch_map(noise, 16 / 255).tolist() == [0, 64, 128, 240, 0, 0]
    assert patch_map(noise, 16 / 255, full="white").tolist() == [0, 64, 128, 240, 255, 255]


def test_projections_that_overflow_are_projected_on_unless_they_are_forgotten():
    """By hand, in units of the budget: a step of 2 at the centre leaves 1 over, which moves its neighbours by 2; those
    are then 1 over themselves, and the centre is the neighbour of all eight."""
    step = torch.zeros(1, 1, 3, 3)
    step[0, 0, 1, 1] = 2.0
    for remember, centre in (("all", 2.0), ("steps", 0.0)):
        attack = pi_fgsm(EPS, 5, beta=10.0, projection=Projection(3, 2 * EPS, remember))
        project = attack.reuse.start(attack)
        assert project(step).flatten().tolist() == [2, 2, 2, 2, 0, 2, 2, 2, 2]
        assert float(project(torch.zeros_like(step))[0, 0, 1, 1]) == centre


# What does not fit --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: fgsm(0.0), "a budget is above 0 and at most 1"),
        (lambda: fgsm(16), "a budget is above 0 and at most 1"),
        (lambda: fgsm(float("nan")), "a budget is above 0 and at most 1"),
        (lambda: i_fgsm(EPS, 0), "1 or more steps"),
        (lambda: i_fgsm(EPS, 10, -1.0), "a beta above 0"),
        (lambda: mi_fgsm(EPS, momentum=-1.0), "a momentum is at least 0"),
        (lambda: ti_fgsm(EPS, smoothing=4), "odd side of at least 3"),
        (lambda: Projection(kernel=1), "a project kernel has an odd side"),
        (lambda: Projection(gamma=-1.0), "a project factor is at least 0"),
        (lambda: Diversity(chance=2.0), "a chance from 0 to 1"),
    ],
)
def test_settings_that_make_no_attack_are_refused(make, said):
    with pytest.raises(VergenceError, match=said):
        make()


@pytest.mark.parametrize(
    ("classifier", "said"),
    [
        (lambda v: (v.flatten(1), v), "returned a tuple, expected logits"),
        (lambda v: v, r"returned a tensor of shape \(3, 3, 14, 12\) for 3 pictures"),
        (lambda v: v.detach().flatten(1), "has no gradient"),
        (lambda v: v.flatten(1).sqrt()[:, :4] * float("inf"), "is not finite at picture 0"),
        (lambda v: v.flatten(1)[:, :2], r"a label is outside 0 to 1.*from 0 to 2"),
        (network().train(), "is in training mode"),
    ],
)
def test_classifiers_that_cannot_be_attacked_are_refused(classifier, said):
    x, y = pictures()
    with pytest.raises(VergenceError, match=said):
        fgsm(EPS)(classifier, x, y)


@pytest.mark.parametrize(
    ("images", "labels", "said"),
    [
        (torch.rand(2, 3, 4, 4) * 255, torch.tensor([0, 1]), r"pictures are in \[0, 1\]"),
        (torch.full((2, 3, 4, 4), float("nan")), torch.tensor([0, 1]), r"pictures are in \[0, 1\]"),
        (torch.zeros(2, 3, 4, 4, dtype=torch.uint8), torch.tensor([0, 1]), r"floats \(N, C, H, W\)"),
        (torch.rand(3, 4, 4), torch.tensor([0, 1]), r"floats \(N, C, H, W\)"),
        (torch.rand(0, 3, 4, 4), torch.tensor([]).long(), r"floats \(N, C, H, W\)"),
        (torch.rand(2, 3, 4, 4), torch.tensor([0]), r"labels of shape \(2,\)"),
        (torch.rand(2, 3, 4, 4), torch.tensor([0.0, 1.0]), "int64"),
        (torch.rand(2, 3, 4, 4), torch.tensor([0, -1]), "a label is outside 0 to 3"),
    ],
)
def test_pictures_and_labels_that_do_not_fit_are_refused(images, labels, said):
    with pytest.raises(VergenceError, match=said):
        SignAttack(EPS)(lambda v: v.flatten(1)[:, :4], images, labels)
