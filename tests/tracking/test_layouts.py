"""Readers of sequences, and what they say of data that is not as it should be."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vergence.core.errors import VergenceError
from vergence.tracking.layouts import LAYOUTS, OTB_50, OTB_2013, OTB_REST, lasot_test, read_boxes

_spec = importlib.util.spec_from_file_location("tracks", Path(__file__).parent / "sesiam" / "fixtures.py")
written = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(written)


def read(name, path, split="test"):
    return LAYOUTS[name].read(path, split)


def test_one_based_boxes_become_zero_based(tmp_path):
    written.layouts["otb2013"](tmp_path)
    written.lasot(tmp_path / "lasot")
    for tracks in (read("otb2013", tmp_path), read("lasot", tmp_path / "lasot")):
        assert tracks.sequences[0].boxes[1].tolist() == [14, 10, 20, 20]


def test_a_frame_shows_its_target_where_the_box_says(tmp_path):
    for name in ("got10k", "otb100", "vot2018", "lasot"):
        written.layouts[name](tmp_path / name)
        track = read(name, tmp_path / name).sequences[0]
        x, y, w, h = track.boxes[2].round().astype(int)
        inside = track.frames[2][y : y + h, x : x + w].astype(int)
        assert np.abs(inside - [200, 180, 40]).mean() < 12, name  # JPEG


def test_commas_tabs_and_spaces_separate_numbers(tmp_path):
    (tmp_path / "a.txt").write_text("1,2,3,4\n5\t6\t7\t8\n9 10  11 12\n")
    assert read_boxes(tmp_path / "a.txt").tolist() == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]


def test_frames_in_which_the_target_is_hidden_do_not_count(tmp_path):
    written.got10k(tmp_path)
    folder = tmp_path / "val" / "GOT-10k_Val_000001"
    (folder / "absence.label").write_text("0\n1\n0\n")
    (folder / "cover.label").write_text("8\n8\n0\n")
    assert read("got10k", tmp_path).sequences[0].shown.tolist() == [0]


def test_a_sequence_of_vot_keeps_its_polygons_and_its_tags(tmp_path):
    written.vot(tmp_path)
    tracks = read("vot2016", tmp_path)
    assert tracks.protocol == "vot"
    assert tracks.lengths == (108, 371)
    assert tracks.sequences[0].polygons.shape == (3, 8)
    assert tracks.sequences[0].attributes == {"occlusion": True}


def test_attributes_of_otb_are_read_where_the_toolbox_has_them(tmp_path):
    written.layouts["otb2013"](tmp_path)
    (tmp_path / "anno" / "att").mkdir(parents=True)
    (tmp_path / "anno" / "att" / "Bolt.txt").write_text("0,1,0,0,0,0,0,0,0,0,1")
    held = read("otb2013", tmp_path).sequences[1].attributes
    assert [name for name, flag in held.items() if flag] == ["scale variation", "low resolution"]


def test_a_sequence_with_two_targets_is_two(tmp_path):
    written._frames(tmp_path / "Jogging" / "img", 3, "{:04d}.jpg")
    for number in (1, 2):
        written._boxes(tmp_path / "Jogging" / f"groundtruth_rect.{number}.txt", 3)
    assert [t.name for t in read("otb2013", tmp_path).sequences] == ["Jogging.1", "Jogging.2"]


def test_frames_without_boxes_are_left_out_where_otb_says_so(tmp_path):
    written._frames(tmp_path / "Football1" / "img", 76, "{:04d}.jpg", size=(16, 16))
    written._boxes(tmp_path / "Football1" / "groundtruth_rect.txt", 74)
    assert len(read("otb2013", tmp_path).sequences[0].frames.names) == 74


def test_the_benchmarks_have_as_many_sequences_as_published():
    two = {"Jogging", "Skating2"}

    def count(names):
        return sum(2 if name in two else 1 for name in names.split())

    assert count(OTB_2013) == 51
    assert count(OTB_50 + OTB_REST) == 100
    assert len(lasot_test()) == 280
    assert len({name.rpartition("-")[0] for name in lasot_test()}) == 70


def test_lasot_trains_on_what_it_does_not_test_on(tmp_path):
    written.lasot(tmp_path)
    names = [[t.name for t in read("lasot", tmp_path, split).sequences] for split in ("train", "test")]
    assert names == [["airplane-2"], ["airplane-9"]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1,2,3,4\n", "has 1 boxes, fewer than the 3 frames"),
        ("1,2,3,4\n" * 5, "has 5 boxes, more than the 3 frames"),
        ("1,2,3,4\n1,2,x,4\n", "has no box in line 2: '1,2,x,4'"),
        ("1,2,3,4\n1,2,3\n", "has 3 numbers in line 2"),
        ("nan,nan,nan,nan\n1,2,3,4\n1,2,3,4\n", "does not begin with a box"),
        ("1,2,0,4\n1,2,3,4\n1,2,3,4\n", "does not begin with a box"),
        ("\n", "is empty"),
    ],
)
def test_a_ground_truth_that_does_not_fit_is_one_sentence(tmp_path, text, said):
    written.one_folder(tmp_path)
    (tmp_path / "groundtruth_rect.txt").write_text(text)
    with pytest.raises(VergenceError) as refusal:
        read("folder", tmp_path)[0]
    assert said in str(refusal.value)
    assert "groundtruth_rect.txt" in str(refusal.value)


def test_unknown_boxes_later_on_are_frames_that_do_not_count(tmp_path):
    written.one_folder(tmp_path)
    (tmp_path / "groundtruth_rect.txt").write_text("12,10,20,20\nnan,nan,nan,nan\n0,0,0,0\n")
    track = read("folder", tmp_path).sequences[0]
    assert track.shown.tolist() == [0]
    assert read("folder", tmp_path)[1]["known"] == 0


def test_grey_frames_have_three_channels(tmp_path):
    written.one_folder(tmp_path)
    for file in tmp_path.glob("*.jpg"):
        Image.open(file).convert("L").save(file)
    assert read("folder", tmp_path).sequences[0].frames[1].shape == (48, 64, 3)


def test_the_same_files_are_known_to_be_the_same(tmp_path):
    written.vot(tmp_path)
    assert read("vot", tmp_path, "train").paths == read("vot", tmp_path, "test").paths
    assert read("vot", tmp_path).paths[4].name == "00000002.jpg"
