"""Explanations of a user's pictures: maps, sufficient sets, curves, and their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.core.errors import Cancelled, VergenceError
from vergence.core.files import replacing, write_array, write_table
from vergence.core.seeding import generator
from vergence.data.images import fitted, read_image, resized, scaled
from vergence.robustness.blackbox import BATCH, BlackBox, Subject, one_colour
from vergence.robustness.classifiers import Classifier
from vergence.robustness.deepcover.model import Explanation, explained
from vergence.robustness.deepcover.pictures import Shown, curve_figure, explained_grid
from vergence.robustness.deepcover.settings import Config, Facts, Inputs, numbers
from vergence.robustness.named import Named, named_classifier, on, read_names, usual_names
from vergence.robustness.options import LABELS
from vergence.robustness.sufficiency import deletion, insertion

Ctx = Context[Config, Facts]
LONGEST = 256
"""Longest side of a picture for a classifier that takes any size."""
SEARCH = 20
"""Queries that find the end of a sufficient set in its last step, at most; and what is asked of the set itself."""
DRAWN = 4
"""Pictures that are summarised and drawn."""


@dataclass(frozen=True, eq=False)
class Explanations(Result):
    """Why a classifier says what it says, for N pictures by M methods."""

    names: tuple[str, ...]
    """The pictures' names, N."""
    classifier: str
    """The classifier's name."""
    methods: tuple[str, ...]
    """The methods' names, M."""
    pictures: tuple[Tensor, ...]
    """Each picture as the classifier got it, bytes (3, h, w)."""
    labels: Tensor
    """The classifier's answer to each picture, (N,)."""
    answers: tuple[str, ...]
    """The same in words."""
    chances: Tensor
    """The probability of each answer, (N,)."""
    scores: tuple[Tensor, ...]
    """The importance of every pixel by each method, (M, h, w) for each picture."""
    masks: tuple[Tensor, ...]
    """The sufficient set of each method, (M, h, w) booleans for each picture: with all other pixels hidden the answer
    is the same."""
    sizes: Tensor
    """The share of the pixels in each sufficient set, (N, M)."""
    seen: Tensor
    """The probability of the answer when only the sufficient set is visible, (N, M)."""
    mutants: Tensor
    """deepcover: how many mutants kept and changed the answer, (N, M, 2); 0 for other methods."""
    queries: Tensor
    """How many pictures the classifier was asked about, (N, M)."""
    insertion: Tensor
    """The probability of the answer while pixels appear in the order of importance, (N, M, points); empty without
    curves."""
    deletion: Tensor
    """The same while pixels are hidden."""
    notes: tuple[tuple[str, ...], ...]
    """What to know about each explanation, N x M; usually empty."""
    left_out: tuple[str, ...]
    """Pictures that cannot be explained, each with the reason."""

    def summary(self) -> Mapping[str, Any]:
        told: dict[str, Any] = {"classifier": self.classifier}
        for number in range(min(DRAWN, len(self.names))):
            sets = [f"{LABELS[m]} {100 * size:.1f} %" for m, size in zip(self.methods, self.sizes[number], strict=True)]
            answer = f"{self.answers[number]} ({self.chances[number]:.0%})"
            told[self.names[number]] = f"{answer}; enough for it: {', '.join(sets)} of the pixels"
        notes = [f"{name}: {note}" for name, row in zip(self.names, self.notes, strict=True) for note in row if note]
        if notes:
            told["note"] = notes[0] + (f" (and {len(notes) - 1} more)" if len(notes) > 1 else "")
        if self.left_out:
            told["left out"] = f"{len(self.left_out)}: {self.left_out[0]}"
        return told


def explanations(ctx: Ctx, model: Classifier | None, inputs: Inputs) -> Explanations:
    """Explain every picture by every method."""
    named = _classifier(ctx, model, inputs)
    pictures, left_out = _pictures(inputs, named.side)
    methods = inputs.chosen()
    costs = [2 + each.queries + round(1 / each.step) + SEARCH + 2 * (inputs.curves + 1) for each in methods]
    total = len(pictures) * sum(costs)
    task, before = ctx.progress.start("queries", total), 0
    rows = []
    for number, (name, picture) in enumerate(pictures.items()):
        image = ctx.to_device(scaled(picture))
        row: dict[str, list[Any]] = {}
        for settings, cost in zip(methods, costs, strict=True):
            box = BlackBox(named.classifier, BATCH, named.name, partial(_asked, ctx, task, before, name))
            subject = Subject.of(box, image, settings.background, name)
            source = generator("explain", inputs.seed, number, settings.method, device=ctx.device)
            for key, value in _row(explained(subject, settings, source), inputs.curves).items():
                row.setdefault(key, []).append(value)
            before += cost
        rows.append(row)
    ctx.progress.finish(task)
    return _together(named, inputs, pictures, rows, left_out)


def _asked(ctx: Ctx, task: int, before: int, name: str, queries: int) -> None:
    ctx.progress.update(task, before + queries, name)
    if ctx.cancelled():
        raise Cancelled("cancelled")


def _classifier(ctx: Ctx, model: Classifier | None, inputs: Inputs) -> Named:
    """The named classifier, else the one of the weights, else EfficientNet-Lite."""
    mean, std = numbers(inputs.mean), numbers(inputs.std)
    if inputs.classifier or model is None:
        named = named_classifier(inputs.classifier or "lite0", ctx.load, mean, std, inputs.side)
        if mean and named.name == inputs.classifier:
            raise VergenceError(f"{named.name} normalises pictures itself: mean and std are for ONNX files")
        named = on(named, ctx.device, ctx.float_type)
    else:
        side = inputs.side or model.side
        named = Named(f"the weights' {model.name}", model, side, ctx.facts.labels or usual_names(ctx.facts.classes))
    return replace(named, classes=read_names(Path(inputs.names))) if inputs.names else named


def _pictures(inputs: Inputs, side: int | None) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Pictures by name as bytes of the classifier's size, and those that are left out."""
    pictures: dict[str, Tensor] = {}
    left_out = []
    for path in inputs.images:
        whole = read_image(path, longest=4 * (side or LONGEST))
        image = resized(scaled(whole), side, side) if side else fitted(whole, LONGEST)
        picture = (255 * image.clamp(0, 1)).round().to(torch.uint8)
        if one_colour(picture):
            left_out.append(f"{path.name} is all one colour: there is nothing in it to explain")
            continue
        free = (path.stem, *(f"{path.stem}-{n}" for n in range(2, len(inputs.images) + 2)))
        pictures[next(name for name in free if name not in pictures)] = picture
    if not pictures:
        raise VergenceError(left_out[0])
    return pictures, tuple(left_out)


def _row(found: Explanation, curves: int) -> dict[str, Any]:
    """What one explanation adds to the result."""
    subject, suite, none = found.subject, found.suite, torch.zeros(0, dtype=torch.float64)
    seen = subject.chances(subject.masked(~found.mask[None]))
    return {
        "label": subject.label,
        "chance": subject.chance,
        "scores": found.scores.cpu(),
        "mask": found.mask.cpu(),
        "size": found.size,
        "seen": float(seen[0]),
        "mutants": [suite.passes, suite.failures] if suite else [0, 0],
        "insertion": insertion(subject, found.order, curves).chances if curves else none,
        "deletion": deletion(subject, found.order, curves).chances if curves else none,
        "note": found.note,
        "queries": subject.box.queries,
    }


def _together(
    named: Named, inputs: Inputs, pictures: Mapping[str, Tensor], rows: Sequence[Mapping[str, list[Any]]],
    left_out: tuple[str, ...],
) -> Explanations:  # fmt: skip
    return Explanations(
        tuple(pictures),
        named.name,
        tuple(each.method for each in inputs.chosen()),
        tuple(pictures.values()),
        torch.tensor([row["label"][0] for row in rows]),
        tuple(named.word(row["label"][0]) for row in rows),
        torch.tensor([row["chance"][0] for row in rows], dtype=torch.float64),
        tuple(torch.stack(row["scores"]) for row in rows),
        tuple(torch.stack(row["mask"]) for row in rows),
        torch.tensor([row["size"] for row in rows], dtype=torch.float64),
        torch.tensor([row["seen"] for row in rows], dtype=torch.float64),
        torch.tensor([row["mutants"] for row in rows]),
        torch.tensor([row["queries"] for row in rows]),
        torch.stack([torch.stack(row["insertion"]) for row in rows]),
        torch.stack([torch.stack(row["deletion"]) for row in rows]),
        tuple(tuple(row["note"]) for row in rows),
        left_out,
    )


# Files ----------------------------------------------------------------------------------------------------------------


def render(ctx: Ctx, inputs: Inputs, result: Explanations) -> list[Artifact]:
    """Writes maps as arrays, sufficient sets as transparent PNG, a table, and a picture of the first few."""
    folder = ctx.folder
    shown = [_shown(result, number) for number in range(min(DRAWN, len(result.names)))]
    grid = explained_grid(folder / "explained.png", shown, inputs.background)
    artifacts = [
        Artifact("image", grid, "What the answer rests on by each method, and the pixels that are enough for it.")
    ]
    if inputs.curves:
        drawn = curve_figure(folder / "curves.png", result.methods, result.insertion, result.deletion)
        artifacts.append(Artifact("image", drawn, "Probability of the answer, mean over the pictures."))
        artifacts.append(_curves(folder / "curves.csv", result))
    artifacts.append(_table(folder / "explanations.csv", result))
    for number, name in enumerate(result.names):
        for index, method in enumerate(result.methods):
            stem = f"{name}-{method}"
            scores = write_array(folder / "maps" / f"{stem}.npy", result.scores[number][index].numpy())
            artifacts.append(Artifact("table", scores, f"{name}: importance of each pixel by {LABELS[method]}."))
            cut = _cut(folder / "sets" / f"{stem}.png", result.pictures[number], result.masks[number][index])
            size = f"{100 * float(result.sizes[number, index]):.1f} %"
            caption = f"{name}: {size} of the pixels are enough for {result.answers[number]!r}, by {LABELS[method]}."
            artifacts.append(Artifact("image", cut, caption))
    return artifacts


def _shown(result: Explanations, number: int) -> Shown:
    return Shown(
        result.names[number], result.pictures[number], result.answers[number], float(result.chances[number]),
        result.methods, result.scores[number], result.masks[number], result.sizes[number].tolist(),
        result.seen[number].tolist(),
    )  # fmt: skip


def _table(path: Path, result: Explanations) -> Artifact:
    heading = ["picture", "answer", "probability", "method", "sufficient set, %", "probability of the set",
               "mutants that kept the answer", "mutants that changed it", "queries", "note"]  # fmt: skip
    rows = [
        [
            name, result.answers[i], f"{result.chances[i]:.4f}", method, f"{100 * result.sizes[i, j]:.3f}",
            f"{result.seen[i, j]:.4f}", *result.mutants[i, j].tolist(), int(result.queries[i, j]), result.notes[i][j],
        ]
        for i, name in enumerate(result.names)
        for j, method in enumerate(result.methods)
    ]  # fmt: skip
    return Artifact("table", write_table(path, heading, rows), "Answers, sufficient sets and queries.")


def _curves(path: Path, result: Explanations) -> Artifact:
    points = result.insertion.shape[-1]
    rows = [
        [name, method, f"{k / (points - 1):.4f}", f"{result.insertion[i, j, k]:.5f}", f"{result.deletion[i, j, k]:.5f}"]
        for i, name in enumerate(result.names)
        for j, method in enumerate(result.methods)
        for k in range(points)
    ]
    heading = ["picture", "method", "share of the pixels", "insertion", "deletion"]
    return Artifact("table", write_table(path, heading, rows), "The curves as numbers.")


def _cut(path: Path, picture: Tensor, mask: Tensor) -> Path:
    """The sufficient pixels of a picture on a transparent ground."""
    pixels = torch.cat([picture, 255 * mask[None].to(torch.uint8)]).permute(1, 2, 0).contiguous().numpy()
    with replacing(path) as partial:
        Image.fromarray(pixels).save(partial, format="png")
    return path
