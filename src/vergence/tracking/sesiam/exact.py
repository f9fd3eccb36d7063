"""Exact claims, with their accuracy: equivariance of layers, stacks and the connection, both directions
of Theorem 1, initialisation from an ordinary network, and the sizes of Tables 1 and 2. Three claims were first written
for features pooled over scales and did not hold: they stand beside those about single scales.

Scale is only sampled, so its equivariance has an error, from interpolation and truncated filters. It is measured on
pictures smooth enough to be rescaled by taking every second pixel, and compared with plain convolution's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.contract.claims import Claim, Evidence, parameter_counts
from vergence.contract.evidence import apart, apart_with_gradients, filled, noise
from vergence.core.seeding import generator
from vergence.nn.folded import PlainConv2d
from vergence.nn.scale import LiftingConv2d, ScaleConv2d
from vergence.ops.correlation import cross_correlation, nonparametric_scale_convolution, rescale
from vergence.ops.scale import Border, hermite_basis, kernel_weights, scale_pool
from vergence.ops.smooth import gaussian_smooth
from vergence.reference import scale as plain
from vergence.tracking.sesiam.bench import direct
from vergence.tracking.sesiam.model import build

ROUNDING = 1e-9
"""Tolerance in float64; sums over channels and scales lose one more digit than usual."""
OCTAVE = (1.0, math.sqrt(2), 2.0)
SIDE = 15
"""Side of the largest kernel, so that no basis function is truncated at scale 2."""
AROUND: tuple[Border, Border] = ("circular", "circular")


@cache
def _smooth(side: int) -> Tensor:
    """Smooth noise, without detail finer than 4 pixels, with a zero border: (1, 1, side, side)."""
    return _smoothed(noise(1, 1, side, side, seed="picture"))


def _smoothed(x: Tensor) -> Tensor:
    x = gaussian_smooth(x, 25, 3.0)  # 25 places, from -3 to 3 deviations of 4 pixels
    return x / x.std()


def _missed(result: Tensor, expected: Tensor, margin: int) -> float:
    """Relative squared error, away from the border."""
    inner = (..., slice(margin, -margin), slice(margin, -margin))
    return float((result[inner] - expected[inner]).square().sum() / expected[inner].square().sum())


# Translation ---------------------------------------------------------------------------------------------------------


def stack_follows_shifts(_: Evidence) -> float:
    """Layers of both kinds with the border on the other side: shifting the picture shifts their output."""
    first = filled(LiftingConv2d(3, 16, 7, OCTAVE, 3, padding=3, borders=AROUND), "first")
    second = filled(ScaleConv2d(16, 5, 5, OCTAVE, 3, extent=2, padding=2, borders=AROUND), "second")
    x = noise(1, 3, 24, 21, seed="shifted")
    run = nn.Sequential(first, nn.ReLU(), second)
    with torch.no_grad():
        return float((run(x.roll((5, -7), (2, 3))) - run(x).roll((5, -7), (3, 4))).abs().max())


def connection_follows_shifts(_: Evidence) -> float:
    """Eq. 4 at factors 1/2, 1 and 2: a search moved by two cells."""
    template = noise(1, 8, 3, 3, seed="template")
    search = F.pad(noise(1, 8, 9, 9, seed="search"), (8,) * 4)
    before, after = (
        nonparametric_scale_convolution(template, x, (0.5, 1.0, 2.0)) for x in (search, search.roll((2, -2), (2, 3)))
    )
    return float((after - before.roll((2, -2), (2, 3)))[..., 4:-4, 4:-4].abs().max())


# Scale ---------------------------------------------------------------------------------------------------------------


def _halved(run: nn.Module, x: Tensor, small: int, large: int) -> float:
    """Error between the response to a picture of half the size at one scale and that to the picture at another."""
    with torch.no_grad():
        before, after = run(x), run(x[..., ::2, ::2])
    return _missed(after[:, :, small], before[:, :, large, ::2, ::2], 14)


def layer_follows_scale(_: Evidence) -> float:
    """One layer, a picture of half the size: its response at scale 1 is the picture's at scale 2."""
    return _halved(filled(LiftingConv2d(1, 8, SIDE, OCTAVE, 5, padding=SIDE // 2), "layer"), _smooth(129), 0, 2)


def stack_follows_scale(_: Evidence) -> float:
    """Two layers with a ReLU between them."""
    return _stack_error()


@cache
def _stack_error() -> float:
    return _halved(_stack(), _smooth(129), 0, 2)


def _stack() -> nn.Module:
    kernels = (SIDE, OCTAVE, 5)
    layers = (
        LiftingConv2d(1, 4, *kernels, padding=SIDE // 2),
        nn.ReLU(),
        ScaleConv2d(4, 4, *kernels, padding=SIDE // 2),
    )
    return filled(nn.Sequential(*layers), "stack")


def _ordinary() -> nn.Module:
    """The same with ordinary convolutions, and a scale axis of one."""
    layers = (PlainConv2d(1, 4, 5, padding=2), nn.ReLU(), PlainConv2d(4, 4, 5, padding=2), nn.Unflatten(1, (4, 1)))
    return filled(nn.Sequential(*layers), "stack")


def plain_convolution_does_not(_: Evidence) -> float:
    """Ratio of the equivariance error of the same stack with ordinary convolutions."""
    return _halved(_ordinary(), _smooth(129), 0, 0) / _stack_error()


def denser_scales_help(_: Evidence) -> float:
    """A layer with two and with five scales from 1 to 2, and a picture smaller by a quarter of an octave: how many
    times as far its response at scale 1 is from that of the picture at the nearest scale there is."""
    x, factor = _smooth(129), 2**0.25
    errors = []
    for count in (2, 5):
        scales = [2 ** (i / (count - 1)) for i in range(count)]
        layer = filled(LiftingConv2d(1, 8, SIDE, scales, 5, padding=SIDE // 2), "layer")
        nearest = min(range(count), key=lambda i: abs(math.log(scales[i] / factor)))
        with torch.no_grad():
            before, after = layer(x)[:, :, nearest], layer(rescale(x, 1 / factor))[:, :, 0]
        errors.append(_missed(after, rescale(before, 1 / factor, tuple(after.shape[-2:])), 14))
    return errors[0] / errors[1]


def more_scales_help(_: Evidence) -> float:
    """Features pooled over one and over five scales, and pictures of 1/√2 and 1/2 the size: ratio of the errors."""
    x, errors = _first_picture(), {}
    for count in (1, 5):
        scales = [2 ** (i / 2) for i in range(count)]
        run = _wide_stack(scales, max(5, int(8 * scales[-1]) // 2 * 2 - 1))
        with torch.no_grad():
            pooled, factors = scale_pool(run(x)), (math.sqrt(2), 2.0)
            smaller = [scale_pool(run(rescale(x, 1 / factor))) for factor in factors]
        expected = [rescale(pooled, 1 / f, tuple(s.shape[-2:])) for f, s in zip(factors, smaller, strict=True)]
        errors[count] = sum(_missed(s, e, 14) for s, e in zip(smaller, expected, strict=True))
    return errors[1] / errors[5]


def _wide_stack(scales: Sequence[float], size: int = SIDE) -> nn.Module:
    first = LiftingConv2d(1, 8, size, scales, 5, padding=size // 2)
    second = ScaleConv2d(8, 8, size, scales, 5, padding=size // 2)
    return _first(nn.Sequential(first, nn.ReLU(), second))


def _first(module: nn.Module) -> nn.Module:
    """The weights with which the claims about pooled features were first measured."""
    module.double().eval()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            fan_in = max(math.prod(parameter.shape[1:]), 1)
            parameter.copy_(_first_noise(*parameter.shape, seed=f"stack {name}") / math.sqrt(fan_in))
    return module


def _first_picture() -> Tensor:
    return _smoothed(_first_noise(1, 1, 161, 161, seed="picture"))


def _first_noise(*shape: int, seed: str) -> Tensor:
    return torch.randn(*shape, generator=generator("claims", "sesiam", seed), dtype=torch.float64)


def connection_follows_scale(_: Evidence) -> float:
    """Eq. 3 on functions known everywhere, twice as large about the centre, at factors 1/2 and 1."""
    template, small, large = _bump(9, (0, 0), 1.8), _bump(41, (3, -2), 1.8), _bump(41, (6, -4), 3.6)
    before, after = (nonparametric_scale_convolution(template, f, (0.5, 1.0, 2.0))[0] for f in (small, large))
    size = tuple(after.shape[-2:])
    return max(_missed(after[i], rescale(before[i + 1], 2.0, size), 4) for i in (0, 1))


def _bump(size: int, centre: tuple[float, float], width: float) -> Tensor:
    place = torch.arange(size, dtype=torch.float64) - (size - 1) / 2
    x, y = place[:, None] - centre[0], place - centre[1]
    base = torch.exp(-(x**2 + y**2) / (2 * width**2))
    return torch.stack([base, base * x / width])[None]


# Theorem 1 -----------------------------------------------------------------------------------------------------------


def theorem_forward(_: Evidence) -> float:
    """Equivariant features and the scale-convolution: the response to a search of half the size, at factor 2, is the
    response to the search at factor 1, rescaled. The template has one scale, 2, so that none leaves the grid."""
    return _response_error(_stack_features(), 2.0)


def theorem_backward(_: Evidence) -> float:
    """Ratio of the error with ordinary features, or with correlation instead: the smaller of both."""
    broken = min(_response_error(_features(_ordinary(), 0, 0), 2.0), _response_error(_stack_features(), 1.0))
    return broken / _response_error(_stack_features(), 2.0)


def _features(run: nn.Module, small: int, large: int) -> tuple[Tensor, Tensor]:
    """Of a search and of it at half the size, at the scales that meet; the template is part of the first."""
    x = _smooth(129)
    with torch.no_grad():
        return run(x)[:, :, large], run(x[..., ::2, ::2])[:, :, small]


@cache
def _stack_features() -> tuple[Tensor, Tensor]:
    return _features(_stack(), 0, 2)


def _response_error(features: tuple[Tensor, Tensor], factor: float) -> float:
    search, half = features
    with torch.no_grad():
        template = search[..., 54:75, 54:75]  # around the centre
        before = nonparametric_scale_convolution(template, search, (1.0,))[:, 0]
        after = nonparametric_scale_convolution(template, half, (factor,))[:, 0]
    return _missed(after, rescale(before, 0.5, tuple(after.shape[-2:])), 4)


def pooled_theorem_forward(_: Evidence) -> float:
    """Features pooled over scales and the scale-convolution: the response to a search of half the size, at factor 2, is
    the response to the search at factor 1, rescaled."""
    return _pooled_response_error(_wide_stack(OCTAVE), equivariant=True)


def pooled_theorem_backward(_: Evidence) -> float:
    """Ratio of the error with ordinary features, or with correlation instead: the smaller of both."""
    layers = (PlainConv2d(1, 8, 5, padding=2), nn.ReLU(), PlainConv2d(8, 8, 5, padding=2), nn.Unflatten(1, (8, 1)))
    ordinary, stack = _first(nn.Sequential(*layers)), _wide_stack(OCTAVE)
    broken = min(_pooled_response_error(ordinary, equivariant=True), _pooled_response_error(stack, equivariant=False))
    return broken / _pooled_response_error(stack, equivariant=True)


def _pooled_response_error(features: nn.Module, equivariant: bool) -> float:
    x = _first_picture()
    with torch.no_grad():
        search, half = (scale_pool(features(crop)) for crop in (x, x[..., ::2, ::2]))
        template = search[..., 60:101, 60:101]  # around the centre
        if equivariant:
            before = nonparametric_scale_convolution(template, search, (1.0,))[:, 0]
            after = nonparametric_scale_convolution(template, half, (2.0,))[:, 0]
        else:
            before, after = (cross_correlation(template, x) for x in (search, half))
    return _missed(after, rescale(before, 0.5, tuple(after.shape[-2:])), 4)


# The start from an ordinary network ----------------------------------------------------------------------------------


def start_is_exact(_: Evidence) -> float:
    """Difference of SE-SiamFC's smallest scale, initialised from SiamFC and SiamFC+, from their features; its stem has
    a basis of side 13, its scales are not mixed but cut to the first."""
    return max(_start_error("siamfc", "mnist", 0.17), _start_error("siamfc+", "otb", 0.25, stem_size=13))


def released_stem_cannot_hold(_: Evidence) -> float:
    """The share of a white-noise 7x7 kernel's energy that the released basis of side 9 loses."""
    kernel, basis = noise(64, 3, 7, 7, seed="stem"), hermite_basis(9, (0.9, 1.26, 1.764), 7)[0]
    drawn = torch.einsum("oif,fxy->oixy", kernel_weights(kernel, basis), basis)
    return float((kernel - F.pad(drawn, (1,) * 4)).square().sum() / kernel.square().sum())


def _start_error(name: str, size: str, width: float, **options: Any) -> float:
    options |= {"outer_pooling": "first", "inner_pooling": "first", "borders": ("zeros", "zeros")}
    ordinary = filled(build(name, size=size, width=width, **options), name)
    scaled = filled(build("se-siamfc", size=size, width=width, **options))
    scaled.start_from(ordinary)
    x = noise(1, 3, 127, 127, seed="start")
    with torch.no_grad():
        expected = ordinary.features(x)
        return float((scaled.features(x) - expected).abs().max() / expected.abs().max())


# Counts, and the published form --------------------------------------------------------------------------------------


def network_is_the_published_one(_: Evidence) -> float:
    """The fast networks against their direct transcription: features in evaluation, features and gradients in
    training, at the residual size and the shallow one."""
    return max(_published_error("otb", 0.25), _published_error("tiny", 0.5))


def _published_error(size: str, width: float) -> float:
    network = filled(build("se-siamfc", size=size, width=width), size)
    x = noise(2, 3, network.template_size, network.template_size, seed="crops")
    with torch.no_grad():
        evaluated = apart(network.features(x), direct(network, x, training=False), relative=True)
    network.train()
    ours, theirs = network.features(x), direct(network, x, training=True)
    return max(evaluated, apart_with_gradients(ours, theirs, list(network.parameters()), relative=True))


def connection_is_its_formula(_: Evidence) -> float:
    """Eq. 2 by sums over places and bicubic sampling, forward and backward."""
    template, search = (noise(2, 3, side, side, seed=f"f{side}").requires_grad_() for side in (3, 11))
    worst = 0.0
    for s in (1 / 1.2, 1.0, 1.2):
        ours = nonparametric_scale_convolution(template, search, (s,))[:, 0, 1:-1, 1:-1]
        large = plain.rescale(search, s, (25, 25))
        theirs = plain.rescale(plain.correlation(template, large)[:, None], 1 / s, (9, 9))[:, 0, 1:-1, 1:-1]
        worst = max(worst, apart_with_gradients(ours, theirs, (template, search), relative=True))
    return worst


CLAIMS = (
    Claim("shifts", "A stack of scale-convolutions follows shifts of its input exactly.", "Sec. 1", "exact",
          stack_follows_shifts, ROUNDING),
    Claim("shifts-of-connection", "So does the non-parametric scale-convolution, where shifts fall on its grids.",
          "Eq. 4", "exact", connection_follows_shifts, ROUNDING),
    Claim("scale", "One layer follows a change of scale on its grid (squared error; filters are cut off).",
          "Sec. 1", "exact", layer_follows_scale, 1e-3, unit="of the response"),
    Claim("scale-of-stack", "So do two layers with a ReLU between them.", "Sec. 1", "exact", stack_follows_scale, 1e-2,
          unit="of the response"),
    Claim("scale-of-plain", "Ordinary convolutions in their place are farther from it by 10 times at least.", "Sec. 1",
          "exact", plain_convolution_does_not, 10.0, "at least", unit="times the error"),
    Claim("number-of-scales", "Between scales, five to an octave follow a change of size better than two, by twice.",
          "Sec. 1", "exact", denser_scales_help, 2.0, "at least", unit="times the error"),
    Claim("number-of-scales-pooled", "Five scales follow changes of size better than one, by twice at least (features "
          "pooled over scales).", "Sec. 1", "exact", more_scales_help, 2.0, "at least", unit="times the error"),
    Claim("scale-of-connection", "The connection follows a change of scale (squared error of interpolation).",
          "Lemma 1, Eq. 3", "exact", connection_follows_scale, 2e-3, unit="of the response"),
    Claim("theorem-if", "Equivariant features and connection give an equivariant tracker (squared error).",
          "Theorem 1", "exact", theorem_forward, 5e-2, unit="of the response"),
    Claim("theorem-only-if", "Without either it is farther from equivariant by 5 times at least.", "Theorem 1",
          "exact", theorem_backward, 5.0, "at least", unit="times the error"),
    Claim("theorem-if-pooled", "Equivariant features and connection give an equivariant tracker (squared error; "
          "features pooled over scales, as in Table 2).", "Theorem 1", "exact", pooled_theorem_forward, 5e-2,
          unit="of the response"),
    Claim("theorem-only-if-pooled", "Without either it is farther from equivariant by 5 times at least (features "
          "pooled over scales).", "Theorem 1", "exact", pooled_theorem_backward, 5.0, "at least",
          unit="times the error"),
    Claim("start", "Started from an ordinary network, the smallest scale computes what that one does.",
          "Sec. 2, Fig. 2", "exact", start_is_exact, ROUNDING),
    Claim("released-stem", "The released 9x9 basis cannot hold a 7x7 stem: a fifth of white noise is lost at least.",
          "Sec. 2, public code", "check", released_stem_cannot_hold, 0.2, "at least", unit="of its energy"),
    parameter_counts("parameters", "Parameters of both networks of Tables 1 and 2.", "Tables 1 and 2",
                     {"paper-mnist/siamfc": 998_880, "paper-mnist/se-siamfc": 998_880, "paper/siamfc": 1_444_928,
                      "paper/se-siamfc": 1_449_024}, "999 K; 1.44 M and 1.45 M"),
    Claim("published-form", "The fast networks are the published ones, forward and backward.", "public code", "check",
          network_is_the_published_one, 1e-8),
    Claim("connection-form", "The fast connection is its formula, forward and backward.", "Eq. 2", "check",
          connection_is_its_formula, ROUNDING),
)  # fmt: skip
