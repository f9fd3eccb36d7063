"""Rendered populations have queries, galleries and distractors, and the same person in all pictures of an identity."""

import pytest
import torch

from vergence.contract.context import Context
from vergence.core.errors import VergenceError
from vergence.metrics.ranking import rank
from vergence.reid.crowds import DISTRACTOR, population
from vergence.reid.data import judged
from vergence.reid.protocol import scores_of


@pytest.fixture(scope="module")
def hidden():
    return population(5, 32, 16, "test", cameras=(0, 1), shots=1, hiding="queries")


def test_training_identities_count_from_zero_and_masks_are_of_the_pictures_size():
    data = population(2, 32, 16, "train", cameras=(0, 1), shots=1)
    assert data.identities == (0, 0, 1, 1)
    assert data.cameras == (0, 1, 0, 1)
    assert data.queries == 0
    assert data.masks.shape == (4, 32, 16)
    assert data.joints.shape == (4, 17, 3)
    assert data[2].identity == 1


def test_hidden_queries_show_the_people_of_the_gallery(hidden):
    assert hidden.queries == 10
    assert hidden.identities[:10] == (1, 1, 2, 2, 3, 3, 4, 4, 5, 5)
    assert hidden.identities[10:].count(DISTRACTOR) == 2
    seen = hidden.masks.flatten(1).float().mean(1)
    assert seen[:10].mean() < seen[10:].mean()  # something is in front of them
    assert hidden.pictures[0].float().mean() > 0


def test_the_first_shot_of_a_camera_asks_and_of_single_shots_those_of_half_the_cameras():
    two = population(2, 32, 16, "test", cameras=(0, 1), shots=2)
    assert (two.queries, len(two)) == (4, 8)
    assert two.cameras[:4] == (0, 1, 0, 1)
    one = population(2, 32, 16, "test", cameras=(0, 1), shots=1)
    assert one.identities == (1, 2, 1, 2)
    assert one.cameras == (0, 0, 1, 1)
    assert one.queries == 2
    source = population(2, 32, 16, "source", cameras=(2, 3), shots=1)
    assert source.identities == (0, 0, 1, 1)
    assert source.queries == 0
    assert not torch.equal(source.pictures, population(2, 32, 16, "train", cameras=(2, 3), shots=1).pictures)


def test_a_person_is_more_like_itself_than_like_others_but_colours_do_not_tell_everyone():
    """Mean colours of stripes through the middle, across cameras: neither nothing nor everything."""
    data = population(12, 32, 16, "train", cameras=(0, 1), shots=1)
    bands = torch.nn.functional.adaptive_avg_pool2d(data.pictures[:, :, 4:28, 6:10].float(), (6, 1)).flatten(1)
    far = torch.cdist(bands[::2], bands[1::2])  # the first camera asks the second
    hits = float((far.argmin(1) == torch.arange(12)).float().mean())
    assert 1 / 12 < hits < 0.9


def test_a_perfect_ranking_scores_all_points_and_no_other_camera_is_an_error(hidden):
    queries, gallery = judged(hidden)
    far = (queries.identities[:, None] != gallery.identities).double()
    scores = scores_of(Context(None, None), rank(far, queries, gallery), hidden)
    assert scores == {"map": 100, "rank1": 100, "rank5": 100, "rank10": 100}
    alone = population(5, 32, 16, "val", cameras=(0,), shots=2)
    queries, gallery = judged(alone)
    nothing = rank(torch.zeros(len(queries), len(gallery)), queries, gallery)
    with pytest.raises(VergenceError, match="all pictures are from camera 0"):
        scores_of(Context(None, None), nothing, alone)
