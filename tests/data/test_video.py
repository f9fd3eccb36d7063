"""Videos: writing and reading round-trip, seeking finds the frames of a full pass, and damage is reported."""

import pickle
import wave

import av
import numpy as np
import pytest
from PIL import Image

from vergence.core.errors import VergenceError
from vergence.data.video import is_video, open_video, write_video


def counting(count, height=48, width=64):
    """Frames whose number is written in 8 light or dark bars, which no compression can hide."""
    for number in range(count):
        bars = np.array([number >> bit & 1 for bit in range(8)], np.uint8) * 200 + 20
        yield np.repeat(np.repeat(bars, -(-width // 8))[None, :width, None], 3, 2).repeat(height, 0)


def number(frame):
    middles = (np.arange(8) + 0.5) * frame.shape[1] / 8
    return int(((frame[frame.shape[0] // 2, middles.astype(int)].mean(-1) > 120) << np.arange(8)).sum())


def plain(path, form, codec, count=100, options=None, **settings):
    """A file made with PyAV alone."""
    with av.open(str(path), "w", format=form, options=settings.pop("muxer", {})) as container:
        stream = container.add_stream(codec, rate=settings.pop("rate", 25), options=options or {})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for frame in counting(count):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))
    return path


FORMS = {
    "b-frames.mp4": ("mp4", "libx264", {"g": "12", "bf": "3", "x264-params": "scenecut=0"}),
    "one-key-frame.mp4": ("mp4", "libx264", {"g": "1000", "x264-params": "scenecut=0"}),
    "a.avi": ("avi", "mpeg4", {"g": "10"}),
    "a.webm": ("webm", "libvpx-vp9", {"g": "16", "deadline": "realtime"}),
    "a.mkv": ("matroska", "libx264", {"g": "9", "bf": "2"}),
    "a.ts": ("mpegts", "libx264", {"g": "15", "bf": "2"}),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_frame_comes_once_and_in_order(name, tmp_path):
    form, codec, options = FORMS[name]
    video = open_video(plain(tmp_path / name, form, codec, 100, options))
    assert [number(frame) for frame in video] == list(range(100))
    assert [number(frame) for frame in video] == list(range(100))  # again
    assert (video.fps, video.size, video.lost) == (25, (48, 64), 0)
    assert abs(video.length - 100) <= (0 if name != "a.ts" else 2)


@pytest.mark.parametrize("name", FORMS)
def test_frames_found_by_seeking_are_those_of_a_pass(name, tmp_path):
    form, codec, options = FORMS[name]
    video = open_video(plain(tmp_path / name, form, codec, 100, options))
    for wanted in ([0], [97], [3, 4, 5], [90, 10, 50, 10], range(2, 98, 7), range(95, 0, -13)):
        assert [number(frame) for frame in video.at(list(wanted))] == list(wanted)


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv", ".webm", ".avi"])
def test_what_is_written_is_read(suffix, tmp_path):
    path = write_video(tmp_path / f"a{suffix}", counting(20), 12.5)
    video = open_video(path)
    assert [number(frame) for frame in video] == list(range(20))
    assert video.fps == 12.5
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_odd_sizes_are_filled_up(tmp_path):
    video = open_video(write_video(tmp_path / "a.mp4", counting(3, 33, 47), 10))
    assert video.size == (34, 48)
    assert [number(frame[:, :47]) for frame in video] == [0, 1, 2]


def test_colours_survive(tmp_path):
    frames = [np.full((32, 32, 3), colour, np.uint8) for colour in ((250, 10, 10), (10, 250, 10), (10, 10, 250))]
    for given, read in zip(frames, open_video(write_video(tmp_path / "a.mp4", frames, 5)), strict=True):
        assert np.abs(read.astype(int) - given).max() <= 12


def test_frames_are_scaled_to_their_shorter_side(tmp_path):
    video = open_video(write_video(tmp_path / "a.mp4", counting(5, 48, 64), 10))
    assert video.at([2], shorter=24).shape == (1, 24, 32, 3)
    assert [number(frame) for frame in video.frames(shorter=24)] == list(range(5))


def test_a_folder_of_frames_is_a_video_in_the_order_of_its_numbers(tmp_path):
    for index, frame in enumerate(counting(12)):
        Image.fromarray(frame).save(tmp_path / f"frame_{index}.png")
    (tmp_path / "notes.txt").write_text("not a frame")
    video = open_video(tmp_path, fps=5)
    assert (video.length, video.fps, video.size) == (12, 5, (48, 64))
    assert [number(frame) for frame in video] == list(range(12))
    assert [number(frame) for frame in video.at([11, 2, 2], shorter=24)] == [11, 2, 2]
    assert is_video(tmp_path)
    assert not is_video(tmp_path / "notes.txt")


def test_a_video_can_be_sent_to_another_process(tmp_path):
    video = pickle.loads(pickle.dumps(open_video(write_video(tmp_path / "a.mp4", counting(9), 10))))
    assert number(video.at([7])[0]) == 7


@pytest.mark.parametrize("name", ["faststart.mp4", "a.webm", "a.mkv", "a.ts"])
def test_a_broken_tail_ends_the_pass_and_is_counted(name, tmp_path):
    form, codec, options = FORMS.get(name, FORMS["b-frames.mp4"])
    whole = plain(tmp_path / name, form, codec, 100, options, muxer={"movflags": "faststart"} if form == "mp4" else {})
    whole.write_bytes(whole.read_bytes()[: whole.stat().st_size * 2 // 3])
    video = open_video(whole)
    seen = [number(frame) for frame in video]
    assert seen[:-4] == list(range(len(seen) - 4))  # the last ones are stored out of order: the cut may miss one
    assert 20 < len(seen) < 90
    if name == "a.ts":  # a stream that says nothing of its length can be cut anywhere
        return
    assert video.lost >= 100 - len(seen) - 2
    with pytest.raises(VergenceError, match="is damaged: frame 99 of 100 cannot be read"):
        video.at([0, 99])
    assert number(video.at([5])[0]) == 5


def test_sound_alone_is_not_a_video(tmp_path):
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(16000))
    with pytest.raises(VergenceError, match=r"a\.wav has no pictures in it, only sound"):
        open_video(tmp_path / "a.wav")


@pytest.mark.parametrize("content", [b"", b"x", b"not a video at all" * 100, bytes(5000)])
def test_what_is_no_video_is_refused_by_name(content, tmp_path):
    (tmp_path / "a.mp4").write_bytes(content)
    with pytest.raises(VergenceError, match=r"a\.mp4 is not a readable video"):
        open_video(tmp_path / "a.mp4")


def test_a_playlist_cannot_reach_outside(tmp_path):
    (tmp_path / "a.m3u8").write_text("#EXTM3U\n#EXTINF:1,\nhttp://localhost:1/a.ts\n#EXT-X-ENDLIST\n")
    with pytest.raises(VergenceError, match=r"a\.m3u8"):
        open_video(tmp_path / "a.m3u8")


def test_bad_sources_are_one_sentence(tmp_path):
    with pytest.raises(VergenceError, match="nowhere.mp4 does not exist"):
        open_video(tmp_path / "nowhere.mp4")
    with pytest.raises(VergenceError, match="does not exist"):
        open_video("a\0b")
    (tmp_path / "empty").mkdir()
    with pytest.raises(VergenceError, match="empty holds no frames"):
        open_video(tmp_path / "empty")
    with pytest.raises(VergenceError, match="camera 99"):
        open_video(99)
    video = open_video(write_video(tmp_path / "a.mp4", counting(4), 10))
    with pytest.raises(VergenceError, match="has the frames 0 to 3, not 4"):
        video.at([0, 4])
    with pytest.raises(VergenceError, match="no frame of"):
        video.at([])


def test_frames_of_different_sizes_are_refused_by_name(tmp_path):
    for index, side in enumerate((20, 20, 30)):
        Image.new("RGB", (40, side)).save(tmp_path / f"{index}.png")
    with pytest.raises(VergenceError, match=r"2\.png is 30x40 \(height x width\), but 0\.png before it is 20x40"):
        list(open_video(tmp_path))


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        ([], "there are no frames to write"),
        ([np.zeros((8, 8, 3), np.float32)], "frame 0 of .* is float32"),
        ([np.zeros((8, 8, 3), np.uint8), np.zeros((8, 6, 3), np.uint8)], "frame 1 of .* the first one is"),
    ],
)
def test_what_cannot_be_written_leaves_nothing_behind(frames, said, tmp_path):
    with pytest.raises(VergenceError, match=said):
        write_video(tmp_path / "a.mp4", frames, 10)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(VergenceError, match="not named like a video"):
        write_video(tmp_path / "a.txt", counting(2), 10)
    with pytest.raises(VergenceError, match="more than 0 frames per second"):
        write_video(tmp_path / "a.mp4", counting(2), 0)


def test_a_file_of_which_no_frame_can_be_read_says_so(tmp_path):
    form, codec, options = FORMS["b-frames.mp4"]
    path = plain(tmp_path / "a.mp4", form, codec, 20, options, muxer={"movflags": "faststart"})
    content = path.read_bytes()
    path.write_bytes(content[: content.index(b"mdat") + 8])  # the header of the frames, without any frame
    for use in (list, lambda video: video.at([3]), lambda video: video.size):
        with pytest.raises(VergenceError, match=r"a\.mp4 is damaged"):
            use(open_video(path))


def test_frames_are_turned_as_the_camera_was_held(tmp_path):
    frames = [np.zeros((48, 64, 3), np.uint8) for _ in range(3)]
    for frame in frames:
        frame[:, 32:] = 255  # light on the right
    path = write_video(tmp_path / "a.mp4", frames, 10)
    content = bytearray(path.read_bytes())
    # The matrix of the track header that phones write: rotated by a quarter turn clockwise.
    place = content.index(b"tkhd") + 44
    quarter = (0, 0x10000, 0, 0xFFFF0000, 0, 0, 0, 0, 0x40000000)
    content[place : place + 36] = b"".join(number.to_bytes(4, "big") for number in quarter)
    path.write_bytes(content)
    video = open_video(path)
    assert video.size == (64, 48)
    for frame in (*video, video.at([1])[0]):
        assert frame[:28].mean() < 10
        assert frame[36:].mean() > 245
    assert video.at([0], shorter=24).shape == (1, 32, 24, 3)


def test_frames_of_a_camera_cannot_be_chosen(monkeypatch):
    from contextlib import nullcontext
    from types import SimpleNamespace

    stream = SimpleNamespace(average_rate=30, height=48, width=64)  # no real camera: only its container is faked
    monkeypatch.setattr("vergence.data.video.open_container", lambda *args, **options: nullcontext((None, stream)))
    camera = open_video(0)
    assert (camera.fps, tuple(camera.size), camera.length) == (30.0, (48, 64), None)
    with pytest.raises(VergenceError, match="camera 0 is a camera: its frames can only be read in order"):
        camera.at([0, 3])
