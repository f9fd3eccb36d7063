"""IDX files, written here byte by byte from their published description."""

import gzip
import struct

import numpy as np
import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.reading.budget import budget
from vergence.recognition.idx import MNIST, read_idx


def write_idx(path, array, code):
    path.parent.mkdir(parents=True, exist_ok=True)
    content = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_mnist(folder, packed="", mark="-", count=6):
    random = np.random.default_rng(0)
    for prefix in ("train", "t10k"):
        pictures = random.integers(0, 256, (count, 28, 28)).astype(np.uint8)
        write_idx(folder / f"{prefix}-images{mark}idx3-ubyte{packed}", pictures, 8)
        labels = (np.arange(count) % 10).astype(np.uint8)
        write_idx(folder / f"{prefix}-labels{mark}idx1-ubyte{packed}", labels, 8)


@pytest.mark.parametrize(
    ("code", "kind"), [(8, "u1"), (9, "i1"), (0x0B, ">i2"), (0x0C, ">i4"), (0x0D, ">f4"), (0x0E, ">f8")]
)
def test_every_type_of_value_is_read_in_its_own_byte_order(code, kind, tmp_path):
    values = np.array([[1, 2, 3], [100, 101, 127]]).astype(kind)
    for name in ("plain", "packed.gz"):
        write_idx(tmp_path / name, values, code)
        array = read_idx(tmp_path / name)
        assert array.dtype == np.dtype(kind).newbyteorder("=")
        assert array.tolist() == [[1, 2, 3], [100, 101, 127]]


@pytest.mark.parametrize(("packed", "mark"), [("", "-"), (".gz", "-"), ("", ".")])
@pytest.mark.parametrize("inner", [".", "raw", "MNIST/raw"])
def test_mnist_is_found_as_it_is_published(inner, packed, mark, tmp_path):
    write_mnist(tmp_path / inner, packed, mark)
    train, test = (MNIST.read(tmp_path, split) for split in ("train", "test"))
    assert train.images.shape == (6, 3, 28, 28)
    assert train.images.untyped_storage().nbytes() == 6 * 28 * 28  # one channel of memory
    assert train.labels.tolist() == [0, 1, 2, 3, 4, 5]
    assert not torch.equal(train.images, test.images)
    assert torch.equal(MNIST.read(tmp_path, "val").images, test.images)
    expected = np.random.default_rng(0).integers(0, 256, (6, 28, 28))
    assert train[2][0][1, 3, 4] == expected[2, 3, 4]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "first four bytes"),
        (b"\0\0\x07\1\0\0\0\0", "first four bytes"),
        (b"\0\0\x08\0", "first four bytes"),
        (b"\0\0\x08\3\0\0\0\1", "ends within its header"),
        (b"\0\0\x08\1\0\0\0\4abc", "promises 4 bytes .* and 3 follow"),
        (b"\0\0\x08\1\0\0\0\2abc", "promises 2 bytes .* and 3 follow"),
        (b"\0\0\x08\2\xff\xff\xff\xff\xff\xff\xff\xff", "more than the limit"),
    ],
)
def test_a_damaged_file_is_refused_in_one_sentence(content, said, tmp_path):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(VergenceError, match=said):
        read_idx(tmp_path / "file")


def test_a_truncated_gzip_file_and_a_bomb_are_refused(tmp_path):
    packed = gzip.compress(b"\0\0\x08\1\0\0\0\4abcd")
    (tmp_path / "short.gz").write_bytes(packed[:-6])
    with pytest.raises(VergenceError, match="not a complete IDX file"):
        read_idx(tmp_path / "short.gz")
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(10**6)))
    with budget(unpacked_bytes=10**5), pytest.raises(VergenceError, match="unpacked"):
        read_idx(tmp_path / "bomb.gz")


@pytest.mark.parametrize(
    ("name", "array", "code", "said"),
    [
        ("labels-idx1", np.array([0, 1, 2, 3, 4, 10], np.uint8), 8, "label outside 0 to 9"),
        ("labels-idx1", np.array([0, 1], np.uint8), 8, r"shape \(2,\) for 6 pictures"),
        ("images-idx3", np.zeros((6, 28), np.uint8), 8, "expected bytes"),
        ("images-idx3", np.zeros((0, 28, 28), np.uint8), 8, "expected bytes"),
        ("images-idx3", np.zeros((6, 28, 28), ">f4"), 13, "expected bytes"),
    ],
)
def test_files_that_do_not_fit_together_are_named(name, array, code, said, tmp_path):
    write_mnist(tmp_path)
    write_idx(tmp_path / f"train-{name}-ubyte", array, code)
    with pytest.raises(VergenceError, match=said):
        MNIST.read(tmp_path, "train")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(VergenceError, match="has no file train-images-idx3-ubyte"):
        MNIST.read(tmp_path, "train")
    write_mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(VergenceError, match="has no file t10k-labels-idx1-ubyte"):
        MNIST.read(tmp_path, "test")
