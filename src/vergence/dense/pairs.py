"""Photographs with depth maps and masks of salient objects: NJUD, NLPR, DUT-RGBD, STEREO, RGBD135, LFSD, SSD and a
user's own folders; and how networks read them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.data.images import SUFFIXES, normalised, resized
from vergence.dense.depth import MAPS, Nearest, fitted_depth, near_map, read_depth, read_upright
from vergence.reading.pictures import read_picture

IMAGES = ("rgb", "image", "images", "imgs", "img", "lr", "left", "train_images", "test_images")
DEPTHS = ("depth", "depths", "depthmap", "depth_map", "train_depth", "test_depth")
MASKS = ("gt", "gts", "mask", "masks", "groundtruth", "ground_truth", "train_masks", "test_masks")
TRAIN, TEST = ("train", "train_data", "training"), ("test", "test_data", "testing")
TAIL = re.compile(r"[-_ ]?(depth|gt|mask|left|rgb|img|image|disp)$")
LOOKED_AT = 24
"""Pictures by which the polarity of a data set is found."""
GREY = 0.1
"""Share of pixels between black and white from which a picture is no mask."""


class Files(NamedTuple):
    """The files of a sample."""

    image: Path
    depth: Path
    mask: Path


@dataclass(frozen=True, eq=False)
class Sample:
    """A photograph with depth and mask."""

    name: str
    image: Tensor
    """(3, H, W), bytes."""
    depth: Tensor
    """(H, W), from 0 (far) to 1 (near)."""
    mask: Tensor
    """(H, W), whether a pixel is of the salient object."""
    kind: int = -1
    """Of rendered pictures."""


@dataclass(frozen=True)
class RGBDFiles:
    """Samples in files, read on access."""

    files: tuple[Files, ...]
    nearest: Nearest = "bright"
    note: str = ""
    """How the pictures were split, and what is near in their depth maps."""

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Sample:
        own = self.files[index]
        image, _ = read_upright(own.image)
        size = image.shape[-2:]
        mask = read_mask(own.mask)
        if mask.shape != size:
            raise VergenceError(
                f"{own.mask} has {mask.shape[1]} x {mask.shape[0]} pixels: expected those of {own.image.name}, "
                f"{size[1]} x {size[0]}"
            )
        depth = near_map(read_depth(own.depth), str(own.depth), self.nearest).values
        return Sample(
            own.image.stem, image, fitted_depth(depth, size[0], size[1], str(own.depth), own.image.name), mask
        )

    def chosen(self, files: Sequence[Files], note: str) -> RGBDFiles:
        """Some of the samples, and a note that says which."""
        return replace(self, files=tuple(files), note=f"{note}; {self.note}")

    def oriented(self, nearest: Nearest) -> RGBDFiles:
        """The same with what is near in the maps as given; or found, by comparing depth inside and outside the masks of
        some pictures."""
        if nearest != "found":
            return replace(self, nearest=nearest, note=f"near is {nearest} in depth maps, as given")
        step = max(len(self) // LOOKED_AT, 1)
        some = [replace(self, nearest="bright")[index] for index in range(0, len(self), step)][:LOOKED_AT]
        both = [s for s in some if s.mask.any() and not s.mask.all()]
        brighter = sum(float(s.depth[s.mask].mean()) >= float(s.depth[~s.mask].mean()) for s in both)
        way: Nearest = "bright" if 2 * brighter >= len(both) else "dark"
        note = f"near is {way} (masks are brighter than the rest in {brighter} of {len(both)} depth maps looked at)"
        return replace(self, nearest=way, note=note)


def read_mask(path: Path) -> Tensor:
    """A mask (H, W): every pixel that is not black, for a JPEG every one above half of white."""
    picture = read_picture(path)
    lossy = picture.format == "JPEG"
    stored = np.asarray(picture.convert("L") if picture.mode not in ("1", "L", "I", "I;16") else picture)
    values = torch.from_numpy(stored.astype(np.float32))
    top = float(values.max())
    between = float(((values > 0.1 * top) & (values < 0.9 * top)).float().mean()) if top else 0.0
    if between > GREY:
        raise VergenceError(
            f"{path} is no mask: {between:.0%} of its pixels are neither black nor white, expected two values"
        )
    return values > (top / 2 if lossy else 0) if top else torch.zeros(values.shape, dtype=torch.bool)


# Rendered pictures ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RenderedRGBD:
    """Rendered pictures, kept as tensors."""

    tensors: dict[str, Tensor]

    def __len__(self) -> int:
        return len(self.tensors["image"])

    def __getitem__(self, index: int) -> Sample:
        index = range(len(self))[index]
        image, depth, mask, kind = (self.tensors[name][index] for name in ("image", "depth", "mask", "kind"))
        return Sample(f"rendered-{index}", image, depth.float() / 255, mask.bool(), int(kind))


# What a network gets --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Resized:
    """Samples as network input: picture, depth and mask of ``size`` x ``size`` pixels; by index with the mask as it is,
    drawn for training flipped, cropped and turned if ``augment``, in other light if ``jitter``."""

    data: Any
    size: int
    mean: Sequence[float]
    std: Sequence[float]
    augment: bool = False
    jitter: bool = False

    def __len__(self) -> int:
        return len(self.data)

    @property
    def equal(self) -> bool:
        """Whether all masks have one size."""
        return isinstance(self.data, RenderedRGBD)

    def __getitem__(self, index: int) -> dict[str, Any]:
        own = self.data[range(len(self))[index]]
        image, depth = prepared(own.image, own.depth, self.size, self.mean, self.std)
        return {"image": image, "depth": depth, "mask": own.mask, "kind": own.kind}

    def draw(self, index: int, generator: torch.Generator) -> dict[str, Any]:
        own = self.data[index]
        all_ = torch.cat([own.image.float() / 255, own.depth[None], own.mask[None].float()])
        all_ = turned(all_, self.size, generator) if self.augment else resized(all_, self.size, self.size)
        image, depth, mask = all_[:3], all_[3:4], all_[4] > 0.5
        if self.jitter:
            image, depth = changed(image, depth, generator)
        return {"image": normalised(image, self.mean, self.std), "depth": depth, "mask": mask, "kind": own.kind}


def prepared(
    image: Tensor, depth: Tensor, size: int, mean: Sequence[float], std: Sequence[float]
) -> tuple[Tensor, Tensor]:
    """A picture of bytes (3, H, W) and a depth map (H, W) as input: (3, size, size), normalised; (1, size, size)."""
    small = resized(torch.cat([image.float() / 255, depth[None]]), size, size).clamp(0, 1)
    return normalised(small[:3], mean, std), small[3:]


def turned(maps: Tensor, size: int, source: torch.Generator) -> Tensor:
    """Maps (C, H, W) flipped in half of all cases, turned by up to 10 degrees and cropped to 75 to 100 % of each side,
    as (C, size, size)."""
    flip, angle, zoom, across, down = torch.rand(5, generator=source).tolist()
    theta, scale = math.radians(20 * (angle - 0.5)), 0.75 + 0.25 * zoom
    cos, sin = scale * math.cos(theta), scale * math.sin(theta)
    place = torch.tensor([
        [cos if flip < 0.5 else -cos, -sin, (2 * across - 1) * (1 - scale)],
        [sin if flip < 0.5 else -sin, cos, (2 * down - 1) * (1 - scale)],
    ])  # fmt: skip
    shrunk = scale * min(maps.shape[-2:]) / size
    if shrunk > 1.5:  # grid sampling alone would leave out pixels
        sides = [round(side / shrunk) for side in maps.shape[-2:]]
        maps = resized(maps, *sides)
    grid = F.affine_grid(place[None], [1, len(maps), size, size], align_corners=False)
    return F.grid_sample(maps[None], grid, padding_mode="reflection", align_corners=False)[0].clamp(0, 1)


def changed(image: Tensor, depth: Tensor, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """A picture (3, H, W) in other light and colours, and its depth map (1, H, W) from another sensor: other contrast,
    sharpness and noise, both from 0 to 1."""
    drawn = torch.rand(9, generator=source)
    if drawn[0] < 0.3:
        image = image[torch.randperm(3, generator=source)]
    grey = image.mean(0, keepdim=True)
    image = (grey + (image - grey) * (1.6 * drawn[1])).clamp(0, 1) ** float(0.6 + 0.9 * drawn[2])
    image = image * (0.75 + 0.5 * drawn[3]) + 0.15 * (drawn[4] - 0.5)
    image = image + 0.03 * drawn[5] * torch.randn(image.shape, generator=source)
    depth = depth ** float(0.5 + 1.2 * drawn[6])
    if drawn[7] < 0.5:
        cells = [max(round(side / (1 + 3 * float(drawn[8]))), 4) for side in depth.shape[-2:]]
        depth = F.interpolate(F.interpolate(depth[None], cells, mode="area"), depth.shape[-2:], mode="bilinear")[0]
    return image.clamp(0, 1), depth


# Files ----------------------------------------------------------------------------------------------------------------


def _inside(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise VergenceError(f"{folder} cannot be read: {error.strerror}") from None


def _named(folder: Path, names: Sequence[str]) -> Path | None:
    """The folder inside by one of these names, in any case."""
    own = {p.name.lower(): p for p in _inside(folder) if p.is_dir()}
    return next((own[name] for name in names if name in own), None)


def _key(path: Path) -> str:
    stem = path.stem.lower()
    return TAIL.sub("", stem) or stem


def _samples(root: Path, expected: str) -> list[Files]:
    """The samples of a folder of three: pictures, depth maps and masks of the same names."""
    folders = [_named(root, names) for names in (IMAGES, DEPTHS, MASKS)]
    for own, what in zip(folders, ("pictures", "depth maps", "masks"), strict=True):
        if own is None:
            raise VergenceError(f"{root} has no folder of {what}: expected {expected}")
    images, depths, masks = folders
    assert images is not None
    assert depths is not None
    assert masks is not None
    partners = [
        {_key(p): p for p in _inside(folder) if p.suffix.lower() in kinds}
        for folder, kinds in ((depths, {*SUFFIXES, *MAPS}), (masks, SUFFIXES))
    ]
    files = []
    for image in (p for p in _inside(images) if p.suffix.lower() in SUFFIXES):
        for some, folder, what in zip(partners, (depths, masks), ("depth map", "mask"), strict=True):
            if _key(image) not in some:
                raise VergenceError(f"{folder} has no {what} for {image.name}: expected {image.stem}.png")
        files.append(Files(image, partners[0][_key(image)], partners[1][_key(image)]))
    if not files:
        raise VergenceError(f"{images} holds no pictures: expected {expected}")
    return files


def _parts(path: Path, names: Sequence[str]) -> dict[str, Path]:
    """The folders of the training and test part: ``train_data``, ``test``, ``NJU2K_TRAIN`` and so on."""
    if not path.is_dir():
        raise VergenceError(f"{path} is not a folder")
    inner = next((p for p in _inside(path) if p.is_dir() and p.name.lower() in names), None)
    for root in (path, *([inner] if inner else [])):
        own = {p.name.lower(): p for p in _inside(root) if p.is_dir()}
        found = {}
        for part, words in (("train", TRAIN), ("test", TEST)):
            wanted = [*words, *(f"{name}_{part}" for name in names), *(f"{name}-{part}" for name in names)]
            at = next((own[word] for word in wanted if word in own), None)
            if at is not None:
                deeper = next((p for p in _inside(at) if p.is_dir() and p.name.lower() in names), None)
                found[part] = at if _named(at, IMAGES) else deeper or at
        if found:
            return found
    return {"whole": inner if inner and not _named(path, IMAGES) else path}


def _read(path: Path, split: str, names: Sequence[str], expected: str, tested: bool) -> RGBDFiles:
    """A data set, as it is split into folders; if it is not, every fifth picture is for validation and test. One that
    is ``tested`` on as a whole has no training part."""
    parts = _parts(path, names)
    if "whole" not in parts:
        return _split(parts, split, path, expected)
    data = RGBDFiles(tuple(_samples(parts["whole"], expected))).oriented("found")
    if tested or len(data) == 1:
        return data.chosen(data.files, "all pictures are in every split")
    held = set(data.files[::-5])
    chosen = [f for f in data.files if (f in held) == (split != "train")]
    return data.chosen(chosen, "every fifth picture, counted from the last, is for validation and test")


def _split(parts: dict[str, Path], split: str, path: Path, expected: str) -> RGBDFiles:
    part = "test" if split == "test" or "train" not in parts else "train"
    if part not in parts:
        raise VergenceError(f"{path} has no folder for test: expected {expected}")
    data = RGBDFiles(tuple(_samples(parts[part], expected))).oriented("found")
    if part == "test" or len(data) == 1:
        return data
    held = set(data.files[::-10])
    chosen = [f for f in data.files if (f in held) == (split == "val")]
    return data.chosen(chosen, "every tenth training picture is for validation")


_SAMPLES = "RGB, depth and GT (or Image, Depth, Mask; or train_images, train_depth, train_masks)"
_SETS: dict[str, tuple[tuple[str, ...], bool, str]] = {
    "njud": (("njud", "nju2k", "nju2000"), False, "1,485 pictures for training and 500 for test"),
    "nlpr": (("nlpr",), False, "700 and 300"),
    "dut-rgbd": (("dut-rgbd", "dut", "dutlf-d", "dutlf"), False, "800 and 400"),
    "stereo": (("stereo", "stere", "stereo1000", "stereo797"), True, "797 or 1,000 for test"),
    "rgbd135": (("rgbd135", "des"), True, "135 for test"),
    "lfsd": (("lfsd",), True, "100 for test"),
    "ssd": (("ssd", "ssd100"), True, "80 for test"),
}
"""Names of a data set's folder, whether it is for test as a whole, and its published split."""
FOLDER = (
    "images, depth and masks with files of the same names (masks .png, depth .png, .npy or .pfm), below train and test "
    "if they are split"
)


def _layout(names: tuple[str, ...], tested: bool, told: str) -> Layout:
    below = "" if tested else " below train_data and test_data, train and test, or NAME_TRAIN and NAME_TEST"
    expected = f"{_SAMPLES}{below}; published: {told}"
    read: Callable[[Path, str], Any] = partial(_read, names=names, expected=expected, tested=tested)
    return Layout(read, expected)


LAYOUTS = {name: _layout(*own) for name, own in _SETS.items()} | {
    "folder": Layout(partial(_read, names=(), expected=FOLDER, tested=False), FOLDER)
}
