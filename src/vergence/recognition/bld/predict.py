"""Labels of a user's pictures, by a network that learnt from a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.core.errors import VergenceError
from vergence.core.files import write_json, write_table
from vergence.data.images import centre, read_image, scaled
from vergence.drawing.grid import Panel, grid
from vergence.recognition.bld.model import Network
from vergence.recognition.bld.settings import Config, Facts, Inputs

Ctx = Context[Config, Facts]
AT_ONCE, SHOWN, COLUMNS = 64, 40, 8
"""Pictures of a batch, and of the drawing, by rows."""


@dataclass(frozen=True, eq=False)
class Labels(Result):
    """Labels of pictures."""

    files: tuple[str, ...]
    """Names of the pictures."""
    classes: tuple[str, ...]
    """Names of the possible classes."""
    tasks: tuple[int, ...]
    """The task in which each of them was learnt, from 1 on."""
    labels: tuple[str, ...]
    """The most likely class of each picture."""
    scores: Tensor
    """Probabilities, (N, classes)."""
    seen: Tensor
    """The pictures as the network saw them, bytes (N, 3, size, size)."""

    def summary(self) -> Mapping[str, Any]:
        return {
            Path(file).name: ", ".join(f"{label} {p:.0%}" for label, p in self.best(n, 3))
            for n, file in enumerate(self.files)
        }

    def best(self, number: int, count: int) -> list[tuple[str, float]]:
        """The most likely classes of a picture with their probabilities."""
        scores = self.scores[number]
        order = scores.argsort(descending=True, stable=True)[:count].tolist()
        return [(self.classes[i], float(scores[i])) for i in order]


def labels_of(ctx: Ctx, model: Network, inputs: Inputs) -> Labels:
    """Classify pictures: among the classes of one task, or of all."""
    facts = ctx.facts
    if not facts.begun:
        raise VergenceError("the network has no classifier: it has not learnt a task yet")
    if inputs.task > facts.begun:
        raise VergenceError(f"there is no task {inputs.task}: the network learnt {facts.begun}")
    chosen = range(facts.begun) if inputs.task == 0 else range(inputs.task - 1, inputs.task)
    size, pictures, scores = ctx.config.data.size, [], []
    for path in ctx.progress.track(inputs.images, "pictures"):
        pictures.append(centre(scaled(read_image(path, 8 * size)), size, size))
    for first in range(0, len(pictures), AT_ONCE):
        logits = model(ctx.to_device(torch.stack(pictures[first : first + AT_ONCE])))
        scores.append(torch.cat([logits[task].float() for task in chosen], 1).softmax(1).cpu())
    known = [(facts.labels[c], task + 1) for task in chosen for c in facts.tasks[task]]
    names = tuple(name for name, _ in known)
    probabilities = torch.cat(scores)
    return Labels(
        tuple(str(path) for path in inputs.images),
        names,
        tuple(task for _, task in known),
        tuple(names[i] for i in probabilities.argmax(1).tolist()),
        probabilities,
        torch.stack(pictures).clamp(0, 1).mul(255).round().to(torch.uint8),
    )


def render(ctx: Ctx, inputs: Inputs, result: Labels) -> Sequence[Artifact]:
    """Write labels and probabilities as CSV and JSON, and draw the pictures with their labels."""
    table = write_table(
        ctx.folder / "labels.csv",
        ["file", "label", *result.classes],
        [
            [file, label, *(f"{p:.4f}" for p in row.tolist())]
            for file, label, row in zip(result.files, result.labels, result.scores, strict=True)
        ],
    )
    rows = [
        {"file": file, "label": label, "probabilities": dict(zip(result.classes, row.tolist(), strict=True))}
        for file, label, row in zip(result.files, result.labels, result.scores, strict=True)
    ]
    write_json(ctx.folder / "labels.json", rows)
    panels = []
    for number, picture in enumerate(result.seen[:SHOWN]):
        best = result.best(number, 2)
        panels.append(Panel(picture, "\n".join(f"{_short(name)} {p:.0%}" for name, p in best)))
    shown = [panels[first : first + COLUMNS] for first in range(0, len(panels), COLUMNS)]
    some = f"The first {SHOWN} of {len(result.files)} pictures" if len(result.files) > SHOWN else "The pictures"
    return [
        Artifact("table", table, "The label and the probability of every class, one row per picture."),
        Artifact("table", ctx.folder / "labels.json", "The same as JSON."),
        Artifact(
            "image",
            grid(ctx.folder / "labels.png", shown, 1.45),
            f"{some} as the network saw them, with the two most likely classes.",
        ),
    ]


def _short(text: str, longest: int = 14) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
