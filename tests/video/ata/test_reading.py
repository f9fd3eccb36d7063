"""What bench compares for reading videos is the same work."""

import pytest
import torch

from vergence.video.ata import reading


@pytest.mark.slow
def test_every_way_to_read_a_clip_gives_the_same_pictures():
    seek, *others = reading.contests()
    ours = seek.ours()
    for rival in seek.rivals.values():
        theirs = rival()
        assert theirs.shape == ours.shape == (8, 3, 224, 224)
        assert (ours - theirs).abs().mean() < 0.05  # in [-1, 1]: two ways to scale
    for contest in others:
        clips = [torch.cat([sample.clips for sample in run()]) for run in (contest.ours, *contest.rivals.values())]
        assert all(c.shape == (reading.CLIPS, 8, 3, 224, 224) for c in clips)
        torch.testing.assert_close(*clips)
