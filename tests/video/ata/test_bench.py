"""What bench compares is the same work."""

import pytest

from vergence.video.ata import bench


@pytest.mark.slow
def test_every_way_to_read_a_clip_gives_the_same_pictures():
    clip = next(contest for contest in bench.contests() if contest.id == "clip")
    ours = clip.ours()
    for rival in clip.rivals.values():
        theirs = rival()
        assert theirs.shape == ours.shape == (8, 3, 224, 224)
        assert (ours - theirs).abs().mean() < 0.05  # in [-1, 1]: two ways to scale


def test_a_panel_says_where_ata_falls_below_joint_attention():
    times = {
        "ATA": [(2, 2.0), (4, 4.0), (8, 8.0)],
        "factorised": [(2, 1.0), (4, 3.0), (8, 6.0)],
        "joint": [(2, 1.0), (4, 4.0), (8, 16.0)],
    }
    said = "ATA is below joint attention from 8 on\nalignment's share of ATA: 50%, 25%, 25%"
    assert bench.crossing(times) == said
    assert bench.crossing(times | {"joint": [(2, 1.0), (4, 1.0), (8, 1.0)]}).startswith("alignment's share")
