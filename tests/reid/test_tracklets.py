"""Readers of tracklets, fed files written without Vergence; the clips that are taken of them; how they are judged."""

import numpy as np
import pytest
import torch
from scipy.io import savemat

from reid.tracklet_layouts import ilids, layouts, listed_prid, mars, plain, prid
from vergence.core.errors import Several, VergenceError
from vergence.metrics.ranking import rank_descriptors
from vergence.reid.data import judged, whole
from vergence.reid.settings import PersonView
from vergence.reid.tracklet_layouts import LAYOUTS, read_ilidsvid, read_mars, read_prid2011
from vergence.reid.tracklets import BalancedClips, Clips, all_runs, run_of
from vergence.tools import datacheck

FORMS = [(name, form) for name, writers in layouts.items() for form in (writers if isinstance(writers, dict) else [""])]


def written(name, form, path):
    writer = layouts[name]
    (writer[form] if form else writer)(path)
    return path


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_every_file_cut_short_is_named(tmp_path, name, form):
    path = written(name, form, tmp_path / "data")

    def read():
        return [data[i] for s in ("train", "test") for data in [LAYOUTS[name].read(path, s)] for i in range(len(data))]

    assert read()
    for file in sorted(p for p in path.rglob("*") if p.is_file()):
        content = file.read_bytes()
        for length in (0, 1, len(content) // 2 + 1):
            file.write_bytes(content[:length])
            with pytest.raises(VergenceError) as refusal:
                read()
            assert file.name in str(refusal.value), f"{file.name} cut to {length}: {refusal.value}"
        file.write_bytes(content)


# MARS ----------------------------------------------------------------------------------------------------------------


def test_mars_trains_on_tracks_with_identities_from_zero(tmp_path):
    mars(tmp_path)
    data = LAYOUTS["mars"].read(tmp_path, "train")
    assert (data.identities, data.cameras) == ((0, 0, 1, 1), (1, 2, 1, 6))
    assert [data.length(i) for i in range(4)] == [3, 2, 1, 2]
    assert data[0].clip.shape == (3, 3, 16, 8)
    assert [p.name for p in data.tracklets[1].frames] == ["0001C2T0002F001.jpg", "0001C2T0002F002.jpg"]


def test_mars_asks_for_the_query_tracks_leaves_out_junk_and_keeps_distractors(tmp_path):
    mars(tmp_path)
    data = LAYOUTS["mars"].read(tmp_path, "test")
    assert data.queries == 2
    assert data.identities == (4, 2, 0, 2, 4)  # the queries in the order they are listed in, then the others
    assert data.cameras == (2, 1, 2, 3, 5)


def mat(file, **tables):
    """Spoils a file by other tables, or by none of them."""
    return lambda info: savemat(info / file, {name: np.array(table) for name, table in tables.items()})


def cut(file, length):
    return lambda info: (info / file).write_bytes((info / file).read_bytes()[:length])


QUERY, TRACKS, NAMES = "query_IDX.mat", "tracks_test_info.mat", "test_name.txt"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda info: (info / TRACKS).write_bytes(b"not a matrix"), "info.mat is not a complete .mat file"),
        (cut(TRACKS, 150), "tracks_test_info.mat is not a complete .mat file"),
        (
            lambda info: (info / TRACKS).write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM" + bytes(400)),
            "7.3: expected",
        ),
        (cut(TRACKS, 0), "tracks_test_info.mat is not a complete .mat file"),
        (lambda info: (info / QUERY).unlink(), "query_IDX.mat does not exist"),
        (mat(QUERY, other=[[1]]), "query_IDX.mat has no table 'query_IDX'"),
        (mat(QUERY, query_IDX=[["a"]]), "not an array of real numbers"),
        (mat(QUERY, query_IDX=[[1.5]]), "not a table of whole numbers"),
        (mat(QUERY, query_IDX=[[7]]), "does not name tracks 1 to 6"),
        (mat(QUERY, query_IDX=[[3, 3]]), "each at most once"),
        (mat(TRACKS, track_test_info=[[1, 2, 3]] * 6), "rows of 3 numbers"),
        (mat(TRACKS, track_test_info=[[3, 2, 0, 2]] * 6), "track 5 .*pictures 3 to 2, but .*names 1 to 14"),
        (mat(TRACKS, track_test_info=[[5, 7, 0, 2]] * 6), "identity 0 in camera 2, but has the picture 0002C1"),
        (lambda info: (info / NAMES).write_text("holiday.jpg\n" * 14), "'holiday.jpg' .*is not a name like"),
        (lambda info: (info / NAMES).write_bytes(b"\xff\xfe" * 9), "cannot be read: .*utf-8"),
        (lambda info: (info / NAMES).unlink(), "test_name.txt does not exist"),
        (lambda info: info.rename(info.with_name("information")), "has no folder 'info'"),
    ],
)
def test_what_is_wrong_with_mars_is_said_in_a_sentence(tmp_path, spoil, said):
    mars(tmp_path)
    spoil(tmp_path / "info")
    with pytest.raises(VergenceError, match=said):
        LAYOUTS["mars"].read(tmp_path, "test")


def test_missing_pictures_are_named_and_counted_and_refused_or_skipped_as_chosen(tmp_path):
    mars(tmp_path)
    for name in ("0001C1T0001F002.jpg", "0001C2T0002F001.jpg", "0001C2T0002F002.jpg"):
        (tmp_path / "bbox_train" / "0001" / name).unlink()
    with pytest.raises(Several, match=r"0001C1T0001F002.jpg does not exist, but .*train_name.txt lists it.*2 more"):
        read_mars(tmp_path, "train")
    data = read_mars(tmp_path, "train", missing="skip")
    assert [p.name[-8:] for p in data.tracklets[0].frames] == ["F001.jpg", "F003.jpg"]
    assert data.identities == (0, 1, 1)  # a tracklet without a picture is gone
    assert len(data.skipped) == 3
    assert all("does not exist" in said for said in data.skipped)


def test_a_query_that_is_skipped_is_not_counted(tmp_path):
    mars(tmp_path)
    for file in (tmp_path / "bbox_test" / "0004").glob("0004C2*"):
        file.unlink()
    data = read_mars(tmp_path, "test", missing="skip")
    assert (data.queries, data.identities) == (1, (2, 0, 2, 4))


def test_no_tracklets_at_all_are_refused_even_when_skipping(tmp_path):
    mars(tmp_path)
    for file in (tmp_path / "bbox_train").rglob("*.jpg"):
        file.unlink()
    with pytest.raises(VergenceError, match="has no tracklets for training"):
        read_mars(tmp_path, "train", missing="skip")


def test_a_tracklet_data_set_can_be_checked(tmp_path):
    mars(tmp_path)
    found = datacheck.check(f"mars:{tmp_path}", "snl")
    assert found.whole
    assert [split.samples for split in found.readers[0].splits] == [4, 5, 5]
    (tmp_path / "bbox_train" / "0001" / "0001C1T0001F002.jpg").write_bytes(b"")
    (problem,) = datacheck.check(f"mars:{tmp_path}", "snl").problems
    assert "0001C1T0001F002.jpg is not a readable picture" in problem


# iLIDS-VID -----------------------------------------------------------------------------------------------------------


def test_ilids_trains_on_both_cameras_and_asks_the_second_for_who_is_in_the_first(tmp_path):
    ilids(tmp_path)
    train = read_ilidsvid(tmp_path, "train", fold=2)
    assert (train.identities, train.cameras) == ((0, 1, 0, 1), (0, 0, 1, 1))
    assert [train.length(i) for i in range(4)] == [1, 4, 1, 4]
    test = read_ilidsvid(tmp_path, "test", fold=2)
    assert (test.queries, test.identities, test.cameras) == (2, (0, 1, 0, 1), (0, 0, 1, 1))
    assert [p.parent.name for p in test.paths] == ["person002", "person003"] * 2


def test_the_first_half_of_a_row_of_the_matlab_splits_is_judged(tmp_path):
    ilids(tmp_path, form="mat")
    people = {
        split: {p.parent.name for p in read_ilidsvid(tmp_path, split, fold=2).paths} for split in ("train", "test")
    }
    assert people == {"test": {"person003", "person002"}, "train": {"person004", "person001"}}
    assert {p.parent.name for p in LAYOUTS["ilids-vid"].read(tmp_path, "val").paths} == {"person001", "person002"}


@pytest.mark.parametrize(
    ("splits", "said"),
    [
        ("{", "splits.json"),
        ("{}", "not a list of splits"),
        ("[]", "has splits 1 to 0, got 1"),
        ('[{"train": ["person001"]}]', "split 1 .*does not name people for 'test'"),
        ('[{"train": ["person001"], "test": ["person001"]}]', "'person001' in both train and test"),
        ('[{"train": ["person001"], "test": ["person002", "person002"]}]', "names someone twice"),
        ('[{"train": ["person001"], "test": ["person009"]}]', "person009 does not exist, but .*lists it.*1 more"),
    ],
)  # fmt: skip
def test_splits_that_make_no_sense_are_refused_in_a_sentence(tmp_path, splits, said):
    ilids(tmp_path)
    (tmp_path / "splits.json").write_text(splits)
    with pytest.raises(VergenceError, match=said):
        read_ilidsvid(tmp_path, "test")


def test_a_person_without_pictures_is_named_or_skipped(tmp_path):
    ilids(tmp_path)
    (tmp_path / "i-LIDS-VID/sequences/cam2/person001/cam2_person001_00000.png").unlink()
    with pytest.raises(VergenceError, match="cam2/person001 holds no pictures, but .*lists it"):
        read_ilidsvid(tmp_path, "train", fold=2)
    data = read_ilidsvid(tmp_path, "train", fold=2, missing="skip")
    assert (data.identities, len(data.skipped)) == ((0, 1, 1), 1)


def test_matlab_splits_for_other_people_are_refused(tmp_path):
    ilids(tmp_path, people=5, form="mat")
    with pytest.raises(VergenceError, match="does not have each of the 5 people of both cameras once, but 4 numbers"):
        read_ilidsvid(tmp_path, "train")


def test_ilids_without_a_split_file_says_which_it_looked_for(tmp_path):
    ilids(tmp_path)
    (tmp_path / "splits.json").unlink()
    with pytest.raises(VergenceError, match="neither splits.json nor train-test people splits"):
        read_ilidsvid(tmp_path, "train")


# PRID-2011 -----------------------------------------------------------------------------------------------------------


def test_prid_takes_who_has_more_than_27_frames_in_both_cameras_of_the_first_200(tmp_path):
    prid(tmp_path, {
        "cam_a": {1: 28, 2: 27, 3: 30, 4: 28, 5: 28, 201: 40},
        "cam_b": {1: 28, 2: 40, 3: 27, 4: 40, 5: 28, 6: 40, 201: 40},
    })  # fmt: skip
    seen = {}
    for fold in range(1, 11):
        parts = [read_prid2011(tmp_path, split, fold) for split in ("train", "test")]
        people = [{p.parent.name for p in part.paths} for part in parts]
        assert people[0] | people[1] == {"person_0001", "person_0004", "person_0005"}
        assert not people[0] & people[1]
        seen[fold] = frozenset(people[1])
        assert (len(people[1]), parts[1].queries) == (1, 1)
    assert len(set(seen.values())) > 1


def test_prid_follows_a_split_file_where_there_is_one(tmp_path):
    listed_prid(tmp_path)
    test = LAYOUTS["prid2011"].read(tmp_path, "test")
    assert (test.queries, [p.parent.name for p in test.paths]) == (2, ["person_0003", "person_0004"] * 2)


# Plain folders -------------------------------------------------------------------------------------------------------


def test_plain_folders_of_frames_take_any_word_as_identity(tmp_path):
    plain(tmp_path)
    assert LAYOUTS["folder"].read(tmp_path, "train").identities == (0, 0, 1)
    test = LAYOUTS["folder"].read(tmp_path, "test")
    assert (test.queries, test.identities, test.cameras) == (1, (0, 0, 1), (1, 2, 1))
    (tmp_path / "query" / "cy_3").mkdir()
    with pytest.raises(VergenceError, match="cy_3 holds no pictures"):
        LAYOUTS["folder"].read(tmp_path, "test")
    (tmp_path / "query" / "cy_3").rename(tmp_path / "query" / "holiday")
    with pytest.raises(VergenceError, match="holiday is not named like ID_CAMERA_anything"):
        LAYOUTS["folder"].read(tmp_path, "test")


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_folder_that_is_something_else_is_refused_in_a_sentence(tmp_path, name):
    with pytest.raises(VergenceError, match="has no folder"):
        LAYOUTS[name].read(tmp_path, "train")
    (tmp_path / "file").write_text("")
    with pytest.raises(VergenceError, match="is not a folder: expected"):
        LAYOUTS[name].read(tmp_path / "file", "train")


# Clips ---------------------------------------------------------------------------------------------------------------


def test_a_training_clip_is_a_run_of_frames_from_any_start():
    draws = [tuple(run_of(6, 4, torch.Generator().manual_seed(s))) for s in range(50)]
    assert set(draws) == {(0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5)}
    assert run_of(3, 4, torch.Generator()) == [0, 1, 2, 0]
    assert run_of(1, 4, torch.Generator()) == [0, 0, 0, 0]


def test_test_clips_have_every_frame_and_the_last_starts_again():
    assert all_runs(8, 4) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert all_runs(6, 4) == [[0, 1, 2, 3], [4, 5, 4, 5]]
    assert all_runs(1, 4) == [[0, 0, 0, 0]]
    assert [run[0] for run in all_runs(40, 4, most=2)] == [8, 28]


@pytest.fixture
def clips(tmp_path):
    mars(tmp_path)
    view = PersonView(32, 16, flip=True, pad=2, mean=(0.5,) * 3, std=(0.25,) * 3)
    return BalancedClips(LAYOUTS["mars"].read(tmp_path, "train"), view, frames=2, each=2)


def test_all_clips_of_a_tracklet_come_by_index_and_one_when_drawn(clips):
    assert clips[0].clip.shape == (2, 2, 3, 32, 16)
    assert clips[2].clip.shape == (1, 2, 3, 32, 16)
    assert torch.equal(clips[2].clip[0, 0], clips[2].clip[0, 1])  # of one frame: it repeats
    torch.testing.assert_close(clips[0].clip[1, 0], whole(clips.view, clips.data[0].clip[2]))
    drawn = [clips.draw(0, torch.Generator().manual_seed(s)).clip for s in (0, 0, 1)]
    assert drawn[0].shape == (2, 3, 32, 16)
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_the_frames_of_a_drawn_clip_get_one_view(clips):
    """Of one frame, repeated, all are alike after cropping and mirroring."""
    for seed in range(8):
        first, second = clips.draw(2, torch.Generator().manual_seed(seed)).clip
        assert torch.equal(first, second)


def test_batches_hold_identities_and_pool_clips_to_tracklets(clips):
    (batch,) = clips.batches(4, torch.Generator().manual_seed(0))
    assert sorted(clips.data.identities[i] for i in batch) == [0, 0, 1, 1]
    made = clips.collate([clips[0], clips[2], clips[3]])
    assert made.clips.shape == (4, 2, 3, 32, 16)
    assert (made.counts.tolist(), made.identity.tolist(), made.camera.tolist()) == ([2, 1, 1], [0, 1, 1], [1, 1, 6])
    features = torch.tensor([[1.0, 0], [3, 4], [5, 6], [7, 8]])
    assert made.pooled(features).tolist() == [[2, 2], [5, 6], [7, 8]]
    drawn = clips.collate([clips.draw(i, torch.Generator().manual_seed(0)) for i in range(3)])
    assert drawn.clips.shape == (3, 2, 3, 32, 16)
    assert drawn.counts.tolist() == [1, 1, 1]


def test_clips_that_make_no_sense_are_refused(clips):
    with pytest.raises(VergenceError, match="clips of tracklets have 1 to 1024 frames"):
        Clips(clips.data, clips.view, frames=0)


def test_tracklets_are_judged_without_those_of_the_same_camera(tmp_path):
    mars(tmp_path)
    queries, gallery = judged(LAYOUTS["mars"].read(tmp_path, "test"))
    # Queries 4 (camera 2) and 2 (camera 1); gallery 0, 2 (camera 3), 4 (camera 5).
    asked, ranked = torch.tensor([[0.0], [10.0]]), torch.tensor([[1.0], [12.0], [2.0]])
    found = rank_descriptors(asked, ranked, queries, gallery)
    assert found.first.tolist() == [2, 1]
    assert found.precision.tolist() == [0.5, 1.0]
