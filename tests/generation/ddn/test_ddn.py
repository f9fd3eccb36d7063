"""What only ddn does: operators of a config, prediction on odd photographs, readers, and the parts of a result."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import vergence
from generation.ddn.fixtures import kspace, photo
from vergence.cli.main import main
from vergence.core.errors import VergenceError
from vergence.generation.crops import Embedded, read_folder
from vergence.generation.ddn.model import DDN, filled
from vergence.generation.ddn.predict import continued
from vergence.generation.ddn.settings import SETTINGS
from vergence.generation.measurements import drawn, measured, random_holes, random_lines
from vergence.generation.measuring import Measure
from vergence.generation.photos import joined, split
from vergence.generation.scans import scan, sensitivities
from vergence.ops.linear import Mask, bicubic


@pytest.fixture(scope="module")
def model():
    return vergence.load("ddn")


# Measurements ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["average", "bicubic", "mask", "blur", "fourier", "identity"])
def test_noise_is_of_the_level_asked_for_and_only_where_something_is_measured(kind):
    measure = Measure(kind, noise=0.1, blur=(1.0, 1.0))
    x = torch.rand(2, 1, 64, 64)
    source = torch.Generator().manual_seed(0)
    operator = drawn(measure, x, source)
    y, e = measured(measure, operator, x, source)
    torch.testing.assert_close(y, operator.forward(x) + e)
    sizes = e.abs()[e != 0]
    assert float(sizes.square().mean().sqrt()) == pytest.approx(0.1, rel=0.1)
    assert operator.pinv(y).shape == x.shape


def test_lines_have_the_acceleration_asked_for_and_the_lowest_frequencies():
    source = torch.Generator().manual_seed(1)
    for acceleration in (2.0, 4.0, 40.0):
        mask = random_lines((128, 128), acceleration, source)
        assert float(mask.float().mean()) == pytest.approx(1 / acceleration, rel=0.35)
        assert mask[0, 0]


def test_holes_leave_something_known():
    source = torch.Generator().manual_seed(0)
    shares = [float(random_holes((32, 40), 0.5, source).float().mean()) for _ in range(40)]
    assert all(0 < share < 1 for share in shares)
    assert min(shares) > 0.25


def test_a_smooth_fill_keeps_what_is_known_and_fills_a_plane_nearly():
    y, x = torch.meshgrid(torch.linspace(0, 1, 32), torch.linspace(0, 1, 40), indexing="ij")
    plane = (0.3 * y + 0.6 * x)[None, None]
    known = torch.ones(1, 1, 32, 40, dtype=torch.bool)
    known[..., 10:14, 5:30] = False
    smooth = filled(plane * known, known)
    assert torch.equal(smooth[known], plane[known])
    assert float((smooth - plane).abs().max()) < 0.1


# Prediction -----------------------------------------------------------------------------------------------------------


def test_the_parts_of_a_result_make_the_picture(model):
    grey = photo()[..., 0]
    for task, factor in (("sr2", 2), ("sr4", 4)):
        result = model.predict(photo=grey, task=task)
        assert result.picture.shape == (1, 48 * factor, 60 * factor)
        torch.testing.assert_close((result.measured + result.invented).clamp(0, 1), result.picture, atol=1e-5, rtol=0)
        operator = bicubic(48 * factor, 60 * factor, factor)
        small = torch.from_numpy(grey).float() / 255
        torch.testing.assert_close(operator.forward(result.measured + result.noise)[0], small, atol=1e-4, rtol=0)
        assert float(operator.forward(result.invented).abs().max()) < 1e-4


def test_what_is_known_is_kept_where_nothing_is_noise(model):
    holes = np.zeros((48, 60), np.uint8)
    holes[20:24, 10:50] = 255
    result = model.predict(photo=photo(), task="inpaint", mask=holes)
    given = torch.from_numpy(photo()).permute(2, 0, 1) / 255
    outside = torch.from_numpy(holes == 0)
    assert not result.invented[:, outside].any()
    torch.testing.assert_close((result.measured + result.noise)[:, outside], given[:, outside], atol=1e-5, rtol=0)


def test_grey_deep_and_transparent_pictures_stay_so(model, tmp_path):
    rgba = np.dstack([photo(), np.tile(np.arange(60, dtype=np.uint8) * 4, (48, 1))])
    Image.fromarray(rgba).save(tmp_path / "clear.png")
    result = model.predict(photo=tmp_path / "clear.png", task="sr2")
    result.save(tmp_path / "clear")
    assert Image.open(tmp_path / "clear" / "clear-sr2.png").mode == "RGBA"
    deep = photo()[..., 0].astype(np.uint16) * 257
    Image.fromarray(deep).save(tmp_path / "deep.png")
    result = model.predict(photo=tmp_path / "deep.png", task="sr2")
    assert result.bits == 16
    result.save(tmp_path / "deep")
    saved = np.asarray(Image.open(tmp_path / "deep" / "deep-sr2.png"))
    assert saved.max() > 255
    assert len(np.unique(saved)) > 1000
    result = model.predict(photo=rgba[..., [0, 3]], task="deblur", sigma=1.0)
    assert result.picture.shape == (1, 48, 60)
    assert torch.equal((255 * result.alpha).round(), torch.from_numpy(rgba[..., 3:]).permute(2, 0, 1).float())


def test_a_picture_in_tiles_is_the_whole_picture(model, monkeypatch):
    tall = photo(3, 150, 90)
    whole = model.predict(photo=tall, task="sr2").picture
    monkeypatch.setattr("vergence.generation.ddn.predict.TILE", 64)
    torch.testing.assert_close(model.predict(photo=tall, task="sr2").picture, whole, atol=1e-5, rtol=0)


def test_a_kernel_picture_is_the_gaussian_it_shows(model):
    line = np.exp(-0.5 * (np.arange(-6, 7) / 1.5) ** 2)
    kernel = np.outer(line, line)
    by_kernel = model.predict(photo=photo(), task="deblur", kernel=kernel)
    by_sigma = model.predict(photo=photo(), task="deblur", sigma=1.5)
    assert float((by_kernel.picture - by_sigma.picture).abs().max()) < 0.02


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"task": "inpaint"}, "inpaint needs a mask"),
        ({"task": "inpaint", "mask": np.zeros((48, 60), np.uint8)}, "covers nothing"),
        ({"task": "inpaint", "mask": np.full((48, 60), 255, np.uint8)}, "covers the whole photograph"),
        ({"task": "inpaint", "mask": np.zeros((10, 10), np.uint8)}, "expected the same size"),
        ({"task": "sr2", "mask": np.zeros((48, 60), np.uint8)}, "a mask is of no use for sr2"),
        ({"task": "sr4", "kernel": np.ones((3, 3))}, "a kernel is of no use for sr4"),
        ({"task": "deblur", "kernel": np.zeros((3, 3))}, "is no blur kernel"),
        ({"task": "deblur", "sigma": 50.0}, "sigma is from 0.3 to 6"),
        ({"photo": np.full((20, 20), np.nan)}, "not from 0 to 1"),
        ({"photo": np.zeros((20, 20), np.int64)}, "expected uint8, uint16, or floats"),
        ({"photo": np.zeros((20, 20, 5), np.uint8)}, "has the shape"),
        ({"photo": np.zeros((4, 40), np.uint8)}, "expected at least 8 x 8"),
        ({"photo": "text"}, "does not exist"),
    ],
)
def test_bad_input_is_one_sentence(model, given, said):
    with pytest.raises(VergenceError, match=said) as refusal:
        model.predict(**({"photo": photo(), "task": "sr2"} | given))
    assert "\n" not in str(refusal.value)


def test_the_command_writes_the_two_parts_and_exits_with_2_on_errors(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Image.fromarray(photo()).save("photo.jpg")
    assert main(["predict", "ddn", "photo.jpg", "--task", "deblur", "--sigma", "1", "-o", "out", "--quiet"]) == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {f"photo-deblur{part}.png" for part in ("", "-measured", "-invented", "-before", "-parts")} <= names
    assert json.loads((tmp_path / "out" / "photo-deblur.json").read_text())["task"] == "deblur"
    assert main(["predict", "ddn", "photo.jpg", "--task", "inpaint", "-o", "none", "--quiet"]) == 2
    assert not (tmp_path / "none").exists()


def test_opposite_borders_meet_smoothly():
    x = torch.linspace(0, 1, 50).expand(1, 30, 50)
    wide = continued(x, 20, -1)
    assert wide.shape[-1] >= 70
    assert torch.equal(wide[..., :50], x)
    ring = torch.cat([wide, wide[..., :1]], -1)
    assert float((ring[..., 1:] - ring[..., :-1]).abs().max()) < 0.12


def test_colours_are_split_and_joined_again():
    x = torch.rand(3, 5, 6)
    torch.testing.assert_close(joined(*split(x)), x)


# Data -----------------------------------------------------------------------------------------------------------------


def test_training_and_test_crops_come_from_different_photographs():
    train, test = (Embedded(split, side=32) for split in ("train", "test"))
    assert torch.equal(train[3], Embedded("train", side=32)[3])
    assert train[0].shape == (1, 32, 32)
    assert not any(torch.equal(train[n], test[n]) for n in range(8))


def test_a_folder_of_one_picture_is_both(tmp_path):
    Image.fromarray(photo()).save(tmp_path / "one.png")
    assert len(read_folder(tmp_path, "train")) == len(read_folder(tmp_path, "test")) == 1


def test_a_scan_is_the_inverse_transform_of_its_k_space():
    spectrum = torch.from_numpy(kspace(0, 40, 36))
    picture = scan(spectrum, 320)
    values = np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(spectrum.numpy()), norm="ortho"))
    np.testing.assert_allclose(picture[0] + 1j * picture[1], values / np.abs(values).max(), atol=1e-5)
    assert scan(spectrum, 32).shape == (2, 32, 32)


def test_coils_are_combined_by_sensitivities_of_norm_one():
    spectrum = torch.from_numpy(kspace(0, 3, 40, 36))
    maps = sensitivities(spectrum)
    torch.testing.assert_close(maps.abs().square().sum(0), torch.ones(40, 36))
    assert scan(spectrum).shape == (2, 40, 36)


def test_a_network_for_masks_does_not_read_a_black_pixel_as_a_hole():
    config = SETTINGS.configure("starter-inpaint")
    network = DDN(config.model, config.measure).eval()
    known = torch.ones(1, 1, 24, 24, dtype=torch.bool)
    known[..., 4:8, 4:8] = False
    found = network(torch.zeros(1, 1, 24, 24), Mask(known))
    assert not found.image.any()
