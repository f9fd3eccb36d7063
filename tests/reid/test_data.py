"""Readers of re-identification data, fed files written without Vergence; samplers; views."""

import pytest
import torch

from reid import picture_layouts as fixtures
from vergence.core.errors import VergenceError
from vergence.reid.data import LAYOUTS, Balanced, Viewed, augmented, judged, whole
from vergence.reid.settings import PersonView


def read(name, path, split, form=None):
    writer = fixtures.layouts[name]
    (writer[form] if form else writer)(path)
    return LAYOUTS[name].read(path, split)


def test_market_names_say_identity_and_camera(tmp_path):
    data = read("market1501", tmp_path, "test")
    assert data.queries == 2
    assert data.identities == (3, 4, 0, 3, 4)
    assert data.cameras == (1, 1, 1, 3, 2)


def test_training_identities_count_from_zero(tmp_path):
    data = read("market1501", tmp_path, "train")
    assert data.identities == (0, 0, 1)
    assert data.cameras == (1, 2, 3)
    assert data[0].picture.shape == (3, 64, 24)


def test_junk_is_left_out_and_distractors_stay(tmp_path):
    fixtures.market1501(tmp_path)
    for name in ("-1_c1s1_000401_03.jpg", "-1_c6s1_000401_04.jpg"):
        fixtures.picture(tmp_path / "bounding_box_test" / name)
    _, gallery = judged(LAYOUTS["market1501"].read(tmp_path, "test"))
    assert sorted(gallery.identities.tolist()) == [0, 3, 4]


def test_duke_has_eight_cameras_and_cuhk03_a_folder_for_each_kind_of_box(tmp_path):
    assert read("dukemtmc", tmp_path / "duke", "train").cameras == (2, 5, 8)
    for kind in ("detected", "labelled"):
        data = read(f"cuhk03-{kind}", tmp_path / kind, "test")
        assert (data.queries, data.identities, data.cameras) == (1, (3, 3, 4), (1, 2, 1))


def test_hidden_people_ask_for_whole_ones(tmp_path):
    data = read("occluded-reid", tmp_path, "test")
    assert (data.queries, data.identities, data.cameras) == (2, (1, 2, 1, 2), (0, 0, 1, 1))
    assert LAYOUTS["occluded-reid"].read(tmp_path, "train").identities == (0, 1, 0, 1)


def test_both_boxes_of_cuhk03_can_lie_side_by_side(tmp_path):
    fixtures.cuhk03("detected")(tmp_path)
    fixtures.cuhk03("labeled")(tmp_path)
    fixtures.picture(tmp_path / "labeled" / "query" / "0009_c2_1.png")
    assert LAYOUTS["cuhk03-detected"].read(tmp_path, "test").queries == 1
    assert LAYOUTS["cuhk03-labelled"].read(tmp_path, "test").queries == 2


@pytest.mark.parametrize("form", ["v1", "v2"])
def test_msmt17_trains_on_both_lists_and_reads_cameras_from_names(tmp_path, form):
    assert read("msmt17", tmp_path, "train", form).identities == (0, 1, 0)
    data = LAYOUTS["msmt17"].read(tmp_path, "test")
    assert (data.queries, data.identities, data.cameras) == (1, (0, 0, 7), (2, 14, 3))


def test_an_msmt17_list_cut_between_two_lines_is_noticed_by_what_nobody_names(tmp_path):
    fixtures.msmt17("train", "test")(tmp_path)
    path = tmp_path / "list_gallery.txt"
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(VergenceError, match="1 pictures of .*neither in list_query.txt nor in list_gallery.txt"):
        LAYOUTS["msmt17"].read(tmp_path, "test")


def test_plain_folders_take_any_word_as_identity(tmp_path):
    assert read("folder", tmp_path, "train", "three").identities == (0, 0, 1)
    data = LAYOUTS["folder"].read(tmp_path, "test")
    assert (data.queries, data.cameras) == (1, (1, 2, 1))
    assert data.identities[0] == data.identities[1] != data.identities[2]


def test_one_plain_folder_is_shared_by_identity_and_asked_once_a_camera(tmp_path):
    train = read("folder", tmp_path, "train", "one")
    test = LAYOUTS["folder"].read(tmp_path, "test")
    assert [shot.path.name for shot in train.shots] == ["b_1_x.jpg", "b_1_y.jpg", "b_2_x.jpg"]
    assert [shot.path.name for shot in test.shots[: test.queries]] == ["a_1_x.jpg", "a_2_x.jpg", "c_1_x.jpg"]
    assert len(test) == 3 + 3


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda p: fixtures.picture(p / "query" / "holiday.jpg"), "1 of 3 pictures .*holiday.jpg"),
        (lambda p: [f.unlink() for f in (p / "query").iterdir()], "query holds no pictures"),
        (lambda p: (p / "query").rename(p / "queries"), "has no folder 'query'"),
        (lambda p: [f.rename(f.with_name("-1" + f.name[4:])) for f in (p / "query").iterdir()], "only junk pictures"),
    ],
)  # fmt: skip
def test_what_does_not_follow_the_layout_is_named_and_counted(tmp_path, spoil, said):
    fixtures.market1501(tmp_path)
    spoil(tmp_path)
    with pytest.raises(VergenceError, match=said):
        LAYOUTS["market1501"].read(tmp_path, "test")


def test_a_picture_of_no_bytes_is_named_when_it_is_read(tmp_path):
    data = read("market1501", tmp_path, "train")
    data.shots[1].path.write_bytes(b"")
    with pytest.raises(VergenceError, match="0002_c2s1_000301_01.jpg is not a readable picture"):
        data[1]


class Three:
    identities = (0, 0, 0, 0, 0, 1, 2, 2)

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.zeros(3, 8, 8, dtype=torch.uint8), self.identities[index], 0


def test_balanced_batches_have_as_many_pictures_of_each_identity_and_each_identity_once():
    data = Balanced(Three(), PersonView(16, 16), each=2)
    batches = list(data.batches(4, torch.Generator().manual_seed(0)))
    assert len(batches) == 1  # three identities make one batch of two; the third waits for another epoch
    people = [Three.identities[i] for i in batches[0]]
    assert all(people.count(p) == 2 for p in people)
    everyone = {Three.identities[i] for s in range(20) for i in
                next(iter(data.batches(4, torch.Generator().manual_seed(s))))}  # fmt: skip
    assert everyone == {0, 1, 2}


def test_an_identity_with_one_picture_repeats_it():
    (batch,) = Balanced(Three(), PersonView(16, 16), each=4).batches(12, torch.Generator().manual_seed(0))
    assert batch.count(5) == 4
    many = [i for i in batch if i < 5]
    assert len(set(many)) == 4


def test_a_batch_that_cannot_be_shared_out_is_refused():
    with pytest.raises(VergenceError, match="a batch of 6 cannot hold identities with 4 pictures each"):
        list(Balanced(Three(), PersonView(16, 16), each=4).batches(6, torch.Generator()))


def test_views_stretch_normalise_and_repeat_with_their_seed():
    view = PersonView(32, 16, erase=1.0, pad=2, mean=(0.5,) * 3, std=(0.25,) * 3)
    white = torch.full((3, 20, 30), 255, dtype=torch.uint8)
    assert torch.allclose(whole(view, white), torch.full((3, 32, 16), 2.0), atol=1e-5)
    drawn = [augmented(view, white, torch.Generator().manual_seed(s)) for s in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    erased = (drawn[0] == 0).float().mean()
    assert 0.01 < erased < 0.6


def test_erasing_is_as_frequent_and_as_large_as_it_says():
    view = PersonView(64, 32, flip=False, erase=0.5, mean=(0.5,) * 3, std=(0.25,) * 3)
    white = torch.full((3, 64, 32), 255, dtype=torch.uint8)
    shares = [(augmented(view, white, torch.Generator().manual_seed(s)) == 0).float().mean().item() for s in range(200)]
    gone = [share for share in shares if share]
    assert 70 <= len(gone) <= 130
    assert min(gone) > 0.01
    assert max(gone) <= 0.42


@pytest.mark.parametrize(
    "bad", [{"height": 8}, {"erase": 1.5}, {"pad": 99, "height": 64, "width": 32}, {"std": (1.0, 0.0, 1.0)}]
)
def test_views_that_make_no_sense_are_refused(bad):
    with pytest.raises(VergenceError, match="a view"):
        PersonView(**bad)


def test_a_random_view_is_drawn_and_a_whole_one_read():
    data = Viewed(Three(), PersonView(16, 16, erase=1.0))
    assert not torch.equal(data.draw(0, torch.Generator().manual_seed(1)).picture, data[0].picture)
