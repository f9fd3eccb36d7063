"""Readers of RGB-D data sets: partners by name, polarity, wrong files, and what networks get."""

import numpy as np
import pytest
import torch
from PIL import Image

from dense.atsa import fixtures
from vergence.core.errors import VergenceError
from vergence.dense.pairs import LAYOUTS, RenderedRGBD, Resized, read_mask, turned

MEAN, STD = (0.4, 0.4, 0.4), (0.2, 0.2, 0.2)


def read(path, split="test", name="folder"):
    return LAYOUTS[name].read(path, split)


def test_parts_are_told_apart_and_training_pictures_are_held_out(tmp_path):
    fixtures._write(tmp_path / "train", fixtures.USUAL, 20)
    fixtures._write(tmp_path / "test", fixtures.USUAL, 4, first=50)
    names = {split: {f.image.stem for f in read(tmp_path, split).files} for split in ("train", "val", "test")}
    assert [len(names[split]) for split in ("train", "val", "test")] == [18, 2, 4]
    assert not names["train"] & names["val"]
    assert names["test"] == {"0050", "0051", "0052", "0053"}


def test_a_data_set_for_test_alone_is_whole_in_every_split(tmp_path):
    fixtures.whole(tmp_path)
    assert {len(read(tmp_path, split, "lfsd")) for split in ("train", "val", "test")} == {3}


@pytest.mark.parametrize(("near", "told"), [(255, "bright"), (0, "dark")])
def test_polarity_is_found_and_told_and_depth_comes_near_bright(near, told, tmp_path):
    fixtures._write(tmp_path, fixtures.USUAL, 6, near=near)
    data = read(tmp_path, "train")
    assert f"near is {told}" in data.note
    sample = data[0]
    assert sample.depth[sample.mask].mean() > 0.9 > 0.6 > sample.depth[~sample.mask].mean()
    forced = data.oriented("dark" if told == "bright" else "bright")
    torch.testing.assert_close(forced[0].depth, 1 - sample.depth)


@pytest.mark.parametrize(("gone", "what"), [("depth", "depth map"), ("GT", "mask")])
def test_a_missing_partner_is_named(gone, what, tmp_path):
    fixtures._write(tmp_path, fixtures.USUAL, 3)
    (tmp_path / gone / "0001.png").unlink()
    with pytest.raises(VergenceError, match=rf"{gone} has no {what} for 0001.jpg: expected 0001.png"):
        read(tmp_path)


@pytest.mark.parametrize("gone", ["RGB", "depth", "GT"])
def test_a_missing_folder_is_named(gone, tmp_path):
    fixtures._write(tmp_path, fixtures.USUAL, 1)
    (tmp_path / gone).rename(tmp_path / "elsewhere")
    with pytest.raises(VergenceError, match="has no folder of"):
        read(tmp_path)


def test_masks_of_zero_and_one_of_bytes_and_with_soft_edges_are_read(tmp_path):
    mask = fixtures.scene()[2]
    for name, pixels in (("a.png", mask.astype(np.uint8)), ("b.png", mask.astype(np.uint8) * 255), ("c.png", mask)):
        Image.fromarray(pixels).save(tmp_path / name)
        np.testing.assert_array_equal(read_mask(tmp_path / name).numpy(), mask)
    Image.fromarray(mask.astype(np.uint8) * 255).save(tmp_path / "d.jpg", quality=60)
    assert (read_mask(tmp_path / "d.jpg").numpy() != mask).mean() < 0.02


def test_a_photograph_is_no_mask(tmp_path):
    Image.fromarray(fixtures.scene()[0]).save(tmp_path / "a.png")
    with pytest.raises(VergenceError, match=r"a.png is no mask: \d+% of its pixels are neither black nor white"):
        read_mask(tmp_path / "a.png")


def test_a_mask_of_another_size_is_refused(tmp_path):
    fixtures._write(tmp_path, fixtures.USUAL, 1)
    Image.new("L", (9, 9)).save(tmp_path / "GT" / "0000.png")
    with pytest.raises(VergenceError, match=r"0000.png has 9 x 9 pixels: expected those of 0000.jpg, 52 x 40"):
        read(tmp_path)


# What a network gets --------------------------------------------------------------------------------------------------


@pytest.fixture
def data():
    made = [fixtures.scene(n, 48, 48) for n in range(2)]
    tensors = {
        "image": torch.stack([torch.from_numpy(p).permute(2, 0, 1) for p, _, _ in made]),
        "depth": torch.stack([torch.from_numpy(d) for _, d, _ in made]),
        "mask": torch.stack([torch.from_numpy(m) for _, _, m in made]),
        "kind": torch.tensor([0, 2]),
    }
    return RenderedRGBD(tensors)


def test_samples_have_the_asked_size_and_masks_their_own(data):
    sample = Resized(data, 32, MEAN, STD)[1]
    assert {name: sample[name].shape for name in ("image", "depth", "mask")} == {
        "image": (3, 32, 32), "depth": (1, 32, 32), "mask": (48, 48)
    }  # fmt: skip
    assert sample["kind"] == 2
    torch.testing.assert_close(sample["image"].mean(), (data[1].image / 255 - 0.4).mean() / 0.2, rtol=0, atol=0.02)


@pytest.mark.parametrize("jitter", [False, True])
def test_drawn_samples_keep_picture_depth_and_mask_together(data, jitter):
    crops = Resized(data, 48, MEAN, STD, augment=True, jitter=jitter)
    for seed in range(5):
        sample = crops.draw(0, torch.Generator().manual_seed(seed))
        depth, mask = sample["depth"][0], sample["mask"]
        assert depth[mask].median() > depth[~mask].median() + 0.2
        assert sample["image"].isfinite().all()
        again = crops.draw(0, torch.Generator().manual_seed(seed))
        assert all(torch.equal(torch.as_tensor(sample[k]), torch.as_tensor(again[k])) for k in sample)


def test_turning_by_nothing_is_a_crop_of_the_picture():
    maps = torch.rand(2, 40, 40)
    out = turned(maps, 40, torch.Generator().manual_seed(1))
    assert out.shape == (2, 40, 40)
    assert maps.min() <= out.min() <= out.max() <= maps.max()
