"""MinkUNet, SPVCNN and the networks of SPVNAS: one class, and the supernet that holds them all.

A network gets points (P, 4), x, y, z in metres and an intensity, and the cloud (P,) that each is from; it gives logits
(P, classes). Points are averaged to voxels for the U-Net. With a point branch, features go back and forth between
points and voxels three times: after the stem, at the bottom and half-way up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from vergence.core.errors import VergenceError
from vergence.nn.sparse import PerVoxel, SparseConv3d, SparseTensor, joined
from vergence.points.architecture import BLOCKS, STAGES, Architecture, Space, scaled
from vergence.points.pointvoxel import Geometry, Sight
from vergence.points.semantickitti import CLASS_SET
from vergence.points.spvnas.settings import Config, Facts, ModelConfig
from vergence.reading.weights import load_archive

DOWN = STAGES // 2


# Layers ---------------------------------------------------------------------------------------------------------------


class Norm(nn.BatchNorm1d):
    """Batch norm over voxels or points (N, C). A single one has no variance: it is normed as in evaluation."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and len(x) < 2:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(x)


class Convolution(nn.Module):
    """Convolution, norm and perhaps ReLU."""

    def __init__(
        self, inner: int, outer: int, kernel: int = 3, stride: int = 1, transposed: bool = False, last: bool = False
    ) -> None:
        super().__init__()
        self.conv = SparseConv3d(inner, outer, kernel, stride, transposed=transposed)
        self.norm = PerVoxel(Norm(outer))
        self.last = last

    def forward(self, x: SparseTensor) -> SparseTensor:
        x = self.norm(self.conv(x))
        return x if self.last else x.with_features(x.features.relu())


class Residual(nn.Module):
    """Two convolutions beside the input, which is projected where the number of channels changes."""

    def __init__(self, before: int, within: int, after: int, projected: bool) -> None:
        super().__init__()
        self.first = Convolution(before, within)
        self.second = Convolution(within, after, last=True)
        self.shortcut = Convolution(before, after, kernel=1, last=True) if projected else None

    def forward(self, x: SparseTensor) -> SparseTensor:
        beside = x if self.shortcut is None else self.shortcut(x)
        y = self.second(self.first(x))
        return y.with_features((y.features + beside.features).relu())


class Stage(nn.Module):
    """A change of resolution, a skip connection on the way up, and residual blocks."""

    def __init__(self, arch: Architecture, stage: int, projected: bool) -> None:
        super().__init__()
        up = stage >= DOWN
        self.transition = Convolution(arch.source(stage), arch.transitions[stage], 2, 2, transposed=up)
        blocks = [Residual(*arch.block(stage, n), projected and n == 0) for n in range(arch.depths[stage])]
        self.blocks = nn.Sequential(*blocks)

    def forward(self, x: SparseTensor, skip: SparseTensor | None = None) -> SparseTensor:
        x = self.transition(x)
        result: SparseTensor = self.blocks(x if skip is None else joined(x, skip))
        return result


class PointTransform(nn.Module):
    """Linear layer, norm and ReLU of the points' own features."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inner, outer)
        self.norm = Norm(outer)

    def forward(self, features: Tensor) -> Tensor:
        transformed: Tensor = self.norm(self.linear(features)).relu()
        return transformed


class Network(nn.Module):
    """A sparse U-Net, with a point branch (SPVCNN, SPVNAS) or without one (MinkUNet)."""

    def __init__(
        self,
        arch: Architecture,
        classes: int,
        points: bool = True,
        projected: Sequence[bool] = (),
        voxel: float = 0.05,
        sight: Sight = "raw",
        nearest: bool = False,
        dropout: float = 0.3,
    ) -> None:
        super().__init__()
        self.arch, self.voxel, self.sight, self.nearest = arch, voxel, sight, nearest
        self.projected = tuple(projected) or by_width(arch)
        self.classes = classes
        self.stem = nn.Sequential(Convolution(4, arch.stem), Convolution(arch.stem, arch.stem))
        self.stages = nn.ModuleList(Stage(arch, stage, self.projected[stage]) for stage in range(STAGES))
        widths = (arch.stem, arch.outputs[3], arch.outputs[5], arch.outputs[7])
        self.transforms = nn.ModuleList(PointTransform(*pair) for pair in pairwise(widths)) if points else None
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(arch.outputs[-1], classes)

    def geometry(self, points: Tensor, cloud: Tensor) -> Geometry:
        return Geometry.of(points, cloud, self.voxel, self.sight)

    def forward(self, points: Tensor, cloud: Tensor, geometry: Geometry | None = None) -> Tensor:
        """Logits (P, classes) of points (P, 4) of the clouds (P,)."""
        where = geometry or self.geometry(points, cloud)
        features = points if where.kept is None else points[where.kept]
        logits = self.by_voxel(features, where) if self.transforms is None else self.by_point(features, where)
        return logits if where.owner is None else logits[where.owner]

    def by_voxel(self, features: Tensor, where: Geometry) -> Tensor:
        """MinkUNet: every point has the logits of its voxel."""
        skips = [self.stem(where.tensor(features))]
        for stage in self.stages[:DOWN]:
            skips.append(stage(skips[-1]))
        y = skips.pop()
        for stage in self.stages[DOWN:]:
            y = stage(y, skips.pop())
        logits: Tensor = self.classifier(y.features)
        return logits.index_select(0, where.owners[1])

    def by_point(self, features: Tensor, where: Geometry, exchange: bool = True) -> Tensor:
        """SPVCNN. Without ``exchange`` voxels keep their features where they would be averaged over points, and only
        the last fusion sees points: the U-Net is MinkUNet's then."""
        assert self.transforms is not None
        x = self.stem(where.tensor(features))
        z = where.points(x, self.nearest)
        skips = [x]
        y = where.tensor(z) if exchange else x
        for stage in self.stages[:DOWN]:
            y = stage(y)
            skips.append(y)
        skips.pop()
        for number, transform in enumerate(self.transforms):
            z = where.points(y, self.nearest) + transform(z)
            if number == 2:
                break
            y = where.tensor(z, y.stride) if exchange else y
            y = y.with_features(self.dropout(y.features))
            for stage in self.stages[DOWN + 2 * number : DOWN + 2 * number + 2]:
                y = stage(y, skips.pop())
        logits: Tensor = self.classifier(z)
        return logits


def by_width(arch: Architecture) -> tuple[bool, ...]:
    """Whether the first block of each stage projects its input, for networks built by hand: where widths differ."""
    return tuple(arch.block(stage, 0)[0] != arch.outputs[stage] for stage in range(STAGES))


# The supernet ---------------------------------------------------------------------------------------------------------


class Supernet(nn.Module):
    """All networks of a space: each has the first channels of the largest one's weights."""

    def __init__(
        self,
        space: Space,
        stem: int,
        classes: int,
        voxel: float = 0.05,
        sight: Sight = "raw",
        nearest: bool = False,
        dropout: float = 0.3,
    ) -> None:
        super().__init__()
        self.space, self.dropout = space, dropout
        self.full = Network(space.largest(stem), classes, True, (True,) * STAGES, voxel, sight, nearest, dropout)

    def geometry(self, points: Tensor, cloud: Tensor) -> Geometry:
        return self.full.geometry(points, cloud)

    def blank(self, arch: Architecture) -> Network:
        """The network of an architecture, without weights."""
        full = self.full
        with torch.device("meta"):
            network = Network(
                arch, full.classes, True, (True,) * STAGES, full.voxel, full.sight, full.nearest, self.dropout
            )
        return network.train(self.training)

    def selected(self, network: Network) -> dict[str, Tensor]:
        """A network's share of the weights and of the statistics of norms, by name: views where channels are the first
        ones, so that statistics are updated in place."""
        whole = dict(self.full.named_parameters()) | dict(self.full.named_buffers())
        wanted = dict(network.named_parameters()) | dict(network.named_buffers())
        rows = dict(_joined_rows(network.arch, self.full.arch))
        shares = {}
        for name, like in wanted.items():
            tensor = whole[name]
            if name in rows:  # channels of the skip connection have a place of their own
                tensor = tensor.index_select(1, torch.tensor(rows[name], device=tensor.device))
            shares[name] = tensor[tuple(slice(0, size) for size in like.shape)] if like.dim() else tensor
        return shares

    def forward(
        self, points: Tensor, cloud: Tensor, geometry: Geometry | None = None, arch: Architecture | None = None
    ) -> Tensor:
        """Logits (P, classes) by the network of an architecture, the largest if none is given."""
        if arch is None:
            logits: Tensor = self.full(points, cloud, geometry)
            return logits
        network = self.blank(arch)
        where = geometry or self.geometry(points, cloud)
        result: Tensor = functional_call(network, self.selected(network), (points, cloud, where))
        return result

    def extract(self, arch: Architecture) -> Network:
        """The network of an architecture with its own copy of the weights."""
        network = self.blank(arch)
        shares = self.selected(network)
        network.to_empty(device=next(self.parameters()).device)
        network.to(next(self.parameters()).dtype)
        with torch.no_grad():
            for name, tensor in (dict(network.named_parameters()) | dict(network.named_buffers())).items():
                tensor.copy_(shares[name])
        return network


def _joined_rows(arch: Architecture, full: Architecture) -> Iterator[tuple[str, list[int]]]:
    """Input channels of the convolutions behind a skip connection: first those of the transition, then, after the
    widest transition, those of the skip."""
    for stage in range(DOWN, STAGES):
        widest = full.transitions[stage]
        rows = [*range(arch.transitions[stage]), *range(widest, widest + arch.skip(stage))]
        for layer in ("first", "shortcut"):
            yield f"stages.{stage}.blocks.0.{layer}.conv.weight", rows


def build(model: ModelConfig, classes: int, found: Architecture | None = None) -> Network | Supernet:
    """The network of a config; of a search, the supernet, or the network that was found."""
    stem = scaled(model.widths, model.cr)[0]
    if model.kind == "spvnas" and found is None:
        return Supernet(model.space, stem, classes, model.voxel, model.sight, model.nearest, model.dropout)
    arch = Architecture.of(scaled(model.widths, model.cr)) if found is None else found
    projected = () if model.kind != "spvnas" else (True,) * STAGES
    points = model.kind != "minkunet"
    return Network(arch, classes, points, projected, model.voxel, model.sight, model.nearest, model.dropout)


def calibrate(network: Network, batches: Sequence[tuple[Tensor, Tensor, Geometry]]) -> Network:
    """Compute the statistics of the norms anew, as means over batches: widths of a supernet share theirs, which fit
    none of them."""
    norms = [module for module in network.eval().modules() if isinstance(module, nn.BatchNorm1d)]
    usual = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean
        norm.train()
    with torch.no_grad():
        for points, cloud, geometry in batches:
            network(points, cloud, geometry)
    for norm, momentum in zip(norms, usual, strict=True):
        norm.momentum = momentum
    return network.eval()


# The authors' checkpoints ---------------------------------------------------------------------------------------------

_RENAMED = tuple(
    (re.compile(pattern), by)
    for pattern, by in (
        (r"\.layers\.", "."),  # the supernet wraps what a specialised network has
        (r"\.bn\.bn\.", ".bn."),
        (r"\.conv\.linear\.", ".conv."),
        (r"\.(\d+)\.bn\.(?=[a-z_]+$)", r".\1."),
        (r"^stem\.[14]\.", lambda m: f"stem.{m[0][5] == '4':d}.norm.module."),
        (r"^stem\.([03])\.kernel$", lambda m: f"stem.{m[1] == '3':d}.conv.weight"),
        (r"^stage(\d)\.0\.", lambda m: f"stages.{int(m[1]) - 1}.transition."),
        (r"^stage(\d)\.([12])\.", lambda m: f"stages.{int(m[1]) - 1}.blocks.{int(m[2]) - 1}."),
        (r"^up(\d)\.0\.", lambda m: f"stages.{int(m[1]) + 3}.transition."),
        (r"^up(\d)\.1\.(\d)\.", lambda m: f"stages.{int(m[1]) + 3}.blocks.{m[2]}."),
        (r"^downsample\.(\d)\.", r"stages.\1."),
        (r"^upsample\.(\d)\.", lambda m: f"stages.{int(m[1]) + 4}."),
        (r"^(stages\.\d)\.feature\.", r"\1.blocks."),
        # within a convolution, a residual block, its shortcut
        (r"transition\.net\.(0|conv)\.kernel$", "transition.conv.weight"),
        (r"transition\.net\.(1|bn)\.", "transition.norm.module."),
        (r"(blocks\.\d)\.net\.0\.kernel$", r"\1.first.conv.weight"),
        (r"(blocks\.\d)\.net\.3\.kernel$", r"\1.second.conv.weight"),
        (r"(blocks\.\d)\.net\.1\.(?!net)", r"\1.first.norm.module."),
        (r"(blocks\.\d)\.net\.4\.", r"\1.second.norm.module."),
        (r"(blocks\.\d)\.net\.0\.net\.", r"\1.first."),
        (r"(blocks\.\d)\.net\.1\.net\.", r"\1.second."),
        (r"(blocks\.\d)\.downsample\.(net\.)?", r"\1.shortcut."),
        (r"(first|second|shortcut)\.(conv|0)\.kernel$", r"\1.conv.weight"),
        (r"(first|second|shortcut)\.(bn|1)\.", r"\1.norm.module."),
        (r"^point_transforms\.(\d)\.(0|net\.conv)\.", r"transforms.\1.linear."),
        (r"^point_transforms\.(\d)\.(1|net\.bn)\.", r"transforms.\1.norm."),
        (r"^classifier\.(0|linear)\.", "classifier."),
    )
)
"""How names of the authors' networks (SPVCNN and MinkUNet, specialised SPVNAS, its supernet) become ours, in order."""


def renamed(name: str) -> str:
    """Our name of a tensor in the authors' checkpoints; unknown names stay as they are."""
    name = f".{name}"[1:]
    for pattern, by in _RENAMED:
        name = pattern.sub(by, name)
    return name


def from_published(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a public checkpoint under our names and in our order of offsets: torchsparse has x as the fastest
    axis of kernels of odd size, as Minkowski Engine has, and z of even ones."""
    converted = {}
    for name, tensor in weights.items():
        ours = renamed(name.removeprefix("module."))
        if name.endswith("kernel"):
            if tensor.dim() == 2:
                tensor = tensor.unsqueeze(0)
            elif len(tensor) == 27:
                tensor = tensor.unflatten(0, (3, 3, 3)).permute(2, 1, 0, 3, 4).flatten(0, 2)
        converted[ours] = tensor
    return converted


def architecture_of(weights: Mapping[str, Tensor]) -> Architecture:
    """The architecture that tensors under our names belong to."""

    def width(name: str) -> int:
        return weights[f"{name}.conv.weight"].shape[-1]

    depths = [1 + (f"stages.{stage}.blocks.1.first.conv.weight" in weights) for stage in range(STAGES)]
    blocks = [(stage, min(number, depths[stage] - 1)) for stage in range(STAGES) for number in range(BLOCKS)]
    return Architecture(
        width("stem.0"),
        tuple(width(f"stages.{stage}.blocks.0.second") for stage in range(STAGES)),
        tuple(width(f"stages.{stage}.transition") for stage in range(STAGES)),
        tuple(width(f"stages.{stage}.blocks.{number}.first") for stage, number in blocks),
        tuple(depths),
    )


def published(path: Path) -> tuple[Config, Facts, dict[str, Tensor]]:
    """A checkpoint of the authors; MinkUNet's has a point branch that it does not use, so that its path must say
    ``minkunet``."""
    archive = load_archive(path)
    weights = archive.get("model", archive)
    if not isinstance(weights, dict) or not all(isinstance(tensor, Tensor) for tensor in weights.values()):
        raise VergenceError(f"{path} is not a checkpoint of SPVNAS's authors: expected tensors by name in 'model'")
    ours = from_published(weights)
    needed = [f"stages.{stage}.{part}.conv.weight" for stage in range(8) for part in ("transition", "blocks.0.second")]
    if not {*needed, "stem.0.conv.weight", "classifier.weight"} <= set(ours):
        raise VergenceError(f"{path} is not a checkpoint of SPVNAS's authors: other names than theirs")
    arch = architecture_of(ours)
    facts = Facts(CLASS_SET.names)
    if any(name.startswith(("stage1", "module.stage1")) for name in weights):
        voxels_only = "minkunet" in str(path).lower() or not any(name.startswith("transforms") for name in ours)
        if voxels_only:
            ours = {name: tensor for name, tensor in ours.items() if not name.startswith("transforms")}
        model = ModelConfig("minkunet" if voxels_only else "spvcnn", (arch.stem, *arch.outputs), sight="voxel")
        return Config(model), facts, ours
    model = ModelConfig("spvnas", sight="voxel")
    if any(".layers." in name for name in weights):  # the supernet
        return Config(model), facts, {f"full.{name}": tensor for name, tensor in ours.items()}
    ours["classifier.weight"] = ours["classifier.weight"][:, : arch.outputs[-1]]  # stored at its full width
    return Config(model), replace(facts, architecture=arch), ours
