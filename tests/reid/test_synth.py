"""The drawn population: people who stay themselves, cameras that differ, splits that do not meet."""

import pytest
import torch

from vergence.reid.data import judged
from vergence.reid.synth import CAMERAS, SHOTS, population


@pytest.fixture(scope="module")
def people():
    return {split: population(20, 64, 32, split) for split in ("train", "val", "test")}


def test_everyone_is_seen_by_every_camera(people):
    train = people["train"]
    assert len(train) == 20 * CAMERAS * SHOTS
    pairs = list(zip(train.identities, train.cameras, strict=True))
    assert len(set(pairs)) == 20 * CAMERAS
    assert all(pairs.count(pair) == SHOTS for pair in set(pairs))
    assert set(train.identities) == set(range(20))


def test_a_test_asks_once_a_camera_and_hides_strangers_in_the_gallery(people):
    queries, gallery = judged(people["test"])
    assert len(queries) == 20 * CAMERAS
    assert (gallery.identities == 0).sum() == 4 * CAMERAS * SHOTS
    assert set(queries.identities.tolist()) == set(range(1, 21))


def test_it_is_the_same_every_time_and_another_in_every_split(people):
    population.cache_clear()
    assert torch.equal(population(20, 64, 32, "test").pictures, people["test"].pictures)
    assert not torch.equal(people["val"].pictures, people["test"].pictures)


def test_a_person_is_more_like_itself_than_like_others(people):
    """Mean colours of the middle third tell a little: neither nothing nor everything."""
    data = people["train"]
    pictures = data.pictures.float() / 255
    bands = torch.nn.functional.adaptive_avg_pool2d(pictures[:, :, 8:56, 12:20], (4, 1)).flatten(1)
    identity = torch.tensor(data.identities)
    camera = torch.tensor(data.cameras)
    far = torch.cdist(bands, bands)
    far[camera[:, None] == camera] = torch.inf
    hits = (identity[far.argmin(1)] == identity).float().mean()
    assert 0.1 < hits < 0.8


def test_cameras_differ_in_light(people):
    data = people["train"]
    camera = torch.tensor(data.cameras)
    means = torch.stack([data.pictures[camera == c].float().mean((0, 2, 3)) for c in range(CAMERAS)])
    assert torch.pdist(means).min() > 8


def test_no_picture_is_empty_or_flat(people):
    spread = people["train"].pictures.float().flatten(1).std(1)
    assert spread.min() > 8
