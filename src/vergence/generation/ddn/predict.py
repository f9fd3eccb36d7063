"""Restoring a user's photograph: enlarged, filled or sharpened, with the measured and the invented part apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.contract.settings import NoFacts
from vergence.core.errors import VergenceError
from vergence.core.files import write_json
from vergence.generation.ddn.model import DDN, filled
from vergence.generation.ddn.pictures import gain_of, sheet, shown_invention, shown_part
from vergence.generation.ddn.settings import TASKS, Config, Inputs
from vergence.generation.measurements import kernel_of, multiple, sized
from vergence.generation.measuring import Measure
from vergence.generation.photos import Photo, joined, open_photo, split, write_photo
from vergence.ops.linear import Mask, Operator, gaussian
from vergence.ops.linear.sampling import enlarged

Ctx = Context[Config, NoFacts]
TILE = 384
"""Side of the tiles that networks work on."""
BYTES_PER_PIXEL = 260
"""Memory for a pixel of the restored picture and channel, about, beside that of a tile."""
SMALLEST = 8
"""The least side of a photograph."""


@dataclass(frozen=True, eq=False)
class Restoration(Result):
    """A restored picture and its parts: luminance alone where a colour picture is enlarged, each channel otherwise."""

    picture: Tensor
    """The restored picture, (1 or 3, H, W) from 0 to 1."""
    before: Tensor
    """For comparison, of the same size: bicubic enlargement, a smooth fill, or the blurred photograph."""
    measured: Tensor
    """What the measurement determines, without its noise: z - P_r F, (channels, H, W)."""
    invented: Tensor
    """What no measurement supports: P_n G, (channels, H, W), negative and positive."""
    noise: Tensor
    """What was taken for noise and removed: P_r F, (channels, H, W)."""
    alpha: Tensor
    """Opacity (1, H, W); empty if the photograph has none."""
    bits: int
    """Bits of a channel, 8 or 16."""
    task: str
    """What was done."""
    misfit: float
    """Root mean square of the restored picture's measurement minus the photograph, in grey values from 0 to 255."""
    invented_size: float
    """Root mean square of the invented part, in grey values."""
    noise_size: float
    """Root mean square of the removed noise, in grey values."""
    note: str
    """Which weights were used, where they are others than those given; empty otherwise."""

    def summary(self) -> Mapping[str, Any]:
        told: dict[str, Any] = {"note": self.note} if self.note else {}
        return told | {
            "task": self.task,
            "size": f"{self.picture.shape[-1]} x {self.picture.shape[-2]}",
            "invented, grey values (rms)": round(self.invented_size, 2),
            "removed as noise, grey values (rms)": round(self.noise_size, 2),
            "difference from the photograph when measured again, grey values (rms)": round(self.misfit, 3),
        }


def task_of(measure: Measure) -> str:
    """What weights trained for a measurement do with photographs; empty if nothing."""
    if measure.kind in ("bicubic", "average"):
        return f"sr{measure.factor}"
    return {"mask": "inpaint", "blur": "deblur", "identity": "denoise"}.get(measure.kind, "")


def restore(ctx: Ctx, model: DDN, inputs: Inputs) -> Restoration:
    """Restore one photograph by the model, or by the starter weights of another task."""
    own = task_of(ctx.config.measure)
    task, note = (own if inputs.task == "auto" else inputs.task), ""
    if task != own:
        model, note = (
            starter(ctx, task),
            f"the weights are for {own or 'scans'}: the starter weights for {task} are used",
        )
        ctx.progress.say(note)
    if not task or model.settings.channels != 1:
        raise VergenceError(
            "these weights restore scans, not photographs: name a task (--task sr2, sr4, inpaint or deblur)"
        )
    photo = open_photo(inputs.photo)
    height, width = photo.pixels.shape[-2:]
    if min(height, width) < SMALLEST:
        raise VergenceError(f"{inputs.photo} has {width} x {height} pixels: expected at least {SMALLEST} x {SMALLEST}")
    for name in ("mask", "kernel"):
        if getattr(inputs, name) is not None and task != {"mask": "inpaint", "kernel": "deblur"}[name]:
            raise VergenceError(
                f"a {name} is of no use for {task}: it belongs to {'inpaint' if name == 'mask' else 'deblur'}"
            )
    factor = multiple(model.measure)
    pixels = height * width * factor**2
    ctx.need(
        BYTES_PER_PIXEL * pixels * (1 if factor > 1 else len(photo.pixels)), f"{task} of {width} x {height} pixels"
    )
    work = {"inpaint": _inpainted, "deblur": _deblurred}.get(task, _enlarged)
    parts, before = work(ctx, model, photo, inputs)
    return Restoration(
        parts.picture.clamp(0, 1), before.clamp(0, 1), parts.measured, parts.invented, parts.noise,
        _alpha(photo, factor), photo.bits, task, 255 * parts.misfit, _rms(parts.invented), _rms(parts.noise), note,
    )  # fmt: skip


def starter(ctx: Ctx, task: str) -> DDN:
    """The starter network of a task."""
    path = Path(__file__).parent / "weights" / f"{task}.safetensors"
    if task not in TASKS or not path.is_file():
        raise VergenceError(f"there are no starter weights for {task}: give weights that were trained for it")
    model, _ = ctx.load(path)
    assert isinstance(model, DDN)
    return model.eval()


@dataclass(frozen=True)
class _Parts:
    picture: Tensor
    measured: Tensor
    invented: Tensor
    noise: Tensor
    misfit: float


def _run(ctx: Ctx, model: DDN, y: Tensor, operator: Operator) -> _Parts:
    """Restore channels (C, H, W), each as a picture of its own."""
    kind = next(model.parameters()).dtype
    model.tile = TILE
    y = y[:, None].to(ctx.device, kind)
    found = model(y, operator)
    image, noise, detail = (part.float()[:, 0].cpu() for part in (found.image, found.noise, found.detail))
    misfit = operator.forward(found.image.to(y.dtype)) - y
    return _Parts(image, image - detail, detail, noise, float(misfit.float().square().mean().sqrt()))


def _enlarged(ctx: Ctx, model: DDN, photo: Photo, inputs: Inputs) -> tuple[_Parts, Tensor]:
    """Luminance by the network, colours by bicubic enlargement."""
    factor = multiple(model.measure)
    luma, rest = split(photo.pixels)
    height, width = luma.shape[-2:]
    parts = _run(ctx, model, luma, sized(model.measure, (factor * height, factor * width)))
    large = enlarged(rest, factor) if len(rest) else rest
    plain = joined(enlarged(luma, factor), large)
    return _Parts(joined(parts.picture, large), parts.measured, parts.invented, parts.noise, parts.misfit), plain


def _inpainted(ctx: Ctx, model: DDN, photo: Photo, inputs: Inputs) -> tuple[_Parts, Tensor]:
    if inputs.mask is None:
        raise VergenceError(
            "inpaint needs a mask (--mask FILE): a picture that is white where the photograph is filled"
        )
    mask = open_photo(inputs.mask).pixels
    if mask.shape[-2:] != photo.pixels.shape[-2:]:
        sizes = [f"{p.shape[-1]} x {p.shape[-2]}" for p in (mask, photo.pixels)]
        raise VergenceError(
            f"{inputs.mask} has {sizes[0]} pixels and {inputs.photo} {sizes[1]}: expected the same size"
        )
    known = split(mask)[0] < 0.5
    if bool(known.all()) or not bool(known.any()):
        what = "nothing: no pixel is white" if bool(known.all()) else "the whole photograph: every pixel is white"
        raise VergenceError(f"{inputs.mask} covers {what}")
    # Known values of zero are not holes: the operator has the mask.
    operator = Mask(known[None].expand(len(photo.pixels), 1, *known.shape[-2:]).to(ctx.device))
    y = photo.pixels * known
    parts = _run(ctx, model, y, operator)
    smooth = filled(y[:, None], known[None].expand(len(y), 1, *known.shape[-2:]))[:, 0]
    return parts, smooth


def _deblurred(ctx: Ctx, model: DDN, photo: Photo, inputs: Inputs) -> tuple[_Parts, Tensor]:
    """The photograph is continued beyond its borders, so that opposite borders meet smoothly."""
    kernel = gaussian(inputs.sigma)
    if inputs.kernel is not None:
        kernel = kernel_of(split(open_photo(inputs.kernel).pixels)[0][0], str(inputs.kernel))
    height, width = photo.pixels.shape[-2:]
    around = 3 * max(kernel.shape)
    wide = continued(continued(photo.pixels, around, -1), around, -2)
    if any(k > side for k, side in zip(kernel.shape, wide.shape[-2:], strict=True)):
        raise VergenceError(f"the blur of {kernel.shape[-1]} pixels is wider than the photograph")
    parts = _run(ctx, model, wide, sized(model.measure, (wide.shape[-2], wide.shape[-1]), kernel))
    cut = (..., slice(0, height), slice(0, width))
    kept = _Parts(parts.picture[cut], parts.measured[cut], parts.invented[cut], parts.noise[cut], parts.misfit)
    return kept, photo.pixels


def continued(x: Tensor, around: int, axis: int) -> Tensor:
    """A picture (C, H, W) with at least ``around`` rows or columns after it, which fade from the mirror image of its
    end to that of its beginning, up to a length that suits the FFT."""
    from scipy.fft import next_fast_len

    side = x.shape[axis]
    count = next_fast_len(side + around, real=True) - side
    places = torch.arange(count)
    after = x.index_select(axis, side - 1 - places % side)
    before = x.index_select(axis, (count - 1 - places) % side)
    share = 0.5 - 0.5 * torch.cos(torch.pi * (places + 0.5) / count)
    share = share[:, None] if axis == -2 else share
    return torch.cat([x, after * (1 - share) + before * share], axis)


def _alpha(photo: Photo, factor: int) -> Tensor:
    if photo.alpha is None:
        return torch.zeros(0)
    if factor == 1:
        return photo.alpha
    return F.interpolate(photo.alpha[None], scale_factor=factor, mode="bicubic")[0].clamp(0, 1)


def _rms(x: Tensor) -> float:
    return 255 * float(x.square().mean().sqrt())


# Files ----------------------------------------------------------------------------------------------------------------

PLAIN = {"inpaint": "a smooth fill", "deblur": "the photograph", "denoise": "the photograph"}


def render(ctx: Ctx, inputs: Inputs, result: Restoration) -> Sequence[Artifact]:
    """Writes the restored picture, the plain one, the two parts and the noise, a sheet of all, and the numbers."""
    stem = f"{inputs.photo.stem}-{result.task}"
    gain = 1.0 if result.task == "inpaint" else gain_of(result.invented)
    paths = {name: ctx.folder / f"{stem}-{name}.png" for name in ("before", "measured", "invented", "noise", "parts")}
    alpha = result.alpha if result.alpha.numel() else None
    best = write_photo(ctx.folder / f"{stem}.png", result.picture, alpha, result.bits)
    write_photo(paths["before"], result.before, alpha, result.bits)
    write_photo(paths["measured"], result.measured, None, result.bits)
    write_photo(paths["invented"], shown_invention(result.task, result.invented, gain))
    noisy = gain_of(result.noise)
    write_photo(paths["noise"], shown_part(result.noise, noisy))
    plain = PLAIN.get(result.task, "bicubic enlargement")
    sheet(paths["parts"], result, plain, gain)
    facts = ctx.folder / f"{stem}.json"
    write_json(facts, {"photo": inputs.photo.name, "gain of the invented part": gain, "gain of the noise": noisy,
                       **result.summary()})  # fmt: skip
    return [
        Artifact("image", best, "The restored picture."),
        Artifact(
            "image", paths["parts"], f"Restored, {plain}, and the two parts: what was measured, what was invented."
        ),
        Artifact("image", paths["before"], f"For comparison: {plain}."),
        Artifact("image", paths["measured"], "What the measurement determines, without its noise."),
        Artifact("image", paths["invented"], f"What no measurement supports: grey is zero, contrast {gain:g} times."),
        Artifact("image", paths["noise"], f"What was removed as noise: grey is zero, contrast {noisy:g} times."),
        Artifact("json", facts, "The main numbers."),
    ]
