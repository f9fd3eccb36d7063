"""Architectures: the widths and depths of a network, the space that a search chooses from, its plan, and multiply-adds.

Nothing here needs PyTorch. Stages are numbered as they run: four down, four up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from vergence.core.errors import VergenceError

STAGES = 8
BLOCKS = 2
"""Residual blocks that a stage has at most."""
WIDTHS = (32, 32, 64, 128, 256, 256, 128, 96, 96)
"""Channels of stem and stages as published, at a ratio of 1."""


@dataclass(frozen=True)
class Architecture:
    """Widths and depths of one network."""

    stem: int
    """Channels of the stem."""
    outputs: tuple[int, ...]
    """Channels at the end of each stage."""
    transitions: tuple[int, ...]
    """Channels of the convolution that begins each stage and changes the resolution."""
    middles: tuple[int, ...]
    """Channels within each residual block, two for each stage; those beyond the depth are not in use."""
    depths: tuple[int, ...]
    """Residual blocks of each stage."""

    def __post_init__(self) -> None:
        lengths = (len(self.outputs), len(self.transitions), len(self.middles), len(self.depths))
        if lengths != (STAGES, STAGES, STAGES * BLOCKS, STAGES):
            raise VergenceError(f"an architecture has 8 outputs, 8 transitions, 16 middles and 8 depths, got {lengths}")
        if min(self.stem, *self.outputs, *self.transitions, *self.middles) < 1:
            raise VergenceError("an architecture has widths of at least 1")
        if not all(1 <= depth <= BLOCKS for depth in self.depths):
            raise VergenceError(f"a stage has 1 to {BLOCKS} residual blocks, got {self.depths}")

    @classmethod
    def of(cls, widths: Sequence[int]) -> Architecture:
        """A network built by hand from the nine widths of stem and stages: transitions down keep their input's width,
        and blocks have that of their output."""
        stem, *outputs = widths
        down, up = outputs[: STAGES // 2], outputs[STAGES // 2 :]
        middles = tuple(width for width in outputs for _ in range(BLOCKS))
        return cls(stem, tuple(outputs), (stem, *down[:-1], *up), middles, (BLOCKS,) * STAGES)

    def source(self, stage: int) -> int:
        """Channels that a stage receives."""
        return self.outputs[stage - 1] if stage else self.stem

    def skip(self, stage: int) -> int:
        """Channels that a stage joins to those of its transition: 0 on the way down."""
        before = STAGES - 2 - stage
        return 0 if stage < STAGES // 2 else self.outputs[before] if before >= 0 else self.stem

    def block(self, stage: int, number: int) -> tuple[int, int, int]:
        """Channels before, within and after a residual block."""
        first = self.transitions[stage] + self.skip(stage)
        before = self.outputs[stage] if number else first
        return before, self.middles[BLOCKS * stage + number], self.outputs[stage]

    def genes(self) -> tuple[int, ...]:
        """All choices in a row: outputs, transitions, middles, depths."""
        return (*self.outputs, *self.transitions, *self.middles, *self.depths)

    @classmethod
    def from_genes(cls, stem: int, genes: Sequence[int]) -> Architecture:
        """The inverse of :meth:`genes`."""
        ends = (STAGES, 2 * STAGES, (2 + BLOCKS) * STAGES)
        parts = (tuple(genes[a:b]) for a, b in zip((0, *ends), (*ends, None), strict=True))
        return cls(stem, *parts)


def scaled(widths: Sequence[int], ratio: float) -> tuple[int, ...]:
    """Widths times a ratio, rounded down as the authors do."""
    return tuple(max(int(ratio * width), 1) for width in widths)


@dataclass(frozen=True)
class Space:
    """Architectures that a search may choose from."""

    lowest: tuple[int, ...] = (16, 32, 64, 128, 128, 64, 48, 48)
    """Least channels at the end of each stage."""
    highest: tuple[int, ...] = (48, 96, 192, 384, 384, 192, 128, 128)
    """Most channels at the end of each stage."""
    ratio: float = 0.125
    """Least share of the most channels that a transition or a residual block has within."""
    step: int = 16
    """Channels are multiples of this."""
    progressive: bool = True
    """Supernet: all stages are deep in the first phase, and depth is chosen only in the second."""

    def __post_init__(self) -> None:
        if len(self.lowest) != STAGES or len(self.highest) != STAGES or not 0 < self.ratio <= 1 or self.step < 1:
            raise VergenceError("a space has 8 lowest and 8 highest widths, a ratio in (0, 1] and a step of at least 1")
        if any(not 1 <= low <= high for low, high in zip(self.lowest, self.highest, strict=True)):
            raise VergenceError(f"lowest widths are at most the highest, got {self.lowest} and {self.highest}")

    def rounded(self, width: float) -> int:
        """A width as the space has them: a multiple of the step, rounded down, and at least one step."""
        return max(int(width) // self.step, 1) * self.step

    def bounds(self, stem: int) -> list[tuple[int, int]]:
        """The range of each gene, in the order of :meth:`Architecture.genes`."""
        largest = self.largest(stem)
        inner = [(max(int(self.ratio * width), 1), width) for width in (*largest.transitions, *largest.middles)]
        outer = list(zip(self.lowest, self.highest, strict=True))
        return [*outer, *inner, *[(1, BLOCKS)] * STAGES]

    def gene(self, place: int, value: int) -> int:
        """A value as that gene has it: widths are rounded, depths are not."""
        return value if place >= (2 + BLOCKS) * STAGES else self.rounded(value)

    def largest(self, stem: int) -> Architecture:
        """The whole supernet."""
        return Architecture.of((stem, *(self.rounded(width) for width in self.highest)))

    def uniform(self, stem: int, share: float) -> Architecture:
        """The network with every width at the same share of the largest, and full depth."""
        widest = self.largest(stem).genes()
        depth = (2 + BLOCKS) * STAGES
        genes = [*(self.rounded(share * width) for width in widest[:depth]), *widest[depth:]]
        return Architecture.from_genes(stem, genes)


@dataclass(frozen=True)
class Plan:
    """How an architecture is searched for."""

    by: Literal["evolution", "random", "uniform"] = "evolution"
    """evolution, random search with as many evaluations, or no search: every width at the same share of the largest."""
    budget: float = 0.5
    """Multiply-adds that the network may have, as a share of the supernet's."""
    population: int = 50
    """Architectures of a generation."""
    generations: int = 20
    """Generations."""
    mutation: float = 0.1
    """Probability that a gene is drawn anew."""
    scans: int = 100
    """Training scans that are held out, to score architectures on."""
    calibrate: int = 20
    """Training batches on which the statistics of norms are computed before an architecture is scored."""

    def __post_init__(self) -> None:
        if not 0 < self.budget <= 1 or not 0 < self.mutation <= 1:
            raise VergenceError(f"a search has budget and mutation in (0, 1], got {self.budget} and {self.mutation}")
        if min(self.population, self.generations, self.scans, self.calibrate) < 1:
            raise VergenceError("a search has population, generations, scans and calibrate of at least 1")

    @property
    def parents(self) -> int:
        """The best architectures, from which the next generation comes: a quarter of a generation, at least two."""
        return max(self.population // 4, 2)


# Multiply-adds --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """How large the layers of a scan are: sparsity decides, so they are measured on data."""

    points: float
    """Points."""
    voxels: tuple[float, ...]
    """Voxels of the five levels."""
    pairs: tuple[float, ...]
    """Pairs of voxels in the 3 x 3 x 3 kernel map of each level."""


def layers(arch: Architecture, projected: Sequence[bool]) -> Iterator[tuple[str, int, str, int, int]]:
    """Every convolution as (stage, level, kind, channels in, channels out). The kind is ``same`` (3 x 3 x 3),
    ``change`` (2 x 2 x 2 to or from the next coarser level; the level is the finer one) or ``own`` (1 x 1 x 1)."""
    yield "stem", 0, "same", 4, arch.stem
    yield "stem", 0, "same", arch.stem, arch.stem
    half = STAGES // 2
    for stage in range(STAGES):
        name = f"down{stage + 1}" if stage < half else f"up{stage - half + 1}"
        level = stage + 1 if stage < half else STAGES - 1 - stage
        finer = stage if stage < half else level
        yield name, finer, "change", arch.source(stage), arch.transitions[stage]
        for number in range(arch.depths[stage]):
            before, within, after = arch.block(stage, number)
            yield name, level, "same", before, within
            yield name, level, "same", within, after
            if number == 0 and projected[stage]:
                yield name, level, "own", before, after


def macs(arch: Architecture, projected: Sequence[bool], sizes: Sizes, classes: int, points: bool) -> dict[str, float]:
    """Multiply-adds by part: stem, each stage, the classifier and, with ``points``, the point branch."""
    count = {"same": sizes.pairs, "change": sizes.voxels, "own": sizes.voxels}
    parts: dict[str, float] = {}
    for name, level, kind, inner, outer in layers(arch, projected):
        parts[name] = parts.get(name, 0.0) + count[kind][level] * inner * outer
    rows = sizes.points if points else sizes.voxels[0]
    parts["classifier"] = rows * arch.outputs[-1] * classes
    if points:
        widths = (arch.stem, arch.outputs[3], arch.outputs[5], arch.outputs[7])
        parts["points"] = sum(sizes.points * a * b for a, b in pairwise(widths))
    return parts
