"""Objects found in a user's pictures: the search over files, folders and videos, the result, its files and drawings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.core.errors import Cancelled, VergenceError
from vergence.core.files import replacing, write_json, write_table
from vergence.data import coco
from vergence.data.images import find_images, read_image
from vergence.data.video import SUFFIXES as VIDEOS
from vergence.data.video import open_video, write_video
from vergence.detection.settings import Search
from vergence.drawing.figure import PALETTE
from vergence.nn.rcnn import Detections

Detect = Callable[[Tensor], Detections]
"""From a picture (3, H, W) of bytes to its objects, in its pixels."""
SHOWN = 12
"""With more pictures than this, drawings are in a folder of their own."""
LEAST_DRAWN = 480
"""Smaller pictures are enlarged to this longer side before boxes are drawn."""


@dataclass(frozen=True, eq=False)
class Objects(Result):
    """Objects found in pictures."""

    files: tuple[str, ...]
    """Names of the pictures; of a video, with the index of the frame."""
    sizes: Tensor
    """(P, 2): heights and widths in pixels."""
    picture: Tensor
    """(D,): the picture of each object."""
    boxes: Tensor
    """(D, 4): left, top, right, bottom in pixels."""
    scores: Tensor
    """(D,), from 0 to 1; the best of a picture first."""
    labels: Tensor
    """(D,): index of the class."""
    classes: tuple[str, ...]
    """Names of the classes."""
    frames: Tensor
    """(P,): index of each frame in its video; -1 for a picture."""

    def names(self) -> list[str]:
        """The class of each object."""
        return [self.classes[label] for label in self.labels.tolist()]

    def summary(self) -> Mapping[str, Any]:
        return {"pictures": len(self.files), "objects": len(self.labels), "by class": dict(Counter(self.names()))}

    def of(self, number: int) -> tuple[list[list[float]], list[str], list[float]]:
        """Boxes, names and scores of a picture."""
        own = (self.picture == number).nonzero().squeeze(1)
        names = [self.classes[label] for label in self.labels[own].tolist()]
        return self.boxes[own].tolist(), names, self.scores[own].tolist()


class _Picture(NamedTuple):
    name: str
    pixels: Tensor
    frame: int
    """Of a video; -1 for a picture."""


def search(ctx: Context[Any, Any], inputs: Search, classes: Sequence[str], detect: Detect) -> Objects:
    """The objects of all pictures of the inputs, one after another."""
    names, sizes, frames, parts = [], [], [], []
    for number, each in enumerate(each for path in _tracked(ctx, inputs.images) for each in _of(ctx, path, inputs)):
        if ctx.cancelled():
            raise Cancelled("cancelled")
        found = detect(each.pixels)
        kept = (found.scores >= inputs.score).nonzero().squeeze(1)[: inputs.most]
        owner = torch.full((len(kept),), number)
        parts.append((owner, *(part[kept].float().cpu() for part in found[:2]), found.labels[kept].cpu() - 1))
        names.append(each.name)
        sizes.append(each.pixels.shape[-2:])
        frames.append(each.frame)
    owner, boxes, scores, labels = (torch.cat(column) for column in zip(*parts, strict=True))
    return Objects(
        tuple(names), torch.tensor(sizes), owner, boxes, scores, labels, tuple(classes), torch.tensor(frames)
    )


def _tracked(ctx: Context[Any, Any], paths: Sequence[Path]) -> Iterable[Path]:
    return ctx.progress.track(paths, "pictures") if len(paths) > 1 else paths


def is_film(path: Path) -> bool:
    """Whether a path is named like a video."""
    return path.suffix.lower() in VIDEOS and not path.is_dir()


def _of(ctx: Context[Any, Any], path: Path, inputs: Search) -> Iterator[_Picture]:
    """The pictures of a file, of a folder (a bad one is left out and said), or of a video."""
    if is_film(path):
        for number, frame in enumerate(ctx.progress.track(open_video(path), "frames")):
            if number % inputs.every == 0:
                yield _Picture(f"{path.name} {number:06d}", torch.from_numpy(frame).permute(2, 0, 1), number)
    elif path.is_dir():
        yield from _of_folder(ctx, path)
    else:
        yield _Picture(path.name, read_image(path), -1)


def _of_folder(ctx: Context[Any, Any], folder: Path) -> Iterator[_Picture]:
    some = False
    for path in ctx.progress.track(find_images(folder), "pictures"):
        try:
            pixels = read_image(path)
        except VergenceError as error:
            ctx.progress.say(f"left out: {error}")
            continue
        some = True
        yield _Picture(path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name, pixels, -1)
    if not some:
        raise VergenceError(f"{folder} has no picture that can be read")


# Files ----------------------------------------------------------------------------------------------------------------


def category(name: str, classes: Sequence[str]) -> int:
    """The id of a class: COCO's own, if all classes are COCO's, or its place from 1."""
    ids = {word: number for number, word in coco.BY_ID.items()}
    known = all(word in ids or word.startswith("unused") for word in classes)
    return ids[name] if known and name in ids else classes.index(name) + 1


def render(ctx: Context[Any, Any], inputs: Search, result: Objects) -> Sequence[Artifact]:
    """Writes the objects as COCO's results and CSV, and draws them into the pictures or the video."""
    stems = unique([Path(name).with_suffix("").as_posix().replace("/", "-") + (f"-{frame:06d}" if frame >= 0 else "")
                    for name, frame in zip(result.files, result.frames.tolist(), strict=True)])  # fmt: skip
    names, boxes = result.names(), result.boxes.tolist()
    rows = []
    for owner, box, score, name in zip(result.picture.tolist(), boxes, result.scores.tolist(), names, strict=True):
        left, top, right, bottom = box
        sides = [round(v, 2) for v in (left, top, right - left, bottom - top)]
        rows.append({"image_id": stems[owner], "file_name": result.files[owner], "bbox": sides,
                     "score": round(score, 5), "category_id": category(name, result.classes),
                     "category": name})  # fmt: skip
    document = ctx.folder / "objects.json"
    write_json(document, rows)
    heading = ["file", "class", "score", "left", "top", "right", "bottom"]
    listed = zip(result.picture.tolist(), names, result.scores.tolist(), boxes, strict=True)
    table = write_table(ctx.folder / "objects.csv", heading, [
        [result.files[owner], name, f"{score:.5f}", *(f"{v:.2f}" for v in box)] for owner, name, score, box in listed
    ])  # fmt: skip
    drawn = _drawings(ctx, inputs, result, stems)
    return [
        *drawn,
        Artifact("json", document, "Objects as COCO's results: boxes are left, top, width, height."),
        Artifact("table", table, "The same as a table: boxes are left, top, right, bottom."),
    ]


def unique(names: Sequence[str]) -> list[str]:
    """Names with a number added where they repeat."""
    seen: Counter[str] = Counter()
    result = []
    for name in names:
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return result


def _drawings(ctx: Context[Any, Any], inputs: Search, result: Objects, stems: Sequence[str]) -> list[Artifact]:
    """A picture with boxes for every picture, and a video for every video."""
    many = int((result.frames < 0).sum()) > SHOWN
    folder = ctx.folder / "pictures" if many else ctx.folder
    folder.mkdir(parents=True, exist_ok=True)
    silent: Context[Any, Any] = Context(ctx.config, ctx.folder)
    artifacts, films, number = [], list[Artifact](), 0

    def drawn(path: Path) -> Iterator[tuple[int, _Picture, Image.Image]]:
        nonlocal number
        for each in _of(silent, path, inputs):
            yield number, each, drawn_on(each.pixels, *result.of(number), classes=result.classes)
            number += 1

    for path in inputs.images:
        if is_film(path):
            target = ctx.folder / f"{path.stem}-objects.mp4"
            rate = max(open_video(path).fps / inputs.every, 1)
            write_video(target, (np.asarray(image) for _, _, image in drawn(path)), rate)
            films.append(Artifact("video", target, f"The objects of {path.name}."))
            continue
        for own, each, image in drawn(path):
            target = folder / f"{stems[own]}-objects.png"
            with replacing(target) as partial:
                image.save(partial, format="PNG")
            artifacts.append(Artifact("image", target, f"The objects of {each.name}."))
    return [*films, *([Artifact("folder", folder, "The pictures with their objects.")] if many else artifacts)]


def drawn_on(
    picture: Tensor, boxes: Sequence[Sequence[float]], names: Sequence[str], scores: Sequence[float] = (),
    classes: Sequence[str] = (), least: int = LEAST_DRAWN,
) -> Image.Image:  # fmt: skip
    """A picture (3, H, W) of bytes with boxes and the names of their classes; the best ones are on top. Names keep
    inside the picture."""
    image = Image.fromarray(picture.permute(1, 2, 0).cpu().numpy())
    times = max(-(-least // max(image.size)), 1)
    image = image.resize((image.width * times, image.height * times), Image.Resampling.NEAREST if times > 2 else None)
    pen = ImageDraw.Draw(image)
    size = max(round(max(image.size) / 40), 11)
    font, line = ImageFont.load_default(size), max(round(size / 6), 2)
    order = list(classes) or sorted(set(names))
    for place in reversed(range(len(boxes))):
        tint = PALETTE[order.index(names[place]) % len(PALETTE)]
        left, top, right, bottom = (times * v for v in boxes[place])
        pen.rectangle((left, top, max(right - 1, left), max(bottom - 1, top)), outline=tint, width=line)
        text = names[place] + (f" {100 * scores[place]:.0f}" if scores else "")
        width, height = pen.textlength(text, font), 1.3 * size
        x = min(max(left, 0), max(image.width - width - 6, 0))
        y = top - height if top >= height else top
        pen.rectangle((x, y, x + width + 6, y + height), fill=tint)
        pen.text((x + 3, y), text, fill="white", font=font)
    return image
