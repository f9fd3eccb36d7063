"""Labelled videos: clips as sampled, and what is done about damaged files."""

import numpy as np
import pytest
import torch

from vergence.contract.loader import BatchPlan, InOrder
from vergence.core.errors import VergenceError
from vergence.video.data import (
    Clips,
    Kept,
    Labelled,
    evaluation_clips,
    even_places,
    random_clip,
    random_places,
)
from vergence.video.settings import ClipView
from video.ata import fixtures

VIEW = ClipView(frames=4, sampling="dense", stride=1, rate=0, crops=1, size=32, resize=40, jitter=(36, 44), flip=False)


def numbered(count, height=16, width=24):
    """A video whose pixels say the number of their frame."""
    pixels = torch.arange(count, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 3, height, width)
    return Kept("numbered", pixels, fps=30.0)


def source(seed=0):
    return torch.Generator().manual_seed(seed)


# Sampling ------------------------------------------------------------------------------------------------------------


def test_uniform_sampling_takes_the_middle_of_each_part_and_a_random_one_in_training():
    view = ClipView(frames=8, sampling="uniform")
    video = numbered(81)
    assert even_places(view, video) == [5, 15, 25, 35, 45, 55, 65, 75]  # parts of ten frames
    drawn = np.array([random_places(view, video, source(seed)) for seed in range(200)])
    for part in range(8):
        assert drawn[:, part].min() >= 10 * part
        assert drawn[:, part].max() <= 10 * (part + 1)
        assert len(np.unique(drawn[:, part])) == 11


def test_dense_sampling_keeps_its_distance_in_seconds():
    view = ClipView(frames=8, sampling="dense", stride=4, rate=15.0)
    video = numbered(200)  # 30 frames a second: a clip spans 8 * 4 * 2 = 64 of them
    steps = np.diff(even_places(view, video))
    assert set(steps) == {9}
    assert even_places(view, video)[0] == (200 - 64) // 2  # the middle of the video
    starts = [random_places(view, video, source(seed))[0] for seed in range(200)]
    assert min(starts) < 10
    assert max(starts) > 125
    several = ClipView(frames=8, sampling="dense", stride=4, rate=15.0, clips=3)
    assert [even_places(several, video, n)[0] for n in range(3)] == [22, 68, 113]


def test_a_video_shorter_than_a_clip_repeats_frames_and_one_frame_is_refused():
    assert even_places(ClipView(frames=8, sampling="dense"), numbered(3)) == [0, 2, 2, 2, 2, 2, 2, 2]
    assert even_places(ClipView(frames=4, sampling="uniform"), numbered(2)) == [0, 0, 0, 1]
    with pytest.raises(VergenceError, match="numbered has one frame only"):
        even_places(ClipView(frames=4), numbered(1))


def test_test_views_are_clips_by_crops_from_left_to_right():
    view = ClipView(frames=2, sampling="uniform", clips=2, crops=3, size=16, resize=16, jitter=(16, 16),
                mean=(0, 0, 0), std=(1, 1, 1))  # fmt: skip
    across = (
        torch.arange(40, dtype=torch.uint8).expand(9, 3, 16, 40)
        + 40 * torch.arange(9, dtype=torch.uint8).view(-1, 1, 1, 1) % 5
    )
    views = evaluation_clips(view, Kept("ramp", across))
    assert views.shape == (6, 2, 3, 16, 16)
    lefts = (views[:3, 0, 0, 0, 0] * 255).round() - (views[0, 0, 0, 0, 0] * 255).round()
    assert lefts.tolist() == [0, 12, 24]
    tall = evaluation_clips(view, Kept("tall", across.transpose(2, 3)))
    torch.testing.assert_close(tall, views.transpose(-1, -2))


def test_training_views_are_random_and_normalised():
    view = ClipView(frames=3, sampling="uniform", size=16, resize=16, jitter=(16, 20), mean=(0.5,) * 3, std=(0.5,) * 3)
    video = Kept("noise", torch.randint(0, 256, (9, 3, 16, 24), dtype=torch.uint8, generator=source()))
    one, same, other = (random_clip(view, video, source(seed)) for seed in (1, 1, 2))
    assert one.shape == (3, 3, 16, 16)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert one.min() >= -1
    assert one.max() <= 1


def test_flips_happen_in_half_of_the_draws_and_not_where_they_are_off():
    pixels = torch.zeros(4, 3, 16, 16, dtype=torch.uint8)
    pixels[..., :8] = 255
    video = Kept("half", pixels)
    for flip, least, most in ((True, 60, 140), (False, 0, 0)):
        view = ClipView(frames=2, sampling="uniform", size=16, resize=16, jitter=(16, 16), flip=flip)
        flipped = sum(bool(random_clip(view, video, source(seed))[0, 0, 0, 0] < 0) for seed in range(200))
        assert least <= flipped <= most


@pytest.mark.parametrize(
    "settings", [{"frames": 0}, {"size": 4}, {"resize": 100}, {"jitter": (320, 256)}, {"std": (0, 1, 1)}, {"rate": -1}]
)
def test_views_that_cannot_be_are_refused(settings):
    with pytest.raises(VergenceError, match="a view"):
        ClipView(**settings)


# Damage --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def four(tmp_path):
    """Four videos, of which the third is damaged."""
    paths = tuple(fixtures.video(tmp_path / f"{n}.mp4", n) for n in range(4))
    paths[2].write_bytes(paths[2].read_bytes()[:300])
    return Labelled(paths, (0, 1, 2, 3), ("a", "b", "c", "d"))


def test_a_damaged_video_is_replaced_in_training_and_named(four):
    clips = Clips(four, VIEW, frozenset({"train"}))
    sample = clips.draw(2, source())
    assert sample.label != 2
    assert "2.mp4" in sample.damaged[0]
    assert torch.equal(clips.draw(2, source()).clips, sample.clips)
    with pytest.raises(VergenceError, match=r"2\.mp4"):
        clips[2]
    with pytest.raises(VergenceError, match=r"2\.mp4"):
        Clips(four, VIEW).draw(2, source())


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_carry_what_was_left_out_whoever_reads(four, workers):
    clips = Clips(four, VIEW, frozenset({"train", "test"}))
    (batch,) = InOrder(clips, range(4), 4, workers)
    assert batch.label.tolist() == [0, 1, -1, 3]
    assert batch.clips.shape == (4, 1, 4, 3, 32, 32)
    assert len(batch.damaged) == 1
    drawn = next(BatchPlan(clips, 4, (0,)).stream(0, 0, workers))
    assert drawn.clips.shape == (4, 4, 3, 32, 32)
    assert (len(drawn.damaged), min(drawn.label.tolist()) >= 0) == (1, True)


def test_when_nothing_can_be_read_training_stops_with_a_sentence(tmp_path):
    paths = tuple(tmp_path / f"{n}.mp4" for n in range(3))
    for path in paths:
        path.write_bytes(b"nothing")
    clips = Clips(Labelled(paths, (0, 0, 0), ("a",)), VIEW, frozenset({"train"}))
    with pytest.raises(VergenceError, match="3 videos drawn in a row cannot be read: .*mp4 is not a readable video"):
        clips.draw(0, source())
