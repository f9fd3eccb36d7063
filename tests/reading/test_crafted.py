"""Files made to break readers: each is refused in one sentence that names it, in little memory and time."""

import io
import json
import os
import pickle
import struct
import tracemalloc
import zipfile
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from PIL import Image

from crafted import huge_png, npy_header
from vergence.core.errors import VergenceError
from vergence.data.archives import unpacked
from vergence.data.clouds import read_cloud
from vergence.data.images import read_image
from vergence.data.video import open_video
from vergence.maps.data import read_map
from vergence.reading.arrays import read_gzip, read_npy, read_npz
from vergence.reading.budget import budget
from vergence.reading.files import read_bytes, read_text
from vergence.reading.matlab import read_mat
from vergence.reading.pickles import read_pickle
from vergence.reading.tables import read_json, read_rows
from vergence.reading.weights import load_archive, load_tensors, read_metadata
from vergence.retrieval.layouts import read_descriptors


@contextmanager
def refused(path, message=""):
    """One sentence that names the file, without taking more than 64 MB of Python's memory."""
    tracemalloc.start()
    try:
        with pytest.raises(VergenceError, match=message or None) as failure:
            yield
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()
    text = str(failure.value)
    assert os.path.basename(path).encode("utf-8", "replace").decode() in text.encode("utf-8", "replace").decode()
    assert "\n" not in text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bomb.png", huge_png(13_000, 13_000), "169,000,000 pixels"),
        ("long.png", huge_png(1, 1_000_000), "1,000,000 times as many pixels along one side"),
        ("eps.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n", "not a readable picture"),
        ("empty.png", b"", "not a readable picture"),
        ("text.png", b"hello", "not a readable picture"),
        ("half.png", huge_png(20, 20)[:45], "not a readable picture"),
    ],
)
def test_pictures(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with refused(tmp_path / name, message):
        read_image(tmp_path / name)


def test_a_large_picture_is_reduced_while_it_is_read(tmp_path):
    for suffix in (".jpg", ".png"):
        path = tmp_path / f"large{suffix}"
        Image.new("RGB", (1600, 1200), (200, 100, 50)).save(path)
        small = read_image(path, longest=300)
        assert 300 <= max(small.shape[1:]) < 600
        assert (small.float().mean((1, 2)) - torch.tensor([200.0, 100, 50])).abs().max() < 3
        assert read_image(path).shape == (3, 1200, 1600)


@pytest.mark.parametrize(
    "content",
    [
        npy_header((10**12, 3)),
        npy_header((2**62, 2**62)),
        npy_header((10, 3), "|O") + pickle.dumps([1]),
        npy_header((-1, 3)),
        b"PK\x03\x04" + b"\0" * 40,
        b"\x93NUMPY\x07\x00",
        b"",
        b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 60_000,
    ],
    ids=["huge", "overflow", "objects", "negative", "zip", "version", "empty", "nested"],
)
def test_arrays(content, tmp_path):
    path = tmp_path / "a.npy"
    path.write_bytes(content)
    with refused(path):
        read_npy(path)
    with refused(path):
        read_cloud(path)


def test_arrays_and_zips_come_back_whole(tmp_path):
    arrays = {
        "a": np.arange(12.0).reshape(3, 4),
        "f": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "e": np.zeros((0, 3)),
    }
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    for name, array in read_npz(tmp_path / "a.npz").items():
        np.testing.assert_array_equal(array, arrays[name])
    np.save(tmp_path / "f.npy", arrays["f"])
    np.testing.assert_array_equal(read_npy(tmp_path / "f.npy"), arrays["f"])


def test_zips_that_grow(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", npy_header((10**7,)) + b"\0" * (4 * 10**7))
    with budget(expansion=2), refused(path, "times its packed size"):
        import vergence.reading.budget

        vergence.reading.budget.FREE, free = 10**6, vergence.reading.budget.FREE
        try:
            read_descriptors(path)
        finally:
            vergence.reading.budget.FREE = free


def test_zips_that_lie_about_their_size(tmp_path, monkeypatch):
    """What is written is counted, and nothing is left."""
    monkeypatch.setenv("VERGENCE_HOME", str(tmp_path / "home"))
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.bin", b"\0" * 10**6)
    with budget(unpacked_bytes=10**5), refused(path, "bytes when unpacked"):
        unpacked(path)
    assert list((tmp_path / "home" / "unpacked").iterdir()) == []


@pytest.mark.parametrize("name", ["", "/", "../out", "/etc/x", "a/../../x", "C:/x"])
def test_zips_with_names_that_lead_outside(name, tmp_path, monkeypatch):
    monkeypatch.setenv("VERGENCE_HOME", str(tmp_path / "home"))
    path = tmp_path / "odd.zip"
    entry = zipfile.ZipInfo("a" * max(len(name), 1))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(entry, b"content")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"a" * max(len(name), 1), (name or "/").encode()))
    with refused(path):
        unpacked(path)


XYZ = b"property float x\nproperty float y\nproperty float z\nend_header\n"
PCD = b"FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 "


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.ply", b"ply\nelement vertex 1\n" + XYZ + b"\0" * 12),
        ("b.ply", b"ply\nformat ascii 1.0\nelement vertex 99999999999\n" + XYZ + b"1 2 3\n"),
        ("c.ply", b"ply\nformat ascii 1.0\nproperty float x\nend_header\n"),
        ("d.ply", b"ply\nformat ascii 1.0\nelement vertex\nend_header\n"),
        ("a.pcd", PCD + b"1000000000\nPOINTS 1\nDATA binary\n" + b"\0" * 12),
        ("b.pcd", PCD + b"1\nPOINTS 99999999999\nDATA binary\n" + b"\0" * 12),
        ("c.pcd", PCD + b"1\nPOINTS 1\nDATA binary_compressed\n" + b"\1\0\0\0\xff\xff\xff\xff\0"),
        ("d.pcd", b"DATA ascii\n"),
        ("a.bin", b"\0" * 17),
        ("b.bin", struct.pack("<4f", float("nan"), 0, 0, 0)),
        ("a.npz", b"PK\x05\x06" + b"\0" * 18),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_clouds(name, content, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with refused(path):
        read_cloud(path)


LINE = '{"type": "LineString", "coordinates": %s}'


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.graph", "0 0\n1 1\n\n0 99999999999999999999\n"),
        ("b.graph", "1e300 0\n1 1\n\n0 1\n"),
        ("a.geojson", LINE % "[[0, 0], [1e300, 1]]"),
        ("b.geojson", LINE % f"[[0, 0], [{'9' * 400}, 1]]"),
        ("c.geojson", '{"type": ["LineString"], "coordinates": []}'),
        ("d.geojson", "[" * 100_000),
        ("e.geojson", LINE % ("[" * 70 + "]" * 70)),
        ("f.geojson", LINE % "[[0, 0], [NaN, 1]]"),
        ("a.graphml", '<?xml version="1.0" encoding="no-such"?><graphml/>'),
        ("b.graphml", '<!DOCTYPE x [<!ENTITY a "aaaa">]><graphml>&a;</graphml>'),
        ("c.graphml", "<graphml><graph><node id='a'/></graph>"),
    ],
    ids=lambda value: value if len(value) < 12 else "",
)
def test_maps(name, content, tmp_path):
    path = tmp_path / name
    path.write_text(content)
    with refused(path):
        read_map(path)


def test_a_mask_of_noise_is_no_map(tmp_path):
    noise = (np.random.default_rng(0).random((200, 200)) > 0.5).astype(np.uint8) * 255
    Image.fromarray(noise).save(tmp_path / "noise.png")
    with refused(tmp_path / "noise.png", "no mask of roads"):
        read_map(tmp_path / "noise.png")


def corrupting():
    """A pickle whose dtype has flags that make NumPy follow addresses of the file's choosing."""
    array = pickle.dumps(np.zeros(2, "u1"), 2)
    return array.replace(b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00", b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x3f")


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(np.array([1, "a"], object), 2),
        pickle.dumps(np.zeros(2, [("a", "f4"), ("b", "O")]), 2),
        pickle.dumps(np.dtype("f4"), 2),
        pickle.dumps(np.zeros(4), 2).replace(b"K\x04\x85", b"K\x7f\x85"),
        pickle.dumps(np.zeros(4, "M8[s]"), 2),
        b"cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR.",
        b"c_codecs\nencode\n(Va\nVpunycode\ntR.",
        b"]" * 200 + b"a" * 199 + b".",
    ],
    ids=["objects", "fields", "dtype", "shape", "dates", "object dtype", "codec", "nested"],
)
def test_pickles(content, tmp_path):
    path = tmp_path / "data_batch_1"
    path.write_bytes(content)
    with refused(path):
        read_pickle(path)


def test_flags_of_a_type_in_a_pickle_are_not_taken(tmp_path):
    assert corrupting() != pickle.dumps(np.zeros(2, "u1"), 2)
    path = tmp_path / "flags"
    path.write_bytes(corrupting())
    result = read_pickle(path)
    assert result.dtype == np.uint8
    assert not result.dtype.hasobject


def test_shared_values_of_a_pickle_are_converted_once(tmp_path):
    value = [np.zeros(3)]
    for _ in range(50):
        value = [value, value]  # 2 to the 50 lists, if they were not shared
    (tmp_path / "laughs").write_bytes(pickle.dumps(value))
    read_pickle(tmp_path / "laughs")


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_byte_orders_strings_and_fortran_order_come_back(order, protocol, tmp_path):
    arrays = [np.arange(6, dtype=f"{order}i4").reshape(2, 3), np.asfortranarray(np.eye(3)), np.array([b"ab", b"c"])]
    (tmp_path / "a").write_bytes(pickle.dumps(arrays, protocol))
    for ours, theirs in zip(read_pickle(tmp_path / "a"), arrays, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_plain_files(tmp_path):
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with refused(pipe, "not a regular file"):
        read_json(pipe)
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    with refused(loop, "cannot be read"):
        read_json(loop)
    with refused(tmp_path, "is a folder"):
        read_bytes(tmp_path)
    with refused(tmp_path / "none", "does not exist"):
        read_bytes(tmp_path / "none")
    with refused("/dev/zero", "not a regular file"):
        read_bytes(type(tmp_path)("/dev/zero"))
    (tmp_path / "latin").write_bytes("Zürich".encode("latin-1"))
    with refused(tmp_path / "latin", "byte 1 is not UTF-8"):
        read_text(tmp_path / "latin")
    huge = tmp_path / "sparse.csv"
    with huge.open("wb") as file:
        file.truncate(2 * 10**9)
    with refused(huge, "bytes of text"):
        read_rows(huge)


def test_names_that_are_not_utf8(tmp_path):
    path = tmp_path / os.fsdecode(b"a\xff.png")
    try:
        Image.new("RGB", (8, 8)).save(open(path, "wb"), "PNG")  # noqa: SIM115
    except OSError:
        pytest.skip("this file system has no such names")
    assert read_image(path).shape == (3, 8, 8)
    path.write_bytes(b"x")
    with refused(path):
        read_image(path)
    clip = tmp_path / os.fsdecode(b"a\xff.mp4")
    clip.write_bytes(b"x")
    with refused(clip):
        open_video(clip)


def test_matlab_and_gzip(tmp_path):
    from scipy.io import savemat

    savemat(tmp_path / "a.mat", {"X": np.zeros((1000, 1000))}, do_compression=True)
    assert read_mat(tmp_path / "a.mat", ("X", "Q"))["X"].shape == (1000, 1000)
    with budget(unpacked_bytes=10**6), refused(tmp_path / "a.mat", "bytes when unpacked"):
        read_mat(tmp_path / "a.mat", ("X",))
    (tmp_path / "b.mat").write_bytes((tmp_path / "a.mat").read_bytes()[:300])
    with refused(tmp_path / "b.mat"):
        read_mat(tmp_path / "b.mat", ("X",))
    import gzip

    (tmp_path / "a.gz").write_bytes(gzip.compress(b"\0" * 10**6))
    assert len(read_gzip(tmp_path / "a.gz")) == 10**6
    with budget(unpacked_bytes=1000), refused(tmp_path / "a.gz"):
        read_gzip(tmp_path / "a.gz")


@pytest.mark.parametrize(
    "header",
    [
        b"\xff" * 8,
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 40) + json.dumps({"__metadata__": {"a": 1}}).encode().ljust(40),
        struct.pack("<Q", 40_000) + b'{"a":' * 8000,
    ],
    ids=["long", "list", "numbers", "nested"],
)
def test_weights(header, tmp_path):
    path = tmp_path / "w.safetensors"
    path.write_bytes(header)
    with refused(path):
        load_tensors(path)
    if header[8:] != b"[]":
        with refused(path):
            read_metadata(path)


def test_torch_archives_that_grow_and_that_hold_arrays(tmp_path):
    path = tmp_path / "a.pt"
    torch.save({"a": torch.zeros(100_000)}, path)
    packed = io.BytesIO()
    with zipfile.ZipFile(path) as plain, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in plain.infolist():
            archive.writestr(entry.filename, plain.read(entry))
    path.write_bytes(packed.getvalue())
    with refused(path, "larger than the file"):
        load_archive(path)
    torch.save({"whitening": np.arange(6.0).reshape(2, 3)}, path)
    with refused(path, "it needs the code of numpy"):
        load_archive(path)
    np.testing.assert_array_equal(load_archive(path, arrays=True)["whitening"], np.arange(6.0).reshape(2, 3))
    torch.save({"whitening": np.array(["a", 1], object)}, path)
    with refused(path):
        load_archive(path, arrays=True)
