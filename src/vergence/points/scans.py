"""Scans whose points get a class: readers of labelled scans, and the labels of a user's own ones, written and drawn.

The systems that label LiDAR sweeps share it: a network gives a class to every point, and everything around it is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import Layout
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.core.errors import VergenceError
from vergence.core.files import write_table
from vergence.data.clouds import SUFFIXES, read_scan, write_ply
from vergence.metrics.segmentation import class_iou, mean_iou, overall_accuracy
from vergence.points import nuscenes, semantickitti
from vergence.points.classes import ClassSet, group_iou
from vergence.points.labelled import class_page, from_above
from vergence.points.semantickitti import CLASS_SET, Sweep, read_labels, write_labels
from vergence.reading.arrays import read_npz

PAGES = 3
"""Pages to turn are written for this many scans of a folder; the others get files and pictures."""
NEAR, FAR = 3.0, 2000.0
"""A sweep in metres extends between these; other extents are other units, most likely."""
Label = Callable[[Tensor, Tensor], Tensor]
"""Scores (P, classes) of points (P, 3) and intensities (P,)."""


# Files ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Folder:
    """Labelled scans of a plain folder: ``*.bin`` with ``*.label`` of SemanticKITTI's numbers, or ``*.npz`` with
    ``points`` (P, 3 or 4) and ``labels`` (P,) of its classes."""

    files: tuple[Path, ...]
    split: str = ""
    classes: ClassSet = CLASS_SET

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Sweep:
        path = self.files[index]
        points, intensity = read_scan(path)
        intensity = torch.zeros(len(points)) if intensity is None else intensity
        if path.suffix == ".bin":
            return Sweep(points, intensity, read_labels(path.with_suffix(".label"), len(points)))
        labels = read_npz(path).get("labels")
        if labels is None or labels.shape != (len(points),) or labels.dtype.kind not in "iu":
            raise VergenceError(f"{path} has no whole-number array 'labels' of shape ({len(points)},)")
        if labels.min() < 0 or labels.max() >= len(self.classes):
            found = f"{labels.min()} to {labels.max()}"
            raise VergenceError(f"{path} has labels from {found}: expected 0 to {len(self.classes) - 1}")
        return Sweep(points, intensity, torch.from_numpy(labels.astype("int64")))


def read_folder(path: Path, split: str) -> Folder:
    """The scans of ``PATH/<split>``; where validation or test is missing, the other one."""
    stands_in = {"train": ["train"], "val": ["val", "test"], "test": ["test", "val"]}[split]
    part = next((path / name for name in stands_in if (path / name).is_dir()), path / split)
    expected = "train, val and test with *.bin and *.label, or *.npz with points and labels"
    if not part.is_dir():
        raise VergenceError(f"{path} has no folder {split}: expected {expected}")
    scans = [scan for scan in sorted(part.glob("*.bin")) if scan.with_suffix(".label").is_file()]
    files = tuple(scans or sorted(part.glob("*.npz")))
    if not files:
        raise VergenceError(f"{part} has no labelled scan: expected {expected}")
    return Folder(files, part.name if part.name != split else "")


LAYOUTS = {
    "semantickitti": semantickitti.LAYOUT,
    "nuscenes": nuscenes.LAYOUT,
    "folder": Layout(read_folder, "folders train, val and test of *.bin with *.label, or of *.npz"),
}


# Scores ---------------------------------------------------------------------------------------------------------------


def scores(counts: Tensor, classes: ClassSet) -> dict[str, float]:
    """``miou`` and ``accuracy`` (percent) from confusion counts, and ``groups``, the mean over the groups that occur:
    ground, vehicle, vegetation, building, pole."""
    shares = [share for share in group_iou(counts, classes).values() if share == share]
    grouped = sum(shares) / len(shares) if shares else float("nan")
    return {"miou": mean_iou(counts), "accuracy": overall_accuracy(counts), "groups": grouped}


def by_class(counts: Tensor, classes: ClassSet) -> dict[str, float]:
    """Intersection over union (percent) of the classes that occur, by name."""
    shares = 100 * class_iou(counts)
    return {name: float(share) for name, share in zip(classes.names, shares, strict=True) if share == share}


# Use ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LabelledScan:
    """One scan with the class of every point."""

    name: str
    points: Tensor
    """(P, 3): forward, left, up, in metres."""
    intensity: Tensor
    """(P,)."""
    labels: Tensor
    """(P,), classes by number."""
    confidence: Tensor
    """(P,), the probability of the class."""


@dataclass(frozen=True, eq=False)
class Labelled(Result):
    """Scans with a class for every point."""

    scans: tuple[LabelledScan, ...]
    """The scans, in the order of their files."""
    names: tuple[str, ...]
    """Classes by number."""
    colours: tuple[tuple[int, int, int], ...]
    """Red, green and blue of each class, from 0 to 255."""

    @property
    def labels(self) -> Tensor:
        """Classes of the points of all scans, one after another."""
        return torch.cat([scan.labels for scan in self.scans])

    @property
    def points(self) -> Tensor:
        """Points of all scans, (P, 3)."""
        return torch.cat([scan.points for scan in self.scans])

    def summary(self) -> Mapping[str, Any]:
        counts = self.labels.bincount(minlength=len(self.names))
        shares = (100 * counts / counts.sum()).round(decimals=1)
        largest = counts.argsort(descending=True)[:5].tolist()
        return {
            "points": int(counts.sum()),
            "scans": len(self.scans),
            "mean confidence": round(float(torch.cat([scan.confidence for scan in self.scans]).mean()), 3),
            "largest classes": ", ".join(f"{self.names[c]} {float(shares[c]):g} %" for c in largest if counts[c]),
        }


def scan_files(path: Path) -> list[Path]:
    """The scans that a path names: itself, or those of a folder."""
    if not path.is_dir():
        return [path]
    value = getattr(path, "value", None)
    files = list(value) if value is not None else sorted(p for p in path.iterdir() if p.suffix.lower() in SUFFIXES)
    if not files:
        raise VergenceError(f"{path} has no scans: expected files with one of {', '.join(SUFFIXES)}")
    return files


def label_scans(ctx: Context[Any, Any], path: Path, classes: ClassSet, label: Label) -> Labelled:
    """Label a scan or a folder of them; ``label`` gives the scores of one scan's points."""
    labelled = []
    files = scan_files(path)
    for file in ctx.progress.track(files, "scans") if len(files) > 1 else files:
        points, intensity = read_scan(file)
        if intensity is None:
            ctx.progress.say(f"{file.name} has no intensity: 0 is used, and labels are less certain")
            intensity = torch.zeros(len(points))
        elif float(intensity.max()) > 1.5:
            intensity = intensity / 255  # some scanners count to 255
        warning = unusual(points, file.name)
        if warning:
            ctx.progress.say(warning)
        found = label(ctx.to_device(points), ctx.to_device(intensity)).float().softmax(1).cpu()
        found[:, 0] = 0  # no point is left without a class
        confidence, labels = found.max(1)
        labelled.append(LabelledScan(file.stem, points, intensity, labels, confidence))
    return Labelled(tuple(labelled), classes.names, classes.colours)


def unusual(points: Tensor, name: str) -> str:
    """A warning for a scan that is probably not in metres; empty for others."""
    extent = float((points.amax(0) - points.amin(0)).max())
    if len(points) > 1 and not NEAR <= extent <= FAR:
        return f"{name} extends over {extent:,.3g}: are its coordinates in metres?"
    return ""


def render(ctx: Context[Any, Any], result: Labelled) -> Sequence[Artifact]:
    """Write labelled clouds and label files, a table of classes, pictures from above and pages to turn."""
    artifacts = []
    palette = torch.tensor(result.colours, dtype=torch.uint8)
    kitti = result.names == CLASS_SET.names
    for number, scan in enumerate(result.scans):
        cloud = write_ply(
            ctx.folder / f"{scan.name}.ply",
            scan.points,
            palette[scan.labels],
            label=scan.labels,
            confidence=scan.confidence,
            intensity=scan.intensity,
        )
        artifacts.append(Artifact("cloud", cloud, f"{scan.name}: points with colour, class and confidence."))
        if kitti:
            raw = write_labels(ctx.folder / f"{scan.name}.label", scan.labels)
            artifacts.append(Artifact("table", raw, f"{scan.name}: SemanticKITTI's label file."))
        picture = from_above(
            ctx.folder / f"{scan.name}.png", [(scan.name, scan.points, scan.labels)], result.names, result.colours
        )
        artifacts.append(Artifact("image", picture, f"{scan.name} from above; forward is up."))
        if number < PAGES:
            note = f"{len(scan.points):,} points, mean confidence {float(scan.confidence.mean()):.2f}"
            path = ctx.folder / f"{scan.name}.html"
            page = class_page(path, scan.name, note, scan.points, scan.labels, result.names, result.colours)
            artifacts.append(Artifact("html", page, f"{scan.name}, to turn; classes can be shown and hidden."))
    rows = []
    for scan in result.scans:
        counts = scan.labels.bincount(minlength=len(result.names)).tolist()
        rows += [
            (scan.name, result.names[c], n, round(100 * n / len(scan.labels), 2)) for c, n in enumerate(counts) if n
        ]
    table = write_table(ctx.folder / "classes.csv", ("scan", "class", "points", "percent"), rows)
    artifacts.append(Artifact("table", table, "Points of each class."))
    images = [artifact for artifact in artifacts if artifact.kind == "image"]
    return images + [artifact for artifact in artifacts if artifact.kind != "image"]
