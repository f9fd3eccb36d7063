"""Readers, tuples and mining: what is drawn is what the recipe says."""

import numpy as np
import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.retrieval.data import Clusters, Judged, Pictures, TupleData, hardest
from vergence.retrieval.layouts import LAYOUTS
from vergence.retrieval.synth import LARGEST, SMALLEST, world
from vergence.search.expansion import normalised


def clusters(sizes=(4, 3, 5, 2, 6, 4), dimension=8):
    torch.manual_seed(0)
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return Clusters(normalised(torch.randn(len(labels), dimension), "x"), labels, torch.arange(len(labels)))


def tuples(**changes):
    data = clusters()
    order = (data.descriptors @ data.descriptors.T).fill_diagonal_(-2).argsort(1, descending=True)
    negatives = torch.zeros(len(data), 2, dtype=torch.int64)
    return TupleData(data, order[:, :12], negatives, **{"least": 6, "drop": 0.6, **changes})


def test_training_never_shows_the_query_as_its_own_neighbour_or_positive():
    data, source = tuples(), torch.Generator().manual_seed(0)
    for index in range(len(data)):
        query, places, missing, positive, _ = data.draw(index, source)
        assert int(query) not in places[~missing].tolist()
        assert int(positive) != int(query)
        assert data.data.clusters[positive] == data.data.clusters[query]


def test_numbers_of_neighbours_and_shares_dropped_are_drawn_anew():
    data, source = tuples(drop=0.0), torch.Generator().manual_seed(0)
    kept = [int((~data.draw(0, source)[2]).sum()) for _ in range(200)]
    assert set(kept) == set(range(6, 13))
    dropping = tuples(least=12)
    shares = torch.tensor([float(dropping.draw(0, source)[2].double().mean()) for _ in range(500)])
    assert abs(float(shares.mean()) - 0.3) < 0.03
    assert float(shares.std()) > 0.15  # a share for each query, not one for all


def test_neighbours_move_up_or_keep_their_ranks():
    moved, kept = tuples(), tuples(ranks="original")
    for seed in range(20):
        up, missing = moved.draw(3, torch.Generator().manual_seed(seed))[1:3]
        still, holes = kept.draw(3, torch.Generator().manual_seed(seed))[1:3]
        assert up[~missing].tolist() == still[~holes].tolist()
        assert not missing[: int((~missing).sum())].any()
        assert torch.equal(still, kept.neighbours[3])


def test_a_batch_holds_descriptors_and_says_who_is_relevant():
    data, source = tuples(), torch.Generator().manual_seed(0)
    samples = [data.draw(i, source) for i in range(6)]
    batch = data.collate(samples)
    for row, (query, places, missing, positive, _) in enumerate(samples):
        assert torch.equal(batch.query[row], data.data.descriptors[query])
        assert torch.equal(batch.positive[row], data.data.descriptors[positive])
        for column in range(batch.padding.shape[1]):
            same = data.data.clusters[places[column]] == data.data.clusters[query]
            assert bool(batch.relevant[row, column]) == bool(same and not missing[column])


def test_an_epoch_has_as_many_batches_as_a_pool_lasts():
    batches = list(tuples(updates=9).batches(5, torch.Generator().manual_seed(0)))
    assert [len(batch) for batch in batches] == [5] * 9
    counts = np.bincount(np.concatenate(batches), minlength=24)
    assert counts.min() >= 1
    assert counts.max() <= 2


def test_the_hardest_negatives_are_the_nearest_of_other_clusters_one_a_cluster(monkeypatch):
    data = clusters()
    pool = torch.randperm(24)[:17]
    asked = torch.cat([torch.arange(24), torch.tensor([3, 3, 0])])
    monkeypatch.setattr("vergence.retrieval.data.TABLE", 200)  # a few queries at a time
    found = hardest(data, asked, pool, 3)
    assert found[24:].tolist() == found[[3, 3, 0]].tolist()
    for query in range(24):
        expected, seen = [], {int(data.clusters[query])}
        for place in sorted(pool.tolist(), key=lambda p: -float(data.descriptors[p] @ data.descriptors[query])):
            if int(data.clusters[place]) not in seen:
                seen.add(int(data.clusters[place]))
                expected.append(place)
        assert found[query].tolist() == expected[:3]


def test_mining_more_negatives_than_clusters_is_refused():
    with pytest.raises(VergenceError, match="6 clusters in a pool of 24"):
        hardest(clusters(), torch.arange(24), torch.arange(24), 6)


def test_a_query_is_junk_to_itself_and_its_cluster_is_right():
    judged = clusters().judged()
    assert judged.truths[""].positives[0].tolist() == [1, 2, 3]
    assert judged.truths[""].junk[0].tolist() == [0]
    assert judged.own.tolist() == list(range(24))


def test_distractors_are_right_for_nobody_and_of_the_same_length():
    judged = clusters().judged()
    more = judged.with_distractors(torch.zeros(5, 8))
    assert len(more.gallery) == 29
    assert more.truths is judged.truths
    with pytest.raises(VergenceError, match="the distractors have 7 numbers"):
        judged.with_distractors(torch.zeros(5, 7))


def test_a_file_is_split_by_cluster(tmp_path):
    labels = np.repeat(np.arange(100, 112), 3)
    np.savez(tmp_path / "x.npz", descriptors=np.random.default_rng(0).standard_normal((36, 4)), labels=labels)
    parts = {split: LAYOUTS["folder"].read(tmp_path / "x.npz", split) for split in ("train", "val", "test")}
    sizes = {split: len(part.clusters.unique()) for split, part in parts.items()}
    assert sizes == {"train": 6, "val": 3, "test": 3}
    together = torch.cat([part.descriptors for part in parts.values()])
    assert len(together.unique(dim=0)) == 36
    torch.testing.assert_close(together.norm(dim=1), torch.ones(36))


def test_descriptors_that_are_wrong_are_named(tmp_path):
    good = np.eye(10, dtype=np.float32)
    cases = {
        "zero.npz": (
            {"descriptors": np.zeros((10, 3)), "labels": np.arange(10)},
            "10 of 10 .*zero.npz have no direction",
        ),
        "text.npz": ({"descriptors": good, "labels": np.arange(9)}, "text.npz needs 'labels'"),
        "bare.npz": ({"vectors": good}, "bare.npz holds no 'descriptors'.*there is vectors"),
        "empty.npz": ({"descriptors": good[:0], "labels": np.arange(0)}, "empty.npz holds no descriptors"),
        "few.npz": ({"descriptors": good, "labels": np.arange(10) % 4}, "few.npz has 4 clusters"),
        "line.npz": ({"descriptors": np.ones(10), "labels": np.arange(10)}, "line.npz should be a matrix"),
    }
    for name, (arrays, message) in cases.items():
        np.savez(tmp_path / name, **arrays)
        with pytest.raises(VergenceError, match=message):
            LAYOUTS["folder"].read(tmp_path / name, "train")


def test_revisited_protocols_grade_positives_and_junk(tmp_path):
    from retrieval_fixtures import revisited_matlab

    revisited_matlab("roxford5k")(tmp_path)
    data = LAYOUTS["roxford5k"].read(tmp_path, "test")
    assert isinstance(data, Judged)
    first = {name: (t.positives[0].tolist(), sorted(t.junk[0].tolist())) for name, t in data.truths.items()}
    assert first == {"easy": ([0], [1, 2, 3]), "medium": ([0, 1, 2], [3]), "hard": ([1, 2], [0, 3])}
    assert data.own is None


def test_queries_of_a_revisited_set_are_cropped_to_their_boxes(tmp_path):
    from retrieval_fixtures import revisited_pictures

    revisited_pictures("rparis6k")(tmp_path)
    data = LAYOUTS["rparis6k"].read(tmp_path, "test")
    assert isinstance(data, Pictures)
    assert data[0].shape == (3, 36, 40)
    assert data[4].shape == (3, 31, 36)
    with pytest.raises(VergenceError, match="ground truth is for 4 and 2"):
        data.become(torch.ones(5, 3))


def test_a_tree_of_pictures_is_split_by_cluster(tmp_path):
    from retrieval_fixtures import class_folders

    class_folders(tmp_path)
    data = LAYOUTS["pictures"].read(tmp_path, "train")
    assert [path.parent.name for path in data.paths] == ["c2", "c2", "c3", "c3", "c4", "c4"]
    made = data.become(torch.eye(6))
    assert made.clusters.tolist() == [2, 2, 3, 3, 4, 4]


def test_the_embedded_world_is_one_world_with_other_classes():
    train, test = world(30, "train"), world(30, "test")
    assert torch.equal(train.descriptors, world(30, "train").descriptors)
    assert not torch.equal(train.descriptors[:50], test.descriptors[:50])
    assert not torch.equal(train.descriptors, world(30, "train", 1).descriptors[: len(train.descriptors)])
    sizes = torch.bincount(train.clusters)
    assert SMALLEST <= int(sizes.min()) <= int(sizes.max()) <= LARGEST
    torch.testing.assert_close(train.descriptors.norm(dim=1), torch.ones(len(train.descriptors)))
