"""TabStruct-Net against what a user would write: all pairs, the alignment loss, and distances of trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.documents.tabstruct.settings import SMALL, ModelConfig
from vergence.metrics.tables import table_tree
from vergence.metrics.trees import Node, tree_distance
from vergence.nn.cell_graph import PairClassifier
from vergence.ops.table_relations import alignment_loss
from vergence.reference.tables import grid_boxes, merged_grid

CELLS = 500
LOOP = 100
"""Of the pairs, one in this many is computed by the loop."""


def contests() -> Iterator[Contest]:
    """All pairs of 500 cells with the published classifier and with the small one, the loss, and trees of tables."""
    yield _pairs("pairs", "the published classifier", ModelConfig())
    yield _pairs("pairs-small", "the starter's classifier", SMALL)
    yield _alignment()
    yield _trees()


def _pairs(id: str, name: str, config: ModelConfig) -> Contest:
    torch.manual_seed(0)
    classify = PairClassifier(config.outputs, config.classifier).eval().requires_grad_(False)
    source = generator("bench", id)
    features, boxes = torch.randn(CELLS, config.outputs, generator=source), torch.rand(CELLS, 4, generator=source)
    index = torch.arange(CELLS)

    def at_once() -> Tensor:
        """All pairs gathered into one batch."""
        cell, partner = index.repeat_interleave(CELLS), index.repeat(CELLS)
        return classify(features, boxes, cell, partner).view(CELLS, CELLS, 2)

    def loop() -> Tensor:
        """Pair by pair, one in a hundred of them."""
        every = range(0, CELLS * CELLS, LOOP)
        return torch.stack([
            classify(features, boxes, index[k // CELLS].view(1), index[k % CELLS].view(1)) for k in every
        ])  # fmt: skip

    rivals: dict[str, Callable[[], Any]] = {f"loop, one pair in {LOOP}": loop, "one batch of all pairs": at_once}
    return Contest(id, f"all pairs of {CELLS} cells, {name}", partial(classify.every, features, boxes), rivals)


def _alignment() -> Contest:
    spans = merged_grid(generator("bench", "grid"), 30, 20, 0.2)
    boxes = grid_boxes(spans).float() + torch.randn(len(spans), 4, generator=generator("bench", "boxes"))

    def ours() -> None:
        leaf = boxes.clone().requires_grad_()
        alignment_loss(leaf, spans).backward()

    def dense() -> None:
        """All pairs as matrices."""
        leaf = boxes.clone().requires_grad_()
        total = leaf.new_zeros(())
        for side, end in ((1, 0), (3, 1), (0, 2), (2, 3)):
            same = (spans[:, end].unsqueeze(1) == spans[:, end]).to(leaf)
            squares = (leaf[:, side].unsqueeze(1) - leaf[:, side]).square()
            total = total + (squares * same).sum() / (same.sum() - len(same)).clamp(min=1)
        total.backward()

    return Contest("alignment", f"alignment loss and gradient of {len(spans)} cells", ours, {"all pairs": dense})


def _trees() -> Contest:
    spans = merged_grid(generator("bench", "tree"), 12, 7, 0.2).numpy()
    first, second = table_tree(spans), table_tree(spans[: len(spans) // 2])
    same: Callable[[Any, Any], float] = lambda a, b: float(a != b)  # noqa: E731
    rivals: dict[str, Callable[[], Any]] = {}
    try:
        from apted import APTED, Config  # type: ignore[import-untyped]

        class Costs(Config):
            def rename(self, node1: Node, node2: Node) -> float:
                return same(node1.label, node2.label)

            def children(self, node: Node) -> list[Node]:
                return list(node.children)

        rivals["apted"] = lambda: APTED(first, second, Costs()).compute_edit_distance()
    except ImportError:
        pass
    title = f"edit distance of two tables, {first.size()} and {second.size()} nodes"
    return Contest("trees", title, partial(tree_distance, first, second, same), rivals)
