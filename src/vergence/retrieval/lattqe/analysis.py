"""The paper's two studies as pictures, and the weights themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from vergence.contract.inputs import Artifact
from vergence.core.files import replacing
from vergence.retrieval import metrics
from vergence.retrieval.data import Judged
from vergence.search.expansion import Method, first_search
from vergence.search.index import Index

KS = (0, 1, 2, 4, 8, 16, 32, 64, 96)
COLOURS = {
    "none": "0.5",
    "lattqe": "#c0392b",
    "aqe": "#2980b9",
    "aqewd": "#16a085",
    "alpha": "#8e44ad",
    "dqe": "#d68910",
}


class Judging(Protocol):
    """A judged set: what a method comes to at so many neighbours."""

    judged: Judged

    @property
    def index(self) -> Index: ...

    def count(self, wanted: int) -> int: ...

    def precisions(self, method: Method, neighbours: int) -> dict[str, Tensor]: ...


def _mean(found: Mapping[str, Tensor]) -> float:
    names = [name for name in found if name != "easy"]
    return sum(metrics.mean_of(found[name]) for name in names) / len(names)


def sensitivity(folder: Path, bench: Judging, methods: Mapping[str, Method], labels: Mapping[str, str]) -> Artifact:
    """mAP against the number of neighbours (Figure 3)."""
    figure, (axis,) = _figure(6.4, 4.0)
    ks = [k for k in KS if k == bench.count(k)]
    for name, method in methods.items():
        values = [_mean(bench.precisions(method, k)) for k in ks]
        axis.plot(ks, values, marker="o", markersize=3, label=labels[name], color=COLOURS.get(name))
    axis.set_xscale("symlog", linthresh=1)
    axis.set_xticks(ks, [str(k) for k in ks])
    axis.set_xlabel("neighbours in the expansion")
    axis.set_ylabel("mAP [%]")
    axis.legend(fontsize=8, ncols=2)
    caption = "How much depends on the number of neighbours (Figure 3): mAP on held-out classes against k."
    return Artifact("image", _saved(figure, folder / "neighbours.png"), caption)


def regimes(
    folder: Path, bench: Judging, methods: Mapping[str, Method], labels: Mapping[str, str], own: Mapping[str, int]
) -> Artifact:
    """Relative gain for few, some and many relevant items, and for queries that were hard or easy before (Figure 4)."""
    from vergence.search import NoExpansion

    name, truth = list(bench.judged.truths.items())[-1]
    before = bench.precisions(NoExpansion(), 0)[name]
    figure, axes = _figure(9.6, 3.6, columns=2)
    after = {method: bench.precisions(methods[method], own[method])[name] for method in methods}
    sides = (("relevant items", truth.relevant(), "{:.0f}"), ("AP before", before * 100, "{:.0f} %"))
    for axis, (what, by, form) in zip(axes, sides, strict=True):
        for number, (method, found) in enumerate(after.items()):
            groups = metrics.regimes(before, found, by)
            places = [group + 0.8 * (number + 0.5) / len(after) - 0.4 for group in range(3)]
            gains, label = [gain for _, gain in groups], f"{labels[method]}, k = {own[method]}"
            axis.bar(places, gains, 0.75 / len(after), label=label, color=COLOURS.get(method))
        means = [form.format(mean) for mean, _ in metrics.regimes(before, before, by)]
        thirds = [f"{name}\n(mean {mean})" for name, mean in zip(("low", "middle", "high"), means, strict=True)]
        axis.set_xticks(range(3), thirds, fontsize=8)
        axis.axhline(0, color="0.3", linewidth=0.8)
        axis.set_xlabel(what)
        axis.set_ylabel("relative gain of mAP [%]")
    axes[0].legend(fontsize=7)
    caption = "Who gains where (Figure 4): queries in thirds by their number of relevant items, and by their AP before."
    return Artifact("image", _saved(figure, folder / "regimes.png"), caption)


def weights(folder: Path, bench: Judging, methods: Mapping[str, Method], labels: Mapping[str, str]) -> Artifact:
    """Mean weight by rank, of neighbours that are relevant and of those that are not."""
    judged, count = bench.judged, bench.count(64)
    truth = list(judged.truths.values())[-1]
    found = first_search(bench.index, judged.queries, count, judged.own)
    relevant = torch.zeros(len(judged), len(judged.gallery), dtype=torch.bool)
    for row, places in enumerate(truth.positives):
        relevant[row, places] = True
    relevant = relevant.gather(1, found.places)
    shown = [name for name in methods if name not in ("none", "dqe")]
    figure, axes = _figure(2.6 * max(len(shown), 1), 2.8, columns=max(len(shown), 1))
    for axis, name in zip(axes, shown, strict=False):
        given = methods[name](found)[1][:, 1:]
        for which, label, colour in ((relevant, "relevant", "#27ae60"), (~relevant, "not relevant", "#c0392b")):
            there = which.sum(0)
            mean = torch.where(there > 0, (given * which).sum(0) / there.clamp(min=1), torch.nan)
            axis.plot(range(1, count + 1), mean.numpy(), label=label, color=colour, linewidth=1.2)
        axis.set_title(labels[name], fontsize=9)
        axis.set_xlabel("rank", fontsize=8)
        axis.axhline(0, color="0.3", linewidth=0.8)
    if shown:
        axes[0].set_ylabel("mean weight", fontsize=8)
        axes[0].legend(fontsize=7)
    caption = "What neighbours count, by rank: a good method gives relevant ones more than others of the same rank."
    return Artifact("image", _saved(figure, folder / "weights.png"), caption)


def _figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    return figure, figure.subplots(1, columns, squeeze=False)[0]


def _saved(figure: Any, path: Path) -> Path:
    with replacing(path) as partial:
        figure.savefig(partial, format="png")
    return path
