"""Operators in the Fourier domain: blurs, and magnetic resonance with one coil or several."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from vergence.ops.linear.base import Operator, Shape

Values = Literal["complex", "pairs", "real", "real-part"]
AXES = (-2, -1)


def gaussian(sigma: float) -> Tensor:
    """A Gaussian kernel with standard deviation ``sigma`` in pixels, cut at four of them."""
    reach = max(math.ceil(4 * sigma), 1)
    line = torch.exp(
        -0.5 * (torch.arange(-reach, reach + 1, dtype=torch.float64, device="cpu") / max(sigma, 1e-6)) ** 2
    )
    kernel = line[:, None] * line
    return kernel / kernel.sum()


class Blur(Operator):
    """Circular convolution with a kernel (k, l), centred, by FFT.

    Frequencies that it weakens to ``cutoff`` of the strongest or less count as not measured: they are zero in ``Hx``
    and belong to the null space. The pseudo-inverse divides the others, so noise grows by at most ``1 / cutoff``.
    """

    def __init__(self, size: tuple[int, int], kernel: Tensor, cutoff: float = 0.05) -> None:
        if kernel.dim() != 2 or any(k > side for k, side in zip(kernel.shape, size, strict=True)):
            raise ValueError(f"a kernel for pictures of {tuple(size)} is no larger, got {tuple(kernel.shape)}")
        if not (0 < cutoff < 1 and bool(kernel.isfinite().all()) and float(kernel.abs().max()) > 0):
            raise ValueError(f"a blur has a finite kernel that is not zero and a cutoff from 0 to 1, got {cutoff:g}")
        self.domain = self.codomain = tuple(size)
        placed = torch.zeros(size, dtype=torch.float64, device="cpu")
        placed[: kernel.shape[0], : kernel.shape[1]] = kernel
        placed = placed.roll((-(kernel.shape[0] // 2), -(kernel.shape[1] // 2)), AXES)
        transfer = torch.fft.rfft2(placed)
        strength = transfer.abs()
        self.measured = strength > cutoff * strength.max()
        """The frequencies that are measured, half of the plane as ``rfft2`` has it."""
        self._transfer = torch.where(self.measured, transfer, 0)
        self._inverse = torch.where(self.measured, 1 / torch.where(self.measured, transfer, 1), 0)

    def _times(self, x: Tensor, spectrum: Tensor) -> Tensor:
        kind = torch.promote_types(x.dtype, torch.complex64) if spectrum.is_complex() else x.dtype
        return torch.fft.irfft2(torch.fft.rfft2(x) * spectrum.to(x.device, kind), self.domain)

    def forward(self, x: Tensor) -> Tensor:
        return self._times(x, self._transfer)

    def adjoint(self, y: Tensor) -> Tensor:
        return self._times(y, self._transfer.conj())

    def pinv(self, y: Tensor) -> Tensor:
        return self._times(y, self._inverse)

    def range(self, x: Tensor) -> Tensor:
        return self._times(x, self.measured)


class Fourier(Operator):
    """Some frequencies of a picture (H, W): magnetic resonance with one coil and Cartesian sampling.

    ``mask`` (..., H, W) is true where a frequency is measured, in the order of ``fft2`` (the lowest first), and
    broadcasts over channels before it. Measurements are complex, and zero where nothing is measured. Pictures are
    ``complex``; ``pairs`` (..., 2, H, W) of real and imaginary part; or ``real``, where a measured frequency determines
    its mirror frequency, too, and the pseudo-inverse takes the mean of both. ``real-part`` is the paper's inverse for
    real pictures, the real part of the zero-filled inverse: no pseudo-inverse, unless the mask is symmetric.
    """

    def __init__(self, mask: Tensor, values: Values = "complex") -> None:
        if not bool(mask.any()):
            raise ValueError("the mask measures no frequency")
        self.values, self.closed = values, values != "real-part"
        shape: Shape = tuple(mask.shape)
        self.domain = (2, *shape[-2:]) if values == "pairs" else shape
        self.codomain = shape
        self.complex_domain, self.complex_codomain = values == "complex", True
        self.mask = mask.bool()
        mirrored = self.mask.flip(AXES).roll((1, 1), AXES)
        self._either = self.mask | mirrored
        self._weight = 2 * self.mask.double() / (self.mask.double() + mirrored.double()).clamp_min(1)

    def forward(self, x: Tensor) -> Tensor:
        if self.values == "pairs":
            x = torch.complex(x[..., 0, :, :], x[..., 1, :, :])
        return torch.fft.fft2(x, norm="ortho") * self.mask.to(x.device)

    def _back(self, spectrum: Tensor) -> Tensor:
        x = torch.fft.ifft2(spectrum, norm="ortho")
        if self.values == "complex":
            return x
        return torch.stack([x.real, x.imag], -3) if self.values == "pairs" else x.real

    def adjoint(self, y: Tensor) -> Tensor:
        return self._back(y * self.mask.to(y.device))

    def pinv(self, y: Tensor) -> Tensor:
        return self._back(y * self._weight.to(y.device, y.real.dtype)) if self.values == "real" else self.adjoint(y)

    def range(self, x: Tensor) -> Tensor:
        if self.values != "real":
            return super().range(x)
        spectrum = torch.fft.fft2(x, norm="ortho")
        return torch.fft.ifft2(spectrum * self._either.to(x.device), norm="ortho").real


class Coils(Operator):
    """Magnetic resonance with several coils: a complex picture (H, W) is seen through the sensitivities (C, H, W) of
    the coils, each of which measures the frequencies of ``mask`` (H, W). The pseudo-inverse (SENSE) is by conjugate
    gradients."""

    closed = False
    complex_domain = complex_codomain = True

    def __init__(self, sensitivities: Tensor, mask: Tensor, tolerance: float = 1e-8, steps: int = 500) -> None:
        if sensitivities.dim() != 3 or mask.shape != sensitivities.shape[1:]:
            raise ValueError(
                f"sensitivities are (coils, H, W) and a mask is (H, W), got {tuple(sensitivities.shape)} and "
                f"{tuple(mask.shape)}"
            )
        self.sensitivities, self.mask = sensitivities, mask.bool()
        self.domain, self.codomain = tuple(mask.shape), tuple(sensitivities.shape)
        self.tolerance, self.steps = tolerance, steps

    def forward(self, x: Tensor) -> Tensor:
        seen = x[..., None, :, :] * self.sensitivities.to(x)
        return torch.fft.fft2(seen, norm="ortho") * self.mask.to(x.device)

    def adjoint(self, y: Tensor) -> Tensor:
        seen = torch.fft.ifft2(y * self.mask.to(y.device), norm="ortho")
        return (seen * self.sensitivities.to(y).conj()).sum(-3)


def pixels_of(kspace: Tensor) -> Tensor:
    """Centred frequencies (..., H, W), as scanners store them, in the order of ``fft2``."""
    return torch.fft.ifftshift(kspace, AXES)
