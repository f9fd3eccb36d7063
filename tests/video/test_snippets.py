"""Features of snippets follow what moves, not the camera; mirrored frames have mirrored features."""

import numpy as np
import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.data.video import open_video
from vergence.video.data import Kept
from vergence.video.snippets import ACROSS, GRID, PER_CELL, REACH, WIDTH, describe, describe_video, mirrored


def scenery(height=48, width=64, seed=0):
    """A textured picture (3, H, W) with a margin to move in."""
    source = torch.Generator().manual_seed(seed)
    small = torch.rand(1, 3, height // 4 + 4, width // 4 + 4, generator=source)
    return torch.nn.functional.interpolate(small, scale_factor=4, mode="bicubic").clamp(0, 1)[0]


def cells(features):
    return features.unflatten(-1, (PER_CELL, *GRID))


def test_a_still_pair_has_no_change_and_keeps_its_brightness():
    frame = scenery()[None, :, :48, :64]
    values = cells(describe(frame, frame))
    assert float(values[:, :5].abs().max()) == 0
    assert float(values[:, 5:].abs().max()) > 0


def test_a_shift_of_the_camera_is_undone():
    whole = scenery()
    frame = whole[None, :, REACH : REACH + 48, REACH : REACH + 64]
    for down, right in ((3, -2), (-4, 1), (0, 4)):
        moved = whole[None, :, REACH - down : REACH - down + 48, REACH - right : REACH - right + 64]
        assert float(cells(describe(frame, moved))[:, 0].max()) < 1e-5
    assert float(cells(describe(frame, frame.flip(-1)))[:, 0].max()) > 0.5


def test_what_moves_to_the_right_is_seen_where_it_is_and_in_its_direction():
    frame = scenery()[:, :48, :64]
    ball = (torch.cartesian_prod(torch.arange(48), torch.arange(64)).float() - torch.tensor([24.0, 12.0])).norm(dim=1)
    ball = torch.sigmoid(6 - ball).view(48, 64)
    one, other = ((1 - b) * frame * 0.3 + b for b in (ball, ball.roll(1, 1)))
    values = cells(describe(one[None], other[None]))[0]
    column = int(values[0].sum(0).argmax())
    assert column == 1  # 12 of 64 pixels, of six columns
    assert values[ACROSS][values[0] > 0.1].mean() > 0.1
    back = cells(describe(other[None], one[None]))[0]
    assert back[ACROSS][back[0] > 0.1].mean() < -0.1


def test_mirrored_features_are_those_of_mirrored_frames():
    one, other = scenery(seed=1)[None, :, :48, :64], scenery(seed=2)[None, :, :48, :64]
    one = 0.7 * other + 0.3 * one  # alike enough for no shift to pay
    torch.testing.assert_close(
        describe(one.flip(-1), other.flip(-1)), mirrored(describe(one, other)), atol=1e-4, rtol=1e-4
    )


def test_a_video_is_described_at_the_asked_rate_in_one_pass():
    pixels = (255 * torch.stack([scenery(seed=0)[:, k % 4 : 48 + k % 4, :64] for k in range(50)])).byte()
    features, seconds = describe_video(Kept("clip", pixels, fps=25.0), 5.0)
    assert features.shape == (10, WIDTH)
    assert seconds == pytest.approx(2.0)
    expected = describe(pixels[0::5], pixels[2::5])  # 1/15 s is two frames of 25 per second
    torch.testing.assert_close(features, expected)


def test_a_video_of_one_frame_is_refused(tmp_path):
    from PIL import Image

    Image.fromarray(np.zeros((16, 16, 3), np.uint8)).save(tmp_path / "0.png")
    with pytest.raises(VergenceError, match="one frame"):
        describe_video(open_video(tmp_path), 5.0)
