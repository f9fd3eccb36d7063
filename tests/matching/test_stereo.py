"""Readers of stereo pairs, crops with their disparity, and pairs of layers."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from matching.mabnet import fixtures
from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.matching.layers import layered_pair
from vergence.matching.stereo import LAYOUTS, Crops, RenderedPairs, Sample, batched, prepared


def read(layout, path, split, writer=None):
    (writer or fixtures.layouts[layout])(path)
    return LAYOUTS[layout].read(path, split)


def photometric(sample, off=0):
    """How much the left picture differs from the right one at x - disparity - off, where both show the point."""
    width = sample.left.shape[-1]
    target = (torch.arange(width) - sample.disparity - off).round().long()
    inside = (target >= 0) & (target < width) & sample.visible & sample.valid
    moved = sample.right.float().gather(2, target.clamp(0, width - 1).expand(3, -1, -1))
    return float((moved - sample.left.float()).abs().mean(0)[inside].mean())


@pytest.mark.parametrize("layout", ["sceneflow", "kitti2015", "kitti2012", "middlebury"])
def test_pictures_and_disparity_of_a_layout_belong_together(layout, tmp_path):
    for split in ("train", "val", "test"):
        sample = read(layout, tmp_path / split, split)[0]
        assert sample.valid.any()
        assert torch.equal(sample.disparity[sample.valid].unique(), torch.tensor([float(fixtures.SHIFT)]))
        assert photometric(sample) == 0
        assert photometric(sample, 2) > 5


def test_kitti_zeros_and_middlebury_infinities_are_unknown(tmp_path):
    for layout in ("kitti2015", "middlebury"):
        sample = read(layout, tmp_path / layout, "test")[0]
        assert not sample.valid[:, : fixtures.SHIFT].any()
        assert sample.valid[:, fixtures.SHIFT :].all()


def test_kitti_says_what_both_pictures_show_and_has_only_the_first_of_two_instants(tmp_path):
    fixtures.kitti2012(tmp_path)
    first = tmp_path / "training" / "colored_0" / "000000_10.png"
    shutil.copy(first, first.with_name("000000_11.png"))
    data = LAYOUTS["kitti2012"].read(tmp_path, "train")
    assert [own.left.name for own in data.files] == ["000000_10.png"]
    assert int(data[0].visible.sum()) == fixtures.HEIGHT * (fixtures.WIDTH - 20)


def test_sceneflow_test_pairs_are_those_of_flyingthings_and_no_pair_is_in_two_splits(tmp_path):
    fixtures.sceneflow(tmp_path)
    left = tmp_path / "monkaa/frames_cleanpass/a_rain_of_stones_x2/left/0006.png"
    for number in range(20, 30):
        for file in (left, Path(str(left).replace("/left", "/right")), _truth_of(left)):
            shutil.copy(file, file.with_stem(f"{number:04d}"))
    splits = {split: LAYOUTS["sceneflow"].read(tmp_path, split).files for split in ("train", "val", "test")}
    assert all("TEST" in own.left.parts for own in splits["test"])
    everything = [own for files in splits.values() for own in files]
    assert len(everything) == len(set(everything)) == 14


def _truth_of(left):
    return Path(str(left).replace("frames_cleanpass", "disparity")).with_suffix(".pfm")


def test_a_missing_right_picture_and_another_size_are_named(tmp_path):
    fixtures.whole(tmp_path)
    fixtures._save(tmp_path / "right" / "1.png", np.zeros((20, 30, 3), np.uint8))
    with pytest.raises(VergenceError, match=r"1\.png has 30 x 20 pixels: expected those of 1\.png, 60 x 36"):
        LAYOUTS["folder"].read(tmp_path, "test")[0]
    (tmp_path / "right" / "0.png").unlink()
    with pytest.raises(VergenceError, match=r"right/0\.png is missing"):
        LAYOUTS["folder"].read(tmp_path, "train")


# What a network gets --------------------------------------------------------------------------------------------------


def textured(height=48, width=96, shift=6):
    pixels = fixtures.pair(1, height, width, shift)
    left, right = (torch.from_numpy(np.ascontiguousarray(p)).permute(2, 0, 1) for p in pixels)
    known = torch.ones(height, width, dtype=torch.bool)
    seen = known & (torch.arange(width) >= shift)
    return Sample("pair", left, right, torch.full((height, width), float(shift)), known, seen)


def test_padding_repeats_the_border_on_top_and_on_the_right():
    sample = textured(20, 30)
    padded = prepared(sample.left)
    assert padded.shape == (3, 32, 32)
    assert torch.equal(padded[:, 0, :30], padded[:, 12, :30])
    assert torch.equal(padded[:, 12:, 31], padded[:, 12:, 29])
    batch = batched(sample)
    assert not batch["valid"][:12].any()
    assert not batch["valid"][:, 30:].any()
    assert batch["valid"][12:, :30].all()


@pytest.mark.parametrize("jitter", [False, True])
def test_crops_keep_picture_and_disparity_together_and_depend_on_the_generator_alone(jitter):
    crops = Crops([textured()], 32, 64, jitter)
    one, again, other = (crops.draw(0, generator("crop", seed)) for seed in (1, 1, 2))
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not torch.equal(one["left"], other["left"])
    assert one["left"].shape == (3, 32, 64)
    # The disparity still explains the pair better than others do.
    grey = [one[side].mean(0) for side in ("left", "right")]
    off = {}
    for wrong in (-4, 0, 4):
        target = (torch.arange(64) - one["disparity"] - wrong).round().long()
        inside = (target >= 0) & (target < 64) & one["visible"] & one["valid"]
        moved = grey[1].gather(1, target.clamp(0, 63))
        off[wrong] = -float(torch.corrcoef(torch.stack([moved[inside], grey[0][inside]]))[0, 1])
    assert min(off, key=off.get) == 0


def test_a_picture_smaller_than_a_crop_is_padded_with_unknown_pixels():
    drawn = Crops([textured(24, 40)], 32, 64).draw(0, generator("crop"))
    assert drawn["left"].shape == (3, 32, 64)
    assert int(drawn["valid"].sum()) == 24 * 40


def test_layers_have_exact_disparity_and_know_what_is_hidden():
    for seed in range(3):
        sample = layered_pair(generator("layers", seed), 64, 128, 24.0)
        right = photometric(sample)
        assert right < 0.6 * min(photometric(sample, 3), photometric(sample, -3))
        assert 0.5 < float(sample.visible.float().mean()) < 1
        assert float(sample.disparity.max()) <= 24


def test_rendered_pairs_are_the_same_for_every_count():
    few, more = (RenderedPairs.of(count, 32, 48, 10.0, ("test", "pairs"), "train") for count in (1, 2))
    assert len(more) == 2
    assert torch.equal(few[0].left, more[0].left)
    assert photometric(more[1]) < photometric(more[1], 4)
