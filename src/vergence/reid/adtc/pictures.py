"""Pictures of reports: one cluster round by round, what was dropped and why, quality by round, and attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.data.images import fitted
from vergence.drawing.figure import colours, figure, saved
from vergence.drawing.grid import Panel, grid, heated
from vergence.reid.adtc.model import ReidNetwork
from vergence.reid.adtc.settings import SETTINGS, Config, Facts
from vergence.reid.data import Viewed
from vergence.reid.page import RIGHT, WRONG, framed
from vergence.reid.pseudo import DROPPED, Pseudo
from vergence.reid.rounds import Trail
from vergence.reid.unlabelled import has_identities

Ctx = Context[Config, Facts]
MEMBERS, STRANGERS = 7, 2
"""Pictures shown of a cluster, and of each kind that was dropped."""
QUALITIES = {"nmi": "NMI with identities", "kept": "share of pictures kept", "clusters": "clusters"}


def draw(ctx: Ctx, networks: Mapping[str, ReidNetwork], data: Viewed, pictures: Any) -> list[Artifact]:
    """``data`` is the test set; ``pictures`` are those that were clustered."""
    drawn = []
    grouped = {name: n for name, n in networks.items() if int(n.trail.done)}
    first = next((grouped[name] for name in ("adtc", *grouped) if name in grouped), None)
    if first is not None and first.trail.labels.shape[1] == len(pictures):
        rows = cluster_rows(first.trail, pictures)
        if rows:
            caption = (
                "One picture's cluster in several rounds (green frames: the same person, red: another), and pictures "
                "that were dropped: claimed by several clusters, or by none."
            )
            drawn.append(Artifact("image", grid(ctx.folder / "clusters.png", rows, side=1.0), caption))
    if grouped:
        told = {SETTINGS.label(name): n.trail for name, n in grouped.items()}
        path = draw_quality(ctx.folder / "rounds.png", told)
        drawn.append(Artifact("image", path, "Quality of the labels of each round."))
    looking = {name: n for name, n in networks.items() if _looks(n)}
    if looking:
        drawn.append(_attention(ctx, looking, data))
    return drawn


def _looks(network: ReidNetwork) -> bool:
    probe = next(network.parameters()).new_zeros(1, network.backbone.outputs, 1, 1)
    return network.places(probe) is not None


# Clusters -------------------------------------------------------------------------------------------------------------


def shown_rounds(count: int) -> list[int]:
    """The first round, one in the middle and the last."""
    return sorted({0, (count - 1) // 2, count - 1})


def followed(rounds: Sequence[Pseudo], identities: Sequence[int] | None) -> int | None:
    """A picture whose cluster tells most: kept in all rounds, with most of its own person at last and least at
    first."""
    kept = torch.stack([found.kept for found in rounds]).all(0).nonzero()[:, 0].tolist()
    if not kept:
        return None

    def interest(index: int) -> tuple[int, int]:
        right = []
        for found in (rounds[0], rounds[-1]):
            members = (found.labels == found.labels[index]).nonzero()[:, 0].tolist()
            right.append(sum(identities is None or identities[m] == identities[index] for m in members))
        return right[1], -right[0]

    return max(kept, key=interest)


def cluster_rows(trail: Trail, pictures: Any) -> list[list[Panel]]:
    """One row per round: the cluster of one picture, then pictures that were dropped."""
    numbers = shown_rounds(int(trail.done))
    rounds = [trail.round(number) for number in numbers]
    identities = pictures.identities if has_identities(pictures) else None
    index = followed(rounds, identities)
    if index is None:
        return []
    rows = []
    largest = max(int((found.labels == found.labels[index]).sum()) for found in rounds)
    for number, found in zip(numbers, rounds, strict=True):
        members = [m for m in (found.labels == found.labels[index]).nonzero()[:, 0].tolist() if m != index]
        row = [Panel(_shown(pictures, index), f"round {number + 1}")]
        for member in members[:MEMBERS]:
            picture = _shown(pictures, member)
            if identities is not None:
                picture = framed(picture, RIGHT if identities[member] == identities[index] else WRONG)
            row.append(Panel(picture, "same cluster"))
        blank = torch.ones_like(row[0].picture, dtype=torch.float32)
        row += [Panel(blank)] * (min(largest, MEMBERS + 1) - len(row))
        for kind, title in ((found.claims > 1, "claimed by {}"), (found.claims == 0, "unclaimed")):
            dropped = (kind & (found.labels == DROPPED)).nonzero()[:, 0].tolist()
            dropped = dropped[:: max(len(dropped) // STRANGERS, 1)][:STRANGERS]
            row += [Panel(_shown(pictures, i), title.format(int(found.claims[i]))) for i in dropped]
            row += [Panel(blank)] * (STRANGERS - len(dropped))
        rows.append(row)
    return rows


def _shown(pictures: Any, index: int) -> Tensor:
    return fitted(pictures[index][0], 192)


def draw_quality(path: Path, trails: Mapping[str, Trail]) -> Path:
    """NMI, share of kept pictures and number of clusters, round by round, one line per variant."""
    known = [name for name in QUALITIES if any(name in trail.told(0) for trail in trails.values())]
    drawn = figure(3.2 * len(known), 3.0)
    axes = drawn.subplots(1, len(known), squeeze=False)[0]
    for axis, name in zip(axes, known, strict=True):
        for colour, (label, trail) in zip(colours(len(trails)), trails.items(), strict=True):
            values = [trail.told(number).get(name, float("nan")) for number in range(int(trail.done))]
            axis.plot(range(1, len(values) + 1), values, marker="o", color=colour, label=label)
        axis.set_xlabel("round")
        axis.set_title(QUALITIES[name], fontsize=9)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=7)
    return saved(drawn, path)


# Attention ------------------------------------------------------------------------------------------------------------


def _attention(ctx: Ctx, networks: Mapping[str, ReidNetwork], data: Viewed, count: int = 6) -> Artifact:
    chosen = [i * len(data) // count for i in range(min(count, len(data)))]
    batch = ctx.to_device(torch.stack([data[i][0] for i in chosen]))
    rows = [[Panel(fitted(data.data[i][0], 192)) for i in chosen]]
    for name, network in networks.items():
        looked = network.places(network.maps(batch))
        if looked is not None:
            shown = (fitted(data.data[i][0], 192) for i in chosen)
            rows.append([heated(picture, heat, name) for picture, heat in zip(shown, looked, strict=True)])
    caption = "Held-out pictures, and how strongly each place of the last map counts, each with its own scale."
    return Artifact("image", grid(ctx.folder / "attention.png", rows, side=1.1), caption)
