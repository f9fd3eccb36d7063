"""What bench compares is the same work."""

import pytest
import torch

from vergence.video.ata import bench


@pytest.mark.slow
def test_every_way_to_read_a_clip_gives_the_same_pictures():
    contests = {contest.id: contest for contest in bench.contests()}
    seek, training = contests["clip"], contests["training-clips"]
    ours = seek.ours()
    for rival in seek.rivals.values():
        theirs = rival()
        assert theirs.shape == ours.shape == (8, 3, 224, 224)
        assert (ours - theirs).abs().mean() < 0.05  # in [-1, 1]: two ways to scale
    clips = [torch.cat([sample.clips for sample in run()]) for run in (training.ours, *training.rivals.values())]
    assert all(c.shape == (bench.DRAWS, 8, 3, 224, 224) for c in clips)
    torch.testing.assert_close(*clips)


def test_a_panel_says_where_ata_falls_below_joint_attention():
    times = {
        "ATA": [(2, 2.0), (4, 4.0), (8, 8.0)],
        "factorised": [(2, 1.0), (4, 3.0), (8, 6.0)],
        "joint": [(2, 1.0), (4, 4.0), (8, 16.0)],
    }
    said = "ATA is below joint attention from 8 on\nalignment's share of ATA: 50%, 25%, 25%"
    assert bench.crossing(times) == said
    assert bench.crossing(times | {"joint": [(2, 1.0), (4, 1.0), (8, 1.0)]}).startswith("alignment's share")
