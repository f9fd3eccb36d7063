"""The diagnosis of classifiers on a user's pictures: leak curves, perturbations, components, and their files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import Spread
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.core.errors import VergenceError
from vergence.core.files import write_json, write_table
from vergence.core.seeding import generator
from vergence.data.images import find_images, read_image, resized, scaled
from vergence.data.photographs import photographs
from vergence.ops.pca import Basis, randomised
from vergence.robustness.classifiers import Classifier
from vergence.robustness.data import read_labels
from vergence.robustness.gradleak import pictures
from vergence.robustness.gradleak.model import Leak, Network, determination, diagnose
from vergence.robustness.gradleak.settings import Config, Facts, Inputs
from vergence.robustness.minimal import Attack, CarliniWagner, DeepFool, IterativeL2
from vergence.robustness.named import READY, Named, named_classifier, on, usual_names
from vergence.robustness.whitebox import checked_logits

Ctx = Context[Config, Facts]
ATTACKS: Mapping[str, Attack | None] = {
    "deepfool": DeepFool(), "bim": IterativeL2(searches=10), "cw": CarliniWagner(steps=200, rate=0.01), "none": None,
}  # fmt: skip
BATCH = 4
"""Pictures attacked at once: maps of more than four no longer fit a core's cache (see blackbox.BATCH)."""
CHUNK = 100
"""Crops read at once."""
DRAWN, PARTS = 4, 12
"""Pictures and components that are drawn."""
LONGEST = 640
"""Photographs that crops are cut from are reduced to this."""
OTHERS = (
    "An illustration: the components are of crops of other photographs, not of the pictures that the classifier was "
    "trained on."
)


@dataclass(frozen=True, eq=False)
class Diagnosis(Result):
    """Gradient leaking of M classifiers on N pictures."""

    names: tuple[str, ...]
    """The pictures' names, N."""
    classifiers: tuple[str, ...]
    """The classifiers' names, M."""
    bases: tuple[str, ...]
    """What the components of each classifier are, M."""
    dimensions: tuple[int, ...]
    """D of each classifier: the numbers of a picture, M."""
    kept: tuple[float, ...]
    """The share of the variance of what they were made from that all components keep, M."""
    error: tuple[float, ...]
    """Bound on the error of each variance, relative to the largest; 0 if they are exact, M."""
    answers: tuple[tuple[str, ...], ...]
    """What each classifier says of each picture, M x N."""
    after: tuple[tuple[str, ...], ...]
    """What it says of the perturbed one, M x N."""
    norms: tuple[Tensor, ...]
    """The L2 norm of each gradient, M times (N,)."""
    sizes: tuple[Tensor, ...]
    """The L2 norm of each perturbation, M times (N,): 0 if the answer is not the label already, infinite if none was
    found, NaN without an attack."""
    curves: tuple[Tensor, ...]
    """α_d of each gradient for d = 1, ..., rank (Eq. 2), M times (N, rank)."""
    change_curves: tuple[Tensor, ...]
    """α_d of each perturbation, M times (N, rank)."""
    picture_curves: tuple[Tensor, ...]
    """The share of the pictures' own variance in d components, M times (rank,)."""
    pictures: tuple[Tensor, ...]
    """The first pictures as each classifier got them, M times (n, C, side, side)."""
    gradients: tuple[Tensor, ...]
    """Their gradients."""
    inside: tuple[Tensor, ...]
    """The part of these in the components."""
    changes: tuple[Tensor, ...]
    """Their perturbations."""
    components: tuple[Tensor, ...]
    """The leading components, M times (n, C, side, side)."""
    notes: tuple[str, ...]
    """What to know before using the numbers; empty if nothing."""

    def figures(self, number: int) -> dict[str, Any]:
        """The main figures of a classifier; kept and error are the components' own (see the fields)."""
        curve, sizes, dimensions = self.curves[number].nanmean(0), self.sizes[number], self.dimensions[number]
        fooled = sizes[sizes.isfinite() & (sizes > 0)]
        known = len(fooled) > 0
        return {
            "alpha": float(curve[-1]),
            "rank": len(curve),
            "dimensions": dimensions,
            "kept": self.kept[number],
            "error": self.error[number],
            "chance": len(curve) / dimensions,
            "pictures in components": float(self.picture_curves[number][-1]),
            "mean gradient norm": float(self.norms[number].mean()),
            "median perturbation": float(fooled.median()) if known else None,
            "mean perturbation": float(fooled.mean()) if known else None,
            "fooled": len(fooled),
        }

    def summary(self) -> Mapping[str, Any]:
        told: dict[str, Any] = {"pictures": len(self.names)}
        for number, name in enumerate(self.classifiers):
            found = self.figures(number)
            size = found["median perturbation"]
            told[name] = (
                f"{100 * found['alpha']:.3g} % of the gradient in {found['rank']} components (of a random direction: "
                f"{100 * found['chance']:.2g} %, of the pictures: {100 * found['pictures in components']:.0f} %)"
                + (f"; median perturbation {size:.3g} (L2)" if size is not None else "")
            )
            told[f"{name}: components"] = self.bases[number]
        if self.notes:
            told["note"] = " ".join(self.notes)
        return told


# The diagnosis --------------------------------------------------------------------------------------------------------


def diagnosis(ctx: Ctx, model: Network | None, inputs: Inputs) -> Diagnosis:
    """Diagnose every classifier on the pictures."""
    files = _files(inputs)
    truth = read_labels(Path(inputs.labels)) if inputs.labels else None
    for path in files:
        if truth is not None and path.stem not in truth:
            raise VergenceError(f"{inputs.labels} has no label for {path.name}")
    columns: list[dict[str, Any]] = []
    bases: dict[tuple[int, int], tuple[Basis, str]] = {}
    notes: dict[str, None] = {}
    for named in _classifiers(ctx, model, inputs):
        classifier = named.classifier
        assert isinstance(classifier, Classifier)
        size = (classifier.channels, named.side or 0)
        images = torch.stack([_picture(path, *size) for path in files])
        own = classifier.stored.basis() if isinstance(classifier, Network) and inputs.basis is None else None
        if own is not None and own.total > 0:
            basis, about = own, f"{own.rank} stored with the weights, of {own.count:,} training pictures"
        else:
            if size not in bases:
                bases[size] = _crop_basis(ctx, inputs, size)
            basis, about = bases[size]
            notes[OTHERS] = None
        columns.append(_column(ctx, inputs, named, images, basis, files, truth) | {"bases": about})
    names = tuple(path.name for path in files)
    gone = [field.name for field in fields(Diagnosis) if field.name not in ("names", "notes")]
    values = {name: tuple(column[name] for column in columns) for name in gone}
    notes |= {note: None for column in columns for note in column["notes"]}
    return Diagnosis(names=names, notes=tuple(notes), **values)


def _column(
    ctx: Ctx, inputs: Inputs, named: Named, images: Tensor, basis: Basis, files: Sequence[Path],
    truth: Mapping[str, int] | None,
) -> dict[str, Any]:  # fmt: skip
    """What the result has of one classifier."""
    classifier: Any = named.classifier
    labels = torch.tensor([truth[path.stem] for path in files]) if truth is not None else None
    parts: list[Leak] = []
    before, after = [], []
    batches = list(range(0, len(files), BATCH))
    for start in ctx.progress.track(batches, f"{named.name}: pictures"):
        part = ctx.to_device(images[start : start + BATCH])
        known = labels[start : start + BATCH].to(part.device) if labels is not None else None
        leak = diagnose(classifier, part, basis, known, ATTACKS[inputs.attack], BATCH)
        zero = torch.zeros(len(part), dtype=torch.int64, device=part.device)
        before.append(checked_logits(classifier, part, zero).argmax(1).cpu())
        after.append(checked_logits(classifier, part + leak.changes, zero).argmax(1).cpu())
        parts.append(leak)
    joined = {name: torch.cat([getattr(part, name).cpu() for part in parts]) for name in
              ("gradients", "changes", "sizes", "curves", "change_curves", "norms")}  # fmt: skip
    notes = []
    flat = int((joined["norms"] == 0).sum())
    if flat:
        notes.append(f"{named.name} has a gradient of zero at {flat} pictures, which are left out of its curve.")
    missed = int(joined["sizes"].isinf().sum())
    if missed:
        notes.append(f"No perturbation of {missed} pictures was found for {named.name}.")
    centred = images.flatten(1) - basis.mean.cpu()
    inside = (centred @ basis.vectors.cpu()).square().sum(0).cumsum(0) / centred.square().sum()
    some, vectors = joined["gradients"][:DRAWN], basis.vectors.cpu()
    shape = images.shape[1:]
    return {
        "classifiers": named.name, "dimensions": basis.dimensions, "kept": basis.kept(basis.rank),
        "error": basis.error / float(basis.variances[0]), "picture_curves": inside, "notes": notes,
        "answers": tuple(map(named.word, torch.cat(before).tolist())),
        "after": tuple(map(named.word, torch.cat(after).tolist())),
        "norms": joined["norms"], "sizes": joined["sizes"], "curves": joined["curves"],
        "change_curves": joined["change_curves"], "pictures": images[:DRAWN], "gradients": some,
        "inside": (some.flatten(1) @ vectors @ vectors.mT).view_as(some), "changes": joined["changes"][:DRAWN],
        "components": vectors[:, :PARTS].mT.reshape(-1, *shape),
    }  # fmt: skip


def _files(inputs: Inputs) -> list[Path]:
    """The pictures to use, spread over those given; folders stand for the pictures below them."""
    given = list(inputs.images) if inputs.data is None else [inputs.data]
    found: list[Path] = []
    for path in given:
        if path.is_dir():
            below = find_images(path)
            if not below:
                raise VergenceError(f"{path} has no pictures to diagnose a classifier on")
            found += below
        else:
            found.append(path)
    chosen = Spread(found, inputs.most)
    return [chosen[index] for index in range(len(chosen))]


def _picture(path: Path, channels: int, side: int) -> Tensor:
    """A picture (channels, side, side) in [0, 1]."""
    image = resized(scaled(read_image(path, longest=4 * side)), side, side).clamp(0, 1)
    return image.mean(0, keepdim=True) if channels == 1 else image


def _classifiers(ctx: Ctx, model: Network | None, inputs: Inputs) -> Iterator[Named]:
    """The named classifiers, else the one of the weights, else EfficientNet-Lite."""
    if model is not None and not inputs.classifiers:
        if model.side is None:
            raise VergenceError("these weights classify points of a curve, not pictures: there is nothing to diagnose")
        yield Named(f"the weights' {model.name}", model, model.side, ctx.facts.labels)
        return
    for name in inputs.classifiers or ("lite0",):
        if Path(name).suffix.lower() == ".onnx":
            raise VergenceError(
                f"{name} is an ONNX file, which gives answers but no gradients: expected lite0, lite1, lite2 or a "
                ".safetensors file of a Vergence classifier (in Python, any nn.Module)"
            )
        if name not in READY and Path(name).suffix != ".safetensors":
            raise VergenceError(
                f"no classifier {name!r}: expected {', '.join(READY)} or a .safetensors file of a Vergence classifier "
                "(in Python, diagnose takes any nn.Module)"
            )
        named = on(named_classifier(name, ctx.load), ctx.device, ctx.float_type)
        if not isinstance(named.classifier, Classifier) or named.classifier.side is None:
            raise VergenceError(f"{name} is not a classifier of pictures of one size: its gradients have no components")
        named.classifier.requires_grad_(False)
        yield Named(named.name, named.classifier, named.side, named.classes or usual_names(None))


# Components of crops --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Crops:
    """Random crops of photographs: at several scales, cut without resampling again."""

    levels: Sequence[Tensor]
    """Photographs at each scale, bytes (C, H, W)."""
    side: int
    places: Tensor
    """(count, 4): the level, top, left, and whether it is mirrored."""

    @classmethod
    def of(cls, photos: Sequence[Tensor], channels: int, side: int, count: int, source: torch.Generator) -> Crops:
        levels = [level for photo in photos for level in _levels(photo, channels, side)]
        which = torch.randint(len(levels), (count,), generator=source)
        room = torch.tensor([[level.shape[1] - side + 1, level.shape[2] - side + 1] for level in levels])[which]
        corners = (torch.rand(count, 2, generator=source) * room).long()
        mirrored = torch.randint(2, (count, 1), generator=source)
        return cls(levels, side, torch.cat([which[:, None], corners, mirrored], 1))

    def chunks(self) -> Iterator[Tensor]:
        """All crops, flattened and in [0, 1], some at a time."""
        for places in self.places.split(CHUNK):
            cut = []
            for level, top, left, mirrored in places.tolist():
                crop = self.levels[level][:, top : top + self.side, left : left + self.side]
                cut.append(crop.flip(-1) if mirrored else crop)
            yield scaled(torch.stack(cut)).flatten(1)


def _levels(photo: Tensor, channels: int, side: int) -> Iterator[Tensor]:
    """A photograph at scales that are larger than a crop, so that crops of it differ: two at most, enlarged little."""
    image = scaled(photo)
    image = image.mean(0, keepdim=True) if channels == 1 else image
    height, width = image.shape[-2:]
    shorter = min(height, width)
    for scale in (1.5, 2.25):
        if scale > 1.5 and side * scale > 1.2 * shorter:
            return
        size = [max(round(extent * side * scale / shorter), side) for extent in (height, width)]
        yield (255 * resized(image, *size).clamp(0, 1)).round().to(torch.uint8)


def _crop_basis(ctx: Ctx, inputs: Inputs, size: tuple[int, int]) -> tuple[Basis, str]:
    """Principal components of crops of other photographs, randomised, and a sentence about them."""
    channels, side = size
    dimensions = channels * side**2
    if inputs.rank > dimensions:
        raise VergenceError(f"a picture of {dimensions:,} numbers has no {inputs.rank} components")
    if inputs.basis is None:
        photos = [photo.round().to(torch.uint8) for photo in photographs("train", LONGEST)]
        origin = f"{len(photos)} photographs of scikit-image and scikit-learn"
    else:
        paths = find_images(inputs.basis) if inputs.basis.is_dir() else []
        if not paths:
            raise VergenceError(f"{inputs.basis} has no pictures to make components of")
        photos = [read_image(path, longest=LONGEST) for path in paths]
        origin = f"{len(photos)} pictures of {inputs.basis.name}"
    ctx.need(4 * dimensions * (6 * inputs.rank + 2 * CHUNK), f"{inputs.rank} components of {dimensions:,} numbers")
    crops = Crops.of(photos, channels, side, inputs.crops, generator("crops", inputs.seed))
    task = ctx.progress.start(f"components of {inputs.crops:,} crops", None)
    try:
        basis = randomised(crops.chunks, inputs.rank, generator("components", inputs.seed), passes=3)
    except ValueError as refusal:
        raise VergenceError(f"{origin} give no components: {refusal}") from None
    finally:
        ctx.progress.finish(task)
    error = basis.error / float(basis.variances[0])
    about = (
        f"{basis.rank} of {inputs.crops:,} crops of {origin}, {100 * basis.kept(basis.rank):.1f} % of their variance; "
        f"randomised, each variance within {100 * error:.2g} % of the largest"
    )
    return basis, about


# Files ----------------------------------------------------------------------------------------------------------------


def render(ctx: Ctx, inputs: Inputs, result: Diagnosis) -> list[Artifact]:
    """Draws curves, gradients and components, and writes the numbers."""
    folder = ctx.folder
    lines = [
        pictures.Line(name, result.curves[k].nanmean(0), result.change_curves[k].nanmean(0),
                      result.picture_curves[k], result.dimensions[k])
        for k, name in enumerate(result.classifiers)
    ]  # fmt: skip
    note = " ".join(result.notes)
    artifacts = [
        Artifact("image", pictures.leak_figure(folder / "leak.png", lines, result.sizes),
                 f"Share of gradients, perturbations and pictures in d components. {note}".strip()),
        Artifact("image", pictures.gradient_grid(folder / "gradients.png", result),
                 "Gradients, their part in the components, and the perturbations, each in its own range."),
        Artifact("image", pictures.component_grid(folder / "components.png", result), "The leading components."),
    ]  # fmt: skip
    artifacts.append(_curve_table(folder / "leak.csv", lines))
    artifacts.append(_picture_table(folder / "pictures.csv", result))
    write_json(folder / "diagnosis.json", _document(result))
    artifacts.append(Artifact("json", folder / "diagnosis.json", "The main figures of each classifier."))
    return artifacts


def _curve_table(path: Path, lines: Sequence[pictures.Line]) -> Artifact:
    heading = ["classifier", "d", "alpha of gradients", "alpha of perturbations", "of the pictures", "by chance"]
    rows = [
        [line.name, d + 1, f"{line.gradients[d]:.6g}", f"{line.changes[d]:.6g}", f"{line.images[d]:.6g}",
         f"{(d + 1) / line.dimensions:.6g}"]
        for line in lines for d in range(len(line.gradients))
    ]  # fmt: skip
    return Artifact("table", write_table(path, heading, rows), "The curves as numbers.")


def _picture_table(path: Path, result: Diagnosis) -> Artifact:
    heading = ["picture", "classifier", "answer", "gradient norm", "alpha", "perturbation, L2", "answer after"]
    rows = [
        [name, classifier, result.answers[k][i], f"{result.norms[k][i]:.6g}", f"{result.curves[k][i, -1]:.6g}",
         f"{result.sizes[k][i]:.6g}", result.after[k][i]]
        for k, classifier in enumerate(result.classifiers) for i, name in enumerate(result.names)
    ]  # fmt: skip
    return Artifact("table", write_table(path, heading, rows), "Every picture: answers, gradient and perturbation.")


def _document(result: Diagnosis) -> dict[str, Any]:
    """The main figures; with three or more classifiers, how well each predicts the perturbation (Table 1)."""
    each = {name: result.figures(k) | {"components": result.bases[k]} for k, name in enumerate(result.classifiers)}
    told: dict[str, Any] = {"pictures": list(result.names), "classifiers": each, "notes": list(result.notes)}
    sizes = [found["mean perturbation"] for found in each.values()]
    if len(each) > 2 and None not in sizes:
        y = torch.tensor(sizes)
        told["R² of the mean perturbation"] = {
            "by the root of alpha": determination(torch.tensor([f["alpha"] for f in each.values()]).sqrt(), y),
            "by 1 / mean gradient norm": determination(
                1 / torch.tensor([f["mean gradient norm"] for f in each.values()]), y
            ),
        }
    return told
