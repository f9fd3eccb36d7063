"""What the blocks hold, measured in processes of their own. Times are in the bench: a test cannot rely on them."""

import pytest
import torch

from vergence import catalogue
from vergence.engine.memory import child_peak
from vergence.nn import ResNet3d
from vergence.recognition.snl import bench
from vergence.recognition.snl.bench import LABELS, PICTURES, PLACES, Seat, contests
from vergence.reference.blocks import DENSE

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


def test_every_contest_is_there_by_an_id_and_a_title_of_its_own_and_runs():
    found = list(contests())
    assert len({contest.id for contest in found}) == len({contest.title for contest in found}) == len(found)
    assert set(LABELS) <= set(DENSE)
    quick = [c for c in found if c.title.endswith(("N = 64", "8 x 14 x 14"))]
    assert {c.title.partition(", clip")[0] for c in quick if "clip" in c.id} == {"NL", "SNL", "CGNL"}
    for contest in quick:
        contest.ours()
        for rival in contest.rivals.values():
            rival()
    assert catalogue.bench("snl") is not None


@pytest.mark.parametrize("block", LABELS)
def test_every_block_is_run_against_another_form(block):
    assert any(block in blocks for blocks in PICTURES.values())


def test_contestants_in_a_network_differ_in_the_block_alone(monkeypatch):
    """A small network in the place of the I3D: the block is the identity at first, so all answer alike; each seat is
    empty again afterwards, and a block that sees the clip is seen by what comes of it."""
    torch.manual_seed(0)
    network = ResNet3d(3, (2, 1, 5), (4, 4, 8), PLACES, Seat, stem="small").eval()
    monkeypatch.setattr(bench, "_network", lambda: network)
    monkeypatch.setattr(bench, "CLIP", (1, 2, 3, 8, 8))
    answers, maps = [], []
    network.register_forward_hook(lambda module, given, answer: answers.append(answer.detach()))
    for place, seat in network.inserted.items():
        seat.register_forward_hook(lambda module, given, made: maps.append(module.taken))
        contest = next(c for c in contests() if c.id == f"i3d-{place}")
        for run in (contest.ours, *contest.rivals.values()):
            run()
            assert all(one.taken is None for one in network.inserted.values())
    assert len(answers) == 6
    assert all(torch.equal(answer, answers[0]) for answer in answers)
    blocks = [block for block in maps if block is not None]
    assert len(blocks) == 4  # SNL and the dense NL at each place
    assert sum("operate" in vars(block) for block in blocks) == 2
