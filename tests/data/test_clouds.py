"""Clouds are read correctly from every format, and damaged files are refused in one sentence."""

import struct

import numpy as np
import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.data.clouds import read_cloud, write_ply

POINTS = np.random.default_rng(0).normal(0, 10, (23, 3)).astype(np.float32)


def npy(path):
    np.save(path, POINTS)


def npz(path):
    np.savez(path, points=POINTS, colours=np.zeros((23, 3), np.uint8))


def kitti(path):
    path.write_bytes(np.concatenate([POINTS, np.ones((23, 1), np.float32)], 1).astype("<f4").tobytes())


def ply_header(form):
    return (
        f"ply\nformat {form} 1.0\ncomment made by hand\nelement vertex 23\nproperty uchar red\nproperty float x\n"
        "property float y\nproperty double z\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n"
    ).encode()


def ply_ascii(path):
    rows = "".join(f"7 {x!r} {y!r} {z!r}\n" for x, y, z in POINTS.tolist())
    path.write_bytes(ply_header("ascii") + rows.encode() + b"3 0 1 2\n")


def ply_binary(order, form):
    def write(path):
        rows = b"".join(struct.pack(f"{order}Bffd", 7, *row) for row in POINTS.tolist())
        path.write_bytes(ply_header(form) + rows + struct.pack(f"{order}Biii", 3, 0, 1, 2))

    return write


def pcd_header(form):
    return (
        "# .PCD v0.7\nVERSION 0.7\nFIELDS rgb x y z normal\nSIZE 4 4 4 4 4\nTYPE U F F F F\nCOUNT 1 1 1 1 2\n"
        f"WIDTH 23\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS 23\nDATA {form}\n"
    ).encode()


def pcd_ascii(path):
    path.write_bytes(
        pcd_header("ascii") + "".join(f"9 {x!r} {y!r} {z!r} 0 1\n" for x, y, z in POINTS.tolist()).encode()
    )


def pcd_binary(path):
    path.write_bytes(pcd_header("binary") + b"".join(struct.pack("<Ifffff", 9, *row, 0, 1) for row in POINTS.tolist()))


def pcd_compressed(path):
    fields = [np.full(23, 9, "<u4"), *POINTS.T.astype("<f4"), np.zeros(23, "<f4"), np.ones(23, "<f4")]
    plain = b"".join(field.tobytes() for field in fields)
    # The first field repeats every four bytes: four literals, then one long copy that runs into itself.
    packed = bytes([3]) + plain[:4] + bytes([(7 << 5), 92 - 4 - 9, 3])
    for start in range(92, len(plain), 32):
        some = plain[start : start + 32]
        packed += bytes([len(some) - 1]) + some
    path.write_bytes(pcd_header("binary_compressed") + struct.pack("<II", len(packed), len(plain)) + packed)


FORMATS = {
    "a.npy": npy, "a.npz": npz, "a.bin": kitti, "ascii.ply": ply_ascii,
    "little.ply": ply_binary("<", "binary_little_endian"), "big.ply": ply_binary(">", "binary_big_endian"),
    "ascii.pcd": pcd_ascii, "binary.pcd": pcd_binary, "compressed.pcd": pcd_compressed,
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_points(name, tmp_path):
    FORMATS[name](tmp_path / name)
    assert (read_cloud(tmp_path / name).numpy() == POINTS).all()


@pytest.mark.parametrize("name", FORMATS)
def test_files_cut_short_are_refused_by_name(name, tmp_path):
    path = tmp_path / name
    FORMATS[name](path)
    content = path.read_bytes()
    for length in (0, 1, len(content) // 2 + 1, len(content) - 200):
        path.write_bytes(content[:length])
        with pytest.raises(VergenceError, match=name) as refusal:
            read_cloud(path)
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros((0, 3), np.float32), "without points"),
        (np.array([[1, 2, np.nan], [0, 0, 0]]), "1 of 2 rows with values that are not finite"),
        (np.array([[1, 2, 1e300]]), "not finite"),
        (np.zeros((5, 2)), r"shape is \(5, 2\)"),
        (np.zeros(5), r"shape is \(5,\)"),
        (np.array([["a", "b", "c"]]), "not numbers"),
        (np.zeros((4, 3), np.complex64), "complex64, not numbers"),
        (np.zeros((4, 3), bool), "bool, not numbers"),
    ],
)
def test_what_is_no_cloud_is_refused(array, said, tmp_path):
    np.save(tmp_path / "odd.npy", array)
    with pytest.raises(VergenceError, match=said):
        read_cloud(tmp_path / "odd.npy")


def test_integers_and_halves_are_numbers_too(tmp_path):
    for kind in (np.int16, np.float16, np.float64):
        np.save(tmp_path / "a.npy", np.ones((2, 5), kind))
        assert read_cloud(tmp_path / "a.npy").tolist() == [[1.0, 1.0, 1.0]] * 2


def test_pickles_in_arrays_are_not_opened(tmp_path):
    np.save(tmp_path / "evil.npy", np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(VergenceError, match=r"evil\.npy is not a complete \.npy file of numbers"):
        read_cloud(tmp_path / "evil.npy")


def test_several_clouds_in_one_file_need_a_name(tmp_path):
    np.savez(tmp_path / "two.npz", a=POINTS, b=POINTS)
    with pytest.raises(VergenceError, match="has the arrays a, b"):
        read_cloud(tmp_path / "two.npz")


@pytest.mark.parametrize(
    ("name", "said"), [("a.xyz", "no point cloud that can be read"), ("none.ply", "does not exist")]
)
def test_other_files_are_refused(name, said, tmp_path):
    with pytest.raises(VergenceError, match=said):
        read_cloud(tmp_path / name)


def test_a_ply_without_points_first_or_without_depth_is_refused(tmp_path):
    path = tmp_path / "odd.ply"
    path.write_bytes(b"ply\nformat ascii 1.0\nelement face 0\nproperty list uchar int v\nend_header\n")
    with pytest.raises(VergenceError, match="first element is not 'vertex'"):
        read_cloud(path)
    path.write_bytes(b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nend_header\n1\n")
    with pytest.raises(VergenceError, match="its points have x, not x, y and z"):
        read_cloud(path)


def test_a_written_ply_has_what_it_was_given(tmp_path):
    points, normals = torch.randn(5, 3), torch.randn(5, 3)
    colours, label, score = torch.arange(15).reshape(5, 3) * 20, torch.arange(5), torch.rand(5)
    path = write_ply(tmp_path / "a.ply", points, colours, normals, label=label, score=score)
    torch.testing.assert_close(read_cloud(path), points, rtol=0, atol=0)
    header, body = path.read_bytes().split(b"end_header\n")
    names = [line.split()[-1].decode() for line in header.splitlines() if line.startswith(b"property")]
    assert names == ["x", "y", "z", "nx", "ny", "nz", "red", "green", "blue", "label", "score"]
    kinds = np.dtype([(name, "<f4" if place < 6 or place == 10 else "u1" if place < 9 else "<i4")
                      for place, name in enumerate(names)])  # fmt: skip
    table = np.frombuffer(body, kinds)
    np.testing.assert_array_equal(np.stack([table[n] for n in ("nx", "ny", "nz")], 1), normals.numpy())
    np.testing.assert_array_equal(np.stack([table[n] for n in ("red", "green", "blue")], 1), colours.clamp(max=255))
    np.testing.assert_array_equal(table["label"], label.numpy())
    np.testing.assert_array_equal(table["score"], score.numpy())
