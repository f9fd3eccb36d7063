"""Pairs of frames with optical flow: public layouts, the embedded ones, and the crops that networks are trained on.

A sample is a dict: ``first`` and ``second`` (3, H, W) bytes, ``flow`` (2, H, W) pixels with ``valid`` (H, W), and the
same of the other direction as ``backward`` and ``backward_valid`` (never valid where it is unknown); ``visible`` (H, W)
says which pixels the second frame shows, and ``small`` (H, W) which belong to small things that move by themselves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.data.images import SUFFIXES, read_image
from vergence.reading.maps import read_flo, read_png16

Sample = dict[str, Tensor]
UNKNOWN = 1e9
"""Motions beyond this are marks of unknown pixels."""


@dataclass(frozen=True)
class Known:
    """The files of a pair."""

    first: Path
    second: Path
    flow: Path
    backward: Path | None = None
    occluded: Path | None = None
    """A picture that is bright where pixels are occluded."""
    seen: Path | None = None
    """KITTI: flow without occluded pixels."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of frames in files."""

    pairs: Sequence[Known]
    note: str = ""
    """How they were split."""

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Sample:
        known = self.pairs[index]
        first, second = read_image(known.first), read_image(known.second)
        if first.shape != second.shape:
            raise VergenceError(
                f"{known.second.name} is {_size(second)}, but {known.first} is {_size(first)}: expected frames of one "
                "size"
            )
        flow, valid = read_flow(known.flow, first)
        backward, backward_valid = torch.zeros_like(flow), torch.zeros_like(valid)
        if known.backward is not None:
            backward, backward_valid = read_flow(known.backward, first)
        visible = valid
        if known.occluded is not None:
            visible = valid & (read_image(known.occluded)[0] < 128)
        if known.seen is not None:
            visible = read_flow(known.seen, first)[1]
        return {
            "first": first, "second": second, "flow": flow, "valid": valid, "visible": visible,
            "backward": backward, "backward_valid": backward_valid, "small": torch.zeros_like(valid),
        }  # fmt: skip


def read_flow(path: Path, frame: Tensor) -> tuple[Tensor, Tensor]:
    """Flow (2, H, W) and where it is known (H, W), from ``.flo`` or KITTI's PNG of 16 bits, as large as ``frame``."""
    if path.suffix == ".flo":
        values = read_flo(path)
        known = np.isfinite(values).all(-1) & (np.abs(values) < UNKNOWN).all(-1)
    else:
        stored = read_png16(path)
        if stored.ndim != 3 or stored.shape[2] != 3:
            raise VergenceError(f"{path} is not KITTI's flow: expected a PNG of three channels, got {stored.shape}")
        values = (stored[..., :2].astype(np.float32) - 2**15) / 64
        known = stored[..., 2] > 0
    flow = torch.from_numpy(np.where(known[..., None], values, 0).astype(np.float32)).permute(2, 0, 1).contiguous()
    if flow.shape[1:] != frame.shape[1:]:
        raise VergenceError(f"{path} is flow of {_size(flow)}, but its frame is {_size(frame)} (height x width)")
    return flow, torch.from_numpy(np.ascontiguousarray(known))


def _size(picture: Tensor) -> str:
    return "x".join(map(str, picture.shape[-2:]))


# Public layouts -------------------------------------------------------------------------------------------------------


def _complete(path: Path, layout: str, pairs: Sequence[Known], note: str = "") -> Pairs:
    if not pairs:
        raise VergenceError(f"{path} holds no pair of frames with flow; expected {LAYOUTS[layout].about}")
    for known in pairs:
        for file in (known.first, known.second):
            if not file.is_file():
                raise VergenceError(f"{file} is missing: {known.flow.name} is the flow of it")
    return Pairs(pairs, note)


def _held_out(items: Sequence[Any], split: str, every: int) -> tuple[Sequence[Any], str]:
    """Items of a set without a published split: every nth one is held out for validation and test."""
    if len(items) < 2:
        return items, ""
    held = set(range(every - 1, len(items), every)) or {len(items) - 1}
    chosen = [item for number, item in enumerate(items) if (number in held) == (split != "train")]
    return chosen, f"every {every}th is held out for validation and test"


def _beside(path: Path, *parts: str) -> Path:
    """The first of these folders that exists below a path; the path itself if none does."""
    return next((path / part for part in parts if (path / part).is_dir()), path)


def _optional(path: Path) -> Path | None:
    return path if path.is_file() else None


def chairs2(path: Path, split: str) -> Pairs:
    """FlyingChairs2: ``{train,val}/0000000-img_0.png`` and so on; validation pairs are the test."""
    folder = _beside(path, "FlyingChairs2") / ("train" if split == "train" else "val")
    found = []
    for flow in sorted(folder.glob("*-flow_01.flo")) if folder.is_dir() else ():
        stem = flow.name.removesuffix("-flow_01.flo")
        one, two = folder / f"{stem}-img_0.png", folder / f"{stem}-img_1.png"
        back, hidden = _optional(folder / f"{stem}-flow_10.flo"), _optional(folder / f"{stem}-occ_01.png")
        found.append(Known(one, two, flow, back, hidden))
    return _complete(path, "chairs2", found)


def things(path: Path, split: str) -> Pairs:
    """The subset of FlyingThings3D: frame n, flow ``into_future`` of n, frame n + 1 and its flow ``into_past``."""
    folder = _beside(path, "FlyingThings3D_subset") / ("train" if split == "train" else "val")
    images = _beside(folder, "image_clean", "image_final")
    found = []
    for side in ("left", "right"):
        flows = folder / "flow" / side
        for flow in sorted((flows / "into_future").glob("*.flo")) if flows.is_dir() else ():
            after = f"{int(flow.stem) + 1:0{len(flow.stem)}d}" if flow.stem.isdigit() else ""
            one, two = images / side / f"{flow.stem}.png", images / side / f"{after}.png"
            found.append(Known(one, two, flow, _optional(flows / "into_past" / f"{after}.flo")))
    return _complete(path, "things", found)


def sintel(path: Path, split: str) -> Pairs:
    """MPI-Sintel's training sequences in the final pass (clean where there is no final one)."""
    folder = _beside(path, "training")
    frames = _beside(folder, "final", "clean")
    sequences = sorted(p for p in (folder / "flow").glob("*") if p.is_dir()) if (folder / "flow").is_dir() else []
    chosen, note = _held_out(sequences, split, 6)
    found = []
    for sequence in chosen:
        for flow in sorted(sequence.glob("frame_*.flo")):
            number = flow.stem.removeprefix("frame_")
            after = f"frame_{int(number) + 1:0{len(number)}d}.png" if number.isdigit() else ""
            one, two = (frames / sequence.name / name for name in (f"{flow.stem}.png", after))
            hidden = _optional(folder / "occlusions" / sequence.name / f"{flow.stem}.png")
            found.append(Known(one, two, flow, None, hidden))
    return _complete(path, "sintel", found, note)


def kitti(path: Path, split: str) -> Pairs:
    """KITTI 2012 and 2015, one of them or folders of both."""
    roots = [path, *sorted(p for p in path.glob("*") if p.is_dir())] if path.is_dir() else []
    flows = [flow for root in roots for flow in sorted(_beside(root, "training").glob("flow_occ/*_10.png"))]
    chosen, note = _held_out(list(dict.fromkeys(flows)), split, 5)
    found = []
    for flow in chosen:
        images = _beside(flow.parents[1], "image_2", "colored_0", "image_0")
        two = images / flow.name.replace("_10.png", "_11.png")
        found.append(Known(images / flow.name, two, flow, seen=_optional(flow.parents[1] / "flow_noc" / flow.name)))
    return _complete(path, "kitti", found, note)


def middlebury(path: Path, split: str) -> Pairs:
    """Middlebury's sequences with public flow: for testing, so that every split has all of them."""
    flows = sorted(path.glob("other-gt-flow/*/flow10.flo")) if path.is_dir() else []
    found = []
    for flow in flows:
        folder = path / "other-data" / flow.parent.name
        found.append(Known(folder / "frame10.png", folder / "frame11.png", flow))
    return _complete(path, "middlebury", found)


def folder(path: Path, split: str) -> Pairs:
    """A user's own: frames in order with ``NAME.flo``, the flow from the frame NAME to the next one. Folders ``train``,
    ``val`` and ``test`` are splits, where they exist."""
    if not path.is_dir():
        raise VergenceError(f"{path} is no folder; expected {LAYOUTS['folder'].about}")
    root = _beside(path, split, *(("val", "test") if split != "train" else ()))
    found = []
    for flow in sorted(root.rglob("*.flo")):
        frames = sorted((p for p in flow.parent.iterdir() if p.suffix.lower() in SUFFIXES), key=_natural)
        stems = [frame.stem for frame in frames]
        if flow.stem not in stems:
            raise VergenceError(f"{flow} belongs to no frame: expected a picture {flow.stem}.png beside it")
        at = stems.index(flow.stem)
        if at + 1 == len(frames):
            raise VergenceError(f"{flow} is the flow of the last frame in {flow.parent}: expected a frame after it")
        found.append(Known(frames[at], frames[at + 1], flow))
    note = ""
    if root == path:
        found, note = list(_held_out(found, split, 5)[0]), "every 5th pair is held out for validation and test"
    return _complete(path, "folder", found, note)


def _natural(path: Path) -> list[Any]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name)]


LAYOUTS: Mapping[str, Layout] = {
    "folder": Layout(folder, "frames in order with NAME.flo, the flow from frame NAME to the next one"),
    "chairs2": Layout(chairs2, "FlyingChairs2: {train,val}/*-img_0.png, *-img_1.png, *-flow_01.flo, *-flow_10.flo"),
    "things": Layout(things, "FlyingThings3D's subset: {train,val}/image_clean/left/*, flow/left/into_future/*.flo"),
    "sintel": Layout(sintel, "MPI-Sintel: training/{final,clean}/SEQUENCE/frame_*.png, training/flow/SEQUENCE/*.flo"),
    "kitti": Layout(kitti, "KITTI 2012 or 2015: training/{colored_0,image_2}/*_10.png, *_11.png, flow_occ/*_10.png"),
    "middlebury": Layout(middlebury, "Middlebury: other-data/SEQUENCE/frame10.png, frame11.png, other-gt-flow/..."),
}


# Embedded, and training -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawn:
    """Embedded pairs, held in memory field by field."""

    fields: Mapping[str, Tensor]

    def __len__(self) -> int:
        return len(self.fields["first"])

    def __getitem__(self, index: int) -> Sample:
        index = range(len(self))[index]
        sample = {name: value[index] for name, value in self.fields.items()}
        for name in ("flow", "backward"):
            sample[name] = sample[name].float()
        sample["valid"] = sample["flow"].isfinite().all(0)
        sample["backward_valid"] = sample["backward"].isfinite().all(0)
        sample["flow"], sample["backward"] = sample["flow"].nan_to_num(0, 0, 0), sample["backward"].nan_to_num(0, 0, 0)
        del sample["backward_visible"]
        return sample


@dataclass(frozen=True)
class Joined:
    """Several data sets one after the other."""

    parts: Sequence[Any]

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __getitem__(self, index: int) -> Sample:
        index = range(len(self))[index]
        for part in self.parts:
            if index < len(part):
                found: Sample = part[index]
                return found
            index -= len(part)
        raise IndexError(index)


@dataclass(frozen=True)
class Augment:
    """Random changes of a training pair."""

    crop: tuple[int, int]
    """Height and width."""
    scales: tuple[float, float] = (1.0, 1.0)
    """Least and greatest enlargement."""
    flips: str = "hv"
    """Axes that may be mirrored: h, v, both or none."""
    photometric: bool = False
    """Change contrast, brightness, colour and gamma, for each frame a little differently."""

    def __call__(self, sample: Sample, source: torch.Generator) -> Sample:
        height, width = sample["first"].shape[-2:]
        least = max(self.crop[0] / height, self.crop[1] / width)
        low, high = (math.log(max(scale, least)) for scale in self.scales)
        sample = _scaled(sample, math.exp(low + (high - low) * float(torch.rand((), generator=source))))
        top, left = (
            int(torch.randint(0, side - cut + 1, (), generator=source))
            for side, cut in zip(sample["first"].shape[-2:], self.crop, strict=True)
        )
        cut = {name: value[..., top : top + self.crop[0], left : left + self.crop[1]] for name, value in sample.items()}
        for axis, dimension, component in (("h", -1, 0), ("v", -2, 1)):
            if axis in self.flips and bool(torch.rand((), generator=source) < 0.5):
                cut = {name: value.flip(dimension) for name, value in cut.items()}
                for name in FLOWS & cut.keys():
                    cut[name][component] *= -1
        cut = {name: value.contiguous() for name, value in cut.items()}
        if self.photometric:
            cut["first"], cut["second"] = _recoloured(cut["first"], cut["second"], source)
        return cut


FLOWS = {"flow", "backward", "taught"}


def _scaled(sample: Sample, scale: float) -> Sample:
    size = [math.ceil(side * scale - 1e-6) for side in sample["first"].shape[-2:]]
    if size == list(sample["first"].shape[-2:]):
        return dict(sample)
    out = {}
    for name, value in sample.items():
        if name in ("first", "second"):
            out[name] = F.interpolate(value[None].float(), size, mode="bilinear", antialias=True)[0].round().byte()
            continue
        # Flow of neighbours is never mixed: between two motions there is none.
        near = F.interpolate(value.view(1, -1, *value.shape[-2:]).float(), size, mode="nearest-exact")[0]
        if name in FLOWS:
            ratio = [new / old for new, old in zip(size, value.shape[-2:], strict=True)]
            out[name] = near * torch.tensor([ratio[1], ratio[0]]).view(2, 1, 1)
        else:
            out[name] = near[0] > 0.5
    return out


def _recoloured(first: Tensor, second: Tensor, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """Contrast, brightness, colours and gamma of both frames as in HD³, and a tenth of that for each alone."""

    def drawn(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(shape, generator=source)

    contrast, gamma, colour = drawn(-0.3, 0.3), drawn(math.log(0.7), math.log(1.5)), drawn(0.9, 1.1, 3, 1, 1)
    bright = 0.02 * torch.randn((), generator=source)
    out = []
    for frame in (first, second):
        own = frame.float() / 255 * (1 + contrast + drawn(-0.03, 0.03)) * colour + bright + drawn(-0.02, 0.02)
        out.append((own.clamp(0, 1) ** (gamma + drawn(-0.04, 0.04)).exp() * 255).round().byte())
    return out[0], out[1]


@dataclass(frozen=True)
class Moving:
    """Pairs as networks get them: whole ones for evaluation, augmented crops for training."""

    data: Any
    augment: Augment

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Sample:
        sample: Sample = self.data[index]
        return sample

    def draw(self, index: int, generator: torch.Generator) -> Sample:
        """An augmented crop."""
        return self.augment(self[index], generator)


Reader = Callable[[Path, str], Pairs]
