"""Figures 3 and 4 of the paper, and the weights by rank."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from vergence.contract.inputs import Artifact
from vergence.drawing.figure import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, figure, saved
from vergence.retrieval import metrics
from vergence.retrieval.evaluator import Evaluator, scores
from vergence.search import NoExpansion
from vergence.search.expansion import Method, first_search

KS = (0, 1, 2, 4, 8, 16, 32, 64, 96)
COLOURS = {"none": GREY, "lattqe": RED, "aqe": BLUE, "aqewd": GREEN, "alpha": PURPLE, "dqe": ORANGE}


def sensitivity(
    folder: Path, evaluator: Evaluator, methods: Mapping[str, Method], labels: Mapping[str, str]
) -> Artifact:
    """mAP against the number of neighbours (Figure 3)."""
    drawn = figure(6.4, 4.0)
    axis = drawn.subplots()
    ks = [k for k in KS if k == evaluator.count(k)]
    for name, method in methods.items():
        values = [scores(evaluator.precisions(method, k))["map"] for k in ks]
        axis.plot(ks, values, marker="o", markersize=3, label=labels[name], color=COLOURS.get(name))
    axis.set_xscale("symlog", linthresh=1)
    axis.set_xticks(ks, [str(k) for k in ks])
    axis.set_xlabel("neighbours in the expansion")
    axis.set_ylabel("mAP [%]")
    axis.legend(fontsize=8, ncols=2)
    caption = "Sensitivity to the number of neighbours (Figure 3): mAP on held-out classes against k."
    return Artifact("image", saved(drawn, folder / "neighbours.png"), caption)


def regimes(
    folder: Path,
    evaluator: Evaluator,
    methods: Mapping[str, Method],
    labels: Mapping[str, str],
    neighbours: Mapping[str, int],
) -> Artifact:
    """Relative gain for few, some and many relevant items, and for queries that were hard or easy before (Figure 4)."""
    protocol, truth = list(evaluator.judged.truths.items())[-1]
    before = evaluator.precisions(NoExpansion(), 0)[protocol]
    after = {name: evaluator.precisions(method, neighbours[name])[protocol] for name, method in methods.items()}
    drawn = figure(9.6, 3.6)
    axes = drawn.subplots(1, 2)
    sides = (("relevant items", truth.relevant(), "{:.0f}"), ("AP before", before * 100, "{:.0f} %"))
    for axis, (what, by, form) in zip(axes, sides, strict=True):
        for number, (name, precisions) in enumerate(after.items()):
            gains = [gain for _, gain in metrics.regimes(before, precisions, by)]
            places = [group + 0.8 * (number + 0.5) / len(after) - 0.4 for group in range(3)]
            label = f"{labels[name]}, k = {neighbours[name]}"
            axis.bar(places, gains, 0.75 / len(after), label=label, color=COLOURS.get(name))
        means = [form.format(mean) for mean, _ in metrics.regimes(before, before, by)]
        thirds = [f"{third}\n(mean {mean})" for third, mean in zip(("low", "middle", "high"), means, strict=True)]
        axis.set_xticks(range(3), thirds, fontsize=8)
        axis.axhline(0, color="0.3", linewidth=0.8)
        axis.set_xlabel(what)
        axis.set_ylabel("relative gain of mAP [%]")
    axes[0].legend(fontsize=7)
    caption = "Relative gain (Figure 4): queries in thirds by their number of relevant items, and by their AP before."
    return Artifact("image", saved(drawn, folder / "regimes.png"), caption)


def weights(folder: Path, evaluator: Evaluator, methods: Mapping[str, Method], labels: Mapping[str, str]) -> Artifact:
    """Mean weight by rank, of neighbours that are relevant and of those that are not."""
    judged, count = evaluator.judged, evaluator.count(64)
    truth = list(judged.truths.values())[-1]
    found = first_search(evaluator.index, judged.queries, count, judged.own)
    relevant = torch.zeros(len(judged), len(judged.gallery), dtype=torch.bool)
    for row, places in enumerate(truth.positives):
        relevant[row, places] = True
    relevant = relevant.gather(1, found.places)
    shown = [name for name in methods if name not in ("none", "dqe")]
    columns = max(len(shown), 1)
    drawn = figure(2.6 * columns, 2.8)
    axes = drawn.subplots(1, columns, squeeze=False)[0]
    for axis, name in zip(axes, shown, strict=False):
        by_rank = methods[name](found)[1][:, 1:]
        for which, label, colour in ((relevant, "relevant", GREEN), (~relevant, "not relevant", RED)):
            there = which.sum(0)
            mean = torch.where(there > 0, (by_rank * which).sum(0) / there.clamp(min=1), torch.nan)
            axis.plot(range(1, count + 1), mean.numpy(), label=label, color=colour, linewidth=1.2)
        axis.set_title(labels[name], fontsize=9)
        axis.set_xlabel("rank", fontsize=8)
        axis.axhline(0, color="0.3", linewidth=0.8)
    if shown:
        axes[0].set_ylabel("mean weight", fontsize=8)
        axes[0].legend(fontsize=7)
    caption = "Mean weight by rank: a good method gives relevant neighbours more than others of the same rank."
    return Artifact("image", saved(drawn, folder / "weights.png"), caption)
