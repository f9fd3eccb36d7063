"""Readers of fine-grained pictures: Stanford Cars, FGVC-Aircraft and iNaturalist 2017. CUB-200 is in
:mod:`vergence.recognition.data`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vergence.contract.data import Layout
from vergence.core.errors import Several, VergenceError
from vergence.data.layouts import left_out
from vergence.reading.files import read_text
from vergence.reading.matlab_structs import read_mat_tree
from vergence.reading.tables import read_json
from vergence.recognition.data import LabelledFiles


def read_cars(path: Path, split: str) -> LabelledFiles:
    """Stanford Cars in either release: ``cars_train``, ``cars_test`` with the devkit and
    ``cars_test_annos_withlabels.mat``, or ``car_ims`` with ``cars_annos.mat``. ``val`` is ``test``."""
    whole = path / "cars_annos.mat"
    if whole.is_file():
        names = _list(whole, "class_names", str)
        records = [r for r in _records(whole) if bool(r.get("test")) == (split != "train")]
        return _files(whole, names, records, "relative_im_path", path, split)
    devkit = next((path / n for n in ("devkit", "car_devkit/devkit") if (path / n).is_dir()), path)
    names = _list(_there(devkit / "cars_meta.mat", path), "class_names", str)
    if split == "train":
        file = devkit / "cars_train_annos.mat"
    else:
        with_labels = "cars_test_annos_withlabels.mat"
        file = path / with_labels if (path / with_labels).is_file() else devkit / with_labels
    records = _records(_there(file, path))
    return _files(file, names, records, "fname", path / ("cars_train" if split == "train" else "cars_test"), split)


def _list(file: Path, name: str, kind: type) -> list[Any]:
    """A cell array or an array of structures, all of whose elements are of one kind."""
    rows = read_mat_tree(file, (name,)).get(name)
    if not isinstance(rows, list) or not all(isinstance(row, kind) for row in rows):
        raise VergenceError(f"{file} is not of Stanford Cars: it has no list {name!r}")
    return rows


def _records(file: Path) -> list[dict[str, str | float]]:
    """The annotations: texts and single numbers by field."""
    return [
        {field: value if isinstance(value, str) else float(value.item()) for field, value in row.items()
         if isinstance(value, str) or value.size == 1}
        for row in _list(file, "annotations", dict)
    ]  # fmt: skip


def _there(file: Path, folder: Path) -> Path:
    if not file.is_file():
        raise VergenceError(f"{file} does not exist: expected Stanford Cars in {folder}")
    return file


def _files(
    file: Path, names: Sequence[str], records: Sequence[Mapping[str, Any]], key: str, folder: Path, split: str
) -> LabelledFiles:
    paths, labels = [], []
    for number, record in enumerate(records, 1):
        name, label = record.get(key), record.get("class")
        if not isinstance(name, str) or not isinstance(label, float):
            raise VergenceError(f"{file} is not of Stanford Cars: record {number} has no {key!r} and 'class'")
        paths.append(folder / name)
        labels.append(int(label) - 1)
    return _labelled(file, paths, labels, tuple(names), split)


def read_aircraft(path: Path, split: str) -> LabelledFiles:
    """FGVC-Aircraft by variant: ``data/images`` with ``variants.txt`` and ``images_variant_{trainval,test}.txt``.
    Training takes ``trainval``, as is usual; ``val`` is ``test``."""
    folder = next((path / n for n in ("data", "fgvc-aircraft-2013b/data") if (path / n).is_dir()), path)
    classes = tuple(line.strip() for line in read_text(folder / "variants.txt").splitlines() if line.strip())
    number_of = {name: number for number, name in enumerate(classes)}
    file = folder / f"images_variant_{'trainval' if split == 'train' else 'test'}.txt"
    paths, labels = [], []
    for line, text in enumerate(read_text(file).splitlines(), 1):
        name, _, variant = text.strip().partition(" ")
        if variant.strip() not in number_of:
            raise VergenceError(f"line {line} of {file} is not a picture and a variant of variants.txt: {text[:60]!r}")
        paths.append(folder / "images" / f"{name}.jpg")
        labels.append(number_of[variant.strip()])
    return _labelled(file, paths, labels, classes, split)


def read_inaturalist(path: Path, split: str) -> LabelledFiles:
    """iNaturalist 2017: ``train2017.json`` and ``val2017.json`` beside ``train_val_images``; ``test`` is ``val``, since
    the test set has no labels."""
    file = path / f"{'train' if split == 'train' else 'val'}2017.json"
    content = read_json(file)
    try:
        categories = sorted((int(c["id"]), str(c["name"])) for c in content["categories"])
        number_of = {identity: number for number, (identity, _) in enumerate(categories)}
        kind_of = {int(a["image_id"]): int(a["category_id"]) for a in content["annotations"]}
        pictures = [(path / str(i["file_name"]), number_of[kind_of[int(i["id"])]]) for i in content["images"]]
    except (KeyError, TypeError, ValueError) as error:
        raise VergenceError(
            f"{file} is not of iNaturalist 2017: expected images, annotations and categories, and there is no {error}"
        ) from None
    return _labelled(
        file, [p for p, _ in pictures], [n for _, n in pictures], tuple(name for _, name in categories), split
    )


def _labelled(
    file: Path, paths: Sequence[Path], labels: Sequence[int], classes: tuple[str, ...], split: str
) -> LabelledFiles:
    """Checks labels and files, and that every class has a picture to train on."""
    if not paths or not classes:
        raise VergenceError(f"{file} lists no pictures")
    outside = next((label for label in labels if not 0 <= label < len(classes)), None)
    if outside is not None:
        raise VergenceError(f"{file} has the class {outside + 1}, but there are {len(classes)}")
    left_out([f"{p} does not exist, but {file.name} lists it" for p in paths if not p.is_file()], "refuse")
    shown = set(labels)
    empty = [
        f"the class {name!r} of {file} has no training pictures" for n, name in enumerate(classes) if n not in shown
    ]
    if empty and split == "train":
        raise Several(empty)
    return LabelledFiles(tuple(paths), tuple(labels), classes)


LAYOUTS = {
    "cars": Layout(
        read_cars, "cars_train/, cars_test/, devkit/ and cars_test_annos_withlabels.mat, or car_ims/ and cars_annos.mat"
    ),
    "aircraft": Layout(
        read_aircraft, "fgvc-aircraft-2013b: data/images, variants.txt and images_variant_{trainval,test}.txt"
    ),
    "inaturalist": Layout(read_inaturalist, "train2017.json, val2017.json and train_val_images/"),
}
