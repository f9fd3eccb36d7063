"""What foreground search must satisfy: losses, fusion, layouts, centres, freezing and the protocol, in float64."""

from __future__ import annotations

import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.contract.claims import Evidence
from vergence.contract.evidence import apart, apart_with_gradients, filled, noise, uniform
from vergence.core.seeding import generator
from vergence.retrieval.foregrounds import Box, layout_of, random_zoom, relaxed, square_crop
from vergence.retrieval.fos_protocol import average_precision, chance, cosines, pattern_embeddings
from vergence.retrieval.fosearch.model import CentreLoss, FOSearch, QueryHead, bilinear, triplet
from vergence.retrieval.fosearch.settings import ModelConfig, Network

NETWORK = Network((1, 1), (4, 6), "basic")
MARGIN = 0.1


def _model(fusion: str = "bilinear", rectified: bool = True) -> FOSearch:
    return filled(FOSearch(ModelConfig(NETWORK, fusion, rectified=rectified), 5, (2, 3)))  # type: ignore[arg-type]


def _asked(count: int = 3, side: int = 24) -> tuple[Tensor, Tensor]:
    layouts = 0.2 + 0.4 * uniform(count, 4, seed="layouts")
    return noise(count, 3, side, side, seed="backgrounds"), layouts


def _number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def query_is_its_definition(_: Evidence) -> float:
    """The query embedding against sums written out one by one, with gradients of the head."""
    head, features, layout = filled(QueryHead(12, 5, 3)), noise(2, 3, seed="features"), uniform(2, 4, seed="layout")
    first, second = head[0], head[2]
    assert isinstance(first, nn.Linear)
    assert isinstance(second, nn.Linear)
    ours = head(bilinear(features, layout))
    rows = []
    for b, t in zip(features, layout, strict=True):
        fused = torch.stack([b[i] * t[j] for i in range(3) for j in range(4)])
        hidden = torch.stack([(w * fused).sum() + c for w, c in zip(first.weight, first.bias, strict=True)]).clamp(
            min=0
        )
        rows.append(torch.stack([(w * hidden).sum() + c for w, c in zip(second.weight, second.bias, strict=True)]))
    return apart_with_gradients(ours, torch.stack(rows).clamp(min=0), list(head.parameters()))


def fusion_is_bilinear(_: Evidence) -> float:
    """Linear in the features and in the layout, of rank one, and swapping width and height swaps two columns."""
    b, c, t, s = noise(3, 7, seed="b"), noise(3, 7, seed="c"), uniform(3, 4, seed="t"), uniform(3, 4, seed="s")
    matrices = bilinear(b, t).view(3, 7, 4)
    swapped = bilinear(b, t[:, [0, 1, 3, 2]]).view(3, 7, 4)
    return max(
        apart(bilinear(2 * b + c, t), 2 * bilinear(b, t) + bilinear(c, t)),
        apart(bilinear(b, 3 * t + s), 3 * bilinear(b, t) + bilinear(b, s)),
        float(torch.linalg.svdvals(matrices)[:, 1:].max()),
        apart(swapped, matrices[..., [0, 1, 3, 2]]),
    )


def triplet_is_its_definition(_: Evidence) -> float:
    """Against cosines written out, with gradients; printed is the same with positive and negative swapped."""
    q, p, n = (noise(6, 5, seed=name).requires_grad_() for name in ("q", "p", "n"))
    ours = triplet(q, p, n, MARGIN)
    terms = []
    for a, b, c in zip(q, p, n, strict=True):
        near, far = ((a * x).sum() / (a.square().sum() * x.square().sum()).sqrt() for x in (b, c))
        terms.append((far - near + MARGIN).clamp(min=0))
    swapped = apart(triplet(q, p, n, MARGIN, printed=True), triplet(q, n, p, MARGIN))
    return max(apart_with_gradients(ours, torch.stack(terms).mean(), [q, p, n]), swapped)


def triplet_is_bounded(_: Evidence) -> float:
    """0 once the positive leads by the margin, the margin if both are the same, 2 + margin at most, and no change when
    embeddings are scaled."""
    q, p, n = (noise(50, 8, seed=name) for name in ("q", "p", "n"))
    scaled = triplet(3.7 * q, 0.2 * p, 11 * n, MARGIN)
    each = torch.stack([triplet(a[None], b[None], c[None], MARGIN) for a, b, c in zip(q, p, n, strict=True)])
    lead = (cosines(q, p) - cosines(q, n)).diagonal()
    return max(
        apart(triplet(q, p, p, MARGIN), _number(MARGIN)),
        apart(triplet(q, q, -q, MARGIN), _number(0.0)),
        apart(triplet(q, -q, q, MARGIN), _number(2 + MARGIN)),
        apart(scaled, triplet(q, p, n, MARGIN)),
        float((each - 2 - MARGIN).max().clamp(min=0)),
        float(each[lead >= MARGIN].max()) if bool((lead >= MARGIN).any()) else 1.0,
    )


def only_the_head_learns(_: Evidence) -> float:
    """The number of tensors (gradients, weights, running statistics) outside the query head that a training step
    touches; and those of the head that it does not."""
    model = _model()
    model.learn("head")
    model.train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    background, layout = _asked()
    near, far = model.foreground(noise(6, 3, 24, 24, seed="cut-outs")).chunk(2)
    triplet(model.query(background, layout), near, far, margin=2.0).backward()
    reached = {name for name, p in model.named_parameters() if p.grad is not None}
    moved = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}
    return float(len((reached | moved) ^ {f"head.{name}" for name, _ in model.head.named_parameters()}))


def cosines_are_positive(_: Evidence) -> float:
    """How far cosines of rectified queries and foreground embeddings leave 0 to 1."""
    model, (background, layout) = _model(), _asked()
    with torch.no_grad():
        near = cosines(model.query(background, layout), model.foreground(noise(5, 3, 24, 24, seed="f")))
    return float(torch.maximum(-near, near - 1).max().clamp(min=0))


def early_fusion_is_blind(_: Evidence) -> float:
    """The largest change of an early-fusion query when pixels inside the box change."""
    return _change_inside("early")


def late_fusion_sees(_: Evidence) -> float:
    """The same change for late fusion."""
    return _change_inside("bilinear")


def _change_inside(fusion: str) -> float:
    model, background = _model(fusion, rectified=False), noise(1, 3, 24, 24, seed="background")
    other = background.clone()
    other[:, :, 6:18, 6:18] += noise(1, 3, 12, 12, seed="inside")
    layout = torch.tensor([[0.5, 0.5, 0.5, 0.5]], dtype=torch.float64)
    with torch.no_grad():
        return apart(model.query(background, layout), model.query(other, layout))


def centres_are_wens(_: Evidence) -> float:
    """Loss and gradient, and the update against a loop over patterns: with one sample a quarter of the way, and
    patterns that are absent stay."""
    loss = CentreLoss(4, 3).double()
    loss.centres.copy_(noise(4, 3, seed="centres"))
    x, labels = noise(5, 3, seed="x").requires_grad_(), torch.tensor([0, 0, 2, 0, 3])
    before = loss.centres.clone()
    worst = apart_with_gradients(
        loss(x, labels), sum((x[i] - before[y]).square().sum() / 2 for i, y in enumerate(labels.tolist())), [x]  # type: ignore[arg-type]
    )  # fmt: skip
    loss.follow(x, labels, 0.5)
    expected = before.clone()
    for j in range(4):
        members = [x[i].detach() for i, y in enumerate(labels.tolist()) if y == j]
        step = sum((before[j] - member for member in members), torch.zeros(3, dtype=torch.float64))
        expected[j] = before[j] - 0.5 * step / (1 + len(members))
    quarter = before[2] + (x[2].detach() - before[2]) / 4
    at_rest = float(loss(loss.centres[labels], labels))
    return max(worst, apart(loss.centres, expected), apart(loss.centres[2], quarter), apart(loss.centres[1], before[1]),
               abs(at_rest))  # fmt: skip


# Queries --------------------------------------------------------------------------------------------------------------


def _random_box(source: torch.Generator, height: int, width: int) -> Box:
    a, b, c, d = torch.rand(4, generator=source, dtype=torch.float64).tolist()
    w, h = 1 + a * (width - 1), 1 + b * (height - 1)
    return c * (width - w), d * (height - h), w, h


def squares_hold_the_box(_: Evidence) -> float:
    """Violations over random pictures and boxes: the side is the shorter one of the picture, the box's middle is
    inside, no square with a nearer middle exists, and a zoomed square still holds the whole box."""
    source, wrong = generator("claims", "squares"), 0
    for _trial in range(200):
        high, wide = (int(side) for side in torch.randint(8, 60, (2,), generator=source))
        box = _random_box(source, high, wide)
        rows, columns = torch.meshgrid(torch.arange(high), torch.arange(wide), indexing="ij")
        picture = torch.stack([rows, columns, rows]).float()
        square, inner = square_crop(picture, box)
        side = min(high, wide)
        top, left = int(square[0, 0, 0]), int(square[1, 0, 0])
        wrong += tuple(square.shape[1:]) != (side, side)
        middles = (box[0] + box[2] / 2, box[1] + box[3] / 2)
        wrong += not (left <= middles[0] <= left + side and top <= middles[1] <= top + side)
        for start, length, middle in ((left, wide, middles[0]), (top, high, middles[1])):
            best = min(abs(s + side / 2 - middle) for s in range(length - side + 1))
            wrong += abs(start + side / 2 - middle) > best + 1e-9
        zoomed, kept = random_zoom(square, inner, 1.0, source)
        wrong += not math.isclose(kept[2], inner[2], abs_tol=1e-9) or not math.isclose(kept[3], inner[3], abs_tol=1e-9)
        wrong += kept[0] + kept[2] > zoomed.shape[-1] + 1e-9 or zoomed.shape[-1] != zoomed.shape[-2]
        place = (int(zoomed[1, 0, 0]) + kept[0], int(zoomed[0, 0, 0]) + kept[1])
        wrong += not all(
            math.isclose(a - o, b, abs_tol=1e-6) for a, o, b in zip(place, (left, top), inner, strict=False)
        )
        grown = relaxed(inner, side, 0.5, source)
        wrong += grown[2] < inner[2] - 1e-9 or grown[3] < inner[3] - 1e-9 or grown[2] > 1.5 * inner[2] + 1e-9
    return float(wrong)


def layouts_do_not_know_pixels(_: Evidence) -> float:
    """The same layout at every resolution, the nearest in steps of 0.01, and a mirrored box has the centre 1 - cx."""
    source, worst = generator("claims", "layouts"), 0.0
    for _trial in range(50):
        x, y, w, h = _random_box(source, 100, 100)
        x, w = float(round(x)), float(2 * round(w / 2))
        layout = layout_of((x, y, w, h), 100).double()
        mirrored = layout_of((100 - x - w, y, w, h), 100).double()
        exact = torch.tensor([x + w / 2, y + h / 2, w, h], dtype=torch.float64) / 100
        worst = max(
            worst, apart(layout, exact) - 0.005, apart(layout, layout_of((7 * x, 7 * y, 7 * w, 7 * h), 700).double()),
            apart((100 * layout).round() / 100, layout), abs(float(mirrored[0] - (1 - layout[0]))),
        )  # fmt: skip
    return worst


# Protocol -------------------------------------------------------------------------------------------------------------


def patterns_of_one_are_instances(_: Evidence) -> float:
    """Differences between the rankings of instances and of patterns that have one member each."""
    gallery, queries, patterns = noise(9, 5, seed="g"), noise(4, 5, seed="q"), torch.tensor([3, 8, 1, 0, 5, 2, 7, 4, 6])
    centroids, known = pattern_embeddings(gallery, patterns)
    instances = patterns[cosines(queries, gallery).argsort(1, descending=True)]
    return float((instances != known[cosines(queries, centroids).argsort(1, descending=True)]).sum())


def precision_is_the_librarys(_: Evidence) -> float:
    """Against scikit-learn on random lists; 1 for a perfect order, and a list of its own category alone."""
    from sklearn.metrics import average_precision_score

    near, fits = noise(30, 40, seed="near"), uniform(30, 40, seed="fits") < 0.2
    fits[:, 0] = True
    among = uniform(30, 40, seed="among") < 0.6
    among[:, 0] = True
    ours, limited = average_precision(near, fits), average_precision(near, fits, among)
    theirs = [average_precision_score(f.numpy(), s.numpy()) for f, s in zip(fits, near, strict=True)]
    part = [average_precision_score(f[a].numpy(), s[a].numpy()) for f, s, a in zip(fits, near, among, strict=True)]
    perfect = average_precision(fits.double() + 0.1 * near.sigmoid(), fits)
    found = [torch.tensor(values, dtype=torch.float64) for values in (theirs, part)]
    return max(apart(ours, found[0]), apart(limited, found[1]), apart(perfect, torch.ones(30)))


def chance_is_the_mean_over_orders(_: Evidence) -> float:
    """The closed form against the mean over all orders of six cut-outs, for every number that fit."""
    orders = torch.tensor(list(itertools.permutations(range(6))), dtype=torch.float64)
    worst = 0.0
    for fitting in range(1, 7):
        fits = (torch.arange(6) < fitting).expand(len(orders), 6)
        mean = average_precision(orders, fits).mean()
        worst = max(worst, abs(float(mean - chance(torch.tensor([fitting]), torch.tensor([6]))[0])))
    return worst


def zero_layouts_say_nothing(_: Evidence) -> float:
    """The largest difference of query embeddings of different pictures where the layout is zero."""
    model, (background, layout) = _model(), _asked()
    with torch.no_grad():
        query = model.query(background, 0 * layout)
    return apart(query, F.relu(query[:1]).expand_as(query))
