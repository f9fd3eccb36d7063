"""Pictures to measure: crops of photographs, drawn sections of heads, and the layouts of public data sets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.data.images import SUFFIXES, read_image
from vergence.data.photographs import Share, photographs
from vergence.generation.photos import luminance
from vergence.generation.scans import read_fastmri
from vergence.reading.arrays import read_npy


@dataclass(frozen=True)
class Cropped:
    """Samples {"image"}: whole pictures by index; crops of one size, mirrored and turned at random, to train on."""

    data: object
    side: int
    multiple: int = 1
    turned: bool = True

    def __len__(self) -> int:
        return len(self.data)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        image = self.data[index]  # type: ignore[index]
        height, width = (side - side % self.multiple for side in image.shape[-2:])
        if min(height, width) < self.multiple:
            raise VergenceError(
                f"a picture of {image.shape[-1]} x {image.shape[-2]} pixels is smaller than a block of {self.multiple}"
            )
        return {"image": image[..., :height, :width].contiguous()}

    def draw(self, index: int, source: torch.Generator) -> dict[str, Tensor]:
        """A random crop; smaller pictures are continued by their mirror image."""
        fresh = getattr(self.data, "draw", None)
        image = fresh(index, source) if fresh is not None else self.data[index]  # type: ignore[index]
        short = [max(self.side - side, 0) for side in image.shape[-2:]]
        while any(short):
            pad = [min(s, side - 1) for s, side in zip(short, image.shape[-2:], strict=True)]
            if not any(pad):
                raise VergenceError(f"a picture of {image.shape[-1]} x {image.shape[-2]} pixels is too small to learn")
            image = F.pad(image[None], (0, pad[1], 0, pad[0]), mode="reflect")[0]
            short = [max(self.side - side, 0) for side in image.shape[-2:]]
        top, left = (int(torch.randint(0, side - self.side + 1, (), generator=source)) for side in image.shape[-2:])
        image = image[..., top : top + self.side, left : left + self.side]
        if self.turned:
            image = turned(image, int(torch.randint(0, 8, (), generator=source)))
        return {"image": image.contiguous()}


def turned(image: Tensor, number: int) -> Tensor:
    """One of the eight turned and mirrored copies of a square picture."""
    image = image.flip(-1) if number & 4 else image
    return torch.rot90(image, number & 3, (-2, -1))


# Embedded -------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def pyramids(share: Share) -> tuple[Tensor, ...]:
    """Luminance of photographs at three sizes, so that crops show both detail and things."""
    levels = []
    for picture in photographs(share):
        whole = luminance(picture)
        for scale in (1.0, 0.75, 0.5):
            size = [round(side * scale) for side in whole.shape[-2:]]
            levels.append(F.interpolate(whole[None], size, mode="bicubic", antialias=True)[0].clamp(0, 1))
    return tuple(levels)


def photograph_crop(share: Share, side: int, source: torch.Generator) -> Tensor:
    """A crop (1, side, side) anywhere in the photographs; of three draws the one with the most contrast."""
    crops = []
    for _ in range(3):
        levels = [level for level in pyramids(share) if min(level.shape[-2:]) >= side]
        level = levels[int(torch.randint(0, len(levels), (), generator=source))]
        top, left = (int(torch.randint(0, edge - side + 1, (), generator=source)) for edge in level.shape[-2:])
        crops.append(level[:, top : top + side, left : left + side])
    return max(crops, key=lambda crop: float(crop.var()))


def phantom(side: int, source: torch.Generator) -> Tensor:
    """A drawn section (1, side, side) of a head: skull, brain, ventricles and lesions, with soft edges and shading."""

    def uniform(low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), generator=source))

    y, x = torch.meshgrid(*[torch.linspace(-1, 1, side)] * 2, indexing="ij")
    tall, wide = uniform(0.75, 0.92), uniform(0.6, 0.78)
    ellipses = [(0.0, 0.0, tall, wide, 0.0, uniform(0.7, 1.0)),
                (0.0, 0.0, tall - 0.08, wide - 0.07, 0.0, -uniform(0.35, 0.6))]  # fmt: skip
    for sign in (-1, 1):
        ellipses.append((uniform(-0.1, 0.1), sign * uniform(0.15, 0.25), uniform(0.2, 0.35), uniform(0.06, 0.13),
                         sign * uniform(0, 0.5), -uniform(0.1, 0.3)))  # fmt: skip
    for _ in range(6):
        ellipses.append((uniform(-0.5, 0.5), uniform(-0.4, 0.4), uniform(0.03, 0.2), uniform(0.03, 0.2),
                         uniform(0, 3.1), uniform(-0.15, 0.25)))  # fmt: skip
    image = torch.zeros(side, side)
    for cy, cx, a, b, angle, value in ellipses:
        turn = torch.tensor(angle)
        u, v = (y - cy) * turn.cos() + (x - cx) * turn.sin(), (x - cx) * turn.cos() - (y - cy) * turn.sin()
        inside = ((1 - ((u / a) ** 2 + (v / b) ** 2).sqrt()) * min(a, b) * side / 2 + 0.5).clamp(0, 1)
        image += value * inside
    shading = 1 + uniform(-0.15, 0.15) * x + uniform(-0.15, 0.15) * y
    return (image * shading).clamp(0, 1)[None]


@dataclass(frozen=True)
class Embedded:
    """Crops of photographs or phantoms: a fixed number of them; or, with none to train on, new ones every time."""

    split: str
    scene: Literal["photographs", "phantoms"] = "photographs"
    pictures: int = 400
    held_out: int = 64
    side: int = 48
    channels: int = 1

    def __len__(self) -> int:
        if self.split != "train":
            return self.held_out
        return self.pictures or 4096

    def __getitem__(self, index: int) -> Tensor:
        return self._one(generator("ddn", self.scene, self.split, range(len(self))[index]))

    def _one(self, source: torch.Generator) -> Tensor:
        share: Share = "train" if self.split == "train" else "test"
        if self.scene == "phantoms":
            image = phantom(self.side, source)
        else:
            image = photograph_crop(share, self.side, source)
        if self.channels > 1:  # frames of one section with other contrasts
            powers = torch.linspace(0.4, 2.0, self.channels).view(-1, 1, 1)
            image = image**powers
        return image

    def draw(self, index: int, source: torch.Generator) -> Tensor:
        """A training crop."""
        return self[index] if self.pictures else self._one(source)


# Public layouts -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Files:
    """Luminance of picture files."""

    paths: tuple[Path, ...]
    note: str = ""

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        return luminance(read_image(self.paths[index]))


def _pictures(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob("*") if p.suffix.lower() in SUFFIXES and p.is_file())


def read_bsds(path: Path, split: str) -> Files:
    """BSDS300: ``images/train`` and ``images/test``; every tenth training picture is for validation."""
    root = path if path.name == "images" else path / "images"
    if not root.is_dir():
        raise VergenceError(f"{root} does not exist; expected {LAYOUTS['bsds'].about}")
    return _parts(root, split)


def _parts(root: Path, split: str) -> Files:
    """The pictures of ``train`` or ``test``."""
    folder = root / ("test" if split == "test" else "train")
    if not folder.is_dir():
        raise VergenceError(f"{folder} does not exist; expected train and test beside each other")
    found = _found(_pictures(folder), folder)
    if split != "test":
        found = [p for number, p in enumerate(found) if (number % 10 == 9) == (split == "val")] or found
    return Files(tuple(found))


def read_folder(path: Path, split: str) -> Files:
    """Pictures in ``train`` and ``test``; in a folder without those, every fifth is held out."""
    if (path / "train").is_dir() and (path / "test").is_dir():
        return _parts(path, split)
    found = _found(_pictures(path), path)
    if len(found) < 2:
        return Files(tuple(found), "the only picture is used for training and test")
    held = [p for number, p in enumerate(found) if number % 5 == 4 or (len(found) < 5 and p == found[-1])]
    return Files(tuple(p for p in found if p not in held) if split == "train" else tuple(held))


def read_benchmark(path: Path, split: str) -> Files:
    """Set5, Set14 and the like: for testing, so that every split has all pictures."""
    return Files(tuple(_found(_pictures(path), path)))


def _found(paths: list[Path], folder: Path, what: str = "pictures") -> list[Path]:
    if not paths:
        raise VergenceError(f"{folder} holds no {what}")
    return paths


@dataclass(frozen=True)
class Arrays:
    """Pictures with any number of channels, (C, H, W) in NumPy files."""

    paths: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        path = self.paths[index]
        image = torch.from_numpy(read_npy(path)).float()
        if image.dim() != 3 or not image.isfinite().all():
            raise VergenceError(f"{path} has the shape {tuple(image.shape)}: expected finite numbers (C, H, W)")
        return image


def read_arrays(path: Path, split: str) -> Arrays:
    """``train/*.npy`` and ``test/*.npy``, each (C, H, W); validation is on the test files."""
    folder = path / ("train" if split == "train" else "test")
    return Arrays(tuple(_found(sorted(folder.glob("*.npy")), folder, "arrays (.npy)")))


LAYOUTS = {
    "bsds": Layout(read_bsds, "BSDS300: images/train/*.jpg and images/test/*.jpg"),
    "benchmark": Layout(read_benchmark, "Set5, Set14 and the like: a folder of pictures, all of them for test"),
    "fastmri": Layout(read_fastmri, "fastMRI: {singlecoil,multicoil}_{train,val}/*.h5 with kspace"),
    "arrays": Layout(read_arrays, "train/*.npy and test/*.npy, each a picture (C, H, W)"),
    "folder": Layout(read_folder, "photographs in one folder, or in one for each split"),
}
