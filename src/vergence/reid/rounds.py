"""Training by rounds of pseudo-labels: describe all pictures, cluster them, train on the clusters, and again.

Every round is a training phase of its own, so that its optimiser and schedule begin anew. Its labels are the state that
``rebuild`` returns; the model keeps those of all rounds with their quality, so that weights and checkpoints tell how
clusters came about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from vergence.contract.context import Context
from vergence.core.errors import VergenceError
from vergence.core.files import write_table
from vergence.reid.data import Balanced, Seen, Viewed
from vergence.reid.pseudo import DROPPED, Pseudo, all_to_centres, dense_regions, euclidean_top, two_stage
from vergence.reid.unlabelled import has_identities

AT_ONCE = 64
"""Batch size of descriptors."""
ROUND = "round-"
"""Names of phases begin so, and end with a number from 1."""
QUALITY = ("kept", "clusters", "nmi")
UNKNOWN = -1.0
"""A quality that was not measured: weights hold finite numbers only."""
Way = Literal["two-stage", "kmeans", "euclidean", "dbscan"]
"""How pictures get labels."""
WHY = ("no cluster claimed it", "its cluster has no other picture", "several clusters claimed it")


def round_of(phase: str) -> int | None:
    """The round (from 0) that a training phase is; None for other phases."""
    return int(phase.removeprefix(ROUND)) - 1 if phase.startswith(ROUND) else None


class Trail(nn.Module):
    """Labels of all pictures and the quality of the labels, round by round."""

    labels: Tensor
    claims: Tensor
    quality: Tensor
    done: Tensor

    def __init__(self, rounds: int, pictures: int) -> None:
        super().__init__()
        self.register_buffer("labels", torch.full((rounds, pictures), DROPPED, dtype=torch.int32))
        self.register_buffer("claims", torch.zeros(rounds, pictures, dtype=torch.int32))
        self.register_buffer("quality", torch.full((rounds, len(QUALITY)), UNKNOWN, dtype=torch.float64))
        self.register_buffer("done", torch.zeros((), dtype=torch.int32))

    def note(self, number: int, found: Pseudo, quality: Mapping[str, float]) -> None:
        """Keep the labels of a round."""
        self.labels[number] = found.labels.to(self.labels)
        self.claims[number] = found.claims.to(self.claims)
        self.quality[number] = self.quality.new_tensor([quality.get(name, UNKNOWN) for name in QUALITY])
        self.done.fill_(number + 1)

    def round(self, number: int) -> Pseudo:
        """The labels of a round, counted from 0; negative numbers count from the last one."""
        number = range(int(self.done))[number]
        return Pseudo(self.labels[number].long().cpu(), self.claims[number].long().cpu())

    def told(self, number: int) -> dict[str, float]:
        """What is known of the quality of a round's labels; nothing before the first round."""
        if not int(self.done):
            return {}
        values = self.quality[range(int(self.done))[number]].tolist()
        return {name: value for name, value in zip(QUALITY, values, strict=True) if value != UNKNOWN}


@dataclass(frozen=True)
class Ways:
    """How many clusters are sought and what they claim."""

    way: Way
    clusters: int
    top: int
    k: int
    fuzzy: bool = False
    density: float = 1.6e-3

    def __call__(self, descriptors: Tensor, count: int, generator: torch.Generator) -> Pseudo:
        """Labels of descriptors (N, D) by ``count`` clusters."""
        if self.way == "kmeans":
            return all_to_centres(descriptors, count, generator)
        if self.way == "euclidean":
            return euclidean_top(descriptors, count, self.top, generator)
        if self.way == "dbscan":
            return dense_regions(descriptors, min(self.k, len(descriptors) - 1), self.density)
        return two_stage(descriptors, count, self.top, self.k, generator, self.fuzzy)


def describe_all(ctx: Context[Any, Any], describe: Callable[[Tensor], Tensor], data: Viewed) -> Tensor:
    """Descriptors (N, D) of all pictures as they are, without augmentation, in order and on the CPU."""
    parts = [describe(pictures).float() for pictures, _, _ in ctx.batches(data, AT_ONCE)]
    if not parts:  # a process whose share is empty
        raise VergenceError(f"{len(data)} pictures are too few for {ctx.world} processes")
    return ctx.gather(torch.cat(parts)).cpu()


def cluster(
    ctx: Context[Any, Any], describe: Callable[[Tensor], Tensor], data: Viewed, ways: Ways, each: int
) -> tuple[Pseudo, Tensor]:
    """Labels of all pictures, and their descriptors (N, D). With fewer than ``each`` pictures per cluster there are
    fewer clusters."""
    descriptors = describe_all(ctx, describe, data)
    count = min(ways.clusters, max(len(data) // each, 2), len(data))
    first = round_of(ctx.phase) == 0 if ctx.stage == "fit" else ctx.stage == "test"
    if count < ways.clusters and first:  # said once
        ctx.progress.say(f"{len(data)} pictures are too few for {ways.clusters} clusters: {count} are sought")
    source = torch.Generator().manual_seed(ctx.generator.initial_seed() & 0x7FFF_FFFF_FFFF_FFFF)  # a CPU generator
    return ways(descriptors, count, source), descriptors


def relabel(
    ctx: Context[Any, Any], describe: Callable[[Tensor], Tensor], trail: Trail, data: Viewed, ways: Ways, each: int
) -> Mapping[str, Tensor]:
    """One round's labels, noted in ``trail``, said, and written to the run's folder: the state for checkpoints.

    Labels that nothing can be learned from are refused in the first round; later the labels of the round before stay.
    """
    number = round_of(ctx.phase)
    if number is None:
        raise VergenceError(f"{ctx.phase!r} is no round")
    found, descriptors = cluster(ctx, describe, data, ways, each)
    if found.clusters < 2:
        why = _why(found, bool((descriptors == descriptors[0]).all()))
        said = f"round {number + 1} found {found.clusters} clusters of at least 2 among {len(data)} pictures"
        if number == 0:
            raise VergenceError(f"{said}, and 2 are needed to learn from: {why}")
        ctx.progress.say(f"{said} ({why}): the labels of the round before stay")
        found = trail.round(number - 1)
    quality = found.quality(torch.tensor(data.data.identities) if has_identities(data.data) else None)
    trail.note(number, found, quality)
    told = ", ".join(f"{name} {value:.4g}" for name, value in quality.items())
    ctx.progress.say(f"round {number + 1}: {told}")
    if ctx.rank == 0:
        _write(ctx, number, found, data.data)
    return {"labels": found.labels, "claims": found.claims}


def _why(found: Pseudo, alike: bool) -> str:
    if alike:
        return "all pictures have the same descriptor"
    several = int((found.claims > 1).sum())
    return f"{several} pictures are claimed by several clusters and {int((found.claims == 0).sum())} by none"


def reason(label: int, claims: int) -> str:
    """Why a picture has no label; empty if it has one."""
    return "" if label != DROPPED else WHY[min(claims, 2)]


def _write(ctx: Context[Any, Any], number: int, found: Pseudo, pictures: Any) -> None:
    """``rounds/01.csv``: each picture with its cluster, or why it has none."""
    names = [str(path) for path in pictures.paths] if hasattr(pictures, "paths") else map(str, range(len(pictures)))
    rows = [
        [name, "" if label == DROPPED else label, reason(label, claims)]
        for name, label, claims in zip(names, found.labels.tolist(), found.claims.tolist(), strict=True)
    ]
    folder = ctx.folder / "rounds"
    folder.mkdir(parents=True, exist_ok=True)
    write_table(folder / f"{number + 1:02d}.csv", ["picture", "cluster", "dropped"], rows)


@dataclass(frozen=True)
class Clustered:
    """Pictures of which some have the label of a cluster; the others are never drawn."""

    data: Viewed
    labels: tuple[int, ...]
    each: int

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Seen:
        return self.data[index]._replace(identity=self.labels[index])

    def draw(self, index: int, generator: torch.Generator) -> Seen:
        return self.data.draw(index, generator)._replace(identity=self.labels[index])

    def batches(self, size: int, generator: torch.Generator) -> Iterator[list[int]]:
        """One epoch: every cluster once, ``size // each`` of them per batch with ``each`` pictures; a last batch with
        fewer clusters is left out, as in :class:`Balanced`."""
        kept = [index for index, label in enumerate(self.labels) if label != DROPPED]
        chosen = Balanced(_Named(tuple(self.labels[index] for index in kept)), self.data.view, self.each)
        for batch in chosen.batches(size, generator):
            yield [kept[place] for place in batch]


@dataclass(frozen=True)
class _Named:
    identities: tuple[int, ...]
