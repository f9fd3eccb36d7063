"""Counts of masks and measures of fault localisation, against loops over tests and the equations as written."""

import pytest
import torch

from vergence.ops.spectra import (
    MEASURES,
    Spectrum,
    bit_counts,
    packed,
    ranking,
    spectrum,
    unpacked,
    window_counts,
)
from vergence.reference import spectra as plain


def drawn(seed=0):
    return torch.Generator().manual_seed(seed)


def windows_of(count, height, width, source):
    rows, columns = (torch.randint(0, e + 1, (count, 2), generator=source).sort(1).values for e in (height, width))
    return torch.stack([rows[:, 0], columns[:, 0], rows[:, 1], columns[:, 1]], 1)  # some are empty


@pytest.mark.parametrize(("height", "width"), [(1, 1), (7, 5), (16, 33)])
def test_windows_are_counted_as_one_by_one(height, width):
    windows = windows_of(40, height, width, drawn())
    values = torch.randn(40, generator=drawn(1), dtype=torch.float64)
    counts, sums = torch.zeros(height, width, dtype=torch.int64), torch.zeros(height, width, dtype=torch.float64)
    for (top, left, bottom, right), value in zip(windows.tolist(), values, strict=True):
        counts[top:bottom, left:right] += 1
        sums[top:bottom, left:right] += value
    assert torch.equal(window_counts(windows, height, width), counts)
    torch.testing.assert_close(window_counts(windows, height, width, values), sums)


@pytest.mark.parametrize("length", [1, 63, 64, 65, 1000])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 9, 100, 257])
def test_packed_masks_are_counted_as_one_by_one(count, length):
    masks = torch.rand(count, length, generator=drawn(count + length)) < 0.5
    words = packed(masks)
    assert words.shape == (count, -(-length // 64))
    assert torch.equal(unpacked(words, length), masks)
    assert torch.equal(bit_counts(words, length), masks.long().sum(0))
    chosen = torch.rand(count, generator=drawn(1)) < 0.4
    assert torch.equal(bit_counts(words, length, chosen), masks[chosen].long().sum(0))


def test_the_counts_of_long_rows_are_those_of_their_blocks():
    masks = torch.rand(11, 64 * 256 + 70, generator=drawn()) < 0.3
    assert torch.equal(bit_counts(packed(masks), masks.shape[1]), masks.long().sum(0))


def test_the_counting_rule_swaps_executed_and_not_executed():
    failing, passing = torch.tensor([3, 0]), torch.tensor([1, 4])
    masked, visible = (spectrum(failing, passing, 3, 4, executed) for executed in ("masked", "visible"))
    assert [c.tolist() for c in masked] == [[3, 0], [1, 4], [0, 3], [3, 0]]
    assert [c.tolist() for c in visible] == [c.tolist() for c in (masked.nf, masked.np, masked.ef, masked.ep)]


@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_is_its_equation(name):
    counts = torch.randint(0, 50, (4, 500), generator=drawn())
    counts[:, :16] = torch.cartesian_prod(*[torch.tensor([0, 3])] * 4).mT  # every way to divide by zero
    expected = [plain.measure(name, *row) for row in counts.mT.tolist()]
    ours = MEASURES[name](Spectrum(*counts))
    assert ours.dtype == torch.float64
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0)


def test_measures_by_hand():
    counts = Spectrum(*torch.tensor([[4], [1], [0], [3]]))
    assert float(MEASURES["ochiai"](counts)) == pytest.approx(4 / 20**0.5)
    assert float(MEASURES["tarantula"](counts)) == pytest.approx(1 / 1.25)
    assert float(MEASURES["zoltar"](counts)) == pytest.approx(4 / 5)
    assert float(MEASURES["wong2"](counts)) == 3


def test_equal_scores_keep_their_order_or_are_shuffled():
    scores = torch.tensor([[0.0, 2.0, 1.0], [2.0, 0.0, 1.0]])
    assert ranking(scores).tolist() == [1, 3, 2, 5, 0, 4]
    shuffled = {tuple(ranking(scores, drawn(seed)).tolist()) for seed in range(40)}
    assert len(shuffled) == 8
    assert all(scores.flatten()[list(order)].tolist() == [2, 2, 1, 1, 0, 0] for order in shuffled)
