"""Readers of labelled pictures, fed data written without Vergence."""

import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from recognition.snl import fixtures
from vergence.core.errors import Several, VergenceError
from vergence.recognition.data import LAYOUTS, Viewed, middle, read_cub, read_lists
from vergence.recognition.settings import PictureView


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
    with pytest.raises(VergenceError, match="data_batch_3 has fewer pictures than its siblings"):
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
    with pytest.raises(VergenceError, match=said) as refusal:
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
    with pytest.raises(VergenceError, match=said):
        for split in ("train", "test"):
            LAYOUTS["folder"].read(tmp_path, split)


def test_cub_labels_and_splits_its_pictures_by_its_files(tmp_path):
    fixtures.cub(tmp_path)
    train, test = (LAYOUTS["cub"].read(tmp_path, split) for split in ("train", "test"))
    assert train.classes == ("001.Albatross", "002.Auklet", "003.Wren")
    assert (train.labels, test.labels) == ((0, 1, 2), (0, 1, 2))
    assert [p.name for p in train.paths] == ["Albatross_0001.jpg", "Auklet_0001.jpg", "Wren_0001.jpg"]
    assert [p.name for p in test.paths] == ["Albatross_0002.jpg", "Auklet_0002.jpg", "Wren_0002.jpg"]
    assert train[0][0].shape == (3, 40, 52)
    assert LAYOUTS["cub"].read(tmp_path / "CUB_200_2011", "val").paths == test.paths


def test_cub_birds_are_cut_out_by_their_boxes_when_asked(tmp_path):
    fixtures.cub(tmp_path)
    (tmp_path / "CUB_200_2011" / "bounding_boxes.txt").write_text(
        "".join(f"{n} 10.0 5.0 30.0 20.0\n" for n in range(1, 7))
    )
    whole, cut = (read_cub(tmp_path, "train", crop)[1][0] for crop in ("none", "box"))
    assert torch.equal(cut, whole[:, 5:25, 10:40])


def test_missing_birds_are_named_and_counted_and_refused_or_skipped_as_chosen(tmp_path):
    fixtures.cub(tmp_path)
    for name in ("001.Albatross/Albatross_0002.jpg", "003.Wren/Wren_0002.jpg"):
        (tmp_path / "CUB_200_2011" / "images" / name).unlink()
    with pytest.raises(Several, match=r"Albatross_0002.jpg does not exist, but .*images.txt lists it \(and 1 more"):
        read_cub(tmp_path, "test")
    data = read_cub(tmp_path, "test", missing="skip")
    assert (data.labels, len(data.skipped)) == ((1,), 2)
    assert read_cub(tmp_path, "train").skipped == ()
    (tmp_path / "CUB_200_2011" / "images" / "002.Auklet" / "Auklet_0001.jpg").unlink()
    with pytest.raises(VergenceError, match="the class '002.Auklet' of .* has no training pictures"):
        read_cub(tmp_path, "train", missing="skip")


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("image_class_labels.txt", "1 1\n2 1\n3 2\n5 3\n6 3\n", "no line for picture 4 .002.Auklet/Auklet_0002.jpg"),
        ("image_class_labels.txt", "1 1\n2 1\n3 2\n4 4\n5 3\n6 3\n", "the class 4, but classes.txt has 1 to 3"),
        ("image_class_labels.txt", "1 1\n2 1\n3 1\n4 1\n5 3\n6 3\n", "class '002.Auklet' .*no training pictures"),
        ("image_class_labels.txt", "1 1\n2 one\n", "line 2 of .*image_class_labels.txt is not a new number"),
        ("train_test_split.txt", "1 1\n2 0\n3 1\n4 0\n5 1\n6 2\n", "numbers other than 1"),
        ("train_test_split.txt", "1 1\n1 0\n", "line 2 of .*train_test_split.txt is not a new number"),
        ("train_test_split.txt", "".join(f"{n} 1\n" for n in range(1, 8)), "picture 7, which is not in images.txt"),
        ("classes.txt", "1 001.Albatross\n3 003.Wren\n", "from 1 on: there is no class 2"),
        ("images.txt", "", "images.txt is empty"),
    ],
)  # fmt: skip
def test_label_files_with_gaps_are_refused_in_a_sentence(tmp_path, file, text, said):
    fixtures.cub(tmp_path)
    (tmp_path / "CUB_200_2011" / file).write_text(text)
    with pytest.raises(VergenceError, match=said):
        LAYOUTS["cub"].read(tmp_path, "train")


def test_a_box_outside_its_picture_or_of_no_size_is_refused(tmp_path):
    fixtures.cub(tmp_path)
    boxes = tmp_path / "CUB_200_2011" / "bounding_boxes.txt"
    boxes.write_text("".join(f"{n} 90.0 5.0 30.0 20.0\n" for n in range(1, 7)))
    with pytest.raises(VergenceError, match="lies outside .*Albatross_0001.jpg"):
        read_cub(tmp_path, "train", "box")[0]
    boxes.write_text("1 1.0 5.0 0.0 20.0\n")
    with pytest.raises(VergenceError, match="line 1 of .*bounding_boxes.txt"):
        read_cub(tmp_path, "train", "box")


@pytest.mark.parametrize("augment", ["none", "flip", "pad-flip", "area-flip"])
def test_a_random_view_has_the_size_of_the_middle_and_follows_its_generator(augment):
    view = PictureView(size=24, resize=28, augment=augment)
    data = Viewed([(torch.randint(0, 256, (3, 40, 50), dtype=torch.uint8), 1)], view)
    assert data[0][0].shape == (3, 24, 24)
    one, two = (data.draw(0, torch.Generator().manual_seed(3))[0] for _ in range(2))
    assert torch.equal(one, two)
    assert one.shape == (3, 24, 24)
    if augment == "none":
        assert torch.equal(one, data[0][0])


def test_the_region_is_what_the_middle_sees():
    """A picture that is white in the region and black outside is white all over in the middle."""
    view = PictureView(size=20, resize=32, mean=(0, 0, 0), std=(1, 1, 1))
    left, top, side = view.region(64, 96)
    picture = torch.zeros(3, 64, 96)
    picture[:, round(top) : round(top + side), round(left) : round(left + side)] = 1
    seen = middle(view, picture)
    assert seen[:, 1:-1, 1:-1].min() > 0.99


def test_lists_name_pictures_labels_and_classes_after_their_folders(tmp_path):
    fixtures.imagenet_lists(tmp_path)
    training, testing = (read_lists(tmp_path, split) for split in ("train", "test"))
    assert training.classes == testing.classes == ("n01440764", "n01443537")
    assert [str(p.relative_to(tmp_path)) for p in testing.paths] == [
        "val/n01440764_00000293.JPEG",
        "val/n01443537_00000293.JPEG",
    ]
    assert testing.labels == (0, 1)
    assert testing.split == "val"
    assert training[1][0].shape == (3, 40, 52)


def test_lists_of_one_folder_number_their_classes_and_may_have_pictures_in_a_folder(tmp_path):
    (tmp_path / "images").mkdir()
    for name in ("a,b.png", "c.png"):
        Image.new("RGB", (9, 8)).save(tmp_path / "images" / name)
    (tmp_path / "cub_train.list").write_text("a,b.png,1\nc.png,0\n")
    data = read_lists(tmp_path, "train")
    assert data.classes == ("0", "1")
    assert [(p.name, label) for p, label in zip(data.paths, data.labels, strict=True)] == [("a,b.png", 1), ("c.png", 0)]


def test_a_listed_picture_that_is_missing_is_refused_or_left_out_as_chosen(tmp_path):
    fixtures.imagenet_lists(tmp_path)
    gone = tmp_path / "val" / "n01443537_00000293.JPEG"
    gone.unlink()
    with pytest.raises(VergenceError, match="n01443537_00000293.JPEG does not exist, but .*imagenet_val.list lists it"):
        read_lists(tmp_path, "val")
    data = read_lists(tmp_path, "val", missing="skip")
    assert data.labels == (0,)
    assert len(data.skipped) == 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("imagenet_val.list", "val/a.JPEG\n", "line 1 of .*imagenet_val.list is not a file and its label"),
        ("imagenet_val.list", "val/a.JPEG,-1\n", "line 1 of .* is not a file and its label, from 0 on"),
        ("imagenet_val.list", "val/a.JPEG,2\n", "gives val/a.JPEG the label 2, but the training list has 0 to 1"),
        ("imagenet_val.list", "../a.JPEG,1\n", "line 1 of .* names no file below the folder of the list"),
        ("imagenet_val.list", "/etc/a.JPEG,1\n", "names no file below the folder of the list"),
        ("imagenet_train.list", "train/a.JPEG,2\n", "the label 0 has no files in the training list"),
        ("other_val.list", "val/a.JPEG,0\n", "several lists for 'val': imagenet_val.list, other_val.list"),
    ],
)
def test_a_list_that_does_not_fit_is_refused_in_a_sentence(name, content, said, tmp_path):
    fixtures.imagenet_lists(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(VergenceError, match=said):
        read_lists(tmp_path, "val")
