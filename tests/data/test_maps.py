"""Maps come back from their files as they were written, and damaged files are refused in one sentence."""

import struct

import numpy as np
import pytest
import torch
from PIL import Image

from vergence.core.errors import VergenceError
from vergence.data.maps import write_flo, write_pfm, write_png16
from vergence.drawing.maps import coloured, flow_colours
from vergence.reading.maps import read_flo, read_pfm, read_png16

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3), (1, 1)])
def test_pfm_comes_back(shape, tmp_path):
    values = RANDOM.normal(size=shape).astype(np.float32)
    np.testing.assert_array_equal(read_pfm(write_pfm(tmp_path / "a.pfm", values)), values)


def test_pfm_of_the_other_byte_order_and_rows_from_the_bottom(tmp_path):
    path = tmp_path / "a.pfm"
    path.write_bytes(b"Pf\n2 2\n1.0\n" + struct.pack(">4f", 1, 2, 3, 4))
    np.testing.assert_array_equal(read_pfm(path), [[3, 4], [1, 2]])


def test_flow_comes_back(tmp_path):
    flow = RANDOM.normal(size=(4, 6, 2)).astype(np.float32)
    path = write_flo(tmp_path / "a.flo", flow)
    assert path.read_bytes()[:4] == b"PIEH"
    np.testing.assert_array_equal(read_flo(path), flow)


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3)])
def test_png_of_16_bits_comes_back_and_pillow_reads_the_grey_one(shape, tmp_path):
    values = RANDOM.integers(0, 65536, shape).astype(np.uint16)
    path = write_png16(tmp_path / "a.png", values)
    np.testing.assert_array_equal(read_png16(path), values)
    if len(shape) == 2:
        np.testing.assert_array_equal(np.asarray(Image.open(path)), values)


@pytest.mark.parametrize("kind", ["noise", "smooth"])
def test_png_with_every_filter_that_other_programs_choose(kind, tmp_path):
    cv2 = pytest.importorskip("cv2")
    y, x = np.mgrid[:40, :50]
    smooth = np.stack([500 * y + x, 900 * x, 20 * x * y], -1)
    values = (smooth if kind == "smooth" else RANDOM.integers(0, 65536, (40, 50, 3))).astype(np.uint16)
    for number, strategy in enumerate(range(5)):
        path = tmp_path / f"{number}.png"
        cv2.imwrite(str(path), values[..., ::-1], [cv2.IMWRITE_PNG_STRATEGY, strategy, cv2.IMWRITE_PNG_COMPRESSION, 9])
        np.testing.assert_array_equal(read_png16(path), values)
    Image.fromarray((values[..., 0] >> 8).astype(np.uint8)).save(tmp_path / "grey.png", optimize=True)
    np.testing.assert_array_equal(read_png16(tmp_path / "grey.png"), values[..., 0] >> 8)


@pytest.mark.parametrize("kind", [3, 4])
def test_png_rows_predicted_from_their_neighbours(kind, tmp_path):
    """Average and Paeth, undone by the definition of the format."""
    import zlib

    plain = RANDOM.integers(0, 256, (6, 8), np.uint8).astype(int)
    rows = b""
    for y in range(6):
        row = bytes([kind])
        for x in range(8):
            left, up = plain[y, x - 1] if x else 0, plain[y - 1, x] if y else 0
            corner = plain[y - 1, x - 1] if x and y else 0
            guess = (left + up) // 2
            if kind == 4:
                p = left + up - corner
                guess = min((abs(p - left), 0, left), (abs(p - up), 1, up), (abs(p - corner), 2, corner))[2]
            row += bytes([(plain[y, x] - guess) % 256])
        rows += row
    chunk = lambda name, body: struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))  # noqa: E731
    content = chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 6, 8, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows))
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + content + chunk(b"IEND", b""))
    np.testing.assert_array_equal(read_png16(tmp_path / "a.png"), plain)


@pytest.mark.parametrize(
    ("read", "name", "content"),
    [
        (read_pfm, "a.pfm", b""),
        (read_pfm, "a.pfm", b"Pf\n2 2\n-1.0\n" + bytes(12)),
        (read_pfm, "a.pfm", b"Pf\n999999999 999999999\n-1.0\n"),
        (read_pfm, "a.pfm", b"P6\n2 2\n255\n" + bytes(12)),
        (read_flo, "a.flo", b"PIEH"),
        (read_flo, "a.flo", struct.pack("<fii", 1.0, 2, 2) + bytes(32)),
        (read_flo, "a.flo", struct.pack("<fii", 202021.25, -2, 2) + bytes(32)),
        (read_flo, "a.flo", struct.pack("<fii", 202021.25, 3, 2) + bytes(32)),
        (read_png16, "a.png", b"not a picture"),
        (read_png16, "a.png", b"\x89PNG\r\n\x1a\n" + bytes(30)),
    ],
)
def test_damaged_maps_are_refused_in_one_sentence(read, name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(VergenceError, match=r"a\.(pfm|flo|png)") as refused:
        read(tmp_path / name)
    assert "\n" not in str(refused.value)


def test_a_png_that_ends_early_is_refused(tmp_path):
    path = write_png16(tmp_path / "a.png", RANDOM.integers(0, 65536, (30, 30)))
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(VergenceError, match="ends"):
        read_png16(path)


def test_flow_to_the_right_is_red_still_pixels_are_white_and_unknown_ones_black():
    flow = torch.zeros(2, 1, 4)
    flow[0, 0, 1], flow[0, 0, 2], flow[0, 0, 3] = 5.0, float("nan"), -5.0
    colours = flow_colours(flow, 5.0)[:, 0].T.tolist()
    assert colours[:3] == [[255, 255, 255], [255, 0, 0], [0, 0, 0]]
    assert colours[3][0] == 0  # to the left is cyan or blue
    assert max(colours[3][1:]) == 255


def test_a_coloured_map_goes_from_its_least_to_its_largest_value():
    values = torch.tensor([[0.0, 1.0, 2.0, float("inf")]])
    picture = coloured(values, 0.0, 2.0, "gray")
    assert picture[0, 0].tolist() == [0, 128, 255, 0]
