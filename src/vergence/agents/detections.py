"""Files of detections: COCO's results and annotations, and instances as detectron2 names them (JSON or .npz)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from vergence.agents.graphs import Objects
from vergence.core.errors import VergenceError, did_you_mean
from vergence.data import coco
from vergence.ops.boxes import clipped
from vergence.reading.arrays import read_npz
from vergence.reading.tables import read_json

WHAT = "detections (COCO's results or annotations, or pred_boxes, scores and pred_classes)"
Unknown = Literal["refuse", "skip"]


@dataclass(frozen=True)
class Detections:
    """Objects of one picture as a file has them."""

    source: str
    boxes: np.ndarray[Any, Any]
    """(n, 4): left, top, right, bottom."""
    scores: np.ndarray[Any, Any]
    """(n,)."""
    names: tuple[str, ...]
    """Class of each object."""
    chances: np.ndarray[Any, Any] | None = None
    """(n, classes of ``vocabulary``)."""
    vocabulary: tuple[str, ...] = ()
    features: np.ndarray[Any, Any] | None = None
    """(n, F, 7, 7)."""

    def __post_init__(self) -> None:
        count = len(self.names)
        shapes = {"boxes": (self.boxes, (count, 4)), "scores": (self.scores, (count,))}
        for name, (array, shape) in shapes.items():
            if array.shape != shape:
                raise VergenceError(
                    f"{self.source} is not {WHAT}: its {name} have the shape {array.shape}, not {shape}"
                )
        for what, values in (("boxes", self.boxes), ("scores", self.scores), ("probabilities", self.chances),
                             ("features", self.features)):  # fmt: skip
            if values is not None and (values.dtype.kind not in "fiub" or not np.isfinite(values).all()):
                raise VergenceError(f"{self.source}: the {what} of its detections are not all finite numbers")
        if count and not ((self.scores >= 0) & (self.scores <= 1)).all():
            raise VergenceError(f"{self.source}: scores are from 0 to 1, got {float(self.scores.max()):g}")
        if self.chances is not None and self.chances.shape != (count, len(self.vocabulary)):
            raise VergenceError(
                f"{self.source}: probabilities have the shape {self.chances.shape}, expected "
                f"{(count, len(self.vocabulary))}: one row per detection, one column per name in thing_classes"
            )
        if self.features is not None and (self.features.ndim != 4 or self.features.shape[::2] != (count, 7)
                                          or self.features.shape[3] != 7):  # fmt: skip
            raise VergenceError(
                f"{self.source}: features have the shape {self.features.shape}, not (n, channels, 7, 7)"
            )


def read_detections(path: Path, picture: str) -> Detections:
    """The detections of a picture; a file that has those of several is searched for the picture's name."""
    if path.suffix.lower() == ".npz":
        return _instances(read_npz(path), path)
    content = read_json(path, WHAT)
    if isinstance(content, dict) and "annotations" in content:
        return _of_picture(content["annotations"], path, picture, _categories(content, path), content.get("images"))
    if isinstance(content, dict):
        content = content.get("instances", content)
        if isinstance(content, dict):
            return _instances(content, path)
    return _of_picture(content, path, picture, coco.BY_ID, None)


def by_picture(path: Path) -> dict[str, list[dict[str, Any]]]:
    """All rows of a file of COCO's results, by the stem of the picture's name, which is their ``image_id``."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in _rows(read_json(path, WHAT), path):
        rows.setdefault(Path(str(row.get("image_id", ""))).stem, []).append(row)
    return rows


def of_rows(rows: Sequence[Mapping[str, Any]], path: Path, names: Mapping[int, str] = coco.BY_ID) -> Detections:
    """Detections from rows of COCO's results."""
    boxes = np.array([_box(row, number, path) for number, row in enumerate(rows)], float).reshape(-1, 4)
    scores = np.array([_number(row.get("score", 1.0), "score", path) for row in rows], float)
    return Detections(str(path), boxes, scores, tuple(_class(row, names, path) for row in rows))


def _rows(content: Any, path: Path) -> list[dict[str, Any]]:
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise VergenceError(f"{path} is not {WHAT}: expected a list of objects")
    return content


def _categories(content: Mapping[str, Any], path: Path) -> dict[int, str]:
    names = {}
    for row in _rows(content.get("categories", []), path):
        if not isinstance(row.get("id"), int) or not isinstance(row.get("name"), str):
            raise VergenceError(f"{path} is not {WHAT}: a category has an id and a name, got {str(row)[:60]}")
        names[row["id"]] = row["name"]
    return names or coco.BY_ID


def _of_picture(content: Any, path: Path, picture: str, names: Mapping[int, str], images: Any) -> Detections:
    rows = _rows(content, path)
    files = {row.get("id"): str(row.get("file_name", "")) for row in _rows(images or [], path)}
    wanted = Path(picture).stem
    owners = {row.get("image_id") for row in rows}
    if len(owners | set(files)) > 1:
        own = {o for o in owners | set(files)
               if Path(str(files.get(o, o))).stem == wanted or str(o).zfill(12) == wanted.zfill(12)}  # fmt: skip
        if not own:
            raise VergenceError(f"{path} has detections of {len(owners)} pictures, none of them {picture}")
        rows = [row for row in rows if row.get("image_id") in own]
    return of_rows(rows, path, names)


def _box(row: Mapping[str, Any], number: int, path: Path) -> list[float]:
    box = row.get("bbox")
    if not isinstance(box, list) or len(box) != 4:
        raise VergenceError(f"{path} is not {WHAT}: detection {number} has no bbox of four numbers")
    x, y, width, height = (_number(value, "bbox", path) for value in box)
    return [x, y, x + width, y + height]


def _number(value: Any, what: str, path: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise VergenceError(f"{path} is not {WHAT}: {what} expects a number, got {str(value)[:40]!r}")
    return float(value)


def _class(row: Mapping[str, Any], names: Mapping[int, str], path: Path) -> str:
    name = row.get("category", row.get("category_name"))
    if isinstance(name, str):
        return name
    number = row.get("category_id")
    if isinstance(number, bool) or not isinstance(number, int):
        raise VergenceError(f"{path} is not {WHAT}: a detection has neither a category_id nor a category")
    if number not in names:
        known = "its own categories" if names is not coco.BY_ID else "COCO's ids 1 to 90"
        raise VergenceError(f"{path}: category_id {number} is none of {known}")
    return names[number]


def _instances(content: Mapping[str, Any], path: Path) -> Detections:
    """Fields as in detectron2's ``Instances``."""
    found: dict[str, Any] = {}
    for name, others in (("pred_boxes", ("boxes",)), ("scores", ()), ("pred_classes", ("classes", "labels")),
                         ("probabilities", ("probs",)), ("features", ()), ("thing_classes", ("names",))):  # fmt: skip
        found[name] = next((content[key] for key in (name, *others) if key in content), None)
    if found["pred_boxes"] is None or found["pred_classes"] is None:
        raise VergenceError(f"{path} is not {WHAT}: it has no pred_boxes or no pred_classes")
    vocabulary = tuple(map(str, found["thing_classes"])) if found["thing_classes"] is not None else coco.NAMES
    names = tuple(_instance_class(value, vocabulary, path) for value in np.asarray(found["pred_classes"]).tolist())
    boxes = _array(found["pred_boxes"], "pred_boxes", path).reshape(-1, 4)
    scores = found["scores"]
    return Detections(
        str(path), boxes, np.ones(len(boxes)) if scores is None else _array(scores, "scores", path).reshape(-1), names,
        None if found["probabilities"] is None else _array(found["probabilities"], "probabilities", path), vocabulary,
        None if found["features"] is None else _array(found["features"], "features", path),
    )  # fmt: skip


def _instance_class(value: Any, vocabulary: Sequence[str], path: Path) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(vocabulary):
        raise VergenceError(f"{path}: class {value!r} is outside its vocabulary of {len(vocabulary)} classes")
    return vocabulary[value]


def _array(value: Any, what: str, path: Path) -> np.ndarray[Any, Any]:
    try:
        array = np.asarray(value, dtype=float)
    except (ValueError, TypeError):
        array = np.zeros(1, object)
    if array.dtype.kind != "f" or (what == "pred_boxes" and array.size % 4):
        raise VergenceError(f"{path} is not {WHAT}: its {what} are not an array of numbers")
    return array


# Objects of a picture -------------------------------------------------------------------------------------------------


def class_of(name: str, vocabulary: Sequence[str]) -> int:
    """The number of a class in a vocabulary, whatever its spelling; -1 if it is not there."""
    plain = [_plain(word) for word in vocabulary]
    own = _plain(name)
    if own not in plain:
        own = coco.SYNONYMS.get(own, own)
    return plain.index(own) if own in plain else -1


def _plain(name: str) -> str:
    return " ".join(name.lower().replace("_", " ").split())


def as_objects(
    found: Detections, vocabulary: Sequence[str], height: int, width: int, least: float = 0.0,
    unknown: Unknown = "refuse",
) -> Objects:  # fmt: skip
    """Objects of a picture with classes of a vocabulary; features are empty if the file has none. Boxes are cut to the
    picture, and one that lies outside is an error."""
    known = {name: class_of(name, vocabulary) for name in dict.fromkeys(found.names)}
    strange = next((name for name, number in known.items() if number < 0), None)
    if strange is not None and unknown == "refuse":
        hint = did_you_mean(strange, vocabulary)
        raise VergenceError(
            f"{found.source}: {strange!r} is not a class that the weights know{hint} (--unknown skip leaves it out)"
        )
    labels = torch.tensor([known[name] for name in found.names], dtype=torch.long)
    boxes, scores = torch.from_numpy(found.boxes).float(), torch.from_numpy(found.scores).float()
    cut = clipped(boxes, height, width)
    outside = ((cut[:, 2:] - cut[:, :2]) < 1e-3).any(1)
    if outside.any():
        number = int(outside.nonzero()[0])
        shown = ", ".join(f"{v:g}" for v in boxes[number].tolist())
        raise VergenceError(
            f"{found.source}: box {number + 1} ({shown}) has no area inside the picture of {width} x {height} pixels"
        )
    kept = (scores >= least) & (labels >= 0)
    chances = _chances(found, vocabulary, labels, scores)
    features = torch.zeros(len(labels), 0, 7, 7) if found.features is None else torch.from_numpy(found.features).float()
    return Objects(cut[kept], labels[kept], scores[kept], chances[kept], features[kept], height, width)


def _chances(found: Detections, vocabulary: Sequence[str], labels: Tensor, scores: Tensor) -> Tensor:
    """Class probabilities (n, C): those of the file, or its score for the class and the rest for all others alike."""
    count = len(vocabulary)
    if found.chances is not None:
        place = [class_of(name, vocabulary) for name in found.vocabulary]
        table = torch.zeros(len(labels), count + 1)
        table.index_add_(
            1, torch.tensor([count if p < 0 else p for p in place]), torch.from_numpy(found.chances).float()
        )
        return table[:, :count]
    rest = ((1 - scores) / max(count - 1, 1)).unsqueeze(1).repeat(1, count)
    return rest.scatter(1, labels.clamp(min=0).unsqueeze(1), scores.unsqueeze(1))
