"""The operators of a config: for given measurements, drawn for training, and fixed for test pictures."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.generation.measuring import Measure
from vergence.ops.linear import Average, Blur, Fourier, Identity, Mask, Operator, bicubic, gaussian

Size = tuple[int, int]


def visible(measure: Measure) -> int:
    """How many pictures a network sees for each: for inpainting, the mask beside it."""
    return 2 if measure.kind == "mask" else 1


def multiple(measure: Measure) -> int:
    """What sides of pictures are multiples of."""
    return measure.factor if measure.kind in ("average", "bicubic") else 1


def operator_for(measure: Measure, y: Tensor) -> Operator:
    """The operator that gave measurements of this size; zeros are taken for what was not measured."""
    height, width = int(y.shape[-2]) * multiple(measure), int(y.shape[-1]) * multiple(measure)
    if measure.kind == "mask":
        return Mask(y != 0)
    if measure.kind == "fourier":
        known = torch.ones(y.shape[-2:], device="cpu") if y.is_meta else (y != 0).flatten(0, -3).any(0)
        return Fourier(known, "pairs" if y.dim() == 3 else _inverse(measure))  # type: ignore[arg-type]
    return sized(measure, (height, width))


def sized(measure: Measure, size: Size, kernel: Tensor | None = None) -> Operator:
    """The operator for pictures of this size, for kinds that draw nothing; blurs by ``kernel``, or by their mean."""
    height, width = size
    if measure.kind == "average":
        return Average(size, measure.factor)
    if measure.kind == "bicubic":
        return bicubic(height, width, measure.factor, measure.antialias, measure.inverse)
    if measure.kind == "blur":
        return Blur(size, gaussian(sum(measure.blur) / 2) if kernel is None else kernel, measure.cutoff)
    return Identity(size)


def drawn(measure: Measure, x: Tensor, generator: torch.Generator) -> Operator:
    """An operator for a batch (B, C, H, W) of pictures, with random holes, kernel or frequencies."""
    batch, channels, height, width = x.shape
    size = (height, width)
    if measure.kind == "mask":
        known = torch.stack([random_holes(size, measure.holes, generator) for _ in range(batch)])
        return Mask(known[:, None].to(x.device))
    if measure.kind == "blur":
        return sized(measure, size, random_kernel(measure, generator))
    if measure.kind == "fourier":
        frames = channels if channels > 2 else 1
        masks = torch.stack([random_lines(size, measure.acceleration, generator) for _ in range(frames)])
        mask = masks if frames > 1 else masks[0]
        return Fourier(mask.to(x.device), "pairs" if channels == 2 else _inverse(measure))  # type: ignore[arg-type]
    return sized(measure, size)


def _inverse(measure: Measure) -> str:
    return "real" if measure.inverse == "exact" else "real-part"


def measured(
    measure: Measure, operator: Operator, x: Tensor, generator: torch.Generator, vary: bool = False
) -> tuple[Tensor, Tensor]:
    """``y = Hx + e`` and ``e``. Noise is zero where nothing is measured."""
    clean = operator.forward(x)
    noise = torch.randn(clean.shape, generator=generator, dtype=clean.dtype, device=generator.device).to(x.device)
    level: float | Tensor = measure.noise
    if vary and measure.varied:
        level = measure.noise * torch.rand(len(x), *[1] * (clean.dim() - 1), generator=generator).to(x.device)
    noise = level * noise
    if isinstance(operator, Mask):
        noise = operator.forward(noise)
    elif isinstance(operator, Fourier):
        noise = noise * operator.mask.to(noise.device)
    return clean + noise, noise


# Random measurements --------------------------------------------------------------------------------------------------


def random_holes(size: Size, most: float, generator: torch.Generator) -> Tensor:
    """Known pixels (H, W): scratches of 1 to 6 pixels, or single pixels that are missing, or both."""

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator)

    kind, share = uniform(2).tolist()
    known = torch.ones(size, dtype=torch.bool)
    if kind < 0.65:
        y, x = torch.meshgrid(torch.arange(size[0]), torch.arange(size[1]), indexing="ij")
        grid = torch.stack([y, x], -1).float()
        for _ in range(1 + int(share * 10)):
            start = uniform(2) * torch.tensor(size)
            angle, length, thick = uniform(3).tolist()
            length = (0.1 + 0.9 * length**2) * max(size)
            way = length * torch.tensor([math.sin(6.3 * angle), math.cos(6.3 * angle)])
            place = (((grid - start) @ way) / (way @ way)).clamp(0, 1)
            known &= (grid - start - place[..., None] * way).norm(dim=-1) > 0.5 + 2.5 * thick
            if float(known.float().mean()) < 1 - most:
                break
    if kind > 0.5:
        known &= uniform(*size) > most * share
    if not known.any() or known.all():
        known[: size[0] // 2, 0], known[size[0] // 2 :, 0] = True, False
    return known


def random_kernel(measure: Measure, generator: torch.Generator) -> Tensor:
    """A Gaussian of random width; or a line of 3 to 9 pixels, softened by half a pixel."""
    choice, share, angle = torch.rand(3, generator=generator).tolist()
    if choice >= measure.motion:
        return gaussian(measure.blur[0] + share * (measure.blur[1] - measure.blur[0]))
    reach = 6
    y, x = torch.meshgrid(*[torch.arange(-reach, reach + 1, dtype=torch.float64)] * 2, indexing="ij")
    half = 1.5 + 3 * share
    along = (x * math.cos(math.pi * angle) + y * math.sin(math.pi * angle)).clamp(-half, half)
    away = (x - along * math.cos(math.pi * angle)) ** 2 + (y - along * math.sin(math.pi * angle)) ** 2
    kernel = torch.exp(-away / (2 * 0.5**2))
    return kernel / kernel.sum()


def random_lines(size: Size, acceleration: float, generator: torch.Generator) -> Tensor:
    """Measured frequencies (H, W): columns of Cartesian sampling, the lowest twelfth of which are always there, in the
    order of ``fft2``. Above an acceleration of 8 single frequencies are drawn, denser at low ones."""
    height, width = size
    if acceleration > 8:
        fy, fx = torch.meshgrid(torch.fft.fftfreq(height), torch.fft.fftfreq(width), indexing="ij")
        density = 1 / (0.02 + fy**2 + fx**2)
        chance = density * (height * width / acceleration / density.sum())
        mask = torch.rand(size, generator=generator) < chance
        mask[0, 0] = True
        return mask
    lines = torch.fft.fftfreq(width).abs()
    centre = lines <= 1 / 24
    rest = max(width / acceleration - int(centre.sum()), 0) / max(int((~centre).sum()), 1)
    return (centre | (torch.rand(width, generator=generator) < rest)).expand(height, width).clone()


def kernel_of(kernel: Tensor, name: str) -> Tensor:
    """A kernel from a picture, normalised to a sum of one."""
    total = float(kernel.sum())
    if min(kernel.shape) < 1 or max(kernel.shape) > 101 or not total > 0:
        raise VergenceError(
            f"{name} is no blur kernel: expected a picture of at most 101 x 101 pixels that is not black"
        )
    return kernel.double() / total
