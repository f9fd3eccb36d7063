"""Tiny-ImageNet-200: 200 classes of ImageNet in pictures of 64 x 64 pixels, as the archive is published."""

from __future__ import annotations

from pathlib import Path

from vergence.contract.data import Layout
from vergence.core.errors import Several, VergenceError
from vergence.data.images import find_images
from vergence.reading.files import read_text
from vergence.recognition.data import LabelledFiles

FILES = "tiny-imagenet-200: wnids.txt, words.txt, train/<wnid>/images/*.JPEG, val/images/ and val/val_annotations.txt"


def read_tiny_imagenet(path: Path, split: str) -> LabelledFiles:
    """``wnids.txt`` names the classes in order, ``words.txt`` what they mean. Test pictures have no labels: ``test`` is
    ``val``."""
    folder = path / "tiny-imagenet-200" if (path / "tiny-imagenet-200").is_dir() else path
    listed = folder / "wnids.txt"
    if not listed.is_file():
        raise VergenceError(f"{listed} does not exist: expected {FILES}")
    numbers = read_text(listed).split()
    if not numbers or len(set(numbers)) < len(numbers):
        raise VergenceError(f"{listed} does not name classes, one in each line and each once")
    odd = next((n for n in numbers if len(n) != 9 or n[0] != "n" or not n[1:].isdigit()), None)
    if odd is not None:
        raise VergenceError(f"{listed} has {odd[:40]!r}, which is no number of WordNet such as n01443537")
    names = _names(folder / "words.txt", numbers)
    files = _training(folder, numbers) if split == "train" else _validation(folder, numbers)
    labels, paths = zip(*files, strict=True)
    return LabelledFiles(paths, labels, names, split="train" if split == "train" else "val")


def _names(path: Path, numbers: list[str]) -> tuple[str, ...]:
    """The first word for each class; a word that two classes share carries the number too."""
    if not path.is_file():  # the words are optional
        return tuple(numbers)
    words = {}
    for line, text in enumerate(read_text(path).splitlines(), 1):
        number, tab, meanings = text.partition("\t")
        if not tab or not meanings.strip():
            raise VergenceError(f"line {line} of {path} is not a number, a tab and words: {text[:60]!r}")
        words[number] = meanings.partition(",")[0].strip()
    unnamed = next((number for number in numbers if number not in words), None)
    if unnamed is not None:
        raise VergenceError(f"{path} has no line for {unnamed}, which wnids.txt names")
    found = [words[number] for number in numbers]
    return tuple(f"{w} ({n})" if found.count(w) > 1 else w for w, n in zip(found, numbers, strict=True))


def _training(folder: Path, numbers: list[str]) -> list[tuple[int, Path]]:
    files = {number: find_images(folder / "train" / number / "images") for number in numbers}
    empty = [f"{folder / 'train' / n / 'images'} holds no pictures" for n, found in files.items() if not found]
    if empty:
        raise Several(empty)
    return [(label, file) for label, number in enumerate(numbers) for file in files[number]]


def _validation(folder: Path, numbers: list[str]) -> list[tuple[int, Path]]:
    """Lines of ``val_annotations.txt``: a file, its class and a box, separated by tabs."""
    listed, known = folder / "val" / "val_annotations.txt", {number: k for k, number in enumerate(numbers)}
    if not listed.is_file():
        raise VergenceError(f"{listed} does not exist: expected {FILES}")
    there = {file.name: file for file in find_images(folder / "val" / "images")}
    files, gone = [], []
    for line, text in enumerate(read_text(listed).splitlines(), 1):
        name, *rest = text.split("\t")
        if len(rest) != 5 or rest[0] not in known or not all(side.strip().isdigit() for side in rest[1:]):
            raise VergenceError(f"line {line} of {listed} is not a picture, a class of wnids.txt and a box: {text!r}")
        if name not in there:
            gone.append(f"{folder / 'val' / 'images' / name} does not exist, but {listed} lists it")
        else:
            files.append((known[rest[0]], there[name]))
    unlisted = sorted(there.keys() - {file.name for _, file in files})
    if gone:
        raise Several(gone)
    if unlisted or not files:
        missing = f"no line for {unlisted[0]}" if unlisted else "no lines"
        raise VergenceError(f"{listed} has {missing}: expected one for each picture of val/images")
    return files


LAYOUT = Layout(read_tiny_imagenet, FILES)
