"""Readers of labelled pictures, fed data written without Saccade."""

import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from recognition.snl import fixtures
from saccade.errors import SaccadeError
from saccade.recognition.data import LAYOUTS, View, Viewed


def test_cifar10_rows_become_pictures_in_channel_row_column_order(tmp_path):
    fixtures.cifar10_python(tmp_path)
    data = LAYOUTS["cifar10"].read(tmp_path, "train")
    assert len(data) == 20
    assert data.classes == tuple(f"class{i}" for i in range(10))
    stored = pickle.loads((tmp_path / "cifar-10-batches-py" / "data_batch_2").read_bytes())
    picture, label = data[5]
    assert label == stored[b"labels"][1]
    row = stored[b"data"][1]
    assert picture[2, 3, 4] == row[2 * 1024 + 3 * 32 + 4]


def test_both_forms_of_cifar10_are_the_same_data(tmp_path):
    fixtures.cifar10_python(tmp_path / "python")
    binary = tmp_path / "binary" / "cifar-10-batches-bin"
    binary.mkdir(parents=True)
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        stored = pickle.loads((tmp_path / "python" / "cifar-10-batches-py" / name).read_bytes())
        rows = np.concatenate([np.array(stored[b"labels"], np.uint8)[:, None], stored[b"data"]], 1)
        (binary / f"{name}.bin").write_bytes(rows.tobytes())
    for split in ("train", "test"):
        one, two = (LAYOUTS["cifar10"].read(tmp_path / form, split) for form in ("python", "binary"))
        assert torch.equal(one.images, two.images)
        assert torch.equal(one.labels, two.labels)


def test_cifar100_uses_the_fine_label(tmp_path):
    fixtures.cifar100_binary(tmp_path)
    data = LAYOUTS["cifar100"].read(tmp_path, "test")
    assert data.labels.tolist() == [0, 99, 42]
    assert data.classes[42] == "fine42"


def test_cifar100_python_uses_the_fine_label(tmp_path):
    for name in ("train", "test"):
        batch = {b"data": np.zeros((2, 3072), np.uint8), b"fine_labels": [99, 1], b"coarse_labels": [0, 0]}
        (tmp_path / name).write_bytes(pickle.dumps(batch, protocol=2))
    (tmp_path / "meta").write_bytes(pickle.dumps({b"fine_label_names": [b"n"] * 100}, protocol=2))
    assert LAYOUTS["cifar100"].read(tmp_path, "train").labels.tolist() == [99, 1]


def test_a_training_file_cut_at_the_end_of_a_row_is_noticed(tmp_path):
    fixtures.cifar10_binary(tmp_path)
    path = tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[: 3 * 3073])
    with pytest.raises(SaccadeError, match="data_batch_3 has fewer pictures than its siblings"):
        LAYOUTS["cifar10"].read(tmp_path, "train")


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ({b"data": np.zeros((1, 3072), np.uint8), b"labels": [10]}, "label outside 0 to 9"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]}, "1 labels for 2 pictures"),
        ({b"data": np.zeros((1, 3000), np.uint8), b"labels": [1]}, r"not bytes \(N, 3072\)"),
        ({b"data": np.zeros((1, 3072), np.float32), b"labels": [1]}, "not bytes"),
        ([1, 2], "not a CIFAR batch"),
    ],
)
def test_a_cifar_batch_that_does_not_fit_is_named(batch, said, tmp_path):
    fixtures.cifar10_python(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "data_batch_3").write_bytes(pickle.dumps(batch))
    with pytest.raises(SaccadeError, match=said) as refusal:
        LAYOUTS["cifar10"].read(tmp_path, "train")
    assert "data_batch_3" in str(refusal.value)


def test_class_folders_number_their_classes_by_the_training_folder(tmp_path):
    fixtures.class_folders(tmp_path)
    (tmp_path / "train" / "ant").mkdir()
    Image.new("RGB", (5, 5)).save(tmp_path / "train" / "ant" / "x.png")
    data = LAYOUTS["folder"].read(tmp_path, "test")
    assert data.classes == ("ant", "cat", "dog")
    assert sorted(data.labels) == [1, 1, 2, 2]
    assert LAYOUTS["folder"].read(tmp_path, "val").paths == data.paths  # test stands in for val


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda p: (p / "test" / "cow").mkdir(), "has the class 'cow'"),
        (lambda p: (p / "train" / "cow").mkdir(), "cow holds no pictures"),
        (lambda p: [f.unlink() for f in (p / "test").rglob("*.*")], "test holds no pictures"),
        (lambda p: (p / "train").rename(p / "trian"), "has no folder 'train'"),
    ],
)
def test_class_folders_that_do_not_fit_are_named(spoil, said, tmp_path):
    fixtures.class_folders(tmp_path)
    spoil(tmp_path)
    with pytest.raises(SaccadeError, match=said):
        for split in ("train", "test"):
            LAYOUTS["folder"].read(tmp_path, split)


@pytest.mark.parametrize("augment", ["none", "flip", "pad-flip", "area-flip"])
def test_a_random_view_has_the_size_of_the_middle_and_follows_its_generator(augment):
    view = View(size=24, resize=28, augment=augment)
    data = Viewed([(torch.randint(0, 256, (3, 40, 50), dtype=torch.uint8), 1)], view)
    assert data[0][0].shape == (3, 24, 24)
    one, two = (data.draw(0, torch.Generator().manual_seed(3))[0] for _ in range(2))
    assert torch.equal(one, two)
    assert one.shape == (3, 24, 24)
    if augment == "none":
        assert torch.equal(one, data[0][0])


def test_the_region_is_what_the_middle_sees():
    """A picture that is white in the region and black outside is white all over in the middle."""
    view = View(size=20, resize=32, mean=(0, 0, 0), std=(1, 1, 1))
    left, top, side = view.region(64, 96)
    picture = torch.zeros(3, 64, 96)
    picture[:, round(top) : round(top + side), round(left) : round(left + side)] = 1
    seen = view.middle(picture)
    assert seen[:, 1:-1, 1:-1].min() > 0.99
