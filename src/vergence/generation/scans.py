"""Scans of magnetic resonance in the layout of fastMRI, as complex pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.ops.linear import pixels_of
from vergence.reading.hdf5 import read_hdf5, shapes_hdf5

CENTRE = 16
"""Several coils: sensitivities are those of the lowest 16 x 16 frequencies."""


@dataclass(frozen=True)
class Scans:
    """Slices of fastMRI files as complex pictures (2, side, side), the largest magnitude 1."""

    slices: tuple[tuple[Path, int], ...]
    side: int = 320

    def __len__(self) -> int:
        return len(self.slices)

    def __getitem__(self, index: int) -> Tensor:
        path, number = self.slices[index]
        kspace = torch.from_numpy(read_hdf5(path, ["kspace"], number)["kspace"]).to(torch.complex64)
        if kspace.dim() not in (2, 3) or not torch.view_as_real(kspace).isfinite().all():
            raise VergenceError(f"{path} has slices of k-space of shape {tuple(kspace.shape)}: expected finite "
                                "numbers, (H, W) or (coils, H, W)")  # fmt: skip
        return scan(kspace, self.side)


def scan(kspace: Tensor, side: int = 320) -> Tensor:
    """The picture (2, side, side) of a slice of centred k-space (H, W) or (coils, H, W): the inverse transform,
    combined over coils by their sensitivities, of which the centre is kept."""
    spectrum = pixels_of(kspace)
    image = torch.fft.fftshift(torch.fft.ifft2(spectrum, norm="ortho"), (-2, -1))
    if image.dim() == 3:
        image = (sensitivities(kspace).conj() * image).sum(0)
    height, width = (min(side, edge) for edge in image.shape)
    top, left = (image.shape[0] - height) // 2, (image.shape[1] - width) // 2
    image = image[top : top + height, left : left + width]
    image = image / image.abs().max().clamp_min(1e-12)
    return torch.stack([image.real, image.imag])


def sensitivities(kspace: Tensor) -> Tensor:
    """Estimated sensitivities (coils, H, W), whose squares sum to one, from the lowest frequencies of all coils."""
    kept = torch.zeros_like(kspace)
    rows, columns = (slice(max(edge // 2 - CENTRE // 2, 0), edge // 2 + CENTRE // 2) for edge in kspace.shape[-2:])
    kept[:, rows, columns] = kspace[:, rows, columns]
    smooth = torch.fft.fftshift(torch.fft.ifft2(pixels_of(kept), norm="ortho"), (-2, -1))
    return smooth / smooth.abs().square().sum(0).sqrt().clamp_min(1e-12)


def read_fastmri(path: Path, split: str) -> Scans:
    """``singlecoil_train``, ``singlecoil_val`` (or ``multicoil_...``) with ``*.h5``; or a folder of such files, of
    which every fifth is held out. Validation files are the test, since those of the test have no truth."""
    named = [path / f"{coils}_{'train' if split == 'train' else 'val'}" for coils in ("singlecoil", "multicoil")]
    folder = next((n for n in named if n.is_dir()), path)
    files = sorted(folder.glob("*.h5"))
    if not files:
        raise VergenceError(f"{folder} holds no fastMRI files (.h5)")
    if folder == path and len(files) > 1:
        held = files[4::5] or files[-1:]
        files = [f for f in files if f not in held] if split == "train" else held
    slices: list[tuple[Path, int]] = []
    for file in files:
        shape = shapes_hdf5(file, ["kspace"])["kspace"]
        if len(shape) not in (3, 4) or not shape[0]:
            raise VergenceError(
                f"{file} has k-space of shape {shape}: expected (slices, H, W) or (slices, coils, H, W)"
            )
        slices += [(file, number) for number in range(shape[0])]
    return Scans(tuple(slices))
