"""Sequences that are made: as described, and the same every time."""

import gzip
import struct

import numpy as np
import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.tracking import synth
from vergence.tracking.natural import natural
from vergence.tracking.settings import Scene

SCENE = Scene(size=120, digit=24, frames=30)


def test_sizes_swing_as_the_formula_says():
    phases = torch.tensor([0.0, 2.5])
    t = torch.arange(50.0)
    expected = (1.5 - 0.67) / 2 * (torch.sin(t / 4 + phases[:, None]) + 1) + 0.67
    torch.testing.assert_close(synth.swing(50, phases), expected)


def test_sizes_change_in_one_world_alone():
    t, s = (synth.moving_digits(world, 3, "test", SCENE) for world in ("t-mnist", "s-mnist"))
    for still, swinging in zip(t.sequences, s.sequences, strict=True):
        assert np.ptp(still.boxes[:, 2]) < 1e-4
        assert swinging.boxes[:, 2].min() / 24 >= 0.67 - 1e-6
        assert swinging.boxes[:, 2].max() / 24 <= 1.5 + 1e-6
        assert np.ptp(swinging.boxes[:, 2]) > 10
        np.testing.assert_allclose(  # the same motion in both
            still.boxes[:, :2] + still.boxes[:, 2:] / 2, swinging.boxes[:, :2] + swinging.boxes[:, 2:] / 2, atol=1e-4
        )


def test_velocities_have_the_deviation_that_is_asked_for():
    paths = synth.brownian(400, 60, 2.0, torch.Generator().manual_seed(0))
    assert paths[:, 0].abs().max() == 0
    velocity = paths.diff(dim=1)
    assert float(velocity.std()) == pytest.approx(2.0, rel=0.05)
    assert float(velocity.diff(dim=1).std()) < 0.5  # smooth


def test_paths_turn_back_at_the_border():
    path = synth.reflected(torch.tensor([0.0, 5.0, 9.0, 12.0, 22.0, -3.0]), 0.0, 10.0)
    assert path.tolist() == pytest.approx([0, 5, 9, 8, 2, 3])


def test_digits_stay_within_the_frame_and_there_are_one_to_eight():
    tracks = synth.moving_digits("s-mnist", 40, "train", SCENE).sequences
    counts = {len(t.frames.shapes) for t in tracks}
    assert counts <= set(range(1, 9))
    assert len(counts) >= 6
    boxes = np.concatenate([t.boxes for t in tracks])
    assert (boxes[:, :2] >= -1e-4).all()
    assert (boxes[:, :2] + boxes[:, 2:] <= 120 + 1e-4).all()


def test_the_target_is_white_in_its_box():
    shape = torch.ones(28, 28)
    at = [torch.full((1, 2), v) for v in (50.5, 40.5, 21.0)]
    frames = synth.DigitFrames(shape[None], *at, SCENE, ("test", 0))
    white = frames[0].min(2) > 250
    rows, columns = np.flatnonzero(white.any(1)), np.flatnonzero(white.any(0))
    assert (columns[0], columns[-1] + 1, rows[0], rows[-1] + 1) == (40, 61, 30, 51)


def test_a_sequence_is_the_same_every_time_and_splits_differ():
    for make in (lambda s: synth.moving_digits("t-mnist", 2, s, SCENE), lambda s: natural(2, s, SCENE)):
        a, b, c = make("test").sequences[1], make("test").sequences[1], make("train").sequences[1]
        assert (a.frames[3] == b.frames[3]).all()
        assert (a.boxes == b.boxes).all()
        assert not (a.frames[3] == c.frames[3]).all()


def test_digits_to_judge_on_are_not_trained_on():
    train, test = (synth.digits("", split).flatten(1) for split in ("train", "test"))
    assert torch.cdist(test[:50], train).min() > 0


def test_photographs_to_judge_on_are_not_trained_on(tmp_path):
    assert not set(synth.pictures("", "train")) & set(synth.pictures("", "test"))
    with pytest.raises(VergenceError, match="has 0 pictures"):
        synth.pictures(str(tmp_path), "train")


def test_a_natural_target_looks_the_same_where_its_box_goes():
    """A part of the photograph itself, which only the camera moves: its pixels at both places agree."""
    scene = Scene(size=160, digit=48, frames=30)
    alone = (t for t in natural(40, "train", scene).sequences if len(t.frames.motion.x) == 1)
    track = next(t for t in alone if not t.frames.pasted)

    def look(index):
        x, y, w, h = track.boxes[index]
        left, top, side = round(x + w / 2 - 4), round(y + h / 2 - 4), 8
        return track.frames[index][top : top + side, left : left + side].astype(float).mean((0, 1))

    gain, offset = track.frames.motion.light[:, [0, 10]].numpy()
    looks = [(look(i) - offset[k]) / gain[k] for k, i in enumerate((0, 10))]
    assert np.abs(looks[0] - looks[1]).max() < 25


def test_files_of_mnist_are_read_packed_or_not_and_refused_when_cut(tmp_path):
    pictures = np.random.default_rng(0).integers(0, 256, (3, 28, 28), dtype=np.uint8)
    content = struct.pack(">4i", 2051, 3, 28, 28) + pictures.tobytes()
    path = tmp_path / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(content))
    assert torch.equal((synth.read_idx(tmp_path, "t10k") * 255).round().byte(), torch.from_numpy(pictures))
    for broken in (gzip.compress(content[:-1]), gzip.compress(content)[:40], b""):
        path.write_bytes(broken)
        with pytest.raises(VergenceError, match="t10k-images-idx3-ubyte.gz"):
            synth.read_idx(tmp_path, "t10k")
    with pytest.raises(VergenceError, match="expected MNIST's files"):
        synth.read_idx(tmp_path, "train")


def test_a_scene_too_small_for_its_digits_is_refused():
    with pytest.raises(VergenceError, match="fit into its frame"):
        Scene(size=50, digit=40)
