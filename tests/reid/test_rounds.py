"""Rounds of pseudo-labels: what is kept of them, and batches of clusters."""

import csv

import pytest
import torch

from vergence.contract.context import Context
from vergence.core.errors import VergenceError
from vergence.reid.data import Seen, Viewed
from vergence.reid.pseudo import Pseudo
from vergence.reid.rounds import Clustered, Trail, Ways, cluster, reason, relabel, round_of
from vergence.reid.settings import PersonView

VIEW = PersonView(16, 16, flip=False, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))


class Grey:
    """Pictures in shades of grey, one shade per identity."""

    def __init__(self, identities, shades=None):
        self.identities, self.cameras = tuple(identities), (0,) * len(identities)
        self.shades = shades if shades is not None else [40 * i for i in identities]

    def __len__(self):
        return len(self.identities)

    def __getitem__(self, index):
        shade = self.shades[index] + index % 3
        return Seen(torch.full((3, 16, 16), shade, dtype=torch.uint8), self.identities[index], 0)


def describe(pictures):
    return torch.cat([pictures.mean((2, 3)), pictures.mean((1, 2, 3))[:, None] ** 2], 1)


def context(folder, phase="round-1"):
    ctx = Context(None, folder, phase=phase)
    ctx.generator.manual_seed(0)
    said = []
    ctx.progress.say = said.append
    return ctx, said


PEOPLE = Grey([0] * 6 + [1] * 6 + [2] * 6 + [3] * 6)
WAYS = Ways("two-stage", 4, 6, 6)


def test_a_round_finds_people_notes_them_and_writes_a_table(tmp_path):
    (ctx, said), trail = context(tmp_path), Trail(2, 24)
    state = relabel(ctx, describe, trail, Viewed(PEOPLE, VIEW), WAYS, 4)
    kept = state["labels"] >= 0
    assert kept.any()
    quality = trail.told(-1)
    assert quality["nmi"] == pytest.approx(1)
    assert quality["kept"] == pytest.approx(float(kept.double().mean()))
    assert torch.equal(trail.round(0).labels, state["labels"])
    assert torch.equal(trail.round(0).claims, state["claims"])
    assert said[0].startswith("round 1: kept")
    rows = list(csv.reader((tmp_path / "rounds" / "01.csv").open()))
    assert rows[0] == ["picture", "cluster", "dropped"]
    assert [bool(row[1]) for row in rows[1:]] == kept.tolist()
    assert all(bool(row[1]) != bool(row[2]) for row in rows[1:])


def test_identities_never_change_the_labels(tmp_path):
    other = Grey(range(24), PEOPLE.shades)
    found = [relabel(context(tmp_path)[0], describe, Trail(1, 24), Viewed(d, VIEW), WAYS, 4) for d in (PEOPLE, other)]
    assert torch.equal(found[0]["labels"], found[1]["labels"])


def test_more_clusters_than_pictures_are_reduced_and_said(tmp_path):
    ctx, said = context(tmp_path)
    found, _ = cluster(ctx, describe, Viewed(PEOPLE, VIEW), Ways("kmeans", 60, 6, 6), 4)
    assert found.clusters <= 6
    assert said == ["24 pictures are too few for 60 clusters: 6 are sought"]


def test_pictures_that_are_all_the_same_are_refused_at_first_and_later_the_labels_stay(tmp_path):
    same = Viewed(Grey([0] * 9, [7 - i % 3 for i in range(9)]), VIEW)
    with pytest.raises(VergenceError, match="round 1 found . clusters.*all pictures have the same descriptor"):
        relabel(context(tmp_path)[0], describe, Trail(2, 9), same, WAYS, 4)
    (ctx, said), trail = context(tmp_path, "round-2"), Trail(2, 9)
    before = Pseudo(torch.tensor([0, 0, 0, 1, 1, 1, -1, -1, -1]), torch.ones(9, dtype=torch.long))
    trail.note(0, before, before.quality())
    assert torch.equal(relabel(ctx, describe, trail, same, WAYS, 4)["labels"], before.labels)
    assert "the labels of the round before stay" in said[0]


def test_batches_hold_clusters_with_the_same_number_of_pictures_and_nothing_dropped():
    labels = (0, 0, 0, 0, 0, 1, 1, -1, 1, -1, 2, 2)
    data = Clustered(Viewed(Grey(range(12), [0] * 12), VIEW), labels, 3)
    source = torch.Generator().manual_seed(0)
    for batch in data.batches(6, source):
        drawn = [labels[i] for i in batch]
        assert -1 not in drawn
        assert [drawn.count(label) for label in set(drawn)] == [3, 3]
    assert data[5].identity == data.draw(6, source).identity == 1


def test_reasons_and_names():
    assert [reason(-1, n) for n in (0, 1, 2, 5)] == [
        "no cluster claimed it",
        "its cluster has no other picture",
        "several clusters claimed it",
        "several clusters claimed it",
    ]
    assert reason(3, 1) == ""
    assert (round_of("round-3"), round_of("pretrain")) == (2, None)
    assert Trail(3, 5).told(-1) == {}
