"""Stereo pairs with known disparity: SceneFlow, KITTI 2012 and 2015, Middlebury, a user's own folders; and the crops
and changes of pictures that networks are trained with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.data.images import SUFFIXES, normalised, read_image
from vergence.data.photographs import Share
from vergence.reading.arrays import read_npy
from vergence.reading.maps import read_pfm, read_png16
from vergence.rendering.pairs import stereo_pairs
from vergence.rendering.views import exposed

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""ImageNet's, by which pictures are normalised."""
ZOOM = (0.75, 1.5)
"""Range of the random zoom."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A rectified pair."""

    name: str
    left: Tensor
    """(3, H, W), bytes."""
    right: Tensor
    disparity: Tensor
    """(H, W), of the left picture; 0 where it is unknown."""
    valid: Tensor
    """(H, W), whether the disparity is known."""
    visible: Tensor
    """(H, W), whether the right picture shows the point too; where nothing says so, as ``valid``."""


class Files(NamedTuple):
    """The files of a pair."""

    left: Path
    right: Path
    disparity: Path
    visible: Path | None = None
    """Disparity of the points that both pictures show, or their mask."""


@dataclass(frozen=True)
class StereoFiles:
    """Pairs in files, read on access."""

    files: tuple[Files, ...]
    decode: Callable[[Path], Any]
    """Disparity (H, W) from a file, not finite or 0 where it is unknown."""
    note: str = ""
    """How the pairs were split."""

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Sample:
        own = self.files[index]
        left, right = read_image(own.left), read_image(own.right)
        disparity = torch.from_numpy(np.array(self.decode(own.disparity), np.float32))
        for path, shape in ((own.right, right.shape[-2:]), (own.disparity, disparity.shape)):
            if shape != left.shape[-2:]:
                raise VergenceError(
                    f"{path} has {' x '.join(map(str, shape[::-1]))} pixels: expected those of {own.left.name}, "
                    f"{left.shape[-1]} x {left.shape[-2]}"
                )
        valid = disparity.isfinite() & (disparity > 0)
        visible = valid
        if own.visible is not None:
            seen = torch.from_numpy(np.array(read_png16(own.visible), np.float32))
            if seen.shape != valid.shape:
                raise VergenceError(f"{own.visible} has another size than {own.disparity.name}")
            visible = valid & (seen == 255 if own.visible.name.startswith("mask") else seen > 0)
        return Sample(own.left.stem, left, right, torch.where(valid, disparity, 0), valid, visible)


PART = 60
"""Rendered pairs in one file of the cache."""


@dataclass(frozen=True)
class RenderedPairs:
    """Rendered pairs, kept as tensors."""

    tensors: tuple[dict[str, Tensor], ...]

    @classmethod
    def of(cls, count: int, height: int, width: int, most: float, seed: Sequence[str], share: Share) -> RenderedPairs:
        """``count`` pairs with disparities up to ``most``; the first ones are the same for every count."""
        parts = [
            stereo_pairs(min(PART, count - first), height, width, most, (*seed, first // PART), share)
            for first in range(0, count, PART)
        ]
        return cls(tuple(parts))

    def __len__(self) -> int:
        return sum(len(part["left"]) for part in self.tensors)

    def __getitem__(self, index: int) -> Sample:
        part, own = divmod(range(len(self))[index], PART)
        left, right, disparity, visible = (
            self.tensors[part][name][own] for name in ("left", "right", "disparity", "visible")
        )
        return Sample(f"rendered-{index}", left, right, disparity.float(), torch.ones_like(visible), visible)


# What a network gets --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Crops:
    """Pairs as network input: by index the whole pictures, padded to multiples of 16; drawn for training, random crops,
    changed at random if ``jitter``."""

    data: Any
    height: int
    width: int
    jitter: bool = False
    extra: int = 0
    """Samples beyond the data's own that ``draws`` makes for training."""
    draws: Callable[[torch.Generator], Sample] | None = None

    def __len__(self) -> int:
        return len(self.data) + self.extra

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return batched(self.data[range(len(self.data))[index]])

    def draw(self, index: int, generator: torch.Generator) -> dict[str, Tensor]:
        made = self.draws if index >= len(self.data) else None
        sample = made(generator) if made else self.data[index]
        if self.jitter:
            sample = _zoomed(sample, generator, self.height, self.width)
        sample = _cropped(sample, generator, self.height, self.width)
        if self.jitter:
            sample = _changed(sample, generator)
        return batched(sample)


def batched(sample: Sample) -> dict[str, Tensor]:
    """Normalised pictures padded to multiples of 16, with disparity and masks of the same size."""
    flat = {"disparity": sample.disparity, "valid": sample.valid, "visible": sample.visible}
    height, width = sample.left.shape[-2:]
    right, top = -width % 16, -height % 16
    padded = {name: F.pad(value, (0, right, top, 0)) for name, value in flat.items()}
    pictures = {name: prepared(picture) for name, picture in (("left", sample.left), ("right", sample.right))}
    return pictures | padded


def prepared(picture: Tensor) -> Tensor:
    """A picture of bytes (3, H, W), normalised; rows on top and columns on the right are repeated up to multiples of
    16."""
    height, width = picture.shape[-2:]
    bright = normalised(picture.float() / 255, MEAN, STD)
    right, top = -width % 16, -height % 16
    return F.pad(bright[None], (0, right, top, 0), mode="replicate")[0] if right or top else bright


def _cropped(sample: Sample, source: torch.Generator, height: int, width: int) -> Sample:
    sides = sample.left.shape[-2:]
    if sides[0] < height or sides[1] < width:
        sample = _each(sample, lambda t: F.pad(t, (0, max(width - sides[1], 0), max(height - sides[0], 0), 0)))
    top, left = (
        int(torch.randint(0, side - size + 1, (), generator=source))
        for side, size in zip(sample.left.shape[-2:], (height, width), strict=True)
    )
    return _each(sample, lambda t: t[..., top : top + height, left : left + width])


def _each(sample: Sample, change: Callable[[Tensor], Tensor]) -> Sample:
    own = (sample.left, sample.right, sample.disparity, sample.valid, sample.visible)
    return Sample(sample.name, *map(change, own))


def _zoomed(sample: Sample, source: torch.Generator, height: int, width: int) -> Sample:
    """The pair enlarged or reduced at random, but not below the size of a crop."""
    sides = sample.left.shape[-2:]
    least = max(ZOOM[0], height / sides[0], width / sides[1])
    low, high = np.log(min(least, ZOOM[1])), np.log(ZOOM[1])
    factor = float(np.exp(low + (high - low) * float(torch.rand((), generator=source))))
    size = [max(round(side * factor), own) for side, own in zip(sides, (height, width), strict=True)]
    both = torch.stack([sample.left, sample.right]).float()
    bright = F.interpolate(both, size, mode="bilinear", antialias=True, align_corners=False).round().to(torch.uint8)
    maps = torch.stack([sample.disparity, sample.valid.float(), sample.visible.float()])[None]
    disparity, valid, visible = F.interpolate(maps, size, mode="nearest-exact")[0]
    across = size[1] / sides[1]
    return replace(
        sample, left=bright[0], right=bright[1], disparity=disparity * across, valid=valid > 0.5, visible=visible > 0.5
    )


def _changed(sample: Sample, source: torch.Generator) -> Sample:
    """The pair in other light, as two cameras take it that are not quite alike."""
    both = torch.stack([sample.left, sample.right]).float() / 255
    drawn = torch.rand(8, generator=source)
    if drawn[0] < 0.5:
        both = both[:, torch.randperm(3, generator=source)]
    grey = both.mean(1, keepdim=True)
    both = grey + (both - grey) * (1.5 * drawn[1])  # more or less colourful
    both = both.clamp(0, 1) ** float(0.6 + 0.9 * drawn[2])
    both = (both * (0.7 + 0.6 * drawn[3]) + 0.2 * (drawn[4] - 0.5)).clamp(0, 1)
    pictures = [exposed(picture, source, gain=0.2, blur=0.9, noise=0.025) for picture in both]
    if drawn[5] < 0.3:  # something that only the right camera sees
        high, wide = (int(side * 0.05 * (1 + 4 * float(drawn[6]))) for side in both.shape[-2:])
        top, across = (
            int(torch.randint(0, side - part, (), generator=source))
            for side, part in zip(both.shape[-2:], (high, wide), strict=True)
        )
        pictures[1][:, top : top + high, across : across + wide] = pictures[1].mean((1, 2), keepdim=True)
    left, right = ((picture * 255).round().to(torch.uint8) for picture in pictures)
    changed = replace(sample, left=left, right=right)
    return _each(changed, lambda t: t.flip(-2)) if drawn[7] < 0.5 else changed


# Files ----------------------------------------------------------------------------------------------------------------


def _folder(path: Path, expected: str) -> None:
    if not path.is_dir():
        raise VergenceError(f"{path} is not a folder: expected {expected}")


def _pictures(folder: Path) -> list[Path]:
    try:
        return sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES)
    except OSError as error:
        raise VergenceError(f"{folder} cannot be read: {error.strerror}") from None


def _there(files: Iterable[Files], path: Path, expected: str) -> list[Files]:
    """The files, all of which must exist."""
    found = list(files)
    if not found:
        raise VergenceError(f"{path} holds no stereo pairs: expected {expected}")
    for own in found:
        for file in (own.right, own.disparity):
            if not file.is_file():
                raise VergenceError(f"{file} is missing: {own.left} has no {file.parent.name}/{file.name}")
    return found


def _fifth(files: Sequence[Files], decode: Callable[[Path], Any], split: str) -> StereoFiles:
    """Every fifth pair for validation and test, the others for training, where no split is published."""
    if len(files) == 1:
        return StereoFiles(tuple(files), decode, "the only pair is in every split")
    held = set(files[::-5])
    chosen = tuple(f for f in files if (f in held) == (split != "train"))
    return StereoFiles(chosen, decode, "every fifth pair, counted from the last, is for validation and test")


def _sceneflow_disparity(path: Path) -> Any:
    return np.abs(_flat(read_pfm(path), path))  # the sign differs between releases


def _flat(values: Any, path: Path) -> Any:
    if values.ndim != 2:
        raise VergenceError(f"{path} has several channels: expected disparity, one number per pixel")
    return values


def _read_sceneflow(path: Path, split: str) -> StereoFiles:
    _folder(path, SCENEFLOW)
    found = []
    for kind in ("frames_cleanpass", "frames_finalpass"):
        for frames in sorted(path.rglob(kind)):
            for left in sorted(frames.rglob("left/*.png")) + sorted(frames.rglob("left/*.webp")):
                below = left.relative_to(frames)
                disparity = (frames.parent / "disparity" / below).with_suffix(".pfm")
                found.append(Files(left, left.parent.parent / "right" / left.name, disparity))
        if found:
            break
    files = _there(found, path, SCENEFLOW)
    test = [f for f in files if "TEST" in f.left.relative_to(path).parts]
    train = [f for f in files if f not in set(test)]
    if split == "test":
        if not test:
            raise VergenceError(f"{path} has no pairs for test: expected flyingthings3d/frames_cleanpass/TEST")
        return StereoFiles(tuple(test), _sceneflow_disparity)
    if not train:
        raise VergenceError(f"{path} has no pairs for training: expected {SCENEFLOW}")
    step = max(len(train) // 100, 10)
    held = set(train[step // 2 :: step])
    chosen = [f for f in train if not held or (f in held) == (split == "val")]  # a few are in both
    return StereoFiles(tuple(chosen), _sceneflow_disparity, "about a hundred training pairs are for validation")


def _kitti(path: Path, split: str, names: tuple[str, str, str, str], expected: str) -> StereoFiles:
    _folder(path, expected)
    root = path / "training" if (path / "training").is_dir() else path
    left, right, disparity, visible = (root / name for name in names)
    if not left.is_dir():
        raise VergenceError(f"{path} has no {left.name}: expected {expected}")
    files = []
    for picture in _pictures(left):
        if picture.stem.endswith("_10"):
            seen = visible / picture.name
            files.append(
                Files(picture, right / picture.name, disparity / picture.name, seen if seen.is_file() else None)
            )
    return _fifth(_there(files, path, expected), _kitti_disparity, split)


def _kitti_disparity(path: Path) -> Any:
    return _flat(read_png16(path), path) / np.float32(256)


def _read_kitti2015(path: Path, split: str) -> StereoFiles:
    return _kitti(path, split, ("image_2", "image_3", "disp_occ_0", "disp_noc_0"), KITTI2015)


def _read_kitti2012(path: Path, split: str) -> StereoFiles:
    return _kitti(path, split, ("colored_0", "colored_1", "disp_occ", "disp_noc"), KITTI2012)


def _read_middlebury(path: Path, split: str) -> StereoFiles:
    _folder(path, MIDDLEBURY)
    files = []
    for left in sorted(path.rglob("im0.png")):
        truth = next((left.with_name(n) for n in ("disp0GT.pfm", "disp0.pfm") if left.with_name(n).is_file()), None)
        if truth is None:
            raise VergenceError(f"{left.parent} has no disp0.pfm or disp0GT.pfm")
        mask = left.with_name("mask0nocc.png")
        files.append(Files(left, left.with_name("im1.png"), truth, mask if mask.is_file() else None))
    return _fifth(_there(files, path, MIDDLEBURY), _pfm, split)


def _pfm(path: Path) -> Any:
    return _flat(read_pfm(path), path)


def _any_disparity(path: Path) -> Any:
    if path.suffix == ".npy":
        values = read_npy(path)
        if values.ndim != 2 or values.dtype.kind not in "fiu":
            raise VergenceError(f"{path} has the shape {values.shape} of {values.dtype}: expected disparity, (H, W)")
        return values
    return _pfm(path) if path.suffix == ".pfm" else _kitti_disparity(path)


def _read_folder(path: Path, split: str) -> StereoFiles:
    _folder(path, FOLDER)
    parted = [name for name in ("train", "val", "test") if (path / name / "left").is_dir()]
    root = path / (split if split in parted else {"val": "test", "test": "val"}.get(split, "")) if parted else path
    if parted and root.name not in parted:
        raise VergenceError(f"{path} has no {split}: expected {FOLDER}")
    if not (root / "left").is_dir():
        raise VergenceError(f"{root} has no folder 'left': expected {FOLDER}")
    files = []
    for left in _pictures(root / "left"):
        right = next((p for p in _pictures(root / "right") if p.stem == left.stem), root / "right" / left.name)
        choices = [root / "disparity" / f"{left.stem}{suffix}" for suffix in (".pfm", ".png", ".npy")]
        files.append(Files(left, right, next((p for p in choices if p.is_file()), choices[0])))
    found = _there(files, path, FOLDER)
    return StereoFiles(tuple(found), _any_disparity) if parted else _fifth(found, _any_disparity, split)


SCENEFLOW = (
    "frames_cleanpass/.../left/*.png, .../right/*.png and disparity/.../left/*.pfm below monkaa, driving and "
    "flyingthings3d (there in TRAIN and TEST)"
)
KITTI2015 = "training/image_2/*_10.png, image_3, disp_occ_0 and perhaps disp_noc_0"
KITTI2012 = "training/colored_0/*_10.png, colored_1, disp_occ and perhaps disp_noc"
MIDDLEBURY = "SCENE/im0.png, im1.png, disp0.pfm or disp0GT.pfm, and perhaps mask0nocc.png"
FOLDER = (
    "left/NAME.png, right/NAME.png and disparity/NAME.pfm, .npy or 16-bit .png (256 per pixel), below train and test "
    "if they are split"
)
LAYOUTS = {
    "sceneflow": Layout(_read_sceneflow, SCENEFLOW),
    "kitti2015": Layout(_read_kitti2015, KITTI2015),
    "kitti2012": Layout(_read_kitti2012, KITTI2012),
    "middlebury": Layout(_read_middlebury, MIDDLEBURY),
    "folder": Layout(_read_folder, FOLDER),
}
