"""Pictures with annotated relations: HICO-DET, VRD, UnRel, and a folder of one's own.

Training has the annotated objects of a picture, tests have detections where there are any: ``detections_test.json``
(COCO's results, whose ``image_id`` is the name of the picture), or ``detected/NAME.npz`` with region features. Features
of annotated objects are in ``truth/NAME.npz``, in the order of the annotations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.agents.detections import Detections, as_objects, by_picture, class_of, of_rows, read_detections
from vergence.agents.features import CHANNELS, Backbone, region_features
from vergence.agents.graphs import Batch, Objects, Sample, Truth, Wiring, collated
from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.data.images import read_image, resized, scaled
from vergence.ops.boxes import nms, pairwise_iou
from vergence.reading.files import refusing
from vergence.reading.matlab_structs import read_mat_tree
from vergence.reading.tables import read_json

VALIDATION = 0.15
"""Share of the training pictures that validate."""
SAME = 0.7
"""Annotated boxes of one class that overlap by more are one object (HICO-DET repeats them for every interaction)."""


@dataclass(frozen=True)
class Annotated:
    """A picture as a data set has it."""

    path: Path
    boxes: Tensor
    """(m, 4): left, top, right, bottom."""
    labels: tuple[int, ...]
    triplets: tuple[tuple[int, int, int], ...]
    """Subject, predicate, object."""
    predicates: tuple[int, ...]
    """What is known of the whole picture."""


@dataclass(frozen=True)
class Collection:
    """Pictures of a split."""

    root: Path
    pictures: Sequence[Annotated]
    classes: tuple[str, ...]
    predicates: tuple[str, ...]
    training: Mapping[tuple[int, int, int], int] = field(default_factory=dict)
    """How often each triplet of classes occurs in the training pictures."""
    detections: Mapping[str, list[dict[str, Any]]] | None = None
    """Rows of COCO's results by picture, of the file ``detections_SPLIT.json``."""
    detected_in: Path | None = None
    wiring: Wiring = Wiring()
    features: Backbone | None = "channels"
    """None: from files."""
    truth_only: bool = True
    side: tuple[int, int] | None = None
    """Size of the pictures themselves, for a network that looks at them."""

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> Sample:
        own = self.pictures[index]
        picture = read_image(own.path)
        height, width = picture.shape[-2:]
        truth = Truth(own.boxes, torch.tensor(own.labels, dtype=torch.long), _rows(own.triplets))
        exact = self.truth_only or not self.has_detections
        objects = self._annotated(own, height, width) if exact else self._detected(own, height, width)
        if not objects.features.shape[1]:
            if self.features is None:
                raise VergenceError(f"{own.path} has no region features: expected {own.path.stem}.npz with 'features'")
            objects = objects._replace(features=region_features(picture, objects.boxes, self.features))
        known = torch.zeros(len(self.predicates)).index_fill(0, torch.tensor(own.predicates, dtype=torch.long), 1.0)
        image = torch.zeros(0, dtype=torch.uint8)
        if self.side is not None:
            image = (255 * resized(scaled(picture), *self.side)).round().to(torch.uint8)
        return Sample(objects, truth, known, truth.triplets if exact else truth.triplets[:0], image)

    @property
    def has_detections(self) -> bool:
        return self.detections is not None or (self.root / "detected").is_dir()

    def _annotated(self, own: Annotated, height: int, width: int) -> Objects:
        names = tuple(self.classes[label] for label in own.labels)
        found = Detections(str(own.path), own.boxes.double().numpy(), np.ones(len(names)), names)
        stored = self.root / "truth" / f"{own.path.stem}.npz"
        if self.features is None and stored.exists():
            # Only what the network sees comes from the file: boxes and classes are the annotated ones.
            extra = read_detections(stored, own.path.name)
            if len(extra.names) != len(names):
                raise VergenceError(f"{stored} has {len(extra.names)} objects, {own.path.name} has {len(names)}")
            found = replace(found, chances=extra.chances, vocabulary=extra.vocabulary, features=extra.features)
        return as_objects(found, self.classes, height, width)

    def _detected(self, own: Annotated, height: int, width: int) -> Objects:
        if self.detections is not None and self.detected_in is not None:
            found = of_rows(self.detections.get(own.path.stem, []), self.detected_in)
        else:
            found = read_detections(self.root / "detected" / f"{own.path.stem}.npz", own.path.name)
        return as_objects(found, self.classes, height, width, least=0.3, unknown="skip")

    def collate(self, samples: list[Sample]) -> Batch:
        return collated(samples, self.wiring)

    def truths(self) -> Iterator[Truth]:
        for own in self.pictures:
            yield Truth(own.boxes, torch.tensor(own.labels, dtype=torch.long), _rows(own.triplets))

    @property
    def channels(self) -> int:
        return CHANNELS[self.features] if self.features else int(self[0].objects.features.shape[1])

    def seen(self) -> Mapping[tuple[int, int, int], int]:
        """How often each triplet of classes occurs in training; empty: nothing is known of it."""
        return self.training

    def person(self) -> int:
        """The class of people."""
        number = class_of("person", self.classes)
        if number < 0:
            raise VergenceError(f"{self.root} has no class 'person' for a human-object graph")
        return number


def _rows(triplets: Sequence[tuple[int, int, int]]) -> Tensor:
    return torch.tensor(triplets, dtype=torch.long).reshape(-1, 3)


def _collection(
    root: Path, split: str, train: Sequence[Annotated], test: Sequence[Annotated], classes: Sequence[str],
    predicates: Sequence[str],
) -> Collection:  # fmt: skip
    """The pictures of a split; validation is a fixed random part of the training pictures."""
    trainable = [p for p in train if len(p.labels) > 1 and p.predicates]  # others have no edge, or nothing to learn
    order = torch.randperm(len(trainable), generator=generator("relations", "validation")).tolist()
    held = max(round(VALIDATION * len(order)), 1)
    chosen = {"train": order[held:] or order, "val": order[:held]}
    pictures = list(test) if split == "test" else [trainable[i] for i in sorted(chosen[split])]
    if not pictures:
        raise VergenceError(f"{root} has no picture with relations to {'test' if split == 'test' else 'train'} on")
    counts = Counter(
        (p.labels[s], k, p.labels[o]) for p in train for s, k, o in p.triplets
    )  # fmt: skip
    path = root / f"detections_{'test' if split == 'test' else 'train'}.json"
    rows = by_picture(path) if path.exists() else None
    return Collection(root, pictures, tuple(classes), tuple(predicates), counts, rows, path)


def _needed(root: Path, *names: str) -> Path:
    """The folder itself or the one below it that has these files."""
    places = [root, *sorted(p for p in root.glob("*") if p.is_dir())] if root.is_dir() else []
    found = next((p for p in places if all((p / name).exists() for name in names)), None)
    if found is None:
        raise VergenceError(f"{root} has no {' and '.join(names)}")
    return found


# HICO-DET -------------------------------------------------------------------------------------------------------------


def hico(path: Path, split: str) -> Collection:
    """``anno_bbox.mat`` and ``images/{train2015,test2015}``."""
    root = _needed(path, "anno_bbox.mat")
    file = root / "anno_bbox.mat"
    tree = read_mat_tree(file, ("bbox_train", "bbox_test", "list_action"))
    with refusing(file, "HICO-DET's annotations"):
        actions = [(str(row["nname"]), str(row["vname"])) for row in tree["list_action"]]
        classes = sorted({_spaced(noun) for noun, _ in actions} | {"person"})
        predicates = sorted({_spaced(verb) for _, verb in actions})
        parts = {
            name: [_hico_picture(row, root / "images" / f"{name}2015", actions, classes, predicates)
                   for row in tree[f"bbox_{name}"]]
            for name in ("train", "test")
        }  # fmt: skip
    kept = {name: [p for p in rows if p.triplets] for name, rows in parts.items()}  # others are invisible
    return _collection(root, split, kept["train"], kept["test"], classes, predicates)


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _hico_picture(
    row: Mapping[str, Any], folder: Path, actions: Sequence[tuple[str, str]], classes: Sequence[str],
    predicates: Sequence[str],
) -> Annotated:  # fmt: skip
    boxes: list[list[float]] = []
    labels: list[int] = []
    triplets = []
    for hoi in row["hoi"]:
        noun, verb = actions[int(np.ravel(hoi["id"])[0]) - 1]
        if int(np.ravel(hoi["invis"])[0]):
            continue
        start = len(boxes)
        people, things = list(hoi["bboxhuman"]), list(hoi["bboxobject"])
        for box in (*people, *things):  # pixels are counted from 1
            boxes.append([float(np.ravel(box[side])[0]) - 1 for side in ("x1", "y1", "x2", "y2")])
        labels += [classes.index("person")] * len(people) + [classes.index(_spaced(noun))] * len(things)
        for human, thing in np.asarray(hoi["connection"]).reshape(-1, 2).astype(int).tolist():
            triplets.append((start + human - 1, predicates.index(_spaced(verb)), start + len(people) + thing - 1))
    return _merged(folder / str(row["filename"]), boxes, labels, triplets)


def _merged(
    path: Path, boxes: Sequence[Sequence[float]], labels: Sequence[int], triplets: Sequence[tuple[int, int, int]]
) -> Annotated:
    """A picture in which boxes of one class that overlap by more than 0.7 are one object."""
    every, kinds = torch.tensor(boxes).reshape(-1, 4), torch.tensor(labels, dtype=torch.long)
    kept = nms(every, torch.ones(len(every)), SAME, kinds).sort().values
    same = kinds.unsqueeze(1) == kinds[kept].unsqueeze(0)
    own = torch.where(same, pairwise_iou(every, every[kept]), -1.0).argmax(1).tolist() if len(every) else []
    rows = tuple(dict.fromkeys((own[s], k, own[o]) for s, k, o in triplets))
    return Annotated(path, every[kept], tuple(kinds[kept].tolist()), rows, tuple(sorted({k for _, k, _ in rows})))


# VRD and UnRel --------------------------------------------------------------------------------------------------------


def vrd(path: Path, split: str) -> Collection:
    """``annotations_{train,test}.json``, ``objects.json``, ``predicates.json`` and ``sg_{train,test}_images``."""
    root = _needed(path, "annotations_train.json", "annotations_test.json", "objects.json", "predicates.json")
    classes, predicates = _vocabulary(root)
    parts = {name: _vrd_pictures(root, name, classes, predicates) for name in ("train", "test")}
    return _collection(root, split, parts["train"], parts["test"], classes, predicates)


def _vocabulary(root: Path) -> tuple[list[str], list[str]]:
    names = []
    for file in (root / "objects.json", root / "predicates.json"):
        words = read_json(file)
        if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
            raise VergenceError(f"{file} is not a list of names")
        names.append([_spaced(word) for word in words])
    return names[0], names[1]


def _vrd_pictures(root: Path, split: str, classes: Sequence[str], predicates: Sequence[str]) -> list[Annotated]:
    file = root / f"annotations_{split}.json"
    folder = root / f"sg_{split}_images"
    with refusing(file, "VRD's annotations"):
        pictures = []
        for name, relations in dict(read_json(file)).items():
            objects: dict[tuple[Any, ...], int] = {}
            rows = []
            for relation in relations:
                ends = [_vrd_object(relation[side], objects, classes) for side in ("subject", "object")]
                if not 0 <= relation["predicate"] < len(predicates):
                    raise ValueError(f"the predicate {relation['predicate']} is none of {len(predicates)}")
                rows.append((ends[0], int(relation["predicate"]), ends[1]))
            boxes = torch.tensor([key[1:] for key in objects], dtype=torch.float32).reshape(-1, 4)
            known = tuple(sorted({k for _, k, _ in rows}))
            pictures.append(
                Annotated(folder / name, boxes, tuple(key[0] for key in objects), tuple(dict.fromkeys(rows)), known)
            )
    return [p for p in pictures if p.triplets]


def _vrd_object(entry: Mapping[str, Any], objects: dict[tuple[Any, ...], int], classes: Sequence[str]) -> int:
    """The number of an object, which is added if it is new. Boxes are ymin, ymax, xmin, xmax."""
    top, bottom, left, right = map(float, entry["bbox"])
    if not 0 <= entry["category"] < len(classes):
        raise ValueError(f"the category {entry['category']} is none of {len(classes)}")
    return objects.setdefault((int(entry["category"]), left, top, right, bottom), len(objects))


def unrel(path: Path, split: str) -> Collection:
    """``annotations.mat`` and ``images``, with VRD's ``objects.json`` and ``predicates.json``, and perhaps its test
    pictures as distractors. UnRel is for testing only: every split has all of its pictures."""
    root = _needed(path, "annotations.mat", "objects.json", "predicates.json")
    classes, predicates = _vocabulary(root)
    file = root / "annotations.mat"
    tree = read_mat_tree(file, ("annotations",))
    with refusing(file, "UnRel's annotations"):
        pictures = [_unrel_picture(_one(row), root / "images", classes, predicates) for row in tree["annotations"]]
    pictures = [p for p in pictures if p.triplets]
    others = _vrd_pictures(root, "test", classes, predicates) if (root / "annotations_test.json").exists() else []
    unusual = {k for p in pictures for k in p.predicates}
    bare = [replace(p, triplets=(), predicates=tuple(set(p.predicates) & unusual)) for p in others]
    return replace(_collection(root, split, pictures, [*pictures, *bare], classes, predicates), training={})


def _one(value: Any) -> Any:
    """The content of nested cells and structures of one element."""
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value


def _unrel_picture(
    row: Mapping[str, Any], folder: Path, classes: Sequence[str], predicates: Sequence[str]
) -> Annotated:
    objects: dict[tuple[Any, ...], int] = {}
    triplets = []
    for relation in map(_one, row["relationships"]):
        ends = []
        for side in ("sub", "obj"):
            box = np.ravel(_one(relation[f"{side}_box"])).astype(float).tolist()
            label = classes.index(_spaced(str(_one(relation[side]))))
            ends.append(objects.setdefault((label, *box), len(objects)))
        words = relation["rels"] if isinstance(relation["rels"], list) else [relation["rels"]]
        triplets += [(ends[0], predicates.index(_spaced(str(_one(word)))), ends[1]) for word in words]
    boxes = torch.tensor([key[1:] for key in objects], dtype=torch.float32).reshape(-1, 4)
    known = tuple(sorted({k for _, k, _ in triplets}))
    return Annotated(folder / str(_one(row["filename"])), boxes, tuple(k[0] for k in objects), tuple(triplets), known)


# A folder of one's own ------------------------------------------------------------------------------------------------


def folder(path: Path, split: str) -> Collection:
    """``train.json`` and ``test.json``: a list of pictures, each with ``file``, ``objects`` (``class``, and ``bbox`` as
    x, y, width, height), and ``relations`` ([subject, predicate, object]) or, to train on, ``predicates`` alone."""
    root = _needed(path, "train.json", "test.json")
    files = {name: root / f"{name}.json" for name in ("train", "test")}
    rows = {name: read_json(file) for name, file in files.items()}
    words: dict[str, set[str]] = {"class": set(), "predicate": set()}
    for name, file in files.items():
        with refusing(file, "a list of pictures with objects and relations"):
            for row in rows[name]:
                words["class"] |= {str(thing["class"]) for thing in row["objects"]}
                words["predicate"] |= {str(r[1]) for r in row.get("relations", [])} | set(row.get("predicates", []))
    classes, predicates = sorted(words["class"]), sorted(words["predicate"])
    parts = {}
    for name, file in files.items():
        with refusing(file, "a list of pictures with objects and relations"):
            parts[name] = [_own_picture(row, root, classes, predicates) for row in rows[name]]
    tested = [p for p in parts["test"] if p.triplets]
    return _collection(root, split, parts["train"], tested, classes, predicates)


def _own_picture(row: Mapping[str, Any], root: Path, classes: Sequence[str], predicates: Sequence[str]) -> Annotated:
    boxes = torch.tensor([thing["bbox"] for thing in row["objects"]], dtype=torch.float32).reshape(-1, 4)
    labels = tuple(classes.index(str(thing["class"])) for thing in row["objects"])
    rows = tuple((int(s), predicates.index(str(k)), int(o)) for s, k, o in row.get("relations", []))
    if any(not 0 <= end < len(labels) for s, _, o in rows for end in (s, o)):
        raise ValueError(f"a relation of {row['file']} names an object that is not there")
    known = {predicates.index(str(k)) for k in row.get("predicates", [])} | {k for _, k, _ in rows}
    corners = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)
    return Annotated(root / str(row["file"]), corners, labels, rows, tuple(sorted(known)))


LAYOUTS = {
    "hico": Layout(hico, "anno_bbox.mat and images/{train2015,test2015} of HICO-DET"),
    "vrd": Layout(
        vrd, "annotations_{train,test}.json, objects.json, predicates.json and sg_{train,test}_images of VRD"
    ),
    "unrel": Layout(unrel, "annotations.mat and images of UnRel, with objects.json and predicates.json of VRD"),
    "folder": Layout(folder, "train.json and test.json: pictures with objects and relations"),
}
