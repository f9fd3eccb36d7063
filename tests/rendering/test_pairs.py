"""Pairs show the same things, displaced by their disparity or flow."""

import pytest
import torch
import torch.nn.functional as F

from vergence.rendering.pairs import flow_pair, flow_pairs, stereo_pair, stereo_pairs


def looked_up(image, flow):
    """The image at the pixels that a flow points to."""
    height, width = image.shape[-2:]
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    places = torch.stack([x + flow[0], y + flow[1]], -1) / torch.tensor([width - 1, height - 1]) * 2 - 1
    return F.grid_sample(image.float()[None], places[None], align_corners=True)[0]


@pytest.mark.parametrize("place", ["room", "desk", "street", "floating"])
def test_the_right_picture_shows_the_left_one_at_its_disparity(place):
    pair = stereo_pair(torch.Generator().manual_seed(3), 48, 80, 16.0, places=(place,))
    flow = torch.stack([-pair.disparity, torch.zeros_like(pair.disparity)])
    error = (looked_up(pair.right, flow) - pair.left.float()).abs().mean(0)
    unmoved = (pair.right.float() - pair.left.float()).abs().mean(0)
    assert 0 <= float(pair.disparity.min()) <= float(pair.disparity.max()) <= 16
    assert float(pair.disparity.max()) > 4
    assert float(error[pair.visible].mean()) < 0.75 * float(unmoved[pair.visible].mean())


@pytest.mark.parametrize("place", ["room", "floating"])
def test_flow_there_and_back_cancels_where_a_point_is_seen_twice(place):
    pair = flow_pair(torch.Generator().manual_seed(1), 48, 80, 10.0, places=(place,))
    back = looked_up(pair.backward, pair.flow)
    gap = (pair.flow + back).norm(dim=0)
    assert float(gap[pair.visible].quantile(0.9)) < 0.3
    assert float(pair.flow.norm(dim=0).max()) > 1
    error = (looked_up(pair.second, pair.flow) - pair.first.float()).abs().mean(0)
    unmoved = (pair.second.float() - pair.first.float()).abs().mean(0)
    assert float(error[pair.visible].mean()) < float(unmoved[pair.visible].mean())


def test_many_pairs_are_the_same_for_the_same_seed():
    first, again = (stereo_pairs(2, 16, 24, 8.0, ("a",), finer=1) for _ in range(2))
    other = stereo_pairs(2, 16, 24, 8.0, ("b",), finer=1)
    assert first["left"].shape == (2, 3, 16, 24)
    assert torch.equal(first["left"], again["left"])
    assert not torch.equal(first["left"], other["left"])
    flows = flow_pairs(2, 16, 24, 8.0, ("a",), "test", finer=1)
    assert flows["flow"].shape == (2, 2, 16, 24)
    assert flows["flow"].dtype == torch.float16
