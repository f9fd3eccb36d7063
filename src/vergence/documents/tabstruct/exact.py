"""What must hold exactly: the alignment loss, relations, graph, pairs, spans, metrics and the published size."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.claims import CannotJudge, Evidence
from vergence.contract.evidence import apart, apart_with_gradients, filled, noise, uniform
from vergence.core.seeding import generator
from vergence.documents.tabstruct.model import _pooled, build
from vergence.documents.tabstruct.settings import PRESETS, SMALL
from vergence.metrics.tables import Structure, bleu, markup, relation_counts, relations, span_hits, table_tree, teds
from vergence.metrics.trees import Node, tree_distance
from vergence.nn.cell_graph import DeepEdgeConv, GraphBranch, PairClassifier, VisualLSTM
from vergence.nn.rcnn import regions_of
from vergence.nn.two_way_pyramid import TwoWayPyramid
from vergence.ops.edgeconv import feature_neighbours
from vergence.ops.table_regions import box_masks, centre_lines
from vergence.ops.table_relations import aligned_borders, alignment_loss, gridded, related, sampled_pairs
from vergence.ops.table_spans import assigned_spans, repaired
from vergence.reference import tables as plain
from vergence.reference.tables import ENDS, grid_boxes, merged_grid


def _grids(count: int) -> list[Tensor]:
    source = generator("claims", "grids")
    sizes = torch.randint(1, 8, (count, 2), generator=source).tolist()
    return [merged_grid(source, rows, columns) for rows, columns in sizes]


# Alignment ------------------------------------------------------------------------------------------------------------


def alignment_is_the_double_loop(_: Evidence) -> float:
    """The closed form against Eq. 1 written out, summed and averaged, forward and backward."""
    spans = merged_grid(generator("claims", "alignment"), 5, 4)
    boxes = (grid_boxes(spans) + noise(len(spans), 4, seed="boxes")).requires_grad_()
    ours = [alignment_loss(boxes, spans, normalise=None), alignment_loss(boxes, spans)]
    return apart_with_gradients(
        ours, [plain.alignment_loss(boxes, spans, mean) for mean in (False, True)], [boxes], True
    )


def alignment_knows_groups_alone(_: Evidence) -> float:
    """0 for aligned cells, above 0 for any one that is not; the same for groups moved as a whole and in any order; and
    tops and bottoms do not depend on x."""
    spans = merged_grid(generator("claims", "groups"), 6, 5)
    boxes = grid_boxes(spans)
    worst = float(alignment_loss(boxes, spans))
    for cell in range(len(spans)):
        for side, end in ENDS:
            moved = boxes.clone()
            moved[cell, side] += 1
            mates = int((spans[:, end] == spans[cell, end]).sum())
            worst = max(worst, abs(float(alignment_loss(moved, spans, normalise=None)) - 2.0 * (mates - 1)))
    rough = boxes + noise(*boxes.shape, seed="rough")
    shifts = noise(4, 20, seed="shifts")
    shifted = rough.clone()
    for number, (side, end) in enumerate(ENDS):
        shifted[:, side] += shifts[number, spans[:, end]]
    order = torch.randperm(len(spans), generator=generator("claims", "order"))
    value = alignment_loss(rough, spans)
    worst = max(
        worst, apart(alignment_loss(shifted, spans), value), apart(alignment_loss(rough[order], spans[order]), value)
    )
    leaf = rough.clone().requires_grad_()
    apart_rows = torch.cat([spans[:, :2], torch.arange(len(spans)).repeat(2, 1).mT], 1)  # no two share a column
    (grad,) = torch.autograd.grad(alignment_loss(leaf, apart_rows), leaf)
    return max(worst, float(grad[:, [0, 2]].abs().max()))


def truth_is_aligned(_: Evidence) -> float:
    """Boxes made from the content of cells: equal borders in a line, neighbours that touch, content inside, and empty
    cells between their neighbours. Content is drawn inside a grid with random gaps."""
    worst = 0.0
    for number, spans in enumerate(_grids(20)):
        cells = grid_boxes(spans)
        inset = 1 + 3 * uniform(len(spans), 4, seed=f"inset {number}")
        content = cells + inset * torch.tensor([1.0, 1.0, -1.0, -1.0])
        x, y = aligned_borders(content, spans, 2.0)
        boxes = gridded(x, y, spans)
        worst = max(worst, float(alignment_loss(boxes, spans)))
        outside = torch.cat([boxes[:, :2] - content[:, :2], content[:, 2:] - boxes[:, 2:]], 1)
        worst = max(worst, float(outside.max().clamp(min=0)))
        if len(spans) > 4:
            content[0] = 0
            worst = max(worst, float(aligned_borders(content, spans, 2.0)[0].isnan().sum()))
    return worst


# Relations and spans --------------------------------------------------------------------------------------------------


def relations_are_as_defined(_: Evidence) -> float:
    """Reflexive and symmetric, as a loop over rows says; not transitive; and contained cells are the code's rule."""
    wrong, chains = 0, 0
    for spans in _grids(20):
        mates = related(spans, "rows")
        for i, (a, b, *_) in enumerate(spans.tolist()):
            for j, (c, d, *_) in enumerate(spans.tolist()):
                shared = set(range(a, b + 1)) & set(range(c, d + 1))
                wrong += bool(shared) != bool(mates[i, j])
                inner = shared in (set(range(a, b + 1)), set(range(c, d + 1)))
                wrong += inner != bool(related(spans, "rows", "contains")[i, j])
        linked = (mates.double() @ mates.double()) > 0
        chains += int((linked & ~mates).sum())
    return float(wrong + (chains == 0))


def spans_make_a_round_trip(_: Evidence) -> float:
    """Random merged grids to boxes and relations, and back to spans: how many come back changed."""
    wrong = 0
    for spans in _grids(60):
        found = assigned_spans(grid_boxes(spans), related(spans, "rows").double(), related(spans, "columns").double())
        grid = repaired(found, torch.ones(len(spans)))
        back = torch.empty_like(found)
        back[grid.kept] = grid.spans
        wrong += not torch.equal(found, spans) or not torch.equal(back, spans) or bool(grid.repairs)
    return float(wrong)


def repairs_make_a_grid(_: Evidence) -> float:
    """Random spans that contradict each other: places with two cells after the repair, cells that got lost, and repairs
    that nobody is told of."""
    wrong = 0
    for number in range(40):
        source = generator("claims", "clash", number)
        start = torch.randint(0, 5, (12, 2), generator=source)
        size = torch.randint(0, 3, (12, 2), generator=source)
        spans = torch.stack([start[:, 0], start[:, 0] + size[:, 0], start[:, 1], start[:, 1] + size[:, 1]], 1)
        grid = repaired(spans, torch.rand(12, generator=source))
        taken = torch.zeros(8, 8)
        for top, bottom, left, right in grid.spans.tolist():
            taken[top : bottom + 1, left : right + 1] += 1
        lost = (grid.joined < 0).sum() + (grid.joined >= len(grid.kept)).sum()
        wrong += int((taken > 1).sum()) + int(lost) + int(len(grid.kept) < 12 and not grid.repairs)
    return float(wrong)


def partners_are_balanced(_: Evidence) -> float:
    """The share of mates among sampled partners, for cells that have both kinds, against a half."""
    mates = related(merged_grid(generator("claims", "sampler"), 7, 6), "rows")
    cell, partner = sampled_pairs(mates, 4000, generator("claims", "draws"))
    share = mates[cell, partner].double().view(len(mates), -1).mean(1)
    return float((share - 0.5).abs()[~mates.all(1)].mean())


# Network --------------------------------------------------------------------------------------------------------------


def edges_are_as_defined(_: Evidence) -> float:
    """The edge convolution against [x_i, x_i - x_j] of every edge, forward and backward; with itself as its only
    neighbour, the network of [x, 0]; and any order of cells."""
    layer = filled(DeepEdgeConv(5, (7, 6, 4)))
    x = noise(9, 5, seed="x").requires_grad_()
    near = feature_neighbours(x.unsqueeze(0), 4)[0]

    def network(edges: Tensor) -> Tensor:
        for linear in layer.layers:
            edges = F.relu(linear(edges))
        return edges

    direct = network(torch.cat([x.unsqueeze(1).expand(-1, 4, -1), x.unsqueeze(1) - x[near]], -1)).amax(1)
    leaves = [x, *layer.parameters()]
    worst = apart_with_gradients(layer(x, near), direct, leaves, True)
    alone = layer(x, torch.arange(9).unsqueeze(1))
    worst = max(worst, apart(alone, network(torch.cat([x, torch.zeros_like(x)], 1))))
    order = torch.randperm(9, generator=generator("claims", "order"))
    again = layer(x[order], feature_neighbours(x[order].unsqueeze(0), 4)[0])
    return max(worst, apart(again, layer(x, near)[order]))


def tables_do_not_mix(_: Evidence) -> float:
    """Features of cells: in any order, and with or without another table in the same batch."""
    branch = filled(GraphBranch(6, 8, 5, 7, 3, 4))
    with torch.no_grad():
        first, second = noise(11, 6, seed="first"), noise(7, 6, seed="second")
        both = branch(torch.cat([first, second]), [11, 7])
        order = torch.randperm(11, generator=generator("claims", "order"))
        worst = apart(both[:11], branch(first, [11]))
        return max(worst, apart(branch(first[order], [11]), both[:11][order]))


def all_pairs_are_the_loop(_: Evidence) -> float:
    """Logits of all pairs against those of one pair after another, forward and backward."""
    pairs = filled(PairClassifier(6, (8, 5)))
    features, boxes = noise(7, 6, seed="f").requires_grad_(), noise(7, 4, seed="b").requires_grad_()
    index = torch.arange(7)
    loop = [pairs(features, boxes, index[i : i + 1], index[j : j + 1])[0] for i in range(7) for j in range(7)]
    leaves = [features, boxes, *pairs.parameters()]
    return apart_with_gradients(pairs.every(features, boxes), torch.stack(loop).view(7, 7, 2), leaves, True)


def lines_are_interpolated(_: Evidence) -> float:
    """Features along the lines through cells against PyTorch's `grid_sample`, forward and backward."""
    maps = noise(2, 3, 9, 11, seed="maps").requires_grad_()
    corner = 12 * uniform(6, 2, seed="corner")
    boxes, owner = (
        torch.cat([corner, corner + 4 + 12 * uniform(6, 2, seed="size")], 1),
        torch.tensor([0, 1, 0, 1, 1, 0]),
    )
    ours = centre_lines(maps, boxes, owner, 5, 1 / 4)
    share = (torch.arange(5).double() + 0.5) / 5
    low, high = boxes[:, None, :2] / 4, boxes[:, None, 2:] / 4
    along, middle = low + share.view(-1, 1) * (high - low), ((low + high) / 2).expand(-1, 5, -1)
    theirs = []
    for x, y in ((along[..., 0], middle[..., 1]), (middle[..., 0], along[..., 1])):
        grid = torch.stack([2 * x / 11 - 1, 2 * y / 9 - 1], -1).unsqueeze(1)
        theirs.append(F.grid_sample(maps[owner], grid, padding_mode="border", align_corners=False)[:, :, 0].mT)
    return apart_with_gradients(list(ours), theirs, [maps])


def lstm_sees_the_last_state(_: Evidence) -> float:
    """Visual features against the equations of an LSTM, step by step."""
    visual = filled(VisualLSTM(3, 4, 5, 1 / 4))
    maps, boxes = (
        noise(1, 3, 8, 8, seed="maps"),
        torch.tensor([[2.0, 3.0, 20.0, 15.0], [8.0, 8.0, 30.0, 31.0]]).double(),
    )
    lines = centre_lines(maps, boxes, torch.zeros(2, dtype=torch.long), 5, 1 / 4)
    states = []
    for lstm, line in zip((visual.across, visual.down), lines, strict=True):
        weights = dict(lstm.named_parameters())
        h = c = torch.zeros(2, 4, dtype=torch.float64)
        for step in range(5):
            gates = F.linear(line[:, step], weights["weight_ih_l0"], weights["bias_ih_l0"])
            gates = gates + F.linear(h, weights["weight_hh_l0"], weights["bias_hh_l0"])
            i, f, g, o = gates.chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        states.append(h)
    with torch.no_grad():
        return apart(visual(maps, boxes, torch.zeros(2, dtype=torch.long)), torch.cat(states, 1))


def pyramid_is_as_drawn(_: Evidence) -> float:
    """The two-way pyramid against its sums written out, forward and backward."""
    net = filled(TwoWayPyramid((3, 4, 5, 6), 4))
    maps = [
        noise(1, c, 32 // s, 48 // s, seed=f"map {s}").requires_grad_()
        for c, s in zip((3, 4, 5, 6), (1, 2, 4, 8), strict=True)
    ]
    up = [net.up[0](maps[0])]
    for n in (1, 2, 3):
        up.append(F.max_pool2d(net.up[n](up[-1]), 2))
    down = net.down(maps[3])
    wide = [down.repeat_interleave(8 // s, 2).repeat_interleave(8 // s, 3) for s in (1, 2, 4, 8)]
    sums = [up[0] + wide[0], up[1] + wide[1] + net.lateral[0](maps[1]), up[2] + wide[2] + net.lateral[1](maps[2]),
            up[3] + wide[3]]  # fmt: skip
    theirs = []
    for level, smooth in zip(sums, net.smooth, strict=True):
        w: Any = smooth.weight
        padded = F.pad(level, (1, 1, 1, 1))
        corners = [padded[..., dy : dy + level.shape[2], dx : dx + level.shape[3]] for dy in (0, 2) for dx in (0, 2)]
        taps = [torch.einsum("oc,bchw->bohw", w[:, :, k // 2, k % 2], corner) for k, corner in enumerate(corners)]
        bias: Any = smooth.bias
        theirs.append(sum(taps) + bias.view(-1, 1, 1))
    return apart_with_gradients(net(maps)[:4], theirs, [*maps, *net.parameters()], True)


def regions_are_those_of_the_heads(_: Evidence) -> float:
    """Regions pooled by masks, as for export, against the detector's own; masks of rectangles against a loop."""
    detector = filled(build(SMALL)).detector
    assert detector is not None
    maps = [noise(1, SMALL.channels, 64 // s, 64 // s, seed=f"map {s}") for s in (1, 2, 4, 8, 16)]
    boxes = torch.tensor([[0, 0, 40, 20], [10, 10, 150, 200], [0, 0, 255, 255], [30.5, 41, 60, 77.5]]).double()
    regions = regions_of([boxes])
    with torch.no_grad():
        heads = detector.roi_heads
        worst = apart(_pooled(heads, maps, regions), heads.pooled(maps, boxes, regions.picture, heads.size))
    inside = torch.tensor([[5.0, 5, 30, 30], [0, 0, 100, 100], [100, 90, 260, 280], [31, 40, 61, 80]]).double()
    masks = box_masks(boxes, inside, 6)
    for n in range(4):
        for row in range(6):
            for column in range(6):
                x = float(inside[n, 0] + (column + 0.5) / 6 * (inside[n, 2] - inside[n, 0]))
                y = float(inside[n, 1] + (row + 0.5) / 6 * (inside[n, 3] - inside[n, 1]))
                within = float(boxes[n, 0]) <= x < float(boxes[n, 2]) and float(boxes[n, 1]) <= y < float(boxes[n, 3])
                worst = max(worst, abs(float(masks[n, row, column]) - within))
    return worst


def parts_have_their_counts(_: Evidence) -> float:
    """Parameters of the published network's parts against what follows from their sizes."""

    def linear(*widths: int) -> int:
        return sum(a * b + b for a, b in pairwise(widths))

    with torch.device("meta"):
        net = build(PRESETS["paper"].model)
    assert net.detector is not None
    assert net.structure is not None
    heads = net.detector.roi_heads
    rcnn, vertex = net.detector, 2 * 128 + 4
    expected: list[tuple[Any, int]] = [
        # The finest and three pooled projections, the deepest one, two laterals, four 2x2 convolutions.
        (rcnn.backbone.get_submodule("fpn"),
         linear(256, 256) * 4 + linear(2048, 256) + linear(512, 256) + linear(1024, 256) + 4 * (4 * 256 * 256 + 256)),
        (rcnn.rpn, 9 * 256 * 512 + 512 + linear(512, 3) + linear(512, 12)),
        (heads.box_head, linear(49 * 256, 1024, 1024)),
        (heads.box_predictor, linear(1024, 2) + linear(1024, 8)),
        (heads.mask_head, 4 * (9 * 256 * 256 + 256)),
        (heads.mask_predictor, 4 * 256 * 256 + 256 + linear(256, 2)),
        # Four gates, two biases each.
        (net.structure.visual, 2 * 4 * (256 * 128 + 128 * 128 + 2 * 128)),
        # Norm, first layer; edge convolutions on 128 and on 64 features; exchanges; two layers on all of it.
        (net.structure.branches["rows"],
         2 * vertex + linear(vertex, 128) + linear(256, 128, 128, 128) + 3 * linear(128, 128, 128, 128)
         + 3 * linear(256, 64) + linear(4 * 128 + 3 * 64, 256, 256)),
        (net.structure.pairs["columns"], 2 * 516 + linear(516, 512, 256, 256, 2)),
    ]  # fmt: skip
    return float(max(abs(sum(p.numel() for p in part.parameters()) - count) for part, count in expected))


# Metrics --------------------------------------------------------------------------------------------------------------


def relations_score_as_defined(_: Evidence) -> float:
    """A table against itself; without one cell, which costs exactly its relations in recall; empty; and moved away."""
    worst = 0.0
    for spans in _grids(20):
        boxes = grid_boxes(spans).numpy()
        truth = Structure(boxes, spans.numpy())
        every, none = relations(truth.spans), Structure(boxes[:0], truth.spans[:0])
        worst = max(worst, 1 - relation_counts(truth, truth).f1(), 1.0 - float(span_hits(truth, truth).mean()))
        if every:
            worst = max(
                worst,
                relation_counts(none, truth).f1(),
                relation_counts(Structure(boxes + 1e4, truth.spans), truth).f1(),
            )
        for cell in range(len(spans)):
            kept = np.arange(len(spans)) != cell
            found = relation_counts(Structure(boxes[kept], truth.spans[kept]), truth)
            own = sum(cell in pair[:2] for pair in every)
            worst = max(worst, float(abs(found.true - found.right - own)))
    return worst


def _random_tree(source: torch.Generator, depth: int = 0) -> Node:
    count = int(torch.randint(0, 4 if depth < 3 else 1, (), generator=source))
    children = tuple(_random_tree(source, depth + 1) for _ in range(count))
    return Node(int(torch.randint(4, (), generator=source)), children)


def distances_are_apteds(_: Evidence) -> float:
    """Edit distances of random trees against the library `apted`, which TEDS' public code uses."""
    try:
        from apted import APTED, Config  # type: ignore[import-untyped]
    except ImportError:
        raise CannotJudge("this needs the library apted") from None
    rename: Callable[[Any, Any], float] = lambda a, b: 0.0 if a == b else 0.3 + 0.1 * abs(a - b)  # noqa: E731

    class Costs(Config):
        def rename(self, node1: Node, node2: Node) -> float:
            return rename(node1.label, node2.label)

        def children(self, node: Node) -> list[Node]:
            return list(node.children)

    source, worst = generator("claims", "trees"), 0.0
    for _number in range(40):
        a, b = _random_tree(source), _random_tree(source)
        worst = max(worst, abs(APTED(a, b, Costs()).compute_edit_distance() - tree_distance(a, b, rename)))
    return worst


def teds_has_its_closed_forms(_: Evidence) -> float:
    """Tables that are equal, that differ in one span, in one text, and by one row; and BLEU of equal and cut tags."""
    spans = np.array([(r, r, c, c) for r in range(3) for c in range(4)])
    plain, texts = table_tree(spans), [chr(97 + n) * 4 for n in range(12)]
    wide = np.concatenate([[[0, 0, 0, 1]], spans[2:]])
    other = [*texts[:-1], "lllx"]
    size = 12 + 3 + 1  # cells, rows, body
    values = [
        (teds(plain, plain), 1.0),
        (teds(table_tree(wide), plain), 1 - 2 / size),  # one cell changes, one goes
        (teds(table_tree(spans, other), table_tree(spans, texts)), 1 - 0.25 / size),
        (teds(table_tree(spans[:8]), plain), 1 - 5 / size),  # a row and its four cells
        (bleu([markup(plain)], [markup(plain)]), 1.0),
        (bleu([markup(plain)[:20]], [markup(plain)]), float(np.exp(1 - len(markup(plain)) / 20))),
    ]
    return max(abs(a - b) for a, b in values)
