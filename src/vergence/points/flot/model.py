"""FLOT: features of two clouds, optimal transport between them, and refinement of the resulting flow."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn.setconv import SetConv
from vergence.ops.knn import nearest
from vergence.ops.precision import full_precision
from vergence.ops.support import Blocks
from vergence.ops.transport import (
    barycentres,
    cosine_cost,
    cosine_kernel,
    distances,
    gibbs,
    relaxation,
    scalings,
    unit,
    within,
)
from vergence.points.flot.settings import ModelConfig

LARGE = {"cpu": 1024 * 1024}
"""From this number of pairs on, only those within reach are computed, block by block: on the CPU because blocks stay in
its cache, on other devices (from 4096 x 4096) to save memory."""
GUARD = 1e-8
"""The authors' code adds this to every denominator."""


class SetNet(nn.Module):
    """A sequence of set convolutions on one neighbour graph."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        ends = (3, *widths)
        self.convs = nn.ModuleList(SetConv(a, b) for a, b in zip(ends, widths, strict=False))

    def forward(self, signal: Tensor, points: Tensor, neighbours: Tensor) -> Tensor:
        """Features (B, N, C) of a signal (B, N, 3) at points (B, N, 3)."""
        for conv in self.convs:
            signal = conv(signal, points, neighbours)
        return signal


class FLOT(nn.Module):
    """Scene flow from two clouds."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.settings = model
        if model.matching == "transport":
            self.log_eps, self.log_mass = (nn.Parameter(torch.tensor([start])) for start in model.start)
            if model.cost == "features":
                self.features = SetNet(model.widths)
        self.refine = SetNet(model.widths)
        self.last = nn.Linear(model.widths[-1], 3)

    @property
    def eps(self) -> Tensor:
        """The weight of the entropy, (1,)."""
        return self.log_eps.exp() + self.settings.floor

    @property
    def power(self) -> Tensor:
        """``mass / (mass + eps)``, (1,): 0 leaves mass free, 1 fixes it."""
        power = relaxation(self.eps, self.log_mass.exp())
        assert isinstance(power, Tensor)
        return power

    def forward(self, p: Tensor, q: Tensor) -> dict[str, Tensor]:
        """The ``flow`` from points (B, N, 3) to (B, M, 3), and the flow ``before`` refinement; both (B, N, 3)."""
        for cloud in (p, q):
            if cloud.dim() != 3 or cloud.shape[2] != 3 or not cloud.shape[1] or not cloud.is_floating_point():
                raise VergenceError(
                    f"a cloud is (B, N, 3) of floats, N >= 1; got {tuple(cloud.shape)} of {cloud.dtype}"
                )
        if p.shape[0] != q.shape[0] or p.dtype != q.dtype:
            raise VergenceError(
                f"two clouds have one batch size and type; got {p.shape[0]} {p.dtype}, {q.shape[0]} {q.dtype}"
            )
        graph = self.graph(p)
        before = self.match(p, q, graph)
        return {"flow": before + self.last(self.refine(before, p, graph)), "before": before}

    def graph(self, points: Tensor) -> Tensor:
        return nearest(points, min(self.settings.neighbours, points.shape[1]))

    def match(self, p: Tensor, q: Tensor, graph: Tensor) -> Tensor:
        """The flow before refinement, (B, N, 3). A point with no candidate within reach has zero flow."""
        if self.settings.matching == "zero":
            return torch.zeros_like(p)
        if self.settings.matching == "nearest":
            return q.gather(1, nearest(q, 1, p).expand(-1, -1, 3)) - p
        with full_precision(p):
            kind = torch.promote_types(p.dtype, torch.float32)
            x, y = self.described(p, q, graph)
            x, y, p_, q_ = (t.to(kind) for t in (x, y, p, q))
            pairs = p.shape[1] * q.shape[1]
            if pairs < LARGE.get(p.device.type, 4096 * 4096) or p.is_meta:  # blocks depend on the coordinates
                return self.flow(self.kernel(x, y, p_, q_), p_, q_).to(p.dtype)
            flows = [self.flow(self.near(*cloud), *cloud[2:]) for cloud in zip(x, y, p_, q_, strict=True)]
            return torch.stack(flows).to(p.dtype)

    def described(self, p: Tensor, q: Tensor, graph: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs of the cost: features of both clouds, or the points themselves."""
        if self.settings.cost == "distance":
            return p, q
        return self.features(p, p, graph), self.features(q, q, self.graph(q))

    def kernel(self, x: Tensor, y: Tensor, p: Tensor, q: Tensor) -> Tensor:
        """``exp(-C / eps)`` for every pair (B, N, M), 0 for those out of reach."""
        cost = cosine_cost(x, y) if self.settings.cost == "features" else distances(x, y)
        return gibbs(cost, self.eps, within(p, q, self.settings.reach))

    def near(self, x: Tensor, y: Tensor, p: Tensor, q: Tensor) -> Blocks:
        """Like :meth:`kernel` for one pair of clouds, computing only pairs within reach."""
        if self.settings.cost == "features":
            x, y, eps = unit(x), unit(y), self.eps
            return Blocks.within(
                p, q, self.settings.reach, lambda i, j: cosine_kernel(x.index_select(0, i), y.index_select(0, j), eps)
            )
        return Blocks.within(p, q, self.settings.reach, lambda i, j: gibbs(distances(x[i], y[j]), self.eps))

    def flow(self, kernel: Tensor | Blocks, p: Tensor, q: Tensor) -> Tensor:
        """Alg. 1 and Eq. 6."""
        a, b = scalings(kernel, self.power, self.settings.iterations, guard=GUARD)
        if self.settings.average == "guarded":
            sums = kernel @ torch.cat([b * q, b], -1)
            total = a * sums[..., 3:]
            return (a * sums[..., :3] / (total + GUARD) - p).where(total > 0, 0)
        middle = p.mean(-2, keepdim=True)  # centred coordinates lose fewer digits
        target, seen = barycentres(kernel, b, q - middle)
        return (target - (p - middle)).where(seen, 0)


def build(model: ModelConfig) -> FLOT:
    return FLOT(model)


# The authors' checkpoints ---------------------------------------------------------------------------------------------


def _published() -> dict[str, str]:
    """Maps the names of a public checkpoint to this model's."""
    names = {"epsilon": "log_eps", "gamma": "log_mass", "fc.weight": "last.weight", "fc.bias": "last.bias"}
    for theirs, ours in (("feat_conv", "features.convs"), ("ref_conv", "refine.convs")):
        for conv in range(3):
            for layer in range(3):
                of, to = f"{theirs}{conv + 1}", f"{ours}.{conv}"
                names[f"{of}.fc{layer + 1}.weight"] = f"{to}.layers.{layer}.weight"
                names[f"{of}.bn{layer + 1}.weight"] = f"{to}.scales.{layer}"
                names[f"{of}.bn{layer + 1}.bias"] = f"{to}.shifts.{layer}"
    return names


PUBLISHED = _published()


def from_published(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a public checkpoint under this model's names; unknown names stay as they are."""
    return {PUBLISHED.get(name, name): w.flatten(1) if w.dim() == 4 else w for name, w in weights.items()}


def as_published(network: FLOT) -> dict[str, Tensor]:
    """This model's parameters under the names of a public checkpoint; gradients flow through."""
    parameters = dict(network.named_parameters())
    renamed = {theirs: parameters[ours] for theirs, ours in PUBLISHED.items()}
    return {name: w[..., None, None] if ".fc" in name else w for name, w in renamed.items()}
