"""Checks of BC-GNN in float64: the graph against its definition, its sums, its causality, labels and loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vergence.contract.claims import Evidence
from vergence.contract.evidence import apart, apart_with_gradients, filled, noise, uniform
from vergence.core.seeding import generator
from vergence.nn.boundary_graph import Edges, GraphReasoning, SpanContent, normalised, summed
from vergence.ops.spans import soft_nms_spans, span_iou
from vergence.reference import boundary_graph as plain
from vergence.reference import spans as plain_spans
from vergence.video.annotated import assigned, edges
from vergence.video.bcgnn.model import BCGNN, balanced
from vergence.video.bcgnn.settings import ModelConfig

LENGTH = 9
_SMALL = ModelConfig(base=8, width=6, content=5, points=4)


def _own(length: int = LENGTH, longest: int = 0) -> Edges:
    return Edges(*edges(length, longest))


def edge_counts(_: Evidence) -> float:
    """Deviation of the number of spans from 4,950 (100 positions) and 6,112 (128, at most 64 long)."""
    return float(abs(len(edges(100)[0]) - 4950) + abs(len(edges(128, 64)[0]) - 6112))


def network_is_its_definition(_: Evidence) -> float:
    """The whole network against the dense form on the square of all pairs, with every gradient."""
    worst = 0.0
    for longest in (0, 5):
        model = filled(BCGNN(ModelConfig(base=8, width=6, content=5, points=4, longest=longest), 7))
        features = noise(2, 7, LENGTH, seed="features").requires_grad_()
        ours, theirs = model(features), plain.dense(model, features)
        leaves = [features, *model.parameters()]
        worst = max(
            worst, apart_with_gradients([ours[k] for k in ours], [theirs[k] for k in ours], leaves, relative=True)
        )
    return worst


def reasoning_is_its_definition(_: Evidence) -> float:
    """One block against loops over nodes and their neighbours (Eqs. 1 to 3), with gradients."""
    block, own = filled(GraphReasoning(4)), _own(6)
    start, end = (noise(6, 1, 4, seed=s).abs().requires_grad_() for s in ("start", "end"))
    forth, back = (noise(len(own.start), 1, 4, seed=s).requires_grad_() for s in ("forth", "back"))
    ours = block(start, end, forth, back, own)
    keys = list(zip(own.start.tolist(), own.end.tolist(), strict=True))
    theirs = plain.reasoning(
        start[:, 0],
        end[:, 0],
        dict(zip(keys, forth[:, 0], strict=True)),
        dict(zip(keys, back[:, 0], strict=True)),
        block,
    )
    pairs = [(ours[0][:, 0], theirs[0]), (ours[1][:, 0], theirs[1])]
    pairs += [(ours[k][:, 0], torch.stack([theirs[k][key] for key in keys])) for k in (2, 3)]
    leaves = [start, end, forth, back, *block.parameters()]
    return apart_with_gradients([a for a, _ in pairs], [b for _, b in pairs], leaves)


def contents_are_sampled(_: Evidence) -> float:
    """Features of spans against samples taken one by one; of a constant sequence, against the layer of its value."""
    layer, own = filled(SpanContent(3, 5, 4)), _own()
    sequence = noise(1, 3, LENGTH, seed="sequence").requires_grad_()
    theirs = torch.stack(
        [plain.span_content(sequence[0], layer.layer, 4, i, j) for i, j in zip(*(e.tolist() for e in own), strict=True)]
    )
    worst = apart_with_gradients(layer(sequence, own)[:, 0], theirs, [sequence, *layer.parameters()])
    value = noise(3, seed="constant")
    constant = layer(value.view(1, 3, 1).expand(1, 3, LENGTH), own)[:, 0]
    return max(worst, apart(constant, layer.layer(value.repeat_interleave(4)).expand_as(constant)))


def out_edges_sum_to_one(_: Evidence) -> float:
    """Eq. 2: deviation from 1 of the sum over the out-edges of a head, in every channel and both directions."""
    own = _own()
    worst = 0.0
    for head in own:
        weights = noise(len(own.start), 2, 4, seed="edges").abs() * 1e5 + 1e5
        totals = summed(normalised(weights, head, LENGTH), head, LENGTH)
        has = summed(torch.ones_like(weights), head, LENGTH) > 0
        worst = max(worst, float((totals - has.double()).abs().max()))
    return worst


def without_weights_nothing_changes(_: Evidence) -> float:
    """A block whose matrices are zero returns the rectified nodes and edges."""
    block, own = filled(GraphReasoning(4)), _own()
    for parameter in block.parameters():
        torch.nn.init.zeros_(parameter)
    inputs = [noise(n, 2, 4, seed=k) for k, n in enumerate((LENGTH, LENGTH, len(own.start), len(own.start)))]
    outputs = block(*inputs, own)
    return max(apart(out, torch.relu(given)) for out, given in zip(outputs, inputs, strict=True))


def time_has_a_direction(_: Evidence) -> float:
    """Change of the starts from position j on if the end at j changes, in one block; and of the first end and the last
    start, which have no edges, from their rectified features."""
    block, own = filled(GraphReasoning(4)), _own()
    start, end = (noise(LENGTH, 1, 4, seed=s).abs() for s in ("start", "end"))
    edge = noise(len(own.start), 1, 4, seed="edges").abs()
    before = block(start, end, edge, edge, own)
    worst = max(apart(before[1][0], torch.relu(end[0])), apart(before[0][-1], torch.relu(start[-1])))
    for j in range(LENGTH):
        changed = end.clone()
        changed[j] += 1
        after = block(start, changed, edge, edge, own)
        if j and apart(after[0][:j], before[0][:j]) == 0:
            return math.inf  # a start before it has to feel it
        worst = max(worst, apart(after[0][j:], before[0][j:]))
    return worst


def directions_agree(_: Evidence) -> float:
    """Directed and undirected networks with equal matrices and equal edges."""
    torch.manual_seed(0)
    directed = filled(BCGNN(_SMALL, 7))
    single = filled(BCGNN(ModelConfig(base=8, width=6, content=5, points=4, directed=False), 7))
    state = directed.state_dict()
    for name in list(state):
        if name.endswith("to_start.weight") and name.startswith("blocks"):
            state[name] = state[name.replace("to_start", "to_end")]
    directed.load_state_dict(state)
    single.load_state_dict(state)
    features = noise(1, 7, LENGTH, seed="features")
    one, other = directed(features), single(features)
    return max(apart(one[k], other[k]) for k in one)


def loss_is_balanced(_: Evidence) -> float:
    """Eq. 7: change of the loss if all negatives are there twice; its deviation from 2 log 2 where every probability
    is a half, and from twice BMN's loss."""
    logits, labels = noise(1, 20, seed="logits"), (uniform(1, 20, seed="labels") < 0.3).double()
    negative = labels[0] < 0.5
    twice = torch.cat([logits, logits[:, negative]], 1), torch.cat([labels, labels[:, negative]], 1)
    half = float(balanced(torch.zeros_like(logits), labels)) - 2 * math.log(2)
    share = 20 / labels.sum()  # BMN: 0.5 r / (r - 1) for positives and 0.5 r for negatives, r = N / positives
    p = logits.sigmoid()
    weights = 0.5 * share * labels * p.log() + 0.5 * share / (share - 1) * (1 - labels) * (1 - p).log()
    return max(
        abs(float(balanced(*twice) - balanced(logits, labels))),
        abs(half),
        abs(float(balanced(logits, labels) + 2 * weights.mean())),
    )


def labels_mirror(_: Evidence) -> float:
    """Labels of a mirrored video against mirrored labels; the smallest overlap of a span whose ends belong to one
    instance must be 0.8 at least, or the result is infinite."""
    spans = torch.tensor([[10.3, 33.1], [50.2, 71.9], [80.0, 84.0]], dtype=torch.float64)
    length = 100
    start, end, content = assigned(spans, length)
    mirrored = assigned((length - spans).flip(1), length)
    i, j = edges(length)
    square = torch.zeros(length, length)
    square[i, j] = content
    other = torch.zeros(length, length)
    other[i, j] = mirrored[2]
    worst = max(apart(mirrored[0], end.flip(0)), apart(mirrored[1], start.flip(0)), apart(other, square.flip(0, 1).mT))
    for instance in spans[:2]:  # long enough for a tenth of it to be more than half a position
        one = assigned(instance[None], length)[2] > 0
        overlap = span_iou(torch.stack([i[one], j[one]], 1).double() + 0.5, instance)
        if not one.any() or float(overlap.min()) < 0.8:
            return math.inf
    return worst


def suppression_is_the_loop(_: Evidence) -> float:
    """Soft-NMS of a batch against the loop over spans: scores apart, infinite if another span was taken."""
    source = generator("claims", "spans")
    spans = torch.rand(2, 200, 2, generator=source, dtype=torch.float64).sort(-1).values
    scores = torch.rand(2, 200, generator=source, dtype=torch.float64)
    index, lowered = soft_nms_spans(spans, scores, most=60)
    worst = 0.0
    for row in range(2):
        pairs: list[tuple[float, float]] = [(float(a), float(b)) for a, b in spans[row]]
        expected = plain_spans.soft_nms(pairs, scores[row].tolist(), 0.4, 0.5, 0.9, 1.0, 60)
        if index[row].tolist() != [k for k, _ in expected]:
            return math.inf
        worst = max(worst, apart(lowered[row], torch.tensor([s for _, s in expected], dtype=torch.float64)))
    return worst


def size_does_not_shift(_: Evidence) -> float:
    """The fused score of a span against the product of the three probabilities (Eq. 8)."""
    model = filled(BCGNN(_SMALL, 7))
    logits = model(noise(1, 7, LENGTH, seed="features"))
    positions, score = model.fused(logits, LENGTH)
    p: dict[str, Tensor] = {name: value.sigmoid()[0] for name, value in logits.items()}
    plain_score = torch.stack(
        [p["start"][i] * p["end"][j] * p["content"][k] for k, (i, j) in enumerate(positions.tolist())]
    )
    return apart(score[0], plain_score)
