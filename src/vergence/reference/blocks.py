"""The plain form of every nonlocal block in :data:`vergence.nn.BLOCKS`, for its own weights.

``FORMULAS`` are the papers' own, as they are written; ``DENSE`` have the N x N matrix and are what one would run. Each
takes a block, tokens (B, N, C) and the shape of the grid, and gives what ``block.operate`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from vergence.reference import nonlocal_block as plain

Formula = Callable[[Any, Tensor, tuple[int, ...]], Tensor]


def _embeddings(block: Any) -> tuple[Tensor, Tensor]:
    return block.theta.weight, block.phi.weight


def _inputs(block: Any) -> tuple[Tensor, Tensor, Tensor]:
    return block.theta.weight, block.phi.weight, block.g.weight


def _outputs(block: Any) -> list[Tensor]:
    return [layer.weight for layer in block.filter.w]


def _cayley(block: Any) -> tuple[Tensor, Tensor, Tensor]:
    return block.filter.w1.weight, block.filter.w2.weight, block.filter.wh.weight


def _neighbours(affinity: Callable[[Any, Tensor], Tensor]) -> Formula:
    return lambda block, x, shape: plain.neighbours(affinity(block, x), x, block.g.weight, block.filter.w.weight)


FORMULAS: Mapping[str, Formula] = {
    "nl": lambda b, x, shape: plain.nl(x, *_inputs(b), b.filter.w.weight),
    "nl-gaussian": _neighbours(lambda b, x: plain.gaussian_affinity(x)),
    "nl-dot": _neighbours(lambda b, x: plain.dot_affinity(x, *_embeddings(b))),
    "nl-concatenation": _neighbours(lambda b, x: plain.concatenation_affinity(x, *_embeddings(b), b.compare)),
    "ns": lambda b, x, shape: plain.ns(x, *_inputs(b), b.filter.w.weight),
    "a2": lambda b, x, shape: plain.a2(x, *_inputs(b), b.filter.w.weight),
    "cgnl": lambda b, x, shape: plain.cgnl(x, *_inputs(b), b.filter.w.weight, "rbf"),
    "cgnl-dot": lambda b, x, shape: plain.cgnl(x, *_inputs(b), b.filter.w.weight, "dot"),
    "cc": lambda b, x, shape: plain.cc(x, *_inputs(b), shape[0], shape[1]),
    "snl": lambda b, x, shape: plain.snl(x, *_inputs(b), *_outputs(b)),
    "snl-softmax": lambda b, x, shape: plain.snl(x, *_inputs(b), *_outputs(b), affinity=plain.softmax_affinity),
    "gsnl": lambda b, x, shape: plain.gsnl(x, *_inputs(b), *_outputs(b)),
    "chebysnl": lambda b, x, shape: plain.chebysnl(x, *_inputs(b), *_outputs(b)),
    "cayleysnl": lambda b, x, shape: plain.cayleysnl(x, *_inputs(b), *_cayley(b), kernel="sigmoid"),
    "cayleysnl-relu": lambda b, x, shape: plain.cayleysnl(x, *_inputs(b), *_cayley(b), kernel="relu"),
    "cayleyexact": lambda b, x, shape: plain.cayleyexact(x, *_inputs(b), b.filter.zoom, *_outputs(b)),
}

DENSE: Mapping[str, Formula] = {
    **FORMULAS,
    "nl": _neighbours(lambda b, x: plain.fused_softmax_affinity(x, *_embeddings(b))),
    "nl-concatenation": _neighbours(lambda b, x: plain.summed_affinity(x, *_embeddings(b), b.compare)),
    "ns": lambda b, x, shape: plain.dense_ns(x, *_inputs(b), b.filter.w.weight),
    "a2": _neighbours(lambda b, x: plain.double_affinity(x, *_embeddings(b))),
    "snl": lambda b, x, shape: plain.snl(x, *_inputs(b), *_outputs(b), affinity=plain.scaled_spectral_affinity),
    "gsnl": lambda b, x, shape: plain.dense_gsnl(x, *_inputs(b), *_outputs(b)),
    "chebysnl": lambda b, x, shape: plain.dense_chebysnl(x, *_inputs(b), *_outputs(b)),
    "cayleysnl": lambda b, x, shape: plain.dense_cayleysnl(x, *_inputs(b), *_cayley(b), kernel="sigmoid"),
    "cayleysnl-relu": lambda b, x, shape: plain.dense_cayleysnl(x, *_inputs(b), *_cayley(b), kernel="relu"),
    "cc": lambda b, x, shape: plain.criss_cross_affinity(x, *_embeddings(b), shape[0], shape[1]) @ (x @ b.g.weight.mT),
}


def two_products(block: Any, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Criss-cross attention as it is usually written: column and row scores, one softmax over both."""
    return plain.two_product_cc(x, *_inputs(block), shape[0], shape[1])


def stacked_powers(block: Any, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """CGNL as its authors' code has it."""
    return plain.stacked_cgnl(x, *_inputs(block), block.filter.w.weight)
