"""The reader of Tiny-ImageNet-200, fed files written without Vergence."""

import pytest

from recognition.categorystructure.fixtures import NUMBERS, tiny_imagenet
from vergence.core.errors import VergenceError
from vergence.recognition.tiny_imagenet import read_tiny_imagenet


@pytest.fixture
def folder(tmp_path):
    tiny_imagenet(tmp_path)
    return tmp_path / "tiny-imagenet-200"


def test_training_pictures_have_the_order_of_the_list_of_classes(folder):
    (folder / "wnids.txt").write_text("\n".join(reversed(NUMBERS)))
    data = read_tiny_imagenet(folder, "train")
    assert data.classes == ("bullfrog", "European fire salamander", "goldfish")
    assert len(data) == 6
    assert [path.name[:9] for path in data.paths[:2]] == [NUMBERS[2]] * 2
    assert data.labels == (0, 0, 1, 1, 2, 2)
    assert data[1][0].shape == (3, 64, 64)  # grey in the file


def test_validation_labels_come_from_the_annotations_and_stand_in_for_the_test(folder):
    for split in ("val", "test"):
        data = read_tiny_imagenet(folder.parent, split)
        assert [path.name for path in data.paths] == ["val_0.JPEG", "val_1.JPEG", "val_2.JPEG"]
        assert data.labels == (2, 1, 0)
        assert data.split == "val"


def test_two_classes_of_one_name_are_told_apart_and_names_may_be_missing(folder):
    (folder / "words.txt").write_text("".join(f"{n}\tfrog, number {n}\n" for n in NUMBERS))
    assert read_tiny_imagenet(folder, "train").classes[0] == f"frog ({NUMBERS[0]})"
    (folder / "words.txt").unlink()
    assert read_tiny_imagenet(folder, "train").classes == NUMBERS


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("wnids.txt", "n01443537\nn01443537\n", "each once"),
        ("wnids.txt", "goldfish\n", "'goldfish', which is no number of WordNet"),
        ("words.txt", "n01443537 goldfish\n", "line 1 of .*words.txt is not a number, a tab and words"),
        ("words.txt", "n01443537\tgoldfish\n", "no line for n01629819"),
        ("val/val_annotations.txt", "val_0.JPEG\tn99999999\t0\t0\t9\t9\n", "line 1 of .*not a picture, a class"),
        ("val/val_annotations.txt", "val_9.JPEG\tn01443537\t0\t0\t9\t9\n", "val_9.JPEG does not exist, but"),
        ("val/val_annotations.txt", "val_1.JPEG\tn01443537\t0\t0\t9\t9\n", "no line for val_0.JPEG"),
    ],
)
def test_lists_that_make_no_sense_are_refused(folder, file, text, said):
    (folder / file).write_text(text)
    with pytest.raises(VergenceError, match=said):
        read_tiny_imagenet(folder, "val")


def test_a_class_without_training_pictures_is_refused(folder):
    for path in (folder / "train" / NUMBERS[1] / "images").iterdir():
        path.unlink()
    with pytest.raises(VergenceError, match=f"{NUMBERS[1]}.*holds no pictures"):
        read_tiny_imagenet(folder, "train")
