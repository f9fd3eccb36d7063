"""Panoramas with their vertical: rendered, white noise, or from files in public layouts; and what a network gets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from PIL import ImageOps
from torch import Tensor

from vergence.contract.data import Layout
from vergence.contract.inputs import InMemory
from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.data.images import as_picture, find_images, read_image, resized
from vergence.data.rendered import rendered
from vergence.dense.panoramas import many_panoramas
from vergence.dense.vanishing import vanishing_image
from vergence.dense.verticals import upright
from vergence.ops.sphere import fibonacci_sphere, rotate, sphere_to_vector
from vergence.reading.files import read_text, refusing
from vergence.reading.pictures import WHAT, read_picture
from vergence.rendering.views import exposed

NEAR, POSES = 0.3, 4
"""The share of rendered panoramas near level for training, and poses of each place. Pictures are rendered, and lines
found, at twice the height of the network's input."""
OFFSET = 3.0
"""Standard deviation, in degrees, of the random turn of a panorama beside its even spread."""
RATIO = 0.02
"""A panorama's width may differ from twice its height by this share."""
CODE = ("vergence.dense.vanishing", "vergence.ops.sphere", "vergence.rendering", "vergence.dense.panoramas")


class Sample(NamedTuple):
    """A panorama."""

    image: Tensor
    """(3, H, W), bytes."""
    votes: Tensor
    """(H, W), bytes."""
    up: Tensor
    """(3,), the vertical."""
    near: bool
    """Whether it belongs to the panoramas near level, which are counted apart."""


def read_panorama(path: Path, longest: int = 0) -> Tensor:
    """A panorama (3, H, W) of bytes from a file, turned as its EXIF data says; pictures of other shapes are refused."""
    if isinstance(path, InMemory):
        return as_panorama(read_image(path), path)
    with refusing(path, WHAT):
        turned = ImageOps.exif_transpose(read_picture(path, longest))
    return as_panorama(as_picture(turned, str(path)), path)


def as_panorama(picture: Tensor, name: object) -> Tensor:
    """A picture (3, H, W) that is twice as wide as high; others are refused."""
    height, width = picture.shape[-2:]
    if height < 16 or abs(width / (2 * height) - 1) > RATIO:
        if height < 16:
            advice = "at least 32 x 16 pixels"
        elif width > 2 * height:
            advice = f"twice as many columns as rows: add {width // 2 - height} rows of sky and ground"
        else:
            advice = f"twice as many columns as rows, such as a crop to {width} x {width // 2}"
        raise VergenceError(
            f"{name} has {width} x {height} pixels: expected an equirectangular panorama of all directions, {advice}"
        )
    return picture if width % 2 == 0 else picture[..., : width - 1]


@dataclass(frozen=True)
class Rendered:
    """Rendered panoramas with their votes."""

    tensors: tuple[dict[str, Tensor], ...]
    near: tuple[bool, ...]

    @classmethod
    def of(cls, scenes: int, held_out: int, height: int, split: str) -> Rendered:
        """``scenes`` places for training, or ``held_out`` in any pose and as many near level, for a height of input."""
        if split == "train":
            return cls((_voted(scenes, POSES, 2 * height, NEAR, ("train",), "train"),), (False,))
        sets = [_voted(held_out, 1, 2 * height, float(name == "level"), (split, name), "test") for name in SETS]
        return cls(tuple(sets), (False, True))

    def __len__(self) -> int:
        return sum(len(part["image"]) for part in self.tensors)

    def __getitem__(self, index: int) -> Sample:
        index = range(len(self))[index]
        for part, near in zip(self.tensors, self.near, strict=True):
            if index < len(part["image"]):
                return Sample(part["image"][index], part["votes"][index], part["up"][index], near)
            index -= len(part["image"])
        raise IndexError(index)


SETS = ("rotated", "level")


def _voted(count: int, poses: int, height: int, near: float, seed: Sequence[str], share: Any) -> dict[str, Tensor]:
    views = many_panoramas(count, poses, height, near, seed, share)

    def vote() -> dict[str, Tensor]:
        return {"votes": torch.stack([vanishing_image(image, *image.shape[-2:]) for image in views["image"]])}

    asked = {"count": count, "poses": poses, "height": height, "near": near, "seed": tuple(seed), "share": share}
    return views | rendered("votes", asked, CODE, vote)


@dataclass(frozen=True)
class Noise:
    """White noise, new for every sample, whose vertical is known: rotated from level by interpolation, or drawn
    directly, so that nothing in it says where the vertical is."""

    count: int
    height: int
    seed: tuple[str, ...]
    turned: bool

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Sample:
        return self.drawn(generator("noise", *self.seed, range(self.count)[index]))

    def drawn(self, source: torch.Generator) -> Sample:
        noise = torch.randint(0, 256, (3, self.height, 2 * self.height), generator=source, dtype=torch.uint8)
        up = F.normalize(torch.randn(3, generator=source), dim=0)
        up = up * (1 if up[2] > 0 else -1)
        if self.turned:
            noise = rotate(noise[None].float(), upright(up).mT)[0].round().to(torch.uint8)
        return Sample(noise, torch.zeros(self.height, 2 * self.height, dtype=torch.uint8), up, False)


@dataclass(frozen=True)
class Files:
    """Panoramas in files: level ones in ``rotations`` poses each, or with a known vertical."""

    files: tuple[tuple[Path, Tensor | None], ...]
    rotations: int = 1
    height: int = 64
    """Of the network's input; pictures have twice that."""
    level: bool = False
    """Whether the level pictures as they are follow those that are rotated."""
    note: str = ""

    def __len__(self) -> int:
        return len(self.files) * (self.rotations + self.level)

    def __getitem__(self, index: int) -> Sample:
        number, pose = divmod(range(len(self))[index], self.rotations + self.level)
        path, up = self.files[number]
        own = read_panorama(path, 4 * self.height)
        picture = resized(own.float(), 2 * self.height, 4 * self.height).round().clamp(0, 255).to(torch.uint8)
        near = up is None and pose == self.rotations
        if up is None:
            up = torch.tensor([0.0, 0.0, 1.0])
            if not near:
                up = self.vertical(number, pose)
                # a level picture turned by R has its vertical at Rᵀ z
                picture = rotate(picture[None].float(), upright(up).mT)[0].round().to(torch.uint8)
        return Sample(picture, vanishing_image(picture, *picture.shape[-2:]), up, near)

    def vertical(self, number: int, pose: int) -> Tensor:
        """One of ``rotations`` directions that cover the upper hemisphere, turned a little."""
        source = generator("pose", number, pose)
        spread = fibonacci_sphere(2 * self.rotations, torch.zeros(()))[pose]
        up = F.normalize(spread + math.radians(OFFSET) * torch.randn(3, generator=source), dim=0)
        return up * (1 if up[2] > 0 else -1)


@dataclass(frozen=True)
class Prepared:
    """Samples as network input: by index as they are; drawn for training, rolled by any number of columns, mirrored at
    random, and changed in colour if ``jitter``."""

    data: Any
    height: int
    jitter: bool = False

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return _plain(self.data[index])

    def draw(self, index: int, source: torch.Generator) -> dict[str, Any]:
        sample = self.data.drawn(source) if isinstance(self.data, Noise) else self.data[index]
        image, votes, up = sample.image, sample.votes, sample.up
        width = image.shape[-1]
        columns, mirror = int(torch.randint(width, (), generator=source)), torch.rand((), generator=source) < 0.5
        image, votes = image.roll(columns, -1), votes.roll(columns, -1)
        angle = -2 * math.pi * columns / width  # columns run against the longitude
        cos, sin = math.cos(angle), math.sin(angle)
        up = torch.stack([cos * up[0] - sin * up[1], sin * up[0] + cos * up[1], up[2]])
        if mirror:
            image, votes, up = image.flip(-1), votes.flip(-1), up * torch.tensor([1.0, -1.0, 1.0])
        if self.jitter:
            image = _changed(image, source)
        return _plain(Sample(image, votes, up, sample.near))


def _plain(sample: Sample) -> dict[str, Any]:
    return {"image": sample.image, "votes": sample.votes, "up": sample.up, "near": torch.tensor(sample.near)}


def _changed(image: Tensor, source: torch.Generator) -> Tensor:
    """The picture in other light and colours."""
    picture = image.float() / 255
    drawn = torch.rand(6, generator=source)
    if drawn[0] < 0.3:
        picture = picture[torch.randperm(3, generator=source)]
    grey = picture.mean(0, keepdim=True)
    picture = (grey + (picture - grey) * (1.6 * drawn[1])).clamp(0, 1) ** float(0.5 + 1.1 * drawn[2])
    picture = (picture * (0.7 + 0.7 * drawn[3]) + 0.25 * (drawn[4] - 0.4)).clamp(0, 1)
    return (exposed(picture, source, gain=0.2, blur=0.9, noise=0.03) * 255).round().to(torch.uint8)


# Files ----------------------------------------------------------------------------------------------------------------

SUN360 = "level panoramas twice as wide as high (pano_*.jpg), in any folders below"
DEEP360UP = (
    "a list *.txt or *.csv of lines NAME PHI THETA, with the images beside it: the vertical's angle from the top and "
    "its place from the left border, in degrees"
)
FOLDER = "level panoramas twice as wide as high, in one folder or in one for each split"


def _found(path: Path, expected: str) -> list[Path]:
    if not path.is_dir():
        raise VergenceError(f"{path} is not a folder: expected {expected}")
    images = find_images(path)
    if not images:
        raise VergenceError(f"{path} holds no pictures: expected {expected}")
    return images


def _tenths(files: Sequence[Path], split: str) -> tuple[list[Path], str]:
    """80 % for training, 10 % for validation, 10 % for test, spread evenly."""
    if len(files) < 3:
        return list(files), "the few panoramas are in every split"
    step = min(len(files), 10)
    place = {"val": step - 2, "test": step - 1}
    chosen = [f for number, f in enumerate(files) if place.get(split, -1) == number % step]
    if split == "train":
        chosen = [f for number, f in enumerate(files) if number % step not in place.values()]
    return chosen, "of every ten panoramas eight are for training, one for validation and one for test"


def _levelled(files: Sequence[Path], note: str, split: str) -> Files:
    return Files(tuple((file, None) for file in files), level=split != "train", note=note)


def _read_sun360(path: Path, split: str) -> Files:
    images = _found(path, SUN360)
    return _levelled(*_tenths([p for p in images if p.name.startswith("pano")] or images, split), split)


def _read_folder(path: Path, split: str) -> Files:
    name = "test" if split == "test" or (not (path / "val").is_dir() and split == "val") else split
    if (path / "train").is_dir() or (path / "test").is_dir():
        return _levelled(_found(path / name, FOLDER), "", split)
    return _levelled(*_tenths(_found(path, FOLDER), split), split)


def _read_deep360up(path: Path, split: str) -> Files:
    if not path.is_dir():
        raise VergenceError(f"{path} is not a folder: expected {DEEP360UP}")
    lists = sorted(p for p in path.iterdir() if p.suffix in (".txt", ".csv"))
    own = [p for p in lists if split in p.stem.lower()] or lists
    if not own:
        raise VergenceError(f"{path} has no list: expected {DEEP360UP}")
    files = []
    for number, line in enumerate(read_text(own[0]).splitlines(), 1):
        parts = line.replace(",", " ").split()
        if not parts or parts[0].startswith("#"):
            continue
        files.append((_image(path, parts[0], own[0], number), _vertical(parts, own[0], number)))
    if not files:
        raise VergenceError(f"{own[0]} names no panoramas: expected {DEEP360UP}")
    return Files(tuple(files), note=f"{own[0].name} is read for {split}")


def _image(path: Path, name: str, lines: Path, number: int) -> Path:
    image = path / name
    if not image.resolve().is_relative_to(path.resolve()) or not image.is_file():
        raise VergenceError(f"{lines}, line {number}: {name} is not an image below {path}")
    return image


def _vertical(parts: Sequence[str], lines: Path, number: int) -> Tensor:
    try:
        phi, theta = (math.radians(float(part)) for part in parts[1:3])
    except ValueError:
        phi = theta = math.nan
    if not math.isfinite(phi + theta) or not 0 <= phi <= math.pi:
        raise VergenceError(
            f"{lines}, line {number}: expected NAME PHI THETA with PHI from 0 to 180 degrees, got {' '.join(parts)!r}"
        )
    return sphere_to_vector(torch.tensor(phi), torch.tensor(-theta))


LAYOUTS = {
    "sun360": Layout(_read_sun360, SUN360),
    "deep360up": Layout(_read_deep360up, DEEP360UP),
    "folder": Layout(_read_folder, FOLDER),
}
