"""CMC, mAP and re-ranking equal a plain reference on random cases, and closed forms where they exist."""

import numpy as np
import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.metrics import Taken, rank
from vergence.metrics import ranking as module
from vergence.metrics.ranking import distances
from vergence.reference import ranking as plain


def taken(identities, cameras):
    return Taken(torch.tensor(identities), torch.tensor(cameras))


@pytest.mark.parametrize("area", ["step", "trapezoid"])
@pytest.mark.parametrize("seed", range(6))
def test_it_equals_the_plain_form_on_random_lists_with_ties_junk_and_distractors(seed, area, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 150)  # several pieces
    source = np.random.default_rng(seed)
    queries, gallery = 17, 60
    values = source.integers(0, 12, (queries, gallery)).astype(np.float32)
    ids, cameras = source.integers(1, 9, queries), source.integers(1, 4, queries)
    gallery_ids, gallery_cameras = source.integers(-1, 9, gallery), source.integers(1, 4, gallery)
    ours = rank(torch.from_numpy(values), taken(ids, cameras), taken(gallery_ids, gallery_cameras), area)
    theirs = plain.cmc_and_precision(values, ids, gallery_ids, cameras, gallery_cameras, trapezoid=area == "trapezoid")
    assert ours.first.tolist() == [first for first, _ in theirs]
    assert ours.precision.tolist() == pytest.approx([precision for _, precision in theirs])


def test_matches_on_top_are_perfect_and_a_single_one_at_rank_r_gives_one_over_r():
    gallery = taken([1, 2, 3, 4, 5], [2] * 5)
    for place in range(5):
        row = torch.arange(5.0)[None]
        found = rank(row, taken([place + 1], [1]), gallery)
        assert found.precision.item() == pytest.approx(1 / (place + 1))
        assert [found.cmc(k) for k in (1, 5)] == [100.0 if place == 0 else 0.0, 100.0]


def test_the_same_identity_in_the_same_camera_is_neither_match_nor_mistake():
    found = rank(torch.tensor([[0.0, 1.0, 2.0]]), taken([7], [1]), taken([7, 3, 7], [1, 1, 2]))
    assert found.first.tolist() == [2]
    assert found.precision.tolist() == [0.5]


def test_junk_is_skipped_and_a_distractor_counts_as_a_mistake():
    for identity, first in ((-1, 1), (0, 2)):
        found = rank(torch.tensor([[0.0, 1.0]]), taken([7], [1]), taken([identity, 7], [2, 2]))
        assert found.first.tolist() == [first]


def test_a_query_without_a_match_is_counted_and_not_judged():
    found = rank(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), taken([7, 9], [1, 1]), taken([7, 3], [2, 2]))
    assert found.unmatched == 1
    assert found.mean_precision == 100.0
    assert found.cmc(1) == 100.0


def test_the_two_areas_are_what_their_definitions_give_by_hand():
    # Matches at places 1 and 3: steps (1 + 2/3) / 2; trapezoids (1 + (1/2 + 2/3) / 2) / 2.
    case = torch.tensor([[0.0, 1.0, 2.0]]), taken([1], [1]), taken([1, 2, 1], [2, 2, 2])
    assert rank(*case).precision.item() == pytest.approx(5 / 6)
    assert rank(*case, "trapezoid").precision.item() == pytest.approx((1 + 7 / 12) / 2)


def test_what_does_not_fit_is_refused():
    some = taken([1], [1])
    with pytest.raises(VergenceError, match="needs a distance for each pair"):
        rank(torch.zeros(1, 2), some, some)
    with pytest.raises(VergenceError, match="not finite"):
        rank(torch.tensor([[float("nan")]]), some, some)
    with pytest.raises(VergenceError, match="one identity and one camera per image"):
        taken([1, 2], [1])


def test_distances_are_euclidean():
    a, b = torch.randn(3, 5).double(), torch.randn(4, 5).double()
    torch.testing.assert_close(distances(a, b), (a[:, None] - b).square().sum(-1).sqrt())
