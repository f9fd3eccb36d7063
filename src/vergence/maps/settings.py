"""Settings that systems of this room share: of the measures, and of the mistakes they are tried with.

None of them needs PyTorch or SciPy.
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
    """How paths are taken and matched."""

    snap: float = 25.0
    """How far a place may be from the road it is matched to, in pixels."""
    piece: float = 20.0
    """The longest stretch between two places of a path, in pixels."""
    pieces: Literal["even", "halved"] = "even"
    """Cut straight roads evenly, so that control points do not matter; or halve edges, as the public code does."""
    unsampled: Literal["zero", "skip"] = "zero"
    """Paths that are left when the other map has been used up: count them as unmatched, or not at all (public code)."""
    weights: Literal["paths", "length"] = "paths"
    """Every path counts the same (paper), or by its length."""
    loops: Literal["whole", "open"] = "whole"
    """A path that ends where it has been: keep it whole, or without the road that closes it (public code)."""
    hops: int = 0
    """The most edges between two neighbouring matches (0: no limit within reach; public code: 5)."""

    def __post_init__(self) -> None:
        if not (self.snap > 0 and self.piece > 0 and self.hops >= 0):
            raise VergenceError(
                f"OPT-P has snap > 0, piece > 0 and hops >= 0, got {self.snap}, {self.piece} and {self.hops}"
            )


@dataclass(frozen=True)
class OptJ:
    """How features are matched."""

    snap: float = 25.0
    """How far apart a match may be, in pixels."""
    alpha: float = 0.01
    """What a pixel of distance costs against one road too many or too few."""
    order: Literal["cheapest", "node"] = "cheapest"
    """Cheapest match of all first (paper); or each true feature in turn among its five nearest, then what is left of
    the prediction, which may take a true feature again (public code)."""

    def __post_init__(self) -> None:
        if not (self.snap > 0 and self.alpha >= 0):
            raise VergenceError(f"OPT-J has snap > 0 and alpha >= 0, got {self.snap} and {self.alpha}")


@dataclass(frozen=True)
class Subgraphs:
    """How sub-graphs are taken and matched, for OPT-G and SUBG."""

    snap: float = 25.0
    """How far apart matched control points, and the two starts, may be, in pixels."""
    radius: float = 300.0
    """How far to travel from a start, in pixels."""
    step: float = 10.0
    """The distance between control points, in pixels."""
    starts: int = 1000
    """The number of starts; OPT-G takes half of them in either map."""
    matching: Literal["hungarian", "greedy"] = "hungarian"
    """OPT-G: the cheapest one-to-one matching (paper), or the closest pair first (public code)."""
    reach: Literal["travelled", "straight"] = "travelled"
    """Distance along roads (paper), or roads that connect within a circle (public code)."""
    shared: Literal["truth", "both"] = "truth"
    """SUBG: a predicted point may answer to many true ones (public code), or true points to many predicted ones too, so
    that doubled roads in the prediction go unnoticed as well (the paper's wording)."""
    simplify: float = 0.0
    """The tolerance by which roads are simplified before control points are set, in pixels (public code: 5)."""

    def __post_init__(self) -> None:
        if not (self.snap > 0 and self.radius > 0 and self.step > 0 and self.starts >= 2 and self.simplify >= 0):
            raise VergenceError(
                "sub-graphs have snap, radius and step above 0, starts >= 2 and simplify >= 0, "
                f"got {self.snap}, {self.radius}, {self.step}, {self.starts} and {self.simplify}"
            )


@dataclass(frozen=True)
class Trips:
    """How shortest ways are compared, for TLTS and APLS."""

    snap: float = 25.0
    """How far a place may be from the closest road of the other map, in pixels."""
    pairs: int = 1000
    """The number of pairs of places."""
    tolerance: float = 0.05
    """TLTS: the share by which a way may be longer or shorter."""
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
    """How roads are compared place by place."""

    slack: float = 8.0
    """How far apart they may be, in pixels."""
    measured: Literal["length", "pixels"] = "length"
    """Lengths of road, which no raster changes; or pixels of a drawing at a quarter of the size (public code)."""
    step: float = 2.0
    """length: the longest piece that is looked at as one place, in pixels."""

    def __post_init__(self) -> None:
        if not (self.slack > 0 and self.step > 0):
            raise VergenceError(f"CCQ has slack > 0 and step > 0, got {self.slack} and {self.step}")


@dataclass(frozen=True)
class Junct:
    """How junctions and their arms are compared."""

    snap: float = 25.0
    """How far apart matched junctions may be, in pixels (RoadTracer: 110.5)."""
    arm: float = 25.0
    """How far along a road its direction is taken, in pixels (RoadTracer: 110.5)."""
    angle: float = 90.0
    """How much the directions of matched arms may differ, in degrees."""
    cluster: float = 0.0
    """Junctions nearer than this are one, in pixels (RoadTracer: 85)."""

    def __post_init__(self) -> None:
        if not (self.snap > 0 and self.arm > 0 and 0 < self.angle <= 180 and self.cluster >= 0):
            raise VergenceError(
                "JUNCT has snap > 0, arm > 0, an angle from 0 to 180 and cluster >= 0, "
                f"got {self.snap}, {self.arm}, {self.angle} and {self.cluster}"
            )


@dataclass(frozen=True)
class Measures:
    """Settings of all eight measures. Distances are in pixels of 60 cm, those of the published tolerances."""

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
    """The public code's choices, with the numbers of draws of these measures."""
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
"""The numbers of mistakes that a city of 6 x 6 blocks is tried with; of far false roads, their share of all."""
Kind = Literal["given", "interruptions", "overconnections", "perturbations", "doubled", "doubled-truth", "far", "mixed"]


@dataclass(frozen=True)
class MistakeSizes:
    """How large a mistake is."""

    gap: float = 12.0
    """interruptions: how much road is missing, in pixels."""
    longest: float = 240.0
    """overconnections: the longest false road, in pixels."""
    shift: float = 45.0
    """perturbations: how far a place is moved, in pixels."""
    aside: float = 14.0
    """doubled: how far a copy is from its road, in pixels."""
    copied: float = 90.0
    """doubled: how much road is copied, in pixels."""


@dataclass(frozen=True)
class Errors(MistakeSizes):
    """Which mistakes to put into maps."""

    kind: Kind = "given"
    """One kind; random mixtures of all; or none, and the predictions that were given."""
    few: float = 0.0
    """The number of mistakes that is few (0: what a city of 6 x 6 blocks is tried with)."""
    many: float = 0.0
    """The number that is many."""
    mixtures: int = 50
    """mixed: the number of pairs of maps."""
    starts: int = 200
    """Starts of OPT-G and SUBG per pair of maps: a city of 6 x 6 blocks needs no thousand of them."""
    trips: int = 300
    """Trips of TLTS and APLS."""

    def __post_init__(self) -> None:
        if self.mixtures < 3 or min(self.few, self.many) < 0:
            raise VergenceError(f"there are mixtures >= 3, and few and many are not negative, got {self.mixtures}, "
                               f"{self.few} and {self.many}")  # fmt: skip

    def quick(self, measures: Measures) -> Measures:
        """The measures with as many draws as the study takes."""
        subgraphs = replace(measures.subgraphs, starts=self.starts)
        return replace(measures, subgraphs=subgraphs, trips=replace(measures.trips, pairs=self.trips), repeats=1)

    def amounts(self, kind: Mistake) -> tuple[float, float]:
        """The numbers of mistakes that are few and many."""
        few, many = FEW_AND_MANY[kind]
        return self.few or few, self.many or many
