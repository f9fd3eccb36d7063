"""What the blocks hold, measured in processes of their own. Times are in the bench: a test cannot rely on them."""

import pytest
import torch

from vergence import catalogue
from vergence.engine.memory import child_peak
from vergence.nn import ResNet3d, SpectralNonlocal
from vergence.recognition.snl import bench
from vergence.recognition.snl.bench import LABELS, PLACE, Seat, contests

MIB = 2**20


def held(block, positions, form="ours"):
    return child_peak("vergence.recognition.snl.bench:work", block, positions, form)


@pytest.mark.slow
@pytest.mark.parametrize("block", ["snl", "gsnl"])
def test_spectral_blocks_hold_a_twentieth_of_their_dense_forms(block):
    assert 20 * held(block, 4096) <= held(block, 4096, "dense")


@pytest.mark.slow
@pytest.mark.parametrize("block", [name for name in LABELS if name != "cc"])
def test_no_block_holds_a_matrix_of_all_positions(block):
    matrix = 4 * 8192**2
    assert held(block, 8192) < matrix / 4


@pytest.mark.slow
def test_softmax_blocks_hold_memory_linear_in_positions():
    few, many = held("nl", 4096), held("nl", 16384)
    assert many <= 4 * few + 4 * MIB


@pytest.mark.slow
def test_criss_cross_holds_no_more_than_its_usual_form():
    assert held("cc", 97 * 97) <= 1.1 * held("cc", 97 * 97, "column and row products")


def test_every_contest_has_an_id_and_a_title_of_its_own_and_small_ones_run():
    found = list(contests())
    assert len({contest.id for contest in found}) == len({contest.title for contest in found}) == len(found)
    for contest in found:
        if contest.id in ("nl-64", "snl-64", "cgnl-clip-8x14x14"):
            contest.ours()
            for rival in contest.rivals.values():
                rival()
    assert catalogue.bench("snl") is not None


@pytest.mark.parametrize("block", LABELS)
def test_every_block_is_run_against_another_form(block):
    names = [contest.id for contest in contests()]
    assert any(name.rpartition("-")[0] == block or name.startswith(f"{block}-clip") for name in names)


def test_contestants_in_a_network_differ_in_the_block_alone(monkeypatch):
    """A small network in the place of the I3D: the block is the identity at first, so all answer alike; the seat is
    empty again afterwards, and a block that sees the clip is seen by what comes of it."""
    torch.manual_seed(0)
    network = ResNet3d(3, (2, 1, 1), (4, 4, 8), (PLACE,), Seat, stem="small").eval()
    monkeypatch.setattr(bench, "_network", lambda: network)
    monkeypatch.setattr(bench, "CLIP", (1, 2, 3, 8, 8))
    answers, maps = [], []
    network.register_forward_hook(lambda module, given, answer: answers.append(answer.detach()))
    seat = network.inserted[PLACE]
    seat.register_forward_hook(lambda module, given, made: maps.append(module.taken))
    contest = next(c for c in contests() if c.id == f"i3d-{PLACE}")
    for run in (contest.ours, *contest.rivals.values()):
        run()
        assert seat.taken is None
    assert torch.equal(*answers)
    assert [type(block) for block in maps] == [SpectralNonlocal, type(None)]
