"""Batches depend on the seed and the place in the run, and on nothing else."""

import os
import signal

import pytest
import torch
from torch.utils.data import dataloader

from vergence.contract.loader import Augmented, BatchPlan, InOrder
from vergence.core.errors import VergenceError


def noisy(count=20):
    return Augmented(list(range(count)), lambda sample, g: (sample, torch.rand((), generator=g, dtype=torch.float64)))


def take(stream, count):
    return [[x.tolist() for x in next(stream)] for _ in range(count)]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_entered_midway_gives_what_the_whole_one_gave_there(workers):
    whole = take(
        BatchPlan(noisy(), 6, (0, "train")).stream(0, 0), 9
    )  # three batches an epoch: the last two are left out
    midway = take(BatchPlan(noisy(), 6, (0, "train")).stream(1, 2, workers), 4)
    assert midway == whole[5:9]


def test_an_epoch_has_every_sample_once_in_an_order_of_its_own():
    plan = BatchPlan(list(range(20)), 6, (0,), drop_last=False)
    first, second = (sum(plan.epoch(e), []) for e in range(2))
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second
    assert [len(batch) for batch in plan.epoch(0)] == [6, 6, 6, 2]


@pytest.mark.parametrize(("pieces", "world"), [(1, 1), (3, 1), (1, 2), (2, 2), (4, 3)])
def test_the_pieces_of_all_processes_make_the_batch_and_their_weights_its_mean(pieces, world):
    data = torch.rand(23).tolist()
    for batch in range(4):  # the last one has five samples
        seen, means = [], []
        for rank in range(world):
            plan = BatchPlan(data, 6, (0,), drop_last=False, pieces=pieces, rank=rank, world=world)
            stream = plan.stream(0, batch)
            parts = [next(stream) for _ in plan.weights(0, batch)]
            seen += [value for part in parts for value in part.tolist()]
            means.append(sum(w * part.mean() for w, part in zip(plan.weights(0, batch), parts, strict=True)))
        expected = torch.tensor([data[i] for i in plan.epoch(0)[batch]], dtype=torch.float64)
        assert sorted(seen) == sorted(expected.tolist())
        torch.testing.assert_close(sum(means) / world, expected.mean())


def test_a_batch_that_cannot_be_shared_is_refused():
    with pytest.raises(VergenceError, match="batch of 1 samples cannot be shared by 2 processes"):
        BatchPlan([1, 2, 3], 2, (0,), drop_last=False, world=2).epoch(0)


def test_data_may_make_its_own_batches():
    class Pairs(list):
        def batches(self, size, generator):
            return [[0, 2], [1, 3]]

        def collate(self, samples):
            return "+".join(samples)

    stream = BatchPlan(Pairs("abcd"), 2, (0,)).stream(0, 0)
    assert [next(stream) for _ in range(3)] == ["a+c", "b+d", "a+c"]


def test_a_batch_larger_than_the_data_is_the_data():
    assert [sorted(b) for b in BatchPlan([5, 6, 7], 10, (0,)).epoch(0)] == [[0, 1, 2]]


def test_empty_data_is_refused():
    with pytest.raises(VergenceError, match="training data is empty"):
        BatchPlan([], 4, (0,))


def test_in_order_leaves_nothing_out_and_draws_nothing():
    assert [b.tolist() for b in InOrder(noisy(5), range(5), 2)] == [[0, 1], [2, 3], [4]]
    assert len(InOrder(noisy(5), range(5), 2)) == 3


class Bad(list):
    def __getitem__(self, index):
        if index == 3:
            raise VergenceError("picture 3 is not readable")
        return index


@pytest.fixture
def impatient(monkeypatch):
    """PyTorch looks after its workers ten times a second, not every five seconds."""
    monkeypatch.setattr("torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 0.1)
    monkeypatch.setattr(dataloader._MultiProcessingDataLoaderIter._try_get_data, "__defaults__", (0.1,))


class Deadly(list):
    def __getitem__(self, index):
        if index == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return index


@pytest.mark.parametrize("workers", [0, 1])
def test_what_is_wrong_with_a_sample_is_one_sentence_with_workers_too(workers, impatient):
    with pytest.raises(VergenceError, match=r"^picture 3 is not readable$"):
        list(InOrder(Bad(range(5)), range(5), 2, workers))
    stream = BatchPlan(Bad(range(5)), 1, (0,)).stream(0, 0, workers)
    with pytest.raises(VergenceError, match=r"^picture 3 is not readable$"):
        for _ in range(5):
            next(stream)


def test_a_worker_that_dies_is_one_sentence(impatient):
    with pytest.raises(VergenceError, match="a data worker died") as failure:
        list(InOrder(Deadly(range(5)), range(5), 2, workers=1))
    assert failure.value.exit_code == 1
