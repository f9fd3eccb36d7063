"""Wrong first matches by camera, and margins of triplets, in closed form."""

import pytest
import torch

from vergence.metrics.ranking import Taken
from vergence.reid.camera_errors import camera_errors, margins


def taken(identities, cameras):
    return Taken(torch.tensor(identities), torch.tensor(cameras))


def line(*places):
    return torch.tensor(places, dtype=torch.float64)[:, None]


def test_a_wrong_first_match_counts_by_its_camera():
    queries, gallery = taken([1, 2, 3], [0, 0, 0]), taken([1, 2, 3, 9, 9], [1, 1, 1, 0, 1])
    # The first query finds itself; the second a stranger of its camera; the third one of another.
    found = camera_errors(line(0, 10, 20), line(0.1, 12, 23, 11, 21), queries, gallery)
    assert (found.inside, found.across) == (1, 1)


def test_the_same_camera_junk_and_queries_without_a_match_do_not_count():
    queries, gallery = taken([1, 5], [0, 0]), taken([1, -1, 1, 7], [0, 1, 1, 1])
    found = camera_errors(line(0, 3), line(0.1, 0.2, 0.3, 3), queries, gallery)
    assert (found.inside, found.across) == (0, 0)


def test_chunks_of_queries_give_the_same(monkeypatch):
    source = torch.Generator().manual_seed(0)
    x = torch.randn(40, 3, generator=source)
    who, by = torch.randint(0, 6, (40,), generator=source), torch.randint(0, 3, (40,), generator=source)
    sides = Taken(who[:15], by[:15]), Taken(who[15:], by[15:])
    whole = camera_errors(x[:15], x[15:], *sides)
    monkeypatch.setattr("vergence.reid.camera_errors.CHUNK", 50)
    assert camera_errors(x[:15], x[15:], *sides) == whole
    assert whole.inside + whole.across > 0


def test_margins_are_those_of_the_distances():
    # Two persons at 0 and 1 and at 10 and 11: the same person is at 1, strangers at 81 to 121 (squared).
    found = margins(line(0, 10, 1, 11), torch.tensor([1, 2]), torch.tensor([1, 2]))
    assert found.separated == 100
    strangers = (100 + 121 + 81 + 100) / 4
    assert found.mean == pytest.approx((strangers - 1) / strangers, abs=1e-3)


def test_equal_descriptors_have_no_margin_and_strangers_alone_cannot_be_judged():
    found = margins(torch.ones(4, 3), torch.tensor([1, 2]), torch.tensor([1, 2]))
    assert (found.mean, found.separated) == (0, 0)
    assert margins(torch.ones(3, 2), torch.tensor([1]), torch.tensor([2, 3])) is None
    assert margins(torch.ones(3, 2), torch.tensor([1]), torch.tensor([1, 1])) is None


def test_distractors_are_only_strangers():
    # Identity 0 is no query's: its pictures are far apart, which would be a negative margin.
    found = margins(line(0, 1, 500, 900), torch.tensor([1]), torch.tensor([1, 0, 0]))
    assert found.separated == 100
