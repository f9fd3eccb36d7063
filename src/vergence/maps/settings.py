"""Settings shared by map systems: of the metrics, and of injected mistakes.

Importing them needs neither PyTorch nor SciPy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from vergence.core.errors import VergenceError

Unit = Literal["pixels", "metres", "degrees"]
NEW = ("opt_p", "opt_j", "opt_g")
OLD = ("ccq", "tlts", "apls", "junct", "subg")
NAMES = {
    "opt_p": "OPT-P", "opt_j": "OPT-J", "opt_g": "OPT-G",
    "ccq": "CCQ", "tlts": "TLTS", "apls": "APLS", "junct": "JUNCT", "subg": "SUBG",
}  # fmt: skip


# Measures -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OptP:
    """How paths are sampled and matched."""

    snap: float = 25.0
    """Largest distance of a match, in pixels."""
    piece: float = 20.0
    """Largest spacing of the points of a path, in pixels."""
    pieces: Literal["even", "halved"] = "even"
    """Cut straight roads evenly, so that control points do not matter; or halve edges, as the public code does."""
    unsampled: Literal["zero", "skip"] = "zero"
    """Paths left when nothing of the other map remains: count as unmatched, or leave out (public code)."""
    weights: Literal["paths", "length"] = "paths"
    """Equal weight per path (paper), or weight by length."""
    loops: Literal["whole", "open"] = "whole"
    """A path that closes a loop: keep it whole, or without the closing edge (public code)."""
    hops: int = 0
    """Largest number of edges between two neighbouring matches (0: no limit; public code: 5)."""

    def __post_init__(self) -> None:
        if not (self.snap > 0 and self.piece > 0 and self.hops >= 0):
            raise VergenceError(
                f"OPT-P has snap > 0, piece > 0 and hops >= 0, got {self.snap}, {self.piece} and {self.hops}"
            )


@dataclass(frozen=True)
class OptJ:
    """How junctions and dead ends are matched."""

    snap: float = 25.0
    """Largest distance of a match, in pixels."""
    alpha: float = 0.01
    """Cost of a pixel of distance, relative to a difference of one road."""
    order: Literal["cheapest", "node"] = "cheapest"
    """Globally cheapest match first (paper); or each true feature in turn among its five nearest, then the remaining
    predicted ones, which may reuse a true feature (public code)."""

    def __post_init__(self) -> None:
        if not (self.snap > 0 and self.alpha >= 0):
            raise VergenceError(f"OPT-J has snap > 0 and alpha >= 0, got {self.snap} and {self.alpha}")


@dataclass(frozen=True)
class Subgraphs:
    """How sub-graphs are sampled and matched, for OPT-G and SUBG."""

    snap: float = 25.0
    """Largest distance of matched control points and of the two starts, in pixels."""
    radius: float = 300.0
    """Radius of a sub-graph around its start, in pixels."""
    step: float = 10.0
    """The distance between control points, in pixels."""
    starts: int = 1000
    """The number of starts; OPT-G takes half of them in either map."""
    matching: Literal["hungarian", "greedy"] = "hungarian"
    """OPT-G: the cheapest one-to-one matching (paper), or the closest pair first (public code)."""
    reach: Literal["travelled", "straight"] = "travelled"
    """Radius along roads (paper), or roads connected within a circle (public code)."""
    counted: Literal["distinct", "true", "near"] = "distinct"
    """SUBG's precision counts distinct predicted points that are the nearest of a true one (paper and public code);
    true points with a predicted one nearby, at most as many as were predicted; or predicted points with a true one
    nearby, so that doubled roads in the prediction go unnoticed too."""
    simplify: float = 0.0
    """Tolerance of road simplification before control points are set, in pixels (public code: 5)."""

    def __post_init__(self) -> None:
        if not (self.snap > 0 and self.radius > 0 and self.step > 0 and self.starts >= 2 and self.simplify >= 0):
            raise VergenceError(
                "sub-graphs have snap, radius and step above 0, starts >= 2 and simplify >= 0, "
                f"got {self.snap}, {self.radius}, {self.step}, {self.starts} and {self.simplify}"
            )


@dataclass(frozen=True)
class Trips:
    """How shortest paths are compared, for TLTS and APLS."""

    snap: float = 25.0
    """Largest distance of an end point to the closest road of the other map, in pixels."""
    pairs: int = 1000
    """Number of trips (pairs of end points)."""
    tolerance: float = 0.05
    """TLTS: relative tolerance of the length of a path."""
    direction: Literal["truth", "both"] = "truth"
    """APLS: trips drawn in the truth (the paper's Eq. 1), or the harmonic mean with trips drawn in the prediction."""

    def __post_init__(self) -> None:
        if not (self.snap > 0 and self.pairs >= 1 and 0 < self.tolerance < 1):
            raise VergenceError(
                "trips have snap > 0, pairs >= 1 and a tolerance between 0 and 1, "
                f"got {self.snap}, {self.pairs} and {self.tolerance}"
            )


@dataclass(frozen=True)
class Ccq:
    """How roads are compared point by point."""

    slack: float = 8.0
    """Largest distance between matching roads, in pixels."""
    measured: Literal["length", "pixels"] = "length"
    """Lengths of road, independent of a raster; or pixels of a raster at a quarter of the size (public code)."""
    step: float = 2.0
    """length: sampling step along roads, in pixels."""

    def __post_init__(self) -> None:
        if not (self.slack > 0 and self.step > 0):
            raise VergenceError(f"CCQ has slack > 0 and step > 0, got {self.slack} and {self.step}")


@dataclass(frozen=True)
class Junct:
    """How junctions and the directions of their roads are compared."""

    snap: float = 25.0
    """Largest distance of matched junctions, in pixels (RoadTracer: 110.5)."""
    arm: float = 25.0
    """Distance along a road at which its direction is measured, in pixels (RoadTracer: 110.5)."""
    angle: float = 90.0
    """Largest angle between matched roads, in degrees."""
    cluster: float = 0.0
    """Junctions nearer than this are merged, in pixels (RoadTracer: 85)."""

    def __post_init__(self) -> None:
        if not (self.snap > 0 and self.arm > 0 and 0 < self.angle <= 180 and self.cluster >= 0):
            raise VergenceError(
                "JUNCT has snap > 0, arm > 0, an angle from 0 to 180 and cluster >= 0, "
                f"got {self.snap}, {self.arm}, {self.angle} and {self.cluster}"
            )


@dataclass(frozen=True)
class Measures:
    """Settings of all eight metrics. Distances are in pixels of 60 cm, as in the published tolerances."""

    opt_p: OptP = OptP()
    opt_j: OptJ = OptJ()
    subgraphs: Subgraphs = Subgraphs()
    """OPT-G and SUBG."""
    trips: Trips = Trips()
    """TLTS and APLS."""
    ccq: Ccq = Ccq()
    junct: Junct = Junct()
    repeats: int = 3
    """Random draws of paths, starts and trips to average over."""

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise VergenceError(f"at least one draw is needed, got repeats={self.repeats}")


PARITY = Measures(
    opt_p=OptP(piece=25.0, pieces="halved", unsampled="skip", loops="open", hops=5),
    opt_j=OptJ(order="node"),
    subgraphs=Subgraphs(matching="greedy", reach="straight", simplify=5.0),
    ccq=Ccq(measured="pixels"),
    junct=Junct(snap=110.5, arm=110.5, cluster=85.0),
)
"""The choices of the public code (RoadTracer's for JUNCT), where they differ."""


def parity(measures: Measures) -> Measures:
    """The public code's choices, with the numbers of draws of ``measures``."""
    return replace(
        PARITY,
        subgraphs=replace(PARITY.subgraphs, starts=measures.subgraphs.starts),
        trips=replace(PARITY.trips, pairs=measures.trips.pairs),
        repeats=measures.repeats,
    )


# Mistakes -------------------------------------------------------------------------------------------------------------

Mistake = Literal["interruptions", "overconnections", "perturbations", "doubled", "doubled-truth", "far"]
MISTAKES: tuple[Mistake, ...] = get_args(Mistake)
FEW_AND_MANY: dict[Mistake, tuple[float, float]] = {
    "interruptions": (5, 20),
    "overconnections": (3, 10),
    "perturbations": (5, 15),
    "doubled": (5, 15),
    "doubled-truth": (5, 15),
    "far": (0.2, 0.5),
}
"""Numbers of mistakes for a city of 6 x 6 blocks, few and many; for far false roads, their share of all roads."""
Kind = Literal["given", "interruptions", "overconnections", "perturbations", "doubled", "doubled-truth", "far", "mixed"]


@dataclass(frozen=True)
class MistakeSizes:
    """Sizes of the mistakes."""

    gap: float = 12.0
    """interruptions: length of a gap, in pixels."""
    longest: float = 240.0
    """overconnections: the longest false road, in pixels."""
    shift: float = 45.0
    """perturbations: displacement of a point, in pixels."""
    aside: float = 14.0
    """doubled: distance of a copy from its road, in pixels."""
    copied: float = 90.0
    """doubled: length of a copy, in pixels."""


@dataclass(frozen=True)
class Errors(MistakeSizes):
    """Which mistakes to inject into maps."""

    kind: Kind = "given"
    """One kind; random mixtures (mixed); or none, with predictions from the data (given)."""
    few: float = 0.0
    """Smaller number of mistakes (0: that for a city of 6 x 6 blocks)."""
    many: float = 0.0
    """Larger number of mistakes (0: likewise)."""
    mixtures: int = 50
    """mixed: number of pairs of maps."""
    starts: int = 200
    """Starts of OPT-G and SUBG per pair of maps; a city of 6 x 6 blocks needs fewer than the default."""
    trips: int = 300
    """Trips of TLTS and APLS."""

    def __post_init__(self) -> None:
        if self.mixtures < 3 or min(self.few, self.many) < 0:
            raise VergenceError(f"there are mixtures >= 3, and few and many are not negative, got {self.mixtures}, "
                               f"{self.few} and {self.many}")  # fmt: skip

    def quick(self, measures: Measures) -> Measures:
        """The metrics with the study's numbers of draws."""
        subgraphs = replace(measures.subgraphs, starts=self.starts)
        return replace(measures, subgraphs=subgraphs, trips=replace(measures.trips, pairs=self.trips), repeats=1)

    def amounts(self, kind: Mistake) -> tuple[float, float]:
        """The smaller and the larger number of mistakes."""
        few, many = FEW_AND_MANY[kind]
        return self.few or few, self.many or many
