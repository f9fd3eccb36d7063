"""Warping, splatting and occlusion in closed form; densities and the hardest pixels."""

import math

import pytest
import torch

from vergence.ops.density import confidence, density2vector, divergence, loss_max_pooling, vector2density
from vergence.ops.flow import disagreement, inside, occluded, resized_flow, splat, upsampled, warp


def constant(u, v, height=6, width=8):
    return torch.tensor([float(u), float(v)]).view(1, 2, 1, 1).expand(1, 2, height, width)


def test_warping_by_whole_pixels_moves_the_picture():
    image = torch.arange(48.0).view(1, 1, 6, 8)
    moved = warp(image, constant(2, 1))
    assert torch.equal(moved[..., :5, :6], image[..., 1:, 2:])
    assert moved[..., 5, :].abs().max() == 0  # outside
    torch.testing.assert_close(warp(image, constant(99, 0), "border")[..., 0], image[..., -1])


def test_splatting_keeps_the_sum_of_what_stays():
    values = torch.rand(1, 2, 6, 8, generator=torch.Generator().manual_seed(0))
    flow = torch.randn(1, 2, 6, 8, generator=torch.Generator().manual_seed(1)).clamp(-0.9, 0.9)
    flow[..., 0, :], flow[..., -1, :], flow[..., 0], flow[..., -1] = 0, 0, 0, 0
    torch.testing.assert_close(splat(values, flow).sum((2, 3)), values.sum((2, 3)))


def test_splatting_is_the_transpose_of_warping():
    source = torch.Generator().manual_seed(0)
    values, image = (torch.rand(1, 1, 6, 8, generator=source, dtype=torch.float64) for _ in range(2))
    flow = 2 * torch.randn(1, 2, 6, 8, generator=source, dtype=torch.float64)
    torch.testing.assert_close((splat(values, flow) * image).sum(), (values * warp(image, flow)).sum())


def test_a_square_that_moves_hides_what_is_before_it():
    flow, backward = torch.zeros(1, 2, 12, 20), torch.zeros(1, 2, 12, 20)
    flow[:, 0, 4:8, 4:8], backward[:, 0, 4:8, 9:13] = 5.0, -5.0
    hidden = torch.zeros(12, 20, dtype=torch.bool)
    hidden[4:8, 9:13] = True
    assert torch.equal(occluded(flow, backward)[0], hidden)
    assert occluded(constant(-3, 0), constant(3, 0))[0].sum() == 3 * 6  # three columns leave the picture
    assert disagreement(constant(1, 2), constant(-1, -2)).max() == 0
    assert not inside(constant(8, 0)).any()


def test_flow_on_a_finer_grid_has_its_unit():
    torch.testing.assert_close(upsampled(constant(1, -2), 2), constant(2, -4, 12, 16))
    torch.testing.assert_close(resized_flow(constant(1, -2), 3, 16), constant(2, -1, 3, 16))


def test_the_density_with_most_mass_in_a_square_wins():
    mass = torch.full((5, 5), 1e-9)
    mass[0, 4] = 0.4  # alone
    mass[2, 1], mass[2, 2], mass[3, 1], mass[3, 2] = 0.3, 0.1, 0.15, 0.05
    logits = mass.log().view(1, 25, 1, 1)
    x, y = density2vector(logits).flatten().tolist()
    assert x == pytest.approx(-1 + 0.15 / 0.6, abs=1e-5)
    assert y == pytest.approx(0.2 / 0.6, abs=1e-5)
    assert confidence(logits).item() == pytest.approx(0.6, abs=1e-5)


def test_the_divergence_from_itself_is_zero():
    target = vector2density(torch.tensor([0.3, -1.6]).view(1, 2, 1, 1), 2)
    assert divergence(target.clamp_min(1e-30).log(), target).item() == pytest.approx(0, abs=1e-6)
    assert divergence(torch.zeros(1, 25, 1, 1), target).item() == pytest.approx(
        math.log(25) + float(torch.special.xlogy(target, target).sum()), abs=1e-5
    )


def test_an_image_without_a_valid_pixel_has_no_loss():
    losses = torch.rand(2, 3, 3, requires_grad=True)
    valid = torch.zeros(2, 3, 3, dtype=torch.bool)
    valid[0, 0, 0] = True
    for share in (0.5, 1.0):
        loss = loss_max_pooling(losses, share, valid)
        assert loss.item() == pytest.approx(losses[0, 0, 0].item() / 2)
        (grad,) = torch.autograd.grad(loss, losses)
        assert grad.isfinite().all()
    with pytest.raises(ValueError, match="share of pixels"):
        loss_max_pooling(losses, 0.0)
