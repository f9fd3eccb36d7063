"""Depth maps of any kind become one form, and what is near in them is found."""

import numpy as np
import pytest
import torch
from PIL import Image
from skimage.data import stereo_motorcycle

from dense.atsa import fixtures
from vergence.contract.inputs import InMemory
from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.dense.depth import fitted_depth, looks_bright, near_map, read_depth, read_upright
from vergence.dense.scenes import KINDS, OTHER, USELESS, kind_of, rgbd_picture


def ramp(height=24, width=30):
    return np.linspace(1, 9, height, dtype=np.float32)[:, None] * np.ones(width, np.float32)


def write(path, values):
    if path.suffix == ".npy":
        np.save(path, values)
    elif path.suffix == ".pfm":
        path.write_bytes(f"Pf\n{values.shape[1]} {values.shape[0]}\n-1\n".encode() + values[::-1].tobytes())
    elif path.stem == "deep":
        Image.fromarray((values * 5000).astype(np.uint16)).save(path)
    else:
        Image.fromarray((values * 25).astype(np.uint8)).save(path)
    return path


@pytest.mark.parametrize("name", ["a.npy", "a.pfm", "deep.png", "a.png", "a.bmp"])
def test_files_of_all_kinds_give_the_same_map(name, tmp_path):
    near = near_map(read_depth(write(tmp_path / name, ramp())), name, "bright")
    torch.testing.assert_close(near.values, torch.from_numpy((ramp() - 1) / 8).clamp(0, 1), rtol=0, atol=0.03)


@pytest.mark.parametrize("value", [ramp(), ramp()[..., None], torch.from_numpy(ramp())[None], ramp().astype(int)])
def test_maps_given_in_python_are_read(value):
    assert read_depth(InMemory("depth.png", value)).shape == (24, 30)


def test_the_two_polarities_of_a_map_are_one_map():
    bright, dark = (near_map(torch.from_numpy(v), "d", way) for v, way in ((ramp(), "bright"), (-ramp(), "dark")))
    torch.testing.assert_close(bright.values, dark.values)
    assert near_map(torch.from_numpy(ramp()), "d").nearest == "bright"  # the bottom is near
    assert near_map(torch.from_numpy(10 - ramp()), "d").nearest == "dark"


def test_polarity_is_found_in_a_real_and_in_most_rendered_maps():
    disparity = torch.from_numpy(stereo_motorcycle()[2].astype(np.float32))
    assert near_map(disparity, "d").nearest == "bright"
    assert near_map(1 / disparity, "d").nearest == "dark"
    right = [looks_bright(rgbd_picture(generator("polarity", n), OTHER, 32, 32).depth / 255) for n in range(8)]
    assert sum(right) >= 7


def test_gaps_are_filled_from_around_and_counted():
    values = torch.from_numpy(ramp())
    values[4:9, 6:12] = torch.nan
    values[20, 3] = torch.inf
    near = near_map(values, "d", "bright")
    assert near.values.isfinite().all()
    assert near.unknown == pytest.approx(31 / 720)
    assert (near.values[4:9, 6:12] - (torch.from_numpy(ramp()[4:9, 6:12]) - 1) / 8).abs().max() < 0.3


def test_zeros_of_a_sensor_are_gaps_and_zeros_of_a_picture_are_not():
    values = torch.from_numpy(ramp() * 100)
    values[:3, :3] = 0
    assert near_map(values, "d", "dark").unknown == pytest.approx(9 / 720)
    assert near_map(torch.arange(200.0).view(10, 20), "d", "bright").unknown == 0


@pytest.mark.parametrize("value", [0.0, 7.0, -2.0])
def test_a_constant_map_is_found_to_be_flat(value):
    near = near_map(torch.full((8, 9), value), "d")
    assert near.flat
    assert torch.equal(near.values, torch.full((8, 9), 0.5))


def test_a_map_without_finite_values_is_refused():
    with pytest.raises(VergenceError, match="d has no finite value"):
        near_map(torch.full((8, 9), torch.nan), "d")


@pytest.mark.parametrize("value", ["text", np.zeros((2, 3, 4, 5)), np.zeros((5, 5), complex), np.zeros((0, 4))])
def test_what_is_no_map_is_refused(value):
    with pytest.raises(VergenceError, match="expected a"):
        read_depth(InMemory("depth.png", value))


def test_maps_of_another_size_are_fitted_and_of_another_shape_refused():
    assert fitted_depth(torch.rand(20, 30), 40, 60, "d", "p").shape == (40, 60)
    with pytest.raises(VergenceError, match=r"d has 30 x 20 pixels and p 40 x 40: expected a map of the same view"):
        fitted_depth(torch.rand(20, 30), 40, 40, "d", "p")


def test_a_photograph_is_turned_as_its_exif_orientation_says(tmp_path):
    pixels = fixtures.scene()[0]
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    picture, orientation = read_upright(tmp_path / "a.png")
    assert orientation == 6
    np.testing.assert_array_equal(picture.permute(1, 2, 0).numpy(), np.rot90(pixels, -1))


# Rendered pictures ----------------------------------------------------------------------------------------------------


def test_kinds_have_their_shares_in_every_stretch():
    for first in (0, 100, 777):
        kinds = [kind_of(n, 0.45, 0.15) for n in range(first, first + 100)]
        assert [kinds.count(kind) for kind in range(3)] == pytest.approx([45, 15, 40], abs=2)


@pytest.mark.parametrize("kind", range(3), ids=KINDS)
def test_the_salient_thing_is_the_nearest_unless_depth_is_useless(kind):
    for n in range(3):
        made = rgbd_picture(generator("test", n), kind, 48, 48)
        assert made.image.shape == (3, 48, 48)
        assert made.image.dtype == made.depth.dtype == torch.uint8
        assert 0.005 < float(made.mask.float().mean()) < 0.5
        if kind != USELESS:
            middle = made.depth[8:34]
            inside = made.depth[made.mask].float().median()
            assert inside > middle.float().median()
