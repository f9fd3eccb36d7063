"""Search for the best architecture of a space under a limit of multiply-adds: by evolution, or at random.

Every generation is drawn from the seed and from what was found before it, and is kept in an archive: a search that was
stopped goes on from its archive to the same end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vergence.core.errors import Cancelled, VergenceError
from vergence.core.files import write_json
from vergence.core.progress import Progress
from vergence.core.seeding import generator
from vergence.points.architecture import BLOCKS, STAGES, Architecture, Plan, Space
from vergence.reading.tables import read_json

TRIES = 2000
"""Architectures drawn for one place of a generation before the limit is called too low."""
DEPTHS = (2 + BLOCKS) * STAGES
"""The first gene that is a depth."""


@dataclass(frozen=True)
class Candidate:
    """An architecture with its score (higher is better) and its multiply-adds."""

    arch: Architecture
    score: float
    macs: float


def sample(space: Space, stem: int, source: torch.Generator, deep: bool = False) -> Architecture:
    """A random architecture: widths and depths uniform in their ranges; ``deep`` keeps all depths full."""
    genes = _drawn(space, stem, source)
    return Architecture.from_genes(stem, [*genes[:DEPTHS], *([BLOCKS] * STAGES if deep else genes[DEPTHS:])])


def _drawn(space: Space, stem: int, source: torch.Generator) -> list[int]:
    bounds = space.bounds(stem)
    shares = torch.rand(len(bounds), generator=source, device=source.device).tolist()
    return [
        space.gene(n, low + int(s * (high - low + 1)))
        for n, (s, (low, high)) in enumerate(zip(shares, bounds, strict=True))
    ]


def mutated(space: Space, arch: Architecture, probability: float, source: torch.Generator) -> Architecture:
    """Every gene drawn anew with a probability."""
    other = _drawn(space, arch.stem, source)
    drawn = (torch.rand(len(other), generator=source) < probability).tolist()
    genes = [new if anew else old for old, new, anew in zip(arch.genes(), other, drawn, strict=True)]
    return Architecture.from_genes(arch.stem, genes)


def crossed(one: Architecture, other: Architecture, source: torch.Generator) -> Architecture:
    """Every gene from one of two parents."""
    coins = (torch.rand(len(one.genes()), generator=source) < 0.5).tolist()
    genes = [a if coin else b for a, b, coin in zip(one.genes(), other.genes(), coins, strict=True)]
    return Architecture.from_genes(one.stem, genes)


def uniform_under(space: Space, stem: int, cost: Callable[[Architecture], float], limit: float) -> Architecture:
    """The largest network with every width at the same share of the supernet's, within the limit."""
    for percent in range(100, 0, -1):
        arch = space.uniform(stem, percent / 100)
        if cost(arch) <= limit:
            return arch
    raise VergenceError(f"no network of the space has at most {limit / 1e9:.3g} G multiply-adds")


class Search:
    """A search in progress, with all that it has scored."""

    def __init__(
        self,
        plan: Plan,
        space: Space,
        stem: int,
        cost: Callable[[Architecture], float],
        score: Callable[[Architecture], float],
        seed: tuple[int | str, ...],
        archive: Path | None = None,
    ) -> None:
        self.plan, self.space, self.stem, self.cost, self.score, self.seed = plan, space, stem, cost, score, seed
        self.limit = plan.budget * cost(space.largest(stem))
        self.path = archive
        self.known: dict[tuple[int, ...], float] = {}
        self.generations: list[list[Candidate]] = []
        if archive is not None and archive.exists():
            self._read(read_json(archive))

    @property
    def best(self) -> Candidate:
        """The best of all generations; among equals the one with fewer multiply-adds."""
        return self.ranked()[0]

    def ranked(self) -> list[Candidate]:
        """All distinct candidates, the best first."""
        every = {c.arch: c for generation in self.generations for c in generation}.values()
        return sorted(every, key=lambda c: (-c.score, c.macs, c.arch.genes()))

    def run(self, progress: Progress = Progress(), cancelled: Callable[[], bool] = bool) -> Candidate:
        """Search to the end, from the archive on if there is one."""
        if self.plan.by == "uniform":
            arch = uniform_under(self.space, self.stem, self.cost, self.limit)
            return Candidate(arch, self.score(arch), self.cost(arch))
        plan = self.plan
        total = plan.generations * plan.population
        task = progress.start("search", total)
        try:
            for number in range(len(self.generations), plan.generations):
                found = []
                for place, arch in enumerate(self.next()):
                    if cancelled():
                        raise Cancelled("the search was stopped; its archive holds the generations so far")
                    found.append(self._scored(arch))
                    best = max(c.score for c in found)
                    progress.update(task, number * plan.population + place + 1, f"best {best:.4g}", total)
                self.generations.append(found)
                self._write()
        finally:
            progress.finish(task)
        return self.best

    def next(self) -> Sequence[Architecture]:
        """The architectures of the next generation, all within the limit."""
        source = generator(*self.seed, "generation", len(self.generations))
        plan = self.plan
        if not self.generations or plan.by == "random":
            return [self._within(lambda: sample(self.space, self.stem, source)) for _ in range(plan.population)]
        parents = [c.arch for c in self.ranked()[: plan.parents]]

        def parent() -> Architecture:
            return parents[int(torch.randint(len(parents), (), generator=source))]

        half = plan.population // 2
        rest = plan.population - half
        changed = [self._within(lambda: mutated(self.space, parent(), plan.mutation, source)) for _ in range(rest)]
        return changed + [self._within(lambda: crossed(parent(), parent(), source)) for _ in range(half)]

    def _within(self, draw: Callable[[], Architecture]) -> Architecture:
        for _ in range(TRIES):
            arch = draw()
            if self.cost(arch) <= self.limit:
                return arch
        raise VergenceError(
            f"none of {TRIES} random networks has at most {self.limit / 1e9:.3g} G multiply-adds: the budget is too low"
        )

    def _scored(self, arch: Architecture) -> Candidate:
        genes = arch.genes()
        if genes not in self.known:
            self.known[genes] = self.score(arch)
        return Candidate(arch, self.known[genes], self.cost(arch))

    def _write(self) -> None:
        if self.path is not None:
            rows = [[{"genes": c.arch.genes(), "score": c.score, "macs": c.macs} for c in g] for g in self.generations]
            write_json(self.path, {"stem": self.stem, "limit": self.limit, "by": self.plan.by, "generations": rows})

    def _read(self, stored: Any) -> None:
        if stored.get("by") != self.plan.by or stored.get("stem") != self.stem:
            return  # of another search
        for rows in stored["generations"][: self.plan.generations]:
            found = [Candidate(Architecture.from_genes(self.stem, r["genes"]), r["score"], r["macs"]) for r in rows]
            self.generations.append(found)
            self.known |= {c.arch.genes(): c.score for c in found}
