"""Labelled videos in the layouts that they are handed out in."""

import json

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.video.layouts import FOLDED, LAYOUTS, read_class_folders, read_kinetics, read_something, read_ucf101
from video.ata import fixtures


def test_kinetics_annotations_number_the_classes_by_name(tmp_path):
    fixtures.kinetics_annotations(tmp_path / "k")
    for split, folder in (("train", "train"), ("val", "val"), ("test", "val")):  # the test labels are not public
        data = read_kinetics(tmp_path / "k", split)
        assert data.classes == ("abseiling", "zumba dancing")
        assert data.labels == (0, 1)
        assert [p.parent.parent.name for p in data.paths] == [folder] * 2
        pixels, label = data[1]
        assert pixels.shape == (6, 3, 48, 64)
        assert (pixels.dtype, label) == (torch.uint8, 1)


def test_kinetics_videos_may_lie_in_one_folder_without_classes(tmp_path):
    fixtures.kinetics_annotations(tmp_path / "k")
    for file in (tmp_path / "k" / "val").glob("*/*.mp4"):
        file.rename(tmp_path / "k" / "val" / file.name)
    assert all(p.exists() for p in read_kinetics(tmp_path / "k", "val").paths)


def test_kinetics_lists_take_names_of_classes_where_there_are_some(tmp_path):
    fixtures.kinetics_lists(tmp_path / "k")
    assert read_kinetics(tmp_path / "k", "val").classes == ("0", "1")
    (tmp_path / "k" / "kinetics_400_labels.csv").write_text("id,name\n0,abseiling\n1,yoga\n2,zumba\n")
    assert read_kinetics(tmp_path / "k", "val").classes == ("abseiling", "yoga", "zumba")


def test_something_takes_templates_without_brackets_and_the_published_numbers(tmp_path):
    fixtures.something(tmp_path / "s")
    data = read_something(tmp_path / "s", "test")
    assert data.classes == ("Holding something", "Pushing something from left to right")
    assert data.labels == (1, 0)
    assert [p.name for p in data.paths] == ["100.webm", "101.webm"]


def test_something_may_come_as_folders_of_frames(tmp_path):
    fixtures.something(tmp_path / "s")
    folder = tmp_path / "s" / "20bn-something-something-v2"
    (folder / "100.webm").unlink()
    fixtures.frames(folder / "100")
    assert read_something(tmp_path / "s", "val")[0][0].shape == (3, 3, 48, 56)


def test_ucf101_takes_the_split_it_is_asked_for(tmp_path):
    fixtures.ucf101(tmp_path / "u")
    lists = tmp_path / "u" / "ucfTrainTestlist"
    (lists / "testlist02.txt").write_text("YoYo/v_YoYo_g08_c01.avi\n")
    assert [p.name for p in read_ucf101(tmp_path / "u", "test").paths] == [
        "v_ApplyEyeMakeup_g01_c01.avi", "v_YoYo_g01_c01.avi"
    ]  # fmt: skip
    second = FOLDED["ucf101"](tmp_path / "u", "test", 2)
    assert ([p.name for p in second.paths], second.labels) == (["v_YoYo_g08_c01.avi"], (1,))
    with pytest.raises(VergenceError, match=r"trainlist03\.txt does not exist"):
        FOLDED["ucf101"](tmp_path / "u", "train", 3)


def test_hmdb51_uses_ones_to_train_and_twos_to_test(tmp_path):
    fixtures.hmdb51(tmp_path / "h")
    for split, use in (("train", "1"), ("test", "2")):
        data = LAYOUTS["hmdb51"].read(tmp_path / "h", split)
        assert data.labels == (0, 1)
        assert all(p.stem.endswith(f"_{use}") for p in data.paths)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("train.csv", "label,youtube_id,time_start\na,b,1\n", "has no column 'time_end'"),
        ("train.csv", "label,youtube_id,time_start,time_end,split\na,b,x,2,train\n", "line 2 of .* has 'x'"),
        ("train.csv", "a.mp4 one\n", "line 1 of .* is not a path and a class number"),
        ("train.csv", "", "is empty"),
    ],
)
def test_bad_lists_are_refused_by_line(name, content, said, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(VergenceError, match=said):
        read_kinetics(tmp_path, "train")


def test_a_class_that_training_does_not_know_is_refused(tmp_path):
    fixtures.class_folders(tmp_path / "c")
    fixtures.video(tmp_path / "c" / "test" / "swim" / "a.mp4")
    with pytest.raises(VergenceError, match="has the class 'swim', which"):
        read_class_folders(tmp_path / "c", "test")
    fixtures.something(tmp_path / "s")
    path = tmp_path / "s" / "something-something-v2-train.json"
    path.write_text(json.dumps([{"id": "1", "template": "Eating [something]"}]))
    with pytest.raises(VergenceError, match="has the class 'Eating something'"):
        read_something(tmp_path / "s", "train")
