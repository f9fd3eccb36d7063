"""Statistical fault localisation: how often each element took part in tests that passed and in tests that failed, and
the suspiciousness that four measures give it.

A test marks a subset of n elements (statements of a program, pixels of a picture). Masks of windows are four numbers
each: counting them takes one pass over the picture, whatever the number of tests (:func:`window_counts`). Other masks
are stored as bits, 64 to a word (:func:`packed`), and counted by a tree of carry-save adders that adds 64 elements with
five operations on words (:func:`bit_counts`). Both are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

Executed = Literal["masked", "visible"]
"""What "executed" means for a pixel of a masked picture: that it is masked, or that it is still visible."""
BLOCK = 196
"""Words of a row that are added at a time, so that what is being added stays in the cache."""


class Spectrum(NamedTuple):
    """The number of tests by element: executed (e) or not (n), in failing (f) or passing (p) tests."""

    ef: Tensor
    ep: Tensor
    nf: Tensor
    np: Tensor


def spectrum(failing: Tensor, passing: Tensor, failures: int, passes: int, executed: Executed = "masked") -> Spectrum:
    """The four counts from how often each element is marked in failing and in passing tests, and the numbers of both.

    With ``executed="visible"`` the marked elements are those that were *not* executed.
    """
    marked = Spectrum(failing, passing, failures - failing, passes - passing)
    return marked if executed == "masked" else Spectrum(marked.nf, marked.np, marked.ef, marked.ep)


# Counting -------------------------------------------------------------------------------------------------------------


def window_counts(windows: Tensor, height: int, width: int, weights: Tensor | None = None) -> Tensor:
    """How many of the windows (m, 4) hold each pixel, (height, width); with ``weights`` (m,), the sum of theirs.

    A window is top, left, bottom, right; the last two are outside. Each adds to four places of a table of differences,
    which is then summed along both sides.
    """
    if weights is None:
        weights = torch.ones(len(windows), dtype=torch.int64, device=windows.device)
    table = torch.zeros((height + 1) * (width + 1), dtype=weights.dtype, device=windows.device)
    top, left, bottom, right = windows.unbind(1)
    for sign, rows, columns in ((1, top, left), (-1, top, right), (-1, bottom, left), (1, bottom, right)):
        table.index_add_(0, rows * (width + 1) + columns, sign * weights)
    return table.view(height + 1, width + 1).cumsum(0).cumsum(1)[:height, :width]


def packed(masks: Tensor) -> Tensor:
    """Masks (m, n) of booleans as bits in words (m, ceil(n / 64)), int64 on the CPU."""
    count, length = masks.shape
    whole = np.zeros((count, -(-length // 64) * 8), np.uint8)
    bits = np.packbits(masks.cpu().numpy(), axis=1, bitorder="little")
    whole[:, : bits.shape[1]] = bits
    return torch.from_numpy(whole.view(np.int64))


def unpacked(words: Tensor, length: int) -> Tensor:
    """Booleans (m, length) from :func:`packed` words."""
    bits = np.unpackbits(words.numpy().view(np.uint8), axis=1, bitorder="little", count=length)
    return torch.from_numpy(bits.view(np.bool_))


def bit_counts(words: Tensor, length: int, chosen: Tensor | None = None) -> Tensor:
    """How many of the :func:`packed` masks (m, w) mark each element, (length,), int64; of the ``chosen`` (m,) ones, if
    they are given."""
    rows = words.numpy().view(np.uint64)
    which = np.arange(len(rows)) if chosen is None else chosen.nonzero().flatten().numpy()
    parts = [_added(rows[which, start : start + BLOCK]) for start in range(0, rows.shape[1], BLOCK)]
    return torch.from_numpy(np.concatenate(parts)[:length].astype(np.int64))


def _added(rows: np.ndarray) -> np.ndarray:
    """Sums over rows (m, w) of words, by bit, (64 w,). Three rows of one weight become one of that weight (their sum
    without carries) and one of twice the weight (the carries), until every weight has a single row."""
    width = rows.shape[1]
    total, weight = np.zeros(64 * width, np.int32), 0
    while len(rows):
        carries, count = np.empty((len(rows) // 2 + 1, width), np.uint64), 0
        while len(rows) > 1:
            third = max(len(rows) // 3, 1)
            a, b, c = rows[:third], rows[third : 2 * third], rows[2 * third : 3 * third]
            rest, both = rows[3 * third :], carries[count : count + third]
            rows, count = np.empty((third + len(rest), width), np.uint64), count + third
            sums, rows[third:] = rows[:third], rest
            np.bitwise_and(a, b, out=both)
            np.bitwise_xor(a, b, out=sums)
            if len(c):
                both |= c & sums
                sums ^= c
        bits = np.unpackbits(np.ascontiguousarray(rows[0]).view(np.uint8), bitorder="little")
        total += bits.astype(np.int32) << weight
        rows, weight = carries[:count], weight + 1
    return total


# Measures (Eq. 2) -----------------------------------------------------------------------------------------------------


def ochiai(counts: Spectrum) -> Tensor:
    """Eq. 2a, float64 in [0, 1]; 0 where it is undefined."""
    ef, ep, nf, _ = (count.double() for count in counts)
    return _ratio(ef, ((ef + nf) * (ef + ep)).sqrt())


def tarantula(counts: Spectrum) -> Tensor:
    """Eq. 2b, float64 in [0, 1]; 0 where it is undefined."""
    ef, ep, nf, np = (count.double() for count in counts)
    failing, passing = _ratio(ef, ef + nf), _ratio(ep, ep + np)
    return _ratio(failing, failing + passing)


def zoltar(counts: Spectrum) -> Tensor:
    """Eq. 2c, float64 in [0, 1]; 0 where it is undefined."""
    ef, ep, nf, _ = (count.double() for count in counts)
    return _ratio(ef * ef, ef * (ef + nf + ep) + 10_000 * nf * ep)  # both sides times ef, which may be zero


def wong2(counts: Spectrum) -> Tensor:
    """Eq. 2d, float64."""
    return (counts.ef - counts.ep).double()


Measure = Callable[[Spectrum], Tensor]
MEASURES: Mapping[str, Measure] = {"ochiai": ochiai, "tarantula": tarantula, "zoltar": zoltar, "wong2": wong2}


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    return torch.where(below > 0, above / below.where(below > 0, torch.ones_like(below)), 0.0)


def ranking(scores: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Elements from the highest score to the lowest, (n,). Equal ones keep their order, or come in a random one if a
    generator is given."""
    flat = scores.flatten()
    if generator is None:
        return flat.argsort(descending=True, stable=True)
    order = torch.randperm(len(flat), generator=generator, device=generator.device).to(flat.device)
    return order[flat[order].argsort(descending=True, stable=True)]
