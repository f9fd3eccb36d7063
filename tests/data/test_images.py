"""Images of any mode are read as RGB bytes; random crops are functions of their generator."""

import numpy as np
import pytest
import torch
from PIL import Image

from vergence.core.errors import VergenceError
from vergence.data import images
from vergence.drawing.grid import Panel, Scale, grid, overlay


@pytest.mark.parametrize(
    ("mode", "value", "expected"),
    [
        ("RGB", (10, 20, 30), (10, 20, 30)),
        ("L", 77, (77, 77, 77)),
        ("RGBA", (10, 20, 30, 0), (255, 255, 255)),  # transparent is white
        ("RGBA", (10, 20, 30, 255), (10, 20, 30)),
        ("I;16", 65535, (255, 255, 255)),
        ("I;16", 256, (1, 1, 1)),
        ("1", 1, (255, 255, 255)),
        ("CMYK", (0, 0, 0, 255), (0, 0, 0)),
    ],
)
def test_every_mode_is_read_as_rgb_bytes(mode, value, expected, tmp_path):
    path = tmp_path / ("a.tif" if mode in ("I;16", "CMYK") else "a.png")
    Image.new(mode, (4, 3), value).save(path)
    picture = images.read_image(path)
    assert picture.shape == (3, 3, 4)
    assert picture.dtype == torch.uint8
    assert tuple(picture[:, 0, 0].tolist()) == expected


@pytest.mark.parametrize("content", [b"", b"not a picture", b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_picture_is_refused_by_name(content, tmp_path):
    path = tmp_path / "bad.png"
    path.write_bytes(content)
    with pytest.raises(VergenceError, match=r"bad\.png is not a readable picture"):
        images.read_image(path)


def test_the_centre_is_the_middle_of_the_resized_picture():
    picture = torch.arange(3 * 8 * 12, dtype=torch.float32).reshape(3, 8, 12)
    assert torch.equal(images.centre(picture, 8, 4), picture[:, 2:6, 4:8])
    assert images.centre(picture, 16, 10).shape == (3, 10, 10)


def test_a_padded_crop_of_pad_zero_is_the_picture():
    picture = torch.rand(3, 6, 6)
    assert torch.equal(images.padded_crop(picture, 0, torch.Generator()), picture)
    crop = images.padded_crop(torch.ones(3, 6, 6), 4, torch.Generator().manual_seed(0))
    assert crop.shape == (3, 6, 6)


def test_area_crops_have_areas_in_their_range():
    # On a ramp, the mean of a crop's columns tells its width: check with crops of the full height only by area.
    picture = torch.linspace(0, 1, 100).expand(3, 100, 100)
    generator = torch.Generator().manual_seed(0)
    spans = []
    for _ in range(50):
        crop = images.area_crop(picture, 20, (0.25, 0.25), generator, (1.0, 1.0))
        spans.append(float(crop[0, 0, -1] - crop[0, 0, 0]))
    # A square of a quarter of the area is half as wide: half the ramp, less the pixel that resizing averages away.
    assert np.allclose(spans, 0.5, atol=0.05)


def test_a_share_above_one_falls_back_to_the_middle():
    picture = torch.rand(3, 10, 14)
    crop = images.area_crop(picture, 10, (4.0, 4.0), torch.Generator(), (1.0, 1.0))
    torch.testing.assert_close(crop, picture[:, :, 2:12])


def test_an_overlay_is_brightest_where_the_map_is_highest():
    heat = torch.zeros(4, 4)
    heat[1, 2] = 1
    drawn = overlay(torch.full((3, 8, 8), 128, dtype=torch.uint8), heat)
    brightness = drawn.sum(0)
    assert brightness[2:4, 4:6].min() > brightness[4:, :4].max()
    assert overlay(torch.zeros(3, 8, 8), torch.zeros(2, 2)).isfinite().all()


def test_an_overlay_stops_at_zero_and_one_large_cell_does_not_hide_the_others():
    picture = torch.full((3, 10, 10), 128, dtype=torch.uint8)
    plain = overlay(picture, torch.zeros(10, 10))
    heat = torch.rand(10, 10, generator=torch.Generator().manual_seed(0))
    heat[0, 0], heat[5, 5], heat[5, 6] = -40.0, 30.0, 0.9
    drawn = overlay(picture, heat)
    assert torch.equal(drawn[:, 0, 0], plain[:, 0, 0])
    assert (drawn[:, 5, 6] - plain[:, 5, 6]).abs().max() > 0.3
    scale = Scale.of(heat)
    assert (scale.low, scale.largest) == (0.0, 30.0)
    assert 0.9 < scale.high < 1.0
    assert scale.ends == ("0", f"{scale.high:.2g}+")


def test_rounding_beside_one_cell_does_not_shine():
    heat = 1e-16 * torch.rand(4, 4, generator=torch.Generator().manual_seed(0))
    heat[0, 0] = 1.0
    scale = Scale.of(heat)
    assert scale.share(heat).sum() < 1.01
    assert Scale.of(torch.full((4, 4), -1.0)).share(heat).max() == 0


def test_a_grid_is_a_png_with_as_many_panels_as_given(tmp_path):
    panels = [[Panel(torch.rand(3, 5, 5), "a", [(2, 2)])], [Panel(torch.rand(3, 5, 5))] * 2]
    with Image.open(grid(tmp_path / "sub" / "g.png", panels)) as made:
        assert made.width > made.height / 2


def test_a_gif_is_read_and_a_cut_one_is_refused(tmp_path):
    mask = np.zeros((40, 60), np.uint8)
    mask[5:30, 10:50] = 255
    Image.fromarray(mask).save(tmp_path / "shape-1.gif")
    assert np.array_equal(images.read_image(tmp_path / "shape-1.gif")[0].numpy(), mask)
    assert images.find_images(tmp_path) == [tmp_path / "shape-1.gif"]
    content = (tmp_path / "shape-1.gif").read_bytes()
    (tmp_path / "cut.gif").write_bytes(content[: len(content) // 2])
    with pytest.raises(VergenceError, match="cut.gif is not a readable picture"):
        images.read_image(tmp_path / "cut.gif")
