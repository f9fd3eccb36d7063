"""Training pictures with what their teachers say about them, moved, mirrored and erased together.

A teacher's mask and key points follow every change of the picture: a map that is off by a flip or a crop teaches the
wrong place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.data import images
from vergence.reid.crowds import Population
from vergence.reid.data import Balanced, whole
from vergence.reid.targets import FILES, Teacher, mask_map, mirrored, part_maps, read_teacher

Teachers = Callable[[int, int, int], Teacher]
"""What is known about the picture of an index, whose height and width are given."""


class Told(NamedTuple):
    """A training sample: a picture (3, H, W), its class, its camera, and what the teachers say."""

    picture: Tensor
    identity: int
    camera: int
    mask: Tensor
    """(rows, columns): the share of each cell that shows the person."""
    parts: Tensor
    """(13, rows, columns): where the joints are."""


@dataclass(frozen=True)
class RenderedTeachers:
    """Masks and joints of rendered people, known exactly."""

    people: Population

    def __call__(self, index: int, height: int, width: int) -> Teacher:
        joints = self.people.joints[index].float()
        # A rendered joint at 3 is in the middle of pixel 3, which teachers call 3.5.
        return Teacher(self.people.masks[index].float(), joints + joints.new_tensor([0.5, 0.5, 0.0]))


@dataclass(frozen=True)
class TeacherFiles:
    """Files of teachers in one folder: for the picture ``a.jpg`` the file ``a.npz``."""

    files: tuple[Path, ...]

    @classmethod
    def of(cls, folder: Path, pictures: tuple[Path, ...]) -> TeacherFiles:
        """The files of training pictures; each must be there."""
        if not folder.is_dir():
            raise VergenceError(f"{folder} is not a folder of teachers' files: expected {FILES}")
        names = [picture.stem for picture in pictures]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise VergenceError(f"two training pictures are called {twice}, so {folder} cannot tell them apart")
        missing = [name for name in names if not (folder / f"{name}.npz").is_file()]
        if missing:
            raise VergenceError(
                f"{folder} has no file for {len(missing)} of {len(names)} training pictures, the first "
                f"{missing[0]}.npz: expected {FILES}"
            )
        return cls(tuple(folder / f"{name}.npz" for name in names))

    def __call__(self, index: int, height: int, width: int) -> Teacher:
        return read_teacher(self.files[index], height, width)


@dataclass(frozen=True)
class Taught(Balanced):
    """Batches with the same number of pictures per identity, each with the maps of its teachers."""

    teachers: Teachers | None = None
    cells: tuple[int, int] = (24, 8)
    """Rows and columns of the maps."""

    def draw(self, index: int, generator: torch.Generator) -> Told:  # type: ignore[override]
        """A sample: the picture resized, cropped after padding, mirrored and erased, and the maps with it."""
        picture, identity, camera = self.data[index]
        assert self.teachers is not None
        teacher = self.teachers(index, *picture.shape[-2:])
        size = (self.view.height, self.view.width)
        mask = images.resized(teacher.mask[None], *size)
        seen = torch.cat([whole(self.view, picture), mask])  # (4, H, W): what happens to one happens to the other
        points = teacher.keypoints.clone()
        points[:, 0] *= size[1] / picture.shape[-1]
        points[:, 1] *= size[0] / picture.shape[-2]
        if self.view.pad:
            down, across = torch.randint(0, 2 * self.view.pad + 1, (2,), generator=generator).tolist()
            seen = F.pad(seen, [self.view.pad] * 4)[:, down : down + size[0], across : across + size[1]]
            points[:, :2] += points.new_tensor([self.view.pad - across, self.view.pad - down])
        inside = (points[:, :2] >= 0).all(1) & (points[:, 0] <= size[1]) & (points[:, 1] <= size[0])
        points[:, 2] *= inside
        parts = part_maps(points, size, *self.cells)
        if self.view.flip and torch.rand((), generator=generator) < 0.5:
            seen, parts = seen.flip(-1), mirrored(parts)
        if self.view.erase:
            kept = images.erased(torch.ones(1, *size), self.view.erase, generator)
            seen, parts = seen * kept, parts * mask_map(kept, *self.cells)
        return Told(seen[:3], identity, camera, mask_map(seen[3], *self.cells), parts)
