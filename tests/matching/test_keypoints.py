"""Sets of pictures with keypoints: filters, outliers, what is drawn, and files of keypoints."""

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.matching.creatures import KINDS, points_of, shot
from vergence.matching.keypoints import Listed, Marked, Pool, Sets, padded, truth
from vergence.matching.marked import read_keypoints, without_willow


def marked(kind, names, value=0):
    places = {name: ((number + 1) / 9, (number * number % 7 + 1) / 9) for number, name in enumerate(names)}
    return Marked(kind, torch.full((3, 16, 16), value, dtype=torch.uint8), places)


POOL = Pool(
    (marked("a", "pqrs", 1), marked("a", "qrst", 2), marked("a", "pqrst", 3), marked("b", "xy"), marked("b", "xyz"))
)


def names(sample, pool=POOL):
    """The labels are numbers of sorted names."""
    return [set(own.tolist()) for own in sample["labels"]]


def test_each_filter_keeps_what_it_says():
    for index in range(8):
        first, second = names(Sets(POOL, 8, 16, filter="intersection")[index])
        assert first == second
        assert len(first) >= 2
        first, second = names(Sets(POOL, 8, 16, filter="inclusion")[index])
        assert first <= second
    lengths = {tuple(map(len, Sets(POOL, 20, 16)[index]["points"])) for index in range(20)}
    assert {(4, 4), (4, 5), (2, 3)} & lengths


def test_samples_for_evaluation_are_always_the_same_and_their_kinds_take_turns():
    sets = Sets(POOL, 6, 16)
    for index in range(6):
        one, again = sets[index], sets[index]
        assert one["kind"] == index % 2
        assert all(torch.equal(a, b) for a, b in zip(one["points"], again["points"], strict=True))
    drawn = [sets.draw(0, torch.Generator().manual_seed(seed))["kind"] for seed in range(12)]
    assert set(drawn) == {0, 1}


def test_outliers_match_nothing_and_most_is_a_limit():
    sets = Sets(POOL, 6, 16, most=3, outliers=0.99)
    sample = sets[0]
    assert max(map(len, sample["points"])) == 3
    assert float(truth(sets.collate([sample])["labels"], 0, 1).sum()) == 0
    assert all(((own >= 0) & (own <= 16)).all() for own in sample["points"])


def test_truth_joins_keypoints_of_one_name_in_a_padded_batch():
    sets = Sets(POOL, 4, 16)
    batch = sets.collate([sets[0], sets[1]])
    for row, sample in enumerate((sets[0], sets[1])):
        expected = sample["labels"][0].unsqueeze(1) == sample["labels"][1]
        own = truth(batch["labels"], 0, 1)[row]
        n, m = expected.shape
        assert torch.equal(own[:n, :m].bool(), expected)
        assert float(own.sum()) == float(expected.sum())
    assert (batch["edges"][1, 0, 2:] == -1).all()  # two points have two directed edges


def test_pictures_that_cannot_make_sets_are_refused():
    with pytest.raises(VergenceError, match="sets of 3 need"):
        Sets(POOL, 4, 16, views=3)
    with pytest.raises(VergenceError, match="listed pairs have 2"):
        Sets(Listed(((POOL.pictures[0], POOL.pictures[1]),)), 1, 16, views=5)
    apart = Pool((marked("a", "pq"), marked("a", "rs")))
    with pytest.raises(VergenceError, match="no 2 pictures of kind 'a'"):
        Sets(apart, 4, 16, filter="intersection")[0]


def test_a_box_is_cut_out_and_one_outside_is_refused():
    picture = torch.zeros(3, 20, 30, dtype=torch.uint8)
    picture[:, 5:15, 10:20] = 200
    assert float(Marked("a", picture, {}, (10, 5, 10, 10)).crop(8).min()) == pytest.approx(200 / 255, abs=0.1)
    with pytest.raises(VergenceError, match="no pixels in the box"):
        Marked("a", picture, {}, (40, 5, 10, 10)).crop(8)


def test_padding_takes_sets_without_edges():
    batch = padded([[torch.zeros(1, 2), torch.ones(1, 2)]])
    assert batch["edges"].shape == (1, 2, 1, 2)
    assert (batch["edges"] == -1).all()


# Files ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("a.csv", "name,x,y\nnose,3,4\n2,5.5,6\n"),
        ("a.csv", "y,x,name\n4,3,nose\n6,5.5,2\n"),
        ("a.json", '{"nose": [3, 4], "2": [5.5, 6]}'),
        ("a.json", '{"keypoints": [{"name": "nose", "x": 3, "y": 4}, {"x": 5.5, "y": 6}]}'),
    ],
)
def test_keypoints_are_read_in_every_form(file, content, tmp_path):
    (tmp_path / file).write_text(content)
    points = read_keypoints(tmp_path / file)
    assert [(p.name, p.x, p.y) for p in points] == [("nose", 3, 4), ("2", 5.5, 6)]
    (tmp_path / "plain.csv").write_text("3,4\n5.5,6\n")
    assert [(p.name, p.x) for p in read_keypoints(tmp_path / "plain.csv")] == [("1", 3), ("2", 5.5)]


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("a.csv", "x,y\n1,2\n3\n", "its point 2 is not"),
        ("a.csv", "x,y\n1,nan\n", "not finite: number 1"),
        ("a.csv", "name,x,y\np,1,2\np,3,4\n", "two keypoints of the name 'p'"),
        ("a.json", "[[1, 2], 3]", "its point 2 is not"),
        ("a.json", "5", "is not a file of keypoints"),
        ("a.json", '{"nose": 3}', "its point 1 is not"),
    ],
)
def test_files_that_are_no_keypoints_are_refused(file, content, said, tmp_path):
    (tmp_path / file).write_text(content)
    with pytest.raises(VergenceError, match=said) as refusal:
        read_keypoints(tmp_path / file)
    assert file in str(refusal.value)


def test_pictures_of_willow_are_left_out_by_year_and_kind(tmp_path):
    rows = [("car", "2007_1.jpg"), ("car", "2008_1.jpg"), ("cat", "2007_2.jpg"), ("motorbike", "2007_3.jpg")]
    pool = Pool(tuple(Marked(kind, tmp_path / name, {}) for kind, name in rows))
    assert [one.picture.name for one in without_willow(pool).pictures] == ["2008_1.jpg", "2007_2.jpg"]


# Rendered things ------------------------------------------------------------------------------------------------------


def test_keypoints_are_where_parts_are():
    for name, kind in KINDS.items():
        parts = kind.make(torch.Generator().manual_seed(3))
        places = dict(zip(kind.places, points_of(kind, parts), strict=True))
        assert len(places) == len(kind.places) >= 10, name
        for key, place in places.items():
            if key.startswith("left "):
                other = places["right " + key.removeprefix("left ")]
                assert float(place[0]) == pytest.approx(-float(other[0]), abs=0.02)  # sides are mirrored
                assert float(place[0]) < 0
            if key.startswith("front "):
                assert float(place[2]) > float(places["hind " + key.removeprefix("front ")][2])
    paw = points_of(KINDS["animal"], KINDS["animal"].make(torch.Generator().manual_seed(0)))
    lowest = dict(zip(KINDS["animal"].places, paw[:, 1].tolist(), strict=True))
    assert lowest["left front paw"] == pytest.approx(0, abs=0.06)
    assert lowest["head"] < lowest["back"] < lowest["left front paw"]


def test_seen_keypoints_are_inside_and_some_are_hidden():
    one = shot("car", 32, torch.Generator().manual_seed(1))
    assert one.picture.shape == (3, 32, 32)
    assert ((one.points[one.seen] >= 0) & (one.points[one.seen] <= 31)).all()
    assert 3 <= int(one.seen.sum()) < len(one.seen)
