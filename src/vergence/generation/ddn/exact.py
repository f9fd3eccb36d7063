"""Exact properties: operators against matrices, what each method keeps of the measurement, and how gradients part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.claims import Claim, Evidence, parameter_counts
from vergence.contract.evidence import ROUNDING, apart, apart_with_gradients, filled, noise, uniform
from vergence.data.photographs import photograph
from vergence.generation.ddn.model import DDN, Denoiser, UNet
from vergence.generation.ddn.settings import SETTINGS, ModelConfig
from vergence.generation.measuring import Measure
from vergence.generation.photos import luminance
from vergence.metrics.fidelity import nmse, psnr, ssim
from vergence.ops.linear import (
    Average,
    Bicubic,
    Blur,
    Coils,
    Fourier,
    Function,
    Identity,
    Mask,
    Operator,
    bicubic,
    gaussian,
    mismatch,
    random_projection,
    resampling,
)
from vergence.ops.tiles import tiled
from vergence.reference.linear import Side, count, flat, matrix, shaped

SMALL = ModelConfig(range_width=6, null_widths=(4, 6, 8))
AVERAGE = Measure("average")


# Operators ------------------------------------------------------------------------------------------------------------


def closed_operators() -> dict[str, Operator]:
    """One small operator of each kind that has a closed form."""
    mask = uniform(8, 9, seed="mask") < 0.4
    mask[0, 0] = True
    source = torch.Generator().manual_seed(3)
    return {
        "identity": Identity((5, 6)),
        "average": Average((6, 8), 2),
        "bicubic": Bicubic((8, 12), 2),
        "bicubic without anti-aliasing": Bicubic((8, 12), 2, antialias=False),
        "bicubic by 4": Bicubic((16, 12), 4),
        "gaussian blur": Blur((8, 9), gaussian(0.7), 0.3),
        "any blur": Blur((9, 8), uniform(3, 4, seed="kernel"), 0.2),
        "mask": Mask(mask),
        "frequencies": Fourier(mask),
        "frequencies of pairs": Fourier(mask, "pairs"),
        "frequencies of real pictures": Fourier(mask, "real"),
        "frequencies by channel": Fourier(uniform(3, 6, 7, seed="masks") < 0.5, "real"),
        "random": random_projection((4, 5), 9, source),
    }


def iterated_operators() -> dict[str, Operator]:
    """Operators whose pseudo-inverse is by conjugate gradients."""
    mask = uniform(6, 7, seed="lines") < 0.6
    coils = torch.view_as_complex(noise(3, 6, 7, 2, seed="coils"))
    holes = Mask(uniform(8, 9, seed="holes") < 0.7)
    return {"coils": Coils(coils, mask, 1e-12), "holes after a blur": holes @ Blur((8, 9), gaussian(0.6), 0.2)}


def inverses_are_those_of_the_matrix(operators: Callable[[], Mapping[str, Operator]]) -> Callable[[Evidence], float]:
    """H, Hᵀ, H†, both projections and their gradients against the operator's matrix and its singular values."""

    def measure(_: Evidence) -> float:
        worst = 0.0
        for name, operator in operators().items():
            h = matrix(operator)
            pinv = torch.linalg.pinv(h, rtol=1e-9)
            steps: tuple[tuple[str, Tensor, Side], ...] = (
                ("forward", h, "domain"), ("adjoint", h.mT, "codomain"), ("pinv", pinv, "codomain"),
                ("range", pinv @ h, "domain"), ("null", torch.eye(h.shape[1]).double() - pinv @ h, "domain"),
            )  # fmt: skip
            for method, dense, start in steps:
                leaf = noise(count(operator, start), seed=f"{name} {method}").requires_grad_()
                ours = flat(getattr(operator, method)(shaped(leaf, operator, start)))
                worst = max(worst, apart_with_gradients(ours, dense @ leaf, [leaf]))
        return worst

    return measure


def projections_are_projections(_: Evidence) -> float:
    """P_r² = P_r, P_n² = P_n, P_r P_n = 0, H P_n = 0, x = P_r x + P_n x, and Pythagoras."""
    worst = 0.0
    for name, operator in closed_operators().items():
        x = torch.stack([shaped(noise(count(operator, "domain"), seed=f"{name} {n}"), operator, "domain")
                         for n in range(3)])  # fmt: skip
        r, n = operator.range(x), operator.null(x)
        squares = [float(part.abs().square().sum()) for part in (x, r, n)]
        worst = max(
            worst, _largest(operator.range(r) - r), _largest(operator.null(n) - n), _largest(operator.range(n)),
            _largest(operator.forward(n)), _largest(r + n - x), abs(squares[0] - squares[1] - squares[2]),
        )  # fmt: skip
    return worst


def _largest(x: Tensor) -> float:
    return float(x.detach().abs().max())


def adjoints_pass_the_dot_test(_: Evidence) -> float:
    """``<Hx, y> = <x, Hᵀy>`` for every operator; infinite if a wrong adjoint is not refused."""
    try:
        Function(lambda x: x[..., ::2], lambda y: y.repeat_interleave(2, -1), (8,), (4,))
    except ValueError:
        return max(mismatch(operator) for operator in (closed_operators() | iterated_operators()).values())
    return float("inf")


def bicubic_is_pytorchs(_: Evidence) -> float:
    """Bicubic matrices, with and without anti-aliasing, down and up, against ``torch.nn.functional.interpolate``."""
    worst = 0.0
    for length, out in ((12, 6), (20, 5), (9, 3), (7, 21), (40, 20)):
        x = noise(1, 1, length, length, seed=f"picture {length}")
        for antialias in (False, True) if out < length else (False,):
            a = resampling(length, out, antialias)
            theirs = F.interpolate(x, (out, out), mode="bicubic", antialias=antialias)
            worst = max(worst, apart(a @ x @ a.mT, theirs))
    return worst


def metrics_are_those_of_scikit_image(_: Evidence) -> float:
    """PSNR and SSIM against scikit-image, grey and in colour; NMSE against its definition."""
    from skimage import metrics

    library: Any = metrics
    worst = 0.0
    for channels in (1, 3):
        a, b = (uniform(2, channels, 17, 21, seed=f"{name} {channels}") for name in "ab")
        for one, two, p, s, n in zip(a, b, psnr(a, b), ssim(a, b), nmse(a, b), strict=True):
            x, y = one.numpy(), two.numpy()
            theirs = library.peak_signal_noise_ratio(y, x, data_range=1.0)
            similar = library.structural_similarity(y, x, data_range=1.0, channel_axis=0)
            share = float(((x - y) ** 2).sum() / (y**2).sum())
            worst = max(worst, abs(float(p) - theirs), abs(float(s) - similar), abs(float(n) - share))
    return worst


# What the methods keep of the measurement -----------------------------------------------------------------------------


def _model(seed: str = "model", measure: Measure = AVERAGE, **changes: Any) -> DDN:
    return filled(DDN(replace(SMALL, **changes), measure), seed)


def _problem(operator: Operator, sigma: float = 0.1) -> tuple[Tensor, Tensor, Tensor]:
    """Pictures, their noisy measurements, and the noise."""
    x = uniform(2, 1, *operator.domain, seed="pictures")
    clean = operator.forward(x)
    e = sigma * noise(*clean.shape, seed="noise")
    e = operator.forward(e) if isinstance(operator, Mask) else e
    return x, clean + e, e


def _operators() -> list[tuple[Operator, Measure]]:
    """Operators with HH† = I on their measurements, and a mask."""
    known = Mask(uniform(1, 1, 12, 16, seed="known") < 0.6, (12, 16))
    return [(Average((12, 16), 2), AVERAGE), (bicubic(12, 16, 2), Measure()), (bicubic(16, 16, 4), Measure(factor=4)),
            (known, Measure("mask"))]  # fmt: skip


def nsn_keeps_the_measurement(_: Evidence) -> float:
    """H x̂ = y for the null-space network with random weights, noise included."""
    return max(
        apart(operator.forward(_model(method="nsn", measure=measure)(y, operator).image), y)
        for operator, measure in _operators()
        for y in [_problem(operator)[1]]
    )


def ddn_changes_it_by_the_noise_alone(_: Evidence) -> float:
    """H x̂ - y = -H F(z) in cascade and independent, whatever G is."""
    worst = 0.0
    for operator, measure in _operators():
        y = _problem(operator)[1]
        for connection in ("cascade", "independent"):
            model = _model(measure=measure, connection=connection)
            found = model(y, operator)
            worst = max(worst, apart(operator.forward(found.image) - y, -operator.forward(found.raw)))
    return worst


def everything_measured_leaves_nothing_to_invent(_: Evidence) -> float:
    """H = I: x̂ = z - F(z), and no gradient reaches G."""
    operator = Identity((12, 16))
    x, y = _problem(operator)[:2]
    model = _model(measure=Measure("identity"))
    found = model(y, operator)
    assert model.noise is not None
    assert model.detail is not None
    loss = (found.image - x).square().mean()
    gradients = torch.autograd.grad(loss, list(model.detail.parameters()), allow_unused=True)
    reached = max((_largest(g) for g in gradients if g is not None), default=0.0)
    return max(apart(found.image, y - model.noise(y)), _largest(found.detail), reached)


def without_noise_it_is_null_space_learning(_: Evidence) -> float:
    """F = 0: cascade and independent are Eq. 5, z + P_n G(z)."""
    operator = Average((12, 16), 2)
    y = _problem(operator, 0.0)[1]
    worst = 0.0
    for connection in ("cascade", "independent"):
        model = _model(connection=connection)
        assert model.noise is not None
        assert model.detail is not None
        with torch.no_grad():
            model.noise[-1].weight.zero_()  # type: ignore[index, operator]
        z = operator.pinv(y)
        g = model.detail(z)
        worst = max(worst, apart(model(y, operator).image, z + g - operator.pinv(operator.forward(g))))
    return worst


def _gradients(model: DDN, loss: Tensor, part: str) -> Tensor:
    parameters = list(getattr(model, part).parameters())
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters, retain_graph=True)])


def networks_learn_apart(_: Evidence) -> float:
    """Independent: the gradient of one network does not depend on the other's weights; the joint loss is the sum of the
    decoupled ones. Infinite if that were true of the cascade, too."""
    operator = Average((12, 16), 2)
    x, y = _problem(operator)[:2]
    worst, cascade = 0.0, 0.0
    for part, other in (("noise", "detail"), ("detail", "noise")):
        found: dict[str, list[Tensor]] = {"independent": [], "cascade": []}
        for connection, gradients in found.items():
            for seed in ("one", "two"):
                model = _model("common", connection=connection)
                filled(getattr(model, other), seed)
                loss = (model(y, operator).image - x).square().mean()
                gradients.append(_gradients(model, loss, part))
        worst = max(worst, apart(found["independent"][0], found["independent"][1]))
        cascade = max(cascade, apart(found["cascade"][0], found["cascade"][1]))
    model = _model(connection="independent")
    restored = model(y, operator)
    joint = (restored.image - x).square().mean()
    z = operator.pinv(y)
    apart_losses = [(z - restored.noise - operator.range(x)), (restored.detail - operator.null(x))]
    total = sum(part.square().mean() for part in apart_losses)
    return max(worst, float((joint - total).detach().abs())) if cascade > 1e-6 else float("inf")


def nsn_stays_above_the_floor(_: Evidence) -> float:
    """The least of |x̂ - x|² - |H†e|² over twenty untrained null-space networks: a best case is when G is right."""
    operator = Average((12, 16), 2)
    x, y, e = _problem(operator)
    floor = operator.pinv(e).square().sum()
    margins = [(_model(f"net {n}", method="nsn")(y, operator).image - x).square().sum() - floor for n in range(20)]
    perfect = operator.pinv(y) + operator.null(x)
    margins.append((perfect - x).square().sum() - floor + ROUNDING)
    return float(min(margins))


class Counted(Function):
    """Block means that count how often they are asked."""

    def __init__(self, inner: Operator) -> None:
        self.asked = 0
        super().__init__(self._count(inner.forward), self._count(inner.adjoint), inner.domain, inner.codomain,
                         self._count(inner.pinv))  # fmt: skip

    def _count(self, method: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        def counted(x: Tensor) -> Tensor:
            self.asked += 1
            return method(x)

        return counted


def accesses_are_as_counted(_: Evidence) -> float:
    """How often a forward pass asks for H, Hᵀ or H† after z = H†y, minus the paper's count."""
    worst = 0.0
    operator = Counted(Average((12, 16), 2))
    y = _problem(operator)[1]
    for method, expected in {"resunet": 0, "nsn": 2, "ddn": 4, "npgd": 6}.items():
        model = _model(method=method)
        model(y, operator)  # the first one measures |H| for npgd's step
        operator.asked = 0
        model(y, operator)
        worst = max(worst, abs(operator.asked - 1 - expected))
    return worst


def tiles_leave_no_seam(_: Evidence) -> float:
    """Networks in tiles against the whole picture."""
    worst = 0.0
    for name in ("starter-sr2", "starter-inpaint"):
        config = SETTINGS.configure(name)
        small = replace(config.model, range_width=4, null_widths=(4,), null_depth=1)
        model = filled(DDN(small, config.measure), name)
        known = uniform(1, 1, 60, 84, seed="known") < 0.6
        operator = Mask(known) if config.measure.kind == "mask" else bicubic(60, 84, 2)
        y = operator.forward(uniform(1, 1, 60, 84, seed="photo"))
        whole = model(y, operator).image
        model.tile = 24
        worst = max(worst, apart(model(y, operator).image, whole))
    for network in (filled(UNet(1, 1, (3, 4, 5))), filled(Denoiser(1, 1, 4))):
        x = uniform(1, 1, 140, 128, seed="large")
        parts = tiled(network, x, 44, network.reach, multiple=network.multiple)
        worst = max(worst, apart(parts, network(x)))
    return worst


# What the paper assumes of its inverses -------------------------------------------------------------------------------


def real_part_is_an_inverse(_: Evidence) -> float:
    """|HH†y - y| / |y| for the measurement of a real picture, where H† is the real part of the zero-filled inverse
    transform. Infinite if our pseudo-inverse for real pictures missed it, too."""
    mask = uniform(32, 32, seed="frequencies") < 0.4
    operator, ours = Fourier(mask, "real-part"), Fourier(mask, "real")
    y = operator.forward(uniform(32, 32, seed="picture"))
    if apart(torch.view_as_real(ours.forward(ours.pinv(y))), torch.view_as_real(y)) > ROUNDING:
        return float("inf")
    return float((operator.forward(operator.pinv(y)) - y).abs().square().sum().sqrt() / y.abs().square().sum().sqrt())


def bicubic_enlargement_is_near_the_inverse(_: Evidence) -> float:
    """|HUy - y| / |y| for bicubic enlargement U of reduced photographs, in percent."""
    worst = 0.0
    for name in ("chelsea.png", "coffee.png", "brick.png"):
        x = luminance(photograph(name, 320)).double()
        x = x[:, : x.shape[1] // 2 * 2, : x.shape[2] // 2 * 2]
        operator = bicubic(x.shape[1], x.shape[2], 2, True, "approx")
        y = operator.forward(x)
        worst = max(worst, float((operator.forward(operator.pinv(y)) - y).norm() / y.norm()))
    return 100 * worst


def counts_of_networks(_: Evidence) -> float:
    """Parameters of F and G alone against the counts by hand."""
    with torch.device("meta"):
        pairs = [(Denoiser(1, 1), 75_200), (Denoiser(10, 10), 85_568), (Denoiser(1, 1, depth=17), 556_096),
                 (UNet(1, 1, (64, 128, 256, 512, 1024)), 34_525_889),
                 (UNet(1, 1, (64, 128, 256)), 2_069_441)]  # fmt: skip
    return float(max(abs(sum(p.numel() for p in net.parameters()) - count) for net, count in pairs))


def _check(id: str, statement: str, source: str, measure: Callable[[Evidence], float], most: float = ROUNDING,
           unit: str = "") -> Claim:  # fmt: skip
    return Claim(id, statement, source, "check", measure, most, unit=unit)


CHECKS = (
    _check("matrices", "Every operator with a closed form has the adjoint, pseudo-inverse and projections of its "
           "matrix, with their gradients.", "Eq. 3", inverses_are_those_of_the_matrix(closed_operators)),
    _check("iterated", "Conjugate gradients give the pseudo-inverse of several coils and of a composition to their "
           "tolerance, with gradients.", "Remark 2", inverses_are_those_of_the_matrix(iterated_operators), 1e-5),
    _check("projections", "P_r and P_n are complementary orthogonal projections, and H P_n = 0.", "Definition 1",
           projections_are_projections),
    _check("adjoints", "Adjoints pass the dot test, and a wrong one is refused.", "this library",
           adjoints_pass_the_dot_test),
    _check("bicubic", "Bicubic matrices are PyTorch's interpolation.", "this library", bicubic_is_pytorchs),
    _check("metrics", "PSNR and SSIM equal scikit-image's.", "Sec. 4.1", metrics_are_those_of_scikit_image),
    _check("tiles", "Networks in tiles give the picture of the whole.", "this library", tiles_leave_no_seam),
    _check("networks", "F and G have the parameters that are counted by hand.", "Sec. 4.1", counts_of_networks, 0,
           "parameters off"),
    parameter_counts("counts", "The presets of published size have the parameters that are counted by hand.",
                     "Sec. 4.1", {name: published.parameters for name, published in SETTINGS.published.items()}),
)  # fmt: skip
EXACT = (
    Claim("nsn-consistent", "The null-space network is exactly data-consistent: H x̂ = y, whatever its weights.",
          "Eq. 5", "exact", nsn_keeps_the_measurement, ROUNDING),
    Claim("ddn-relaxed", "DDN departs from the measurement by F alone: H x̂ - y = -H F(z), whatever G is.", "Sec. 3",
          "exact", ddn_changes_it_by_the_noise_alone, ROUNDING),
    Claim("identity", "With H = I the decomposition is a residual denoiser, and G does not learn.", "Sec. 3.2", "exact",
          everything_measured_leaves_nothing_to_invent, ROUNDING),
    Claim("noise-free", "Without noise it is null-space learning.", "Sec. 3.2", "exact",
          without_noise_it_is_null_space_learning, ROUNDING),
    Claim("decoupled", "In the independent architecture joint and decoupled training are equivalent.", "Sec. 3.1",
          "exact", networks_learn_apart, ROUNDING),
    Claim("nsn-floor", "A null-space network's squared error is at least that of the measurement's noise, |H†e|².",
          "Sec. 2.2", "exact", nsn_stays_above_the_floor, 0.0, "at least"),
    Claim("accesses", "ResUNet, NSN, DDN and NPGD access the operator 0, 2, 4 and 6 times.", "Sec. 4.2", "exact",
          accesses_are_as_counted, 0, unit="accesses off"),
    Claim("real-part", "For real pictures the zero-filled inverse transform is a right inverse, HH† = I.",
          "Sec. 4.2", "exact", real_part_is_an_inverse, 1e-6, unit="relative error"),
    Claim("bicubic-inverse", "With anti-aliasing, bicubic enlargement is a reasonable approximation of H†: within 1 % "
          "on photographs.", "Sec. 4.3", "exact", bicubic_enlargement_is_near_the_inverse, 1.0, unit="%"),
)  # fmt: skip
