"""What the blocks hold, measured in processes of their own. Times are in the bench: a test cannot rely on them."""

import pytest

from saccade import catalogue
from saccade.engine.memory import child_peak
from saccade.recognition.snl.bench import LABELS, contests
from saccade.reference.blocks import DENSE

MIB = 2**20


def held(block, positions, form="ours"):
    return child_peak("saccade.recognition.snl.bench:work", block, positions, form)


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


def test_every_contest_is_there_by_a_name_of_its_own_and_runs():
    found = list(contests())
    assert len({contest.name for contest in found}) == len(found)
    assert set(LABELS) <= set(DENSE)
    for contest in found:
        if contest.name.endswith("N = 64"):
            contest.ours()
            for rival in contest.rivals.values():
                rival()
    assert catalogue.bench("snl") is not None
