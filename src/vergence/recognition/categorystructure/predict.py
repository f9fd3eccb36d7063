"""Prediction: the class of each picture, by student and teacher, and its place among the class centres of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.core.errors import VergenceError
from vergence.core.files import write_table
from vergence.data.images import fitted, read_image
from vergence.nn.distiller import Told
from vergence.recognition.categorystructure.model import Pair, SmallResNet
from vergence.recognition.categorystructure.pictures import Panel, aligned, draw_embeddings, plane
from vergence.recognition.categorystructure.settings import Config, Inputs
from vergence.recognition.data import middle
from vergence.recognition.settings import Facts

Ctx = Context[Config, Facts]
AT_ONCE = 64
"""Batch size."""
DRAWN = 60
"""Largest number of pictures that are drawn as such; further ones are dots."""


@dataclass(frozen=True, eq=False)
class Placed(Result):
    """Classes of pictures, and where the pictures lie among the classes."""

    files: tuple[str, ...]
    """Names of the pictures."""
    classes: tuple[str, ...]
    """Names of the classes."""
    labels: tuple[str, ...]
    """The student's answer for each picture."""
    scores: Tensor
    """The student's probabilities, (N, classes)."""
    cosines: Tensor
    """Cosine of each picture's features with the student's class centres, (N, classes)."""
    places: Tensor
    """Pictures in the plane of the student's class centres, (N, 2)."""
    centres: Tensor
    """Class centres in that plane, (classes, 2)."""
    teacher_labels: tuple[str, ...] = ()
    """The teacher's answers; none if the student had no teacher."""
    teacher_scores: Tensor | None = None
    """The teacher's probabilities, (N, classes)."""
    teacher_places: Tensor | None = None
    """Pictures in the plane of the teacher's class centres, turned to the student's, (N, 2)."""
    teacher_centres: Tensor | None = None
    """The teacher's class centres in that plane, (classes, 2)."""

    def summary(self) -> Mapping[str, Any]:
        shown = {}
        for n, (file, label) in enumerate(zip(self.files, self.labels, strict=True)):
            taught = f"; teacher: {self.teacher_labels[n]}" if self.teacher_labels else ""
            shown[Path(file).name] = f"{label} {float(self.scores[n].max()):.0%}{taught}"
        if self.agreement is not None:
            shown["same answer"] = f"{self.agreement:.0%} of {len(self.files)} pictures"
        return shown

    @property
    def agreement(self) -> float | None:
        """How often student and teacher give the same answer; None without a teacher."""
        if not self.teacher_labels:
            return None
        return sum(a == b for a, b in zip(self.labels, self.teacher_labels, strict=True)) / len(self.labels)


def placed(ctx: Ctx, model: Pair, inputs: Inputs) -> Placed:
    """Classify pictures, and place them."""
    if not inputs.images:
        raise VergenceError("no picture given to predict on")
    seen = torch.stack([middle(ctx.config.data, read_image(path)) for path in inputs.images])
    names = tuple(map(ctx.facts.name, range(ctx.facts.classes)))
    logits, units = _told(ctx, model.student, seen)
    centres = F.normalize(model.centres.float().cpu(), dim=1)
    flat = plane(centres)
    result: dict[str, Any] = {}
    if model.teacher is not None:
        answers, theirs = _told(ctx, model.teacher, seen)
        taught = F.normalize(model.teacher_centres.float().cpu(), dim=1)
        turned = aligned(plane(taught), taught, flat(centres))
        result = {
            "teacher_labels": tuple(names[k] for k in answers.argmax(1).tolist()),
            "teacher_scores": answers.softmax(1),
            "teacher_places": turned(theirs),
            "teacher_centres": turned(taught),
        }
    return Placed(
        tuple(map(str, inputs.images)),
        names,
        tuple(names[k] for k in logits.argmax(1).tolist()),
        logits.softmax(1),
        units @ centres.mT,
        flat(units),
        flat(centres),
        **result,
    )


def _told(ctx: Ctx, network: SmallResNet, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and pooled features of unit length of pictures, on the CPU."""
    parts: list[Told] = [network.told(ctx.to_device(some)) for some in seen.split(AT_ONCE)]
    logits = torch.cat([part.logits.float().cpu() for part in parts])
    pooled = torch.cat([part.features.float().mean((2, 3)).cpu() for part in parts])
    return logits, F.normalize(pooled, dim=1)


def render(ctx: Ctx, inputs: Inputs, result: Placed) -> Sequence[Artifact]:
    """Writes a table of the answers and places, a table of the centres, and a picture of both embeddings."""
    answers = write_table(
        ctx.folder / "labels.csv",
        ["file", "label", "probability", "nearest centre", "cosine", "x", "y", "teacher", "teacher's probability"],
        [_row(result, n) for n in range(len(result.files))],
    )
    sides = [result.centres, *([] if result.teacher_centres is None else [result.teacher_centres])]
    columns = ["class", "x", "y", "teacher x", "teacher y"][: 1 + 2 * len(sides)]
    rows = [[name, *(f"{v:.4f}" for s in sides for v in s[k].tolist())] for k, name in enumerate(result.classes)]
    centres = write_table(ctx.folder / "centres.csv", columns, rows)
    thumbs = [fitted(read_image(path), 64) for path in inputs.images[:DRAWN]]
    panels = [Panel("student", result.places, result.centres, thumbs)]
    if result.teacher_places is not None and result.teacher_centres is not None:
        panels.insert(0, Panel("teacher", result.teacher_places, result.teacher_centres, thumbs))
    drawn = draw_embeddings(ctx.folder / "embedding.png", [panels], result.classes)
    return [
        Artifact(
            "image", drawn, "The pictures among the class centres, in the plane in which the centres differ most."
        ),
        Artifact("table", answers, "Answers with probabilities, the class whose centre is nearest, and the place."),
        Artifact("table", centres, "The class centres in the plane of the picture."),
    ]


def _row(result: Placed, n: int) -> list[object]:
    near = int(result.cosines[n].argmax())
    row: list[object] = [result.files[n], result.labels[n], f"{float(result.scores[n].max()):.4f}"]
    row += [
        result.classes[near],
        f"{float(result.cosines[n, near]):.4f}",
        *(f"{v:.4f}" for v in result.places[n].tolist()),
    ]
    if result.teacher_scores is None:
        return [*row, "", ""]
    return [*row, result.teacher_labels[n], f"{float(result.teacher_scores[n].max()):.4f}"]
