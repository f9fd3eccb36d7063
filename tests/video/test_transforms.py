"""Temporal transformations are the indices that the paper defines."""

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.video.transforms import (
    disordered_indices,
    draw_speed,
    fastest,
    periodic_pattern,
    random_indices,
    speed_indices,
    together,
    transformed_indices,
    warp_indices,
)


def source(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_periodic_clip_goes_forward_and_comes_back():
    assert periodic_pattern(5, 0).tolist() == [0, 1, 2, 3, 4, 5, 4, 3, 2, 1, 0, -1, -2, -3, -4, -5]
    # s = 11 at q = 2: five steps of two, and one frame is left that shifts the way back
    assert periodic_pattern(11, 1)[:9].tolist() == [0, 2, 4, 6, 8, 10, 9, 7, 5]


def test_a_video_of_exactly_one_clip_gives_its_frames():
    everything = list(range(16))
    assert speed_indices(16, 0, source()).tolist() == everything
    assert warp_indices(16, source()).tolist() == everything
    assert sorted(random_indices(16, source()).tolist()) == everything
    assert fastest(16) == 0


def test_warped_clips_of_short_videos_stay_inside_and_irregular():
    for seed in range(20):
        clip = warp_indices(40, source(seed))
        assert int(clip[0]) >= 0
        assert int(clip[-1]) < 40
        assert len(clip.diff().unique()) > 1


def test_pieces_out_of_order_are_neither_in_order_nor_reversed():
    for seed in range(40):
        clip = disordered_indices(128, seed % 4, source(seed))
        step = 2 ** (seed % 4)
        jumps = clip.diff()
        assert 1 <= int((jumps != step).sum()) <= 2
        firsts = clip[torch.tensor([0, 5, 10, 15])]
        assert firsts.tolist() != firsts.sort().values.tolist()
        assert sorted(clip.tolist()) == list(range(int(clip.min()), int(clip.min()) + 16 * step, step))


def test_clips_together_name_every_frame_once_in_order():
    clips = [torch.tensor([3, 1, 3]), torch.tensor([0, 1])]
    indices, places = together(clips)
    assert indices.tolist() == [0, 1, 3]
    assert [indices[place].tolist() for place in places] == [[3, 1, 3], [0, 1]]


@pytest.mark.parametrize("name", ["speed", "random", "periodic", "warp"])
def test_videos_that_are_too_short_are_refused(name):
    with pytest.raises(VergenceError, match="cannot be taken from a video of 15"):
        transformed_indices(name, 15, 0, source())
    with pytest.raises(VergenceError, match="16 frames cannot be taken from a video of 15"):
        draw_speed(15, source())
