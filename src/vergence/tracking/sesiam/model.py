"""Siamese trackers: one network computes features of template and search region, a connection compares them.

SiamFC (shallow, and AlexNet's), SiamFC+ (residual units that crop themselves) and SE-SiamFC, the same with
scale-convolutions, at the sizes of the supplement's Tables 1 and 2 and at a small one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from functools import reduce
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError, did_you_mean
from vergence.nn.folded import Convolution, Folded, PlainConv2d
from vergence.nn.prepared import quick
from vergence.nn.scale import LiftingConv2d, ScaleBatchNorm2d, ScaleConv2d, ScaleMaxPool2d, ScalePointwise2d
from vergence.ops.correlation import cross_correlation, nonparametric_scale_convolution
from vergence.ops.precision import full_precision
from vergence.ops.scale import (
    Pooling,
    add_pointwise,
    by_scale,
    cropped,
    halved,
    kernel_sizes,
    over_scales,
    scale_pool,
)
from vergence.tracking.sesiam.settings import SIZES, ModelConfig, Plan

CONNECTIONS = ("correlation", "scale-convolution")


def build(
    name: str, *, size: str = "otb", connection: str | None = None, width: float = 1.0, **options: Any
) -> SiameseNetwork:
    """Builds a tracker's network by name (siamfc, siamfc+, se-siamfc) and size (tiny, mnist, otb).

    At ``mnist`` and ``tiny`` the first and last are shallow; at ``otb``, siamfc is AlexNet's and the others are
    residual. ``connection`` defaults to that of the paper's tables. ``options`` are fields of `Plan`.
    """
    _known("size of tracking networks", size, SIZES)
    _known(f"network of size {size!r}", name, MAKERS[size])
    for option in options:
        _known("option of tracking networks", option, [field.name for field in fields(Plan)])
    connection = connection or ("scale-convolution" if name == "se-siamfc" else "correlation")
    _known("connection", connection, CONNECTIONS)
    plan = replace(SIZES[size].scaled(width), **options)
    _check(plan)
    if connection == "scale-convolution" and name == "se-siamfc" and plan.outer_pooling == "none":
        step = math.log(plan.step or math.inf)
        if any(abs(math.log(t) / step - round(math.log(t) / step)) > 1e-6 for t in plan.targets):
            raise VergenceError(
                f"with scales kept, targets differ by steps of {plan.step} like them, got {plan.targets}"
            )
    return SiameseNetwork(MAKERS[size][name](plan), plan, connection)


def configured(model: ModelConfig) -> SiameseNetwork:
    """Builds the network described by the settings."""
    kept = {}
    if model.outer_pooling == "none":  # target sizes along a kept scale axis are whole steps of it
        scales = SIZES[model.size].scales
        kept["targets"] = (scales[0] / scales[1], 1.0, scales[1] / scales[0])
    return build(
        "siamfc" if model.name == "siamfc+" and model.size != "otb" else model.name,
        size=model.size,
        connection=None if model.connection == "own" else model.connection,
        width=model.width,
        outer_pooling=model.outer_pooling,
        extent=model.extent,
        stem_size=model.stem_size,
        borders=model.borders,
        **kept,
    )


def _check(plan: Plan) -> None:
    """Raises an error for options that do not fit together."""
    try:
        kernel_sizes(plan.size, plan.scales)
        kernel_sizes(plan.stem_size, plan.scales)
    except ValueError as error:
        raise VergenceError(f"{error} (options size, stem_size and scales)") from error
    if not plan.targets or min(plan.targets) <= 0:
        raise VergenceError(f"targets are positive multiples of the template's size, got {plan.targets}")


def _known(kind: str, word: str, known: Collection[str]) -> None:
    if word not in known:
        raise VergenceError(f"there is no {kind} named {word!r}{did_you_mean(word, known)}")


class SiameseNetwork(nn.Module):
    """The response of a search region to a template: logits (B, h, w) of the target's position."""

    stride = 8
    """Stride of the response, in pixels of the search region."""

    def __init__(self, trunk: nn.Module, plan: Plan, connection: str) -> None:
        super().__init__()
        self.trunk, self.plan, self.connection = trunk, plan, connection
        self.template_size, self.search_size = plan.template_size, plan.search_size
        self.scales = plan.targets if connection == "scale-convolution" else (1.0,)
        """Along the response's scale axis, the target's size as a multiple of the template's."""

    def forward(self, template: Tensor, search: Tensor) -> Tensor:
        """Maximum over scales of the response (B, h, w), for crops (B, 3, H, W) of both, or one template for all."""
        return self.connect(self.features(template), self.features(search)).amax(1)

    def features(self, images: Tensor) -> Tensor:
        """Features (B, C, h, w) of crops (B, 3, H, W), or (B, C, S, h, w) if scales are kept.

        On a CPU, autocast to bfloat16 takes two thirds of the time if the processor supports it."""
        maps: Tensor = self.trunk(images.contiguous(memory_format=torch.channels_last)).to(images.dtype)
        if maps.dim() == 5 and self.plan.outer_pooling != "none":
            return scale_pool(maps, self.plan.outer_pooling)
        return maps

    def connect(self, template: Tensor, search: Tensor) -> Tensor:
        """Compares features of both: (B, scales, h, w). In full precision, since thousands of products are summed."""
        with full_precision(search):
            if self.connection == "correlation":
                if search.dim() == 5:  # scales as channels, each compared with itself
                    template, search = template.flatten(1, 2), search.flatten(1, 2)
                return self.plan.gain * cross_correlation(template, search).unsqueeze(1)
            factors = [1 / target for target in self.scales]
            return self.plan.gain * nonparametric_scale_convolution(template, search, factors, self.plan.step)

    def start_from(self, plain: SiameseNetwork) -> None:
        """Initialises from an ordinary network of the same size: at the smallest scale this one then computes the same,
        as far as the basis allows (Sec. 2 of the supplement)."""
        sources = dict(plain.named_modules())
        for name, module in self.named_modules():
            source = sources.get(name)
            if isinstance(module, (PlainConv2d, LiftingConv2d, ScaleConv2d, ScalePointwise2d)):
                if not isinstance(source, PlainConv2d):
                    raise VergenceError(f"{name} has no counterpart in the ordinary network: build both at one size")
                if source.weight.shape[:2] != module.weight.shape[:2]:
                    shapes = tuple(source.weight.shape[:2]), tuple(module.weight.shape[:2])
                    raise VergenceError(f"{name} has the shape {shapes[0]} in the ordinary network, here {shapes[1]}")
                module.start_from(source.weight)
            elif isinstance(module, nn.BatchNorm2d) and isinstance(source, nn.BatchNorm2d):
                module.load_state_dict(source.state_dict())


# Trunks --------------------------------------------------------------------------------------------------------------


class Shallow(nn.Sequential):
    """Four convolutions, three of them with stride 2; maps are as large as without padding and with 3x3 kernels."""

    def __init__(self, plan: Plan) -> None:
        margin, kernel, borders = plan.order // 2 - 1, plan.order, plan.borders
        a, b, c, d = plan.widths
        super().__init__(
            Folded(PlainConv2d(3, a, kernel, 2, margin, borders=borders), nn.BatchNorm2d(a)),
            Folded(PlainConv2d(a, b, kernel, 2, margin, borders=borders), nn.BatchNorm2d(b)),
            Folded(PlainConv2d(b, c, kernel, 2, margin, borders=borders), nn.BatchNorm2d(c)),
            PlainConv2d(c, d, kernel, 1, margin, borders=borders),
        )


class ScaleShallow(nn.Sequential):
    """`Shallow` with scale-convolutions."""

    def __init__(self, plan: Plan) -> None:
        margin, kernels = plan.size // 2 - 1, (plan.size, plan.scales, plan.order)
        a, b, c, d = plan.widths
        super().__init__(
            Folded(LiftingConv2d(3, a, *kernels, 2, margin, plan.borders), ScaleBatchNorm2d(a)),
            Folded(ScaleConv2d(a, b, *kernels, 1, 2, margin, plan.borders), ScaleBatchNorm2d(b)),
            Folded(ScaleConv2d(b, c, *kernels, 1, 2, margin, plan.borders), ScaleBatchNorm2d(c)),
            ScaleConv2d(c, d, *kernels, 1, 1, margin, plan.borders),
        )


class Alex(nn.Sequential):
    """SiamFC's AlexNet without padding, its second, fourth and fifth layer in two groups."""

    def __init__(self, plan: Plan) -> None:
        a, b, c, d, e = (int(w * plan.widths[0] / 64) for w in (96, 256, 384, 384, 256))
        super().__init__(
            Folded(PlainConv2d(3, a, 11, 2), nn.BatchNorm2d(a)), nn.MaxPool2d(3, 2),
            Folded(PlainConv2d(a, b, 5, groups=2), nn.BatchNorm2d(b)), nn.MaxPool2d(3, 2),
            Folded(PlainConv2d(b, c, 3), nn.BatchNorm2d(c)),
            Folded(PlainConv2d(c, d, 3, groups=2), nn.BatchNorm2d(d)),
            PlainConv2d(d, e, 3, groups=2),
        )  # fmt: skip


class Unit(nn.Module):
    """A residual bottleneck that crops the border cells affected by padding after the sum.

    In evaluation those cells are not computed. In training they are, since the norms include them.
    """

    def __init__(
        self, reduce: Folded, conv: Folded, expand: Folded, shortcut: Folded | None, rectified: bool = True,
        pooling: Pooling | Literal["none"] = "none",
    ) -> None:  # fmt: skip
        super().__init__()
        self.reduce, self.conv, self.expand, self.shortcut = reduce, conv, expand, shortcut
        self.rectified, self.pooling = rectified, pooling

    def forward(self, x: Tensor) -> Tensor:
        low = self.reduce(x if self.pooling == "none" else scale_pool(x, self.pooling))
        if self.training or torch.is_grad_enabled():
            before, after = (0, 1) if self.training else (1, 0)
            out = self.expand(self.conv(low, before), after) + self._side(x)
        else:
            out = self._added(low, x)
        return F.relu(out, inplace=True) if self.rectified else out

    def _side(self, x: Tensor) -> Tensor:
        return cropped(x, 1) if self.shortcut is None else self.shortcut(x, 1)

    def _added(self, low: Tensor, x: Tensor) -> Tensor:
        """Adds scale by scale into the shortcut's memory, so that the output of the wide 1x1 is never stored."""
        (weight,), bias = self.expand.folded(low)
        kernels, shift = self.conv.folded(low)
        out = self._side(x) + bias.view(-1, *[1] * (x.dim() - 2))
        scales = by_scale(out) if out.dim() == 5 else (out,)
        filtered = self.conv.conv.by_scale(low, kernels, shift, 1)
        for place, middle in zip(scales, filtered, strict=True):
            add_pointwise(place, F.relu(middle, inplace=True), weight.flatten(1))
        return out

    def reduced(self, maps: Sequence[Tensor]) -> Tensor:
        """The first 1x1 convolution of the first of ``maps``, with what it reaches of those above."""
        first, *taps = self.reduce.prepared()[0]
        above = [*zip(taps, maps[1:])]  # noqa: B905
        out = first(maps[0], rectified=not above)
        for at, (tap, x) in enumerate(above, 1):
            tap.add_to(out, x, rectified=at == len(above))
        return out

    def scale(self, s: int, x: Tensor, low: Tensor) -> Tensor:
        """The unit at one scale, from its input and what was `reduced`."""
        side = cropped(x, 1).clone(memory_format=torch.channels_last)
        if self.shortcut is not None:
            side = self.shortcut.prepared()[0][0](side, rectified=False)
        return self.expand.prepared()[0][0].add_to(side, self.conv.prepared(1)[s][0](low), self.rectified)


class Residual(nn.Module):
    """SiamFC+'s: a 7x7 stem and two stages of 3 and 4 bottlenecks that crop themselves, 22 layers."""

    def __init__(self, plan: Plan, layers: PlainLayers | ScaleLayers) -> None:
        super().__init__()
        first, second = plan.widths
        self.bordered = plan.borders[1] != "zeros"
        self.stem = layers.stem(first)
        self.pool = layers.pool()
        self.stage2 = nn.Sequential(
            layers.unit(first, first, plan.extent), *(layers.unit(4 * first, first) for _ in range(2))
        )
        self.stage3 = nn.Sequential(
            layers.unit(4 * first, second, pooling=plan.inner_pooling), layers.pool(),
            *(layers.unit(4 * second, second) for _ in range(2)), layers.unit(4 * second, second, rectified=False),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        kind = None if self.training or self.bordered or not len(x) else quick(x)
        if kind is None:
            return self.stage3(self.stage2(self.pool(self.stem(x, 2))))
        with torch.autocast("cpu", enabled=False):  # every step names its own type
            each = [self._picture(picture) for picture in x.to(kind).split(1)]
        whole = torch.cat([maps[s] for s in range(len(each[0])) for maps in each])
        return over_scales(whole, len(each[0])) if isinstance(self.stem.norm, ScaleBatchNorm2d) else whole

    def _picture(self, x: Tensor) -> list[Tensor]:
        """Processes one picture and one scale at a time as far as possible, so that the data stays in the cache."""
        maps = [halved(kernel(x)) for (kernel,) in self.stem.prepared(2)]
        return _staged(self.stage3, _staged(self.stage2, maps))


def _staged(stage: nn.Sequential, maps: Sequence[Tensor]) -> list[Tensor]:
    """A stage of the residual network; only its first unit may use several scales."""
    first, *others = stage
    assert isinstance(first, Unit)
    whole = None
    if first.pooling != "none":
        whole = first.reduced([reduce(torch.maximum, maps) if first.pooling == "max" else maps[0]])
    staged = []
    for s, x in enumerate(maps):
        x = first.scale(s, x, first.reduced(maps[s:]) if whole is None else whole)
        for module in others:
            x = module.scale(s, x, module.reduced([x])) if isinstance(module, Unit) else halved(x)
        staged.append(x)
    return staged


class PlainLayers:
    """Ordinary convolutions."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def stem(self, width: int) -> Folded:
        """7x7, stride 2."""
        conv = PlainConv2d(3, width, self.plan.stem_order, 2, self.plan.stem_order // 2, borders=self.plan.borders)
        return Folded(conv, nn.BatchNorm2d(width))

    def pool(self) -> nn.Module:
        """Halves maps."""
        return nn.MaxPool2d(2)

    def unit(self, inputs: int, width: int, extent: int = 1, rectified: bool = True, pooling: str = "none") -> Unit:
        """A bottleneck; ``extent`` and ``pooling`` have no effect without scales."""
        order = self.plan.order
        conv = PlainConv2d(width, width, order, 1, order // 2, borders=self.plan.borders)
        shortcut = None if inputs == 4 * width else self._pointwise(inputs, 4 * width, False)
        return Unit(
            self._pointwise(inputs, width), Folded(conv, nn.BatchNorm2d(width)),
            self._pointwise(width, 4 * width, False), shortcut, rectified,
        )  # fmt: skip

    def _pointwise(self, inputs: int, outputs: int, rectified: bool = True) -> Folded:
        return Folded(PlainConv2d(inputs, outputs, 1), nn.BatchNorm2d(outputs), rectified)


class ScaleLayers:
    """Scale-convolutions instead of ordinary ones."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def stem(self, width: int) -> Folded:
        """Lifts pictures to functions of scale and place."""
        plan = self.plan
        conv = LiftingConv2d(
            3, width, plan.stem_size, plan.scales, plan.stem_order, 2, plan.stem_size // 2, plan.borders
        )
        return Folded(conv, ScaleBatchNorm2d(width))

    def pool(self) -> nn.Module:
        """Halves maps."""
        return ScaleMaxPool2d(2)

    def unit(
        self, inputs: int, width: int, extent: int = 1, rectified: bool = True,
        pooling: Pooling | Literal["none"] = "none",
    ) -> Unit:  # fmt: skip
        """A bottleneck whose first kernel reaches ``extent`` scales. With a ``pooling`` it starts from one map and
        lifts it again; the shortcut keeps its scales."""
        plan = self.plan
        kernels, margin = (plan.size, plan.scales, plan.order), plan.size // 2
        if pooling == "none":
            reduce = self._pointwise(inputs, width, extent)
            conv: Convolution = ScaleConv2d(width, width, *kernels, 1, 1, margin, plan.borders)
        else:
            reduce = Folded(PlainConv2d(inputs, width, 1), nn.BatchNorm2d(width))
            conv = LiftingConv2d(width, width, *kernels, 1, margin, plan.borders)
        shortcut = None if inputs == 4 * width else self._pointwise(inputs, 4 * width, rectified=False)
        return Unit(
            reduce, Folded(conv, ScaleBatchNorm2d(width)),
            self._pointwise(width, 4 * width, rectified=False), shortcut, rectified, pooling,
        )  # fmt: skip

    def _pointwise(self, inputs: int, outputs: int, extent: int = 1, rectified: bool = True) -> Folded:
        return Folded(ScalePointwise2d(inputs, outputs, extent), ScaleBatchNorm2d(outputs), rectified)


MAKERS: Mapping[str, Mapping[str, Callable[[Plan], nn.Module]]] = {
    "tiny": {"siamfc": Shallow, "se-siamfc": ScaleShallow},
    "mnist": {"siamfc": Shallow, "se-siamfc": ScaleShallow},
    "otb": {
        "siamfc": Alex,
        "siamfc+": lambda plan: Residual(plan, PlainLayers(plan)),
        "se-siamfc": lambda plan: Residual(plan, ScaleLayers(plan)),
    },
}
