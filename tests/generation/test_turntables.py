"""Readers of turntables, pairs of views, what is measured of them, and the rendered objects."""

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.linalg import lstsq
from skimage.metrics import structural_similarity

from generation.cdvae import fixtures
from vergence.core.errors import VergenceError
from vergence.generation.turned import turned
from vergence.generation.turntables import CAMERAS, Pairs, Turntable, read_chairs, read_folder, read_multipie, squared
from vergence.generation.viewmetrics import as_bytes, difference, nearest, others_mean, probe, similarity


def test_chairs_are_split_by_model_and_have_a_row_of_views_per_elevation(tmp_path):
    fixtures.chairs(tmp_path)
    train, test = read_chairs(tmp_path, "train"), read_chairs(tmp_path, "test")
    assert not set(train.objects.tolist()) & set(test.objects.tolist())
    assert train.names == ("p020_t000", "p020_t011", "p020_t023", "p030_t000", "p030_t011", "p030_t023")
    assert train.rings == ((0, 1, 2), (3, 4, 5))
    assert test.labels.tolist() == [0, 1, 2, 3, 4, 5]


def test_the_published_list_decides_the_order_of_chairs(tmp_path):
    fixtures.listed_chairs(tmp_path)
    paths = {path.parent.parent.name for path in read_chairs(tmp_path, "test").pictures}
    assert paths == {fixtures.CHAIRS[0]}  # the list is written in reverse


def test_faces_are_split_by_person_and_views_are_cameras_in_order(tmp_path):
    fixtures.multipie(tmp_path)
    train, test = read_multipie(tmp_path, "train"), read_multipie(tmp_path, "test")
    assert train.names == ("-90", "0", "90")
    assert {path.stem[:3] for path in test.pictures} == {"013"}
    assert {path.stem[10:13] for path in train.pictures} == {"110", "051", "240"}  # 081 is above the head
    assert list(CAMERAS.values()) == list(range(-90, 91, 15))


def test_folders_of_views_in_degrees_close_the_turn(tmp_path):
    fixtures.views(tmp_path)
    table = read_folder(tmp_path, "train")
    assert table.names == ("0", "90", "180", "270")
    assert table.closed
    fixtures.parted(tmp_path / "parted")
    assert not read_folder(tmp_path / "parted", "train").closed


@pytest.mark.parametrize(
    ("writer", "reader", "message"),
    [
        (lambda p: (p / "chair" / "renders").mkdir(parents=True), read_chairs, "single view|no pictures"),
        (
            lambda p: fixtures._save(p / "c" / "renders" / "image_1.png", fixtures.thing()),
            read_chairs,
            "image_1.png is no",
        ),
        (lambda p: fixtures._save(p / "face.png", fixtures.thing()), read_multipie, "no pictures of Multi-PIE"),
        (lambda p: fixtures._save(p / "train" / "0" / "a.png", fixtures.thing()), read_folder, "a single view"),
    ],
)
def test_other_folders_are_refused(writer, reader, message, tmp_path):
    writer(tmp_path)
    with pytest.raises(VergenceError, match=message):
        reader(tmp_path, "train")


def test_pairs_are_two_views_of_one_object_and_each_picture_is_a_target_once():
    table = turned(("chair",), 2, 4, 32, "test")
    pairs = Pairs(table)
    assert sorted(target for _, target in pairs.indices) == list(range(8))
    for source, target in pairs.indices:
        assert table.objects[source] == table.objects[target]
        assert table.labels[source] != table.labels[target]
    assert pairs.indices == Pairs(table).indices


def test_training_shows_every_object_once():
    table = turned(("chair", "car"), 6, 4, 32, "train")
    assert table.objects.tolist() == list(range(6))
    assert len(Pairs(table)) == 0


@pytest.mark.parametrize("kind", ["chair", "car", "animal", "sofa", "mug"])
def test_rendered_objects_stay_inside_the_picture_and_turn(kind):
    table = turned((kind,), 1, 4, 32, "test")
    pictures = torch.stack([table.picture(i) for i in range(4)])
    edges = torch.cat([pictures[..., 0, :], pictures[..., -1, :], pictures[..., :, 0], pictures[..., :, -1]], -1)
    assert (edges == 1).all()
    assert (pictures < 0.9).any(1).float().mean((1, 2)).min() > 0.05
    assert (pictures[0] - pictures[1]).abs().mean() > 0.01


def test_a_wide_picture_gets_margins_of_its_border():
    pixels = np.full((10, 30, 3), 200, np.uint8)
    pixels[4:6, 10:20] = 0
    made = squared(torch.from_numpy(pixels).permute(2, 0, 1), 0)
    assert made.shape == (3, 30, 30)
    assert made[:, 0].unique().tolist() == pytest.approx([200 / 127.5 - 1])


# Metrics --------------------------------------------------------------------------------------------------------------


def test_differences_and_similarities_have_their_closed_forms():
    one, other = torch.zeros(2, 3, 8, 8, dtype=torch.uint8), torch.full((2, 3, 8, 8), 30, dtype=torch.uint8)
    assert difference(one, other).tolist() == [30, 30]
    assert similarity(one, one).tolist() == [1, 1]
    assert as_bytes(torch.tensor([-1.0, 0.0, 1.0, 2.0])).tolist() == [0, 128, 255, 255]
    noise = torch.randint(0, 256, (2, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    pair = [each.permute(1, 2, 0).numpy() for each in noise]
    expected = np.mean([structural_similarity(pair[0][..., c], pair[1][..., c], data_range=255) for c in range(3)])
    assert float(similarity(noise[:1], noise[1:])) == pytest.approx(expected)


def test_the_nearest_real_picture_is_looked_for_within_a_group():
    real = torch.tensor([0, 100, 200, 0]).view(4, 1, 1, 1).to(torch.uint8)
    made = torch.tensor([10, 90, 20, 5]).view(4, 1, 1, 1).to(torch.uint8)
    assert nearest(made, real, torch.zeros(4)) == 50.0  # the third is nearest to the first, the fourth ties with it
    assert nearest(made, real, torch.tensor([0, 0, 1, 1])) == 75.0
    assert np.isnan(nearest(made, real, torch.arange(4)))


def test_the_mean_of_others_leaves_a_picture_out():
    real = torch.tensor([0, 30, 90]).view(3, 1, 1, 1).to(torch.uint8)
    assert others_mean(real, torch.zeros(3)) == pytest.approx((60 + 15 + 75) / 3)


def test_a_probe_reads_a_view_that_is_in_the_code_and_nothing_else():
    source = torch.Generator().manual_seed(0)
    views, objects = torch.arange(400) % 4, torch.arange(400) // 4
    plain = torch.randn(400, 6, generator=source, dtype=torch.float64)
    told = plain + 3 * torch.eye(4, 6, dtype=torch.float64)[views]
    assert probe(told, views, objects) > 90
    assert probe(plain, views, objects) < 40
    known = objects % 2 == 0
    full = np.c_[told.numpy(), np.ones(400)]
    weights = lstsq(full[known], np.eye(4)[views[known]])[0]
    expected = 100 * ((full[~known] @ weights).argmax(1) == views[~known].numpy()).mean()
    assert probe(told, views, objects) == pytest.approx(expected, abs=2)


def test_a_table_of_files_reads_them_when_asked(tmp_path):
    Image.new("RGB", (9, 9), "red").save(tmp_path / "a.png")
    table = Turntable([tmp_path / "a.png"], torch.tensor([1]), torch.tensor([0]), ("x", "y"), ((0, 1),), False, size=16)
    assert table[0]["picture"].shape == (3, 16, 16)
    assert (table[0]["view"], table[0]["object"]) == (1, 0)
