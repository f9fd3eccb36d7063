"""Measures put to the test: mistakes of one kind, few and many; and mixtures, to see which measures agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from vergence.core.errors import VergenceError
from vergence.core.progress import Progress
from vergence.core.seeding import derive
from vergence.maps.graph import RoadGraph
from vergence.maps.metrics import NAMES, NEW, OLD, Settings, aggregate, compare, correlation_matrix, triplets
from vergence.maps.synth import FEW_AND_MANY, ErrorInjector, Mistake, random_counts

Kind = Literal["given", "interruptions", "overconnections", "perturbations", "doubled", "doubled-truth", "far", "mixed"]


@dataclass(frozen=True)
class Errors(ErrorInjector):
    """Which mistakes to make."""

    kind: Kind = "given"
    """One kind; random mixtures of all; or none, and the predictions that were given."""
    few: float = 0.0
    """How many mistakes are few (0: what a city of 6 x 6 blocks is tried with)."""
    many: float = 0.0
    """How many are many."""
    mixtures: int = 50
    """mixed: how many pairs of maps."""
    starts: int = 200
    """Starts of OPT-G and SUBG a pair of maps: a city of 6 x 6 blocks needs no thousand of them."""
    trips: int = 300
    """Trips of TLTS and APLS."""

    def __post_init__(self) -> None:
        if self.mixtures < 3 or min(self.few, self.many) < 0:
            raise VergenceError(f"there are mixtures >= 3, and few and many are not negative, got {self.mixtures}, "
                               f"{self.few} and {self.many}")  # fmt: skip

    def quick(self, settings: Settings) -> Settings:
        """The settings with as many draws as the study takes."""
        subgraphs = replace(settings.subgraphs, starts=self.starts)
        return replace(settings, subgraphs=subgraphs, trips=replace(settings.trips, pairs=self.trips), repeats=1)

    def amounts(self, kind: Mistake) -> tuple[float, float]:
        few, many = FEW_AND_MANY[kind]
        return self.few or few, self.many or many


def sensitivity(
    graphs: Sequence[RoadGraph], errors: Errors, settings: Settings, seed: int, progress: Progress
) -> dict[str, float]:
    """Every score with few mistakes (``opt_p_few``) and with many (``opt_p``), over all maps."""
    kind: Any = errors.kind
    found: dict[str, float] = {}
    for suffix, amount in zip(("_few", ""), errors.amounts(kind), strict=True):
        scores = []
        for number, graph in enumerate(progress.track(list(graphs), f"{amount:g} {kind}")):
            truth, prediction = errors.inject(kind, graph, amount, derive("mistakes", seed, number))
            scores.append(compare(truth, prediction, errors.quick(settings), seed))
        found |= {f"{name}{suffix}": value for name, value in aggregate(scores).headline.items()}
    return found


def mixtures(
    graphs: Sequence[RoadGraph], errors: Errors, settings: Settings, seed: int, progress: Progress
) -> tuple[dict[str, list[float]], list[float]]:
    """Scores of maps with random numbers of every kind of mistake, and how many mistakes there were."""
    table: dict[str, list[float]] = {name: [] for name in NAMES}
    made = []
    for number in progress.track(range(errors.mixtures), "mixtures"):
        random = np.random.default_rng(derive("mixture", seed, number))
        counts = random_counts(random)
        truth, prediction = errors.mixed(graphs[number % len(graphs)], counts, int(random.integers(2**31)))
        for name, value in compare(truth, prediction, errors.quick(settings), seed).headline.items():
            table[name].append(value)
        made.append(sum(counts.values()))
    return table, made


def consistency_study(
    graphs: Sequence[RoadGraph], errors: Errors, settings: Settings, seed: int, progress: Progress
) -> dict[str, float]:
    """Do measures agree with one another, and with the number of mistakes?"""
    table, made = mixtures(graphs, errors, settings, seed, progress)
    agreement = triplets(table)
    falls = correlation_matrix({**table, "mistakes": [-count for count in made]})[-1]
    by_name = dict(zip(table, falls.tolist(), strict=False))
    means = {name: float(np.mean(values)) for name, values in table.items()}
    return means | {
        "consistency": agreement[NEW],
        "consistency_old": max(value for three, value in agreement.items() if three != NEW),
        "tracks": min(by_name[name] for name in NEW),
        "tracks_old": max(by_name[name] for name in OLD),
    }
