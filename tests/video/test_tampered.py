"""Clips for pre-training and for classifiers: their frames, what is refused, and videos of many kinds."""

from fractions import Fraction

import av
import numpy as np
import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.data.video import open_video
from vergence.video.data import Kept, Labelled
from vergence.video.tampered import Tampered, Timed, ask_label, ask_order, ask_rotation, ask_temporal, timed_places
from vergence.video.temporaltransforms.settings import Footage
from vergence.video.unlabelled import read_any, read_unlabelled
from video.ata.fixtures import class_folders, video

VIEW = Footage(size=16, resize=16, clips=3)


class Videos:
    """Videos in memory whose frames are as bright as their number."""

    classes = ("a", "b")

    def __init__(self, *lengths):
        self.lengths = lengths

    def __len__(self):
        return len(self.lengths)

    def video(self, index):
        length = self.lengths[index]
        pixels = torch.arange(length, dtype=torch.uint8)[:, None, None, None].expand(length, 3, 16, 20)
        return Kept(f"video {index}", pixels.contiguous()), index % 2


def numbers(clips):
    """The frame numbers of clips, read from their brightness."""
    return ((clips[..., 0, 0, 0] + 1) * 127.5).round().long()


def test_the_four_clips_of_a_video_are_what_was_asked():
    puzzle = Tampered(Videos(200), VIEW, ask=ask_temporal).draw(0, torch.Generator().manual_seed(0))
    speed, random, _, warp = numbers(puzzle.clips)
    assert puzzle.target.tolist() == [0, 1, 2, 3]
    assert speed.diff().unique().tolist() == [2 ** int(puzzle.kappa[0])]
    assert puzzle.kappa[1:].tolist() == [-1, -1, -1]
    assert sorted(random.tolist()) == list(range(int(random.min()), int(random.min()) + 16))
    assert 1 <= int(warp.diff().min()) <= int(warp.diff().max()) <= 8


def test_other_pretext_tasks():
    source = torch.Generator().manual_seed(1)
    rotated = Tampered(Videos(100), VIEW, ask=ask_rotation)[0]
    assert rotated.target.tolist() == [0, 1, 2, 3]
    ordered = Tampered(Videos(100), VIEW, ask=ask_order).draw(0, source)
    steps = [clip.diff() for clip in numbers(ordered.clips)]
    assert [len(step.unique()) == 1 for step in steps] == [True, True, False, False]
    labelled = Tampered(Videos(100, 100), VIEW, ask=ask_label).draw(1, source)
    assert labelled.target.tolist() == [1, 1, 1, 1]


def test_one_transformation_is_asked_as_often_as_four():
    asked = ask_temporal(128, 0, torch.Generator().manual_seed(0), transforms=("speed",))
    assert len(asked) == 4
    assert all(one.kappa >= 0 for one in asked)


def test_all_clips_of_a_long_video_lie_in_one_window():
    data = Tampered(Videos(250), Footage(size=16, resize=16, window=40), ask=ask_temporal)
    for seed in range(10):
        frames = numbers(data.draw(0, torch.Generator().manual_seed(seed)).clips)
        assert int(frames.max() - frames.min()) < 40


def test_transfer_clips_skip_three_frames_or_as_many_as_the_video_allows():
    assert [int(p.diff().unique()) for p in timed_places(100, VIEW, 2)] == [4, 4]
    assert [int(p.diff().unique()) for p in timed_places(40, VIEW, 2)] == [2, 2]
    clips = numbers(Timed(Videos(100), VIEW)[0].clips)
    assert clips[:, 0].tolist() == [round(39 * share) for share in (1 / 6, 1 / 2, 5 / 6)]
    assert clips.diff(dim=1).unique().tolist() == [4]


def test_short_videos_are_refused_or_left_out_with_a_word():
    data = Tampered(Videos(9), VIEW, ask=ask_temporal)
    with pytest.raises(VergenceError, match="video 0 has 9 frames: a clip needs 16"):
        data[0]
    some = Tampered(Videos(9, 50), VIEW, frozenset({"train"}), ask=ask_temporal)
    puzzle = some.draw(0, torch.Generator().manual_seed(0))
    assert "video 0 has 9 frames" in puzzle.damaged[0]
    assert len(puzzle.clips) == 4
    with pytest.raises(VergenceError, match="drawn in a row cannot be used: video 0 has 9 frames"):
        Tampered(Videos(9), VIEW, frozenset({"train"}), ask=ask_temporal).draw(0, torch.Generator())
    sample = Timed(Videos(9), VIEW, frozenset({"test"}))[0]
    assert (sample.label, len(sample.damaged)) == (-1, 1)


def test_a_video_of_variable_frame_rate_gives_the_frames_shown_at_equal_times(tmp_path):
    path = tmp_path / "variable.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt, stream.time_base = 32, 16, "yuv420p", Fraction(1, 1000)
        stream.codec_context.time_base = Fraction(1, 1000)
        time = 0
        for number in range(40):
            frame = av.VideoFrame.from_ndarray(np.full((16, 32, 3), 6 * number, np.uint8), format="rgb24")
            frame.pts, frame.time_base = time, Fraction(1, 1000)
            time += 40 if number < 20 else 80  # 25 and then 12.5 frames per second
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    opened = open_video(path)
    data = Labelled((path,), (0,), ())
    clips = Tampered(data, VIEW, ask=ask_temporal)[0].clips
    assert clips.shape == (4, 16, 3, 16, 16)
    assert opened.length >= 40
    light = numbers(clips)[0]
    assert (light.diff() >= -2).all()  # later frames of the speed clip are not darker


# Folders -------------------------------------------------------------------------------------------------------------


def test_videos_anywhere_below_a_folder_need_no_labels(tmp_path):
    for number in range(12):
        video(tmp_path / "some" / f"{number:02d}.mp4", number)
    train, test = (read_unlabelled(tmp_path, split) for split in ("train", "test"))
    assert (len(train), len(test)) == (11, 1)
    assert train.classes == ()
    assert not set(train.paths) & set(test.paths)
    assert read_any(tmp_path / "some", "train").classes == ()


def test_class_folders_keep_their_labels(tmp_path):
    class_folders(tmp_path / "data")
    assert read_any(tmp_path / "data", "train").classes == ("run", "walk")
    assert read_unlabelled(tmp_path / "data", "train").classes == ()


def test_a_folder_without_videos_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing to see")
    with pytest.raises(VergenceError, match="holds no video: expected files named .3gp, .avi"):
        read_unlabelled(tmp_path, "train")
    with pytest.raises(VergenceError, match="is no folder of videos"):
        read_unlabelled(tmp_path / "notes.txt", "train")
