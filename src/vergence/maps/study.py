"""Tests of the metrics: sensitivity to one kind of mistake, and agreement on random mixtures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vergence.core.progress import Progress
from vergence.core.seeding import derive
from vergence.maps.graph import RoadGraph
from vergence.maps.metrics import aggregate, compare, correlation_matrix, triplets
from vergence.maps.settings import NAMES, NEW, OLD, Errors, Measures, Mistake
from vergence.maps.synth import ErrorInjector, random_counts


def sensitivity(
    graphs: Sequence[RoadGraph], kind: Mistake, errors: Errors, measures: Measures, seed: int, progress: Progress
) -> dict[str, float]:
    """Every score with few mistakes of a kind (``opt_p_few``) and with many (``opt_p``), over all maps."""
    headlines: dict[str, float] = {}
    for suffix, amount in zip(("_few", ""), errors.amounts(kind), strict=True):
        scores = []
        for number, graph in enumerate(progress.track(list(graphs), f"{amount:g} {kind}")):
            pair = ErrorInjector(errors).inject(kind, graph, amount, derive("mistakes", seed, number))
            scores.append(compare(*pair, errors.quick(measures), seed))
        headlines |= {f"{name}{suffix}": value for name, value in aggregate(scores).headline.items()}
    return headlines


def mixtures(
    graphs: Sequence[RoadGraph], errors: Errors, measures: Measures, seed: int, progress: Progress
) -> tuple[dict[str, list[float]], list[float]]:
    """Scores of maps with random numbers of every kind of mistake, and the number of mistakes in each."""
    table: dict[str, list[float]] = {name: [] for name in NAMES}
    totals = []
    for number in progress.track(range(errors.mixtures), "mixtures"):
        random = np.random.default_rng(derive("mixture", seed, number))
        counts = random_counts(random)
        graph = graphs[number % len(graphs)]
        pair = ErrorInjector(errors).mixed(graph, counts, int(random.integers(2**31)))
        for name, value in compare(*pair, errors.quick(measures), seed).headline.items():
            table[name].append(value)
        totals.append(sum(counts.values()))
    return table, totals


def agreement_study(
    graphs: Sequence[RoadGraph], errors: Errors, measures: Measures, seed: int, progress: Progress
) -> dict[str, float]:
    """Correlation of the metrics with one another, and with the number of mistakes, on random mixtures."""
    table, totals = mixtures(graphs, errors, measures, seed, progress)
    agreement = triplets(table)
    falls = correlation_matrix({**table, "mistakes": [-count for count in totals]})[-1]
    by_name = dict(zip(table, falls.tolist(), strict=False))
    means = {name: float(np.mean(values)) for name, values in table.items()}
    return means | {
        "consistency": agreement[NEW],
        "consistency_old": max(value for three, value in agreement.items() if three != NEW),
        "tracks": min(by_name[name] for name in NEW),
        "tracks_old": max(by_name[name] for name in OLD),
    }
