"""Projections against dense matrices and conjugate gradients, their share of a restoration, and the starter weights
beside bicubic enlargement and the restoration of scikit-image and OpenCV.

``python -m vergence.generation.ddn.bench`` prints PSNR and SSIM of the starter weights and their peers on photographs
that no training saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.data.photographs import HELD_OUT, photograph
from vergence.generation.classical import biharmonic, total_variation, wiener
from vergence.generation.ddn.model import DDN, filled
from vergence.generation.ddn.predict import TILE, continued
from vergence.generation.ddn.settings import SETTINGS, TASKS
from vergence.generation.measurements import random_holes, random_lines, sized
from vergence.generation.photos import luminance
from vergence.metrics.fidelity import psnr, ssim
from vergence.ops.linear import Blur, Coils, Fourier, Mask, Operator, bicubic, gaussian
from vergence.ops.linear.base import Operator as Base
from vergence.ops.linear.sampling import enlarged
from vergence.reading.weights import load_tensors

NOISE = 0.01
"""The noise of the table's second half; photographs have about a third of it."""


def contests() -> Iterator[Contest]:
    """Projections; their share of a restoration; several coils; peers."""
    yield _projection("bicubic", bicubic(64, 64, 2), True)
    yield _projection("blur", Blur((256, 256), gaussian(1.5)), False)
    yield _projection("frequencies", Fourier(random_lines((256, 256), 4.0, generator("bench")), "real"), False)
    yield _magnetic()
    yield _coils()
    networks = {task: starter(task) for task in TASKS}
    if all(networks.values()):
        yield _enlarging(networks["sr2"])  # type: ignore[arg-type]
        yield _filling(networks["inpaint"])  # type: ignore[arg-type]


def starter(task: str) -> DDN | None:
    """The starter network of a task, if it is there."""
    path = Path(__file__).parent / "weights" / f"{task}.safetensors"
    if not path.is_file():
        return None
    config = SETTINGS.configure(TASKS[task])
    network = DDN(config.model, config.measure)
    network.load_state_dict({name: value.float() for name, value in load_tensors(path)[0].items()})
    return network.eval().requires_grad_(False)


def _projection(name: str, operator: Operator, dense: bool) -> Contest:
    """P_r in closed form, by conjugate gradients to 1e-6, and by a dense matrix where it fits."""
    x = torch.randn(8, *operator.domain, generator=generator("bench", name))

    def iterated() -> Tensor:
        y = operator.forward(x)
        slow = _Slow(operator)
        return slow.pinv(y)

    rivals: dict[str, Callable[[], Any]] = {"conjugate gradients": iterated}
    if dense:
        units = torch.eye(x[0].numel(), dtype=torch.float64).view(-1, *operator.domain)
        h = operator.forward(units).flatten(1).mT
        project = (torch.linalg.pinv(h) @ h).float()
        rivals["dense matrix"] = lambda: (x.flatten(1) @ project.mT).view_as(x)
    size = " x ".join(map(str, operator.domain))
    return Contest(
        f"range-{name}", f"range projection of 8 pictures of {size}, {name}", partial(operator.range, x), rivals
    )


class _Slow(Base):
    """An operator without its closed forms."""

    closed = False
    tolerance, steps = 1e-6, 200

    def __init__(self, inner: Operator) -> None:
        self.inner, self.domain, self.codomain = inner, inner.domain, inner.codomain
        self.forward, self.adjoint = inner.forward, inner.adjoint  # type: ignore[method-assign]

    def forward(self, x: Tensor) -> Tensor:
        return self.inner.forward(x)

    def adjoint(self, y: Tensor) -> Tensor:
        return self.inner.adjoint(y)


def _magnetic() -> Contest:
    """Both projections of a reconstruction of ten frames, against the whole of it at the published size."""
    config = SETTINGS.configure("paper-mrf")
    source = generator("bench", "mri")
    masks = torch.stack([random_lines((256, 256), 40.0, source) for _ in range(10)])
    operator = Fourier(masks, "real")
    network = DDN(config.model, config.measure).eval().requires_grad_(False)
    x = torch.rand(1, 10, 256, 256, generator=source)
    y = operator.forward(x)
    return Contest(
        "mri", "projections of 256 x 256 x 10 frames, masked FFT, of the whole reconstruction at published size",
        lambda: (operator.range(x), operator.null(x)), {"whole reconstruction": lambda: network(y, operator)},
    )  # fmt: skip


def _coils() -> Contest:
    """SENSE with eight coils by our conjugate gradients, and by SciPy's LSQR."""
    from scipy.sparse.linalg import LinearOperator, lsqr

    source, side = generator("bench", "coils"), 128
    y, x = torch.meshgrid(*[torch.linspace(-1, 1, side)] * 2, indexing="ij")
    angles = torch.arange(8) * torch.pi / 4
    maps = torch.stack([torch.exp(-((y - a.sin()) ** 2 + (x - a.cos()) ** 2)) * torch.exp(1j * a) for a in angles])
    operator = Coils(maps, random_lines((side, side), 3.0, source), 1e-5)
    picture = torch.randn(side, side, generator=source, dtype=torch.complex64)
    kspace = operator.forward(picture)

    def forward(v: Any) -> Any:
        return operator.forward(torch.from_numpy(v).view(side, side).to(torch.complex64)).flatten().numpy()

    def adjoint(v: Any) -> Any:
        return operator.adjoint(torch.from_numpy(v).view(8, side, side).to(torch.complex64)).flatten().numpy()

    matrix = LinearOperator((8 * side**2, side**2), matvec=forward, rmatvec=adjoint, dtype=np.complex64)
    values = kspace.flatten().numpy()
    return Contest(
        "coils", "pseudo-inverse of 8 coils, 128 x 128, a third of the frequencies, to 1e-5",
        lambda: operator.pinv(kspace), {"SciPy, LSQR": lambda: lsqr(matrix, values, atol=1e-5, btol=1e-5)},
    )  # fmt: skip


def _enlarging(network: DDN) -> Contest:
    """One megapixel from a quarter: the restoration, its two networks alone, and bicubic enlargement."""
    small = torch.rand(1, 1, 432, 576, generator=generator("bench", "photo"))
    operator = bicubic(864, 1152, 2)
    network.tile = TILE
    z = operator.pinv(small)

    def alone() -> Tensor:
        assert network.noise is not None
        assert network.detail is not None
        return network._run(network.detail, z - network._run(network.noise, z))

    return Contest(
        "enlarge", "luminance enlarged by 2 to one megapixel", lambda: network(small, operator),
        {"networks alone": alone, "bicubic, PyTorch": lambda: enlarged(small, 2)},
    )  # fmt: skip


def _filling(network: DDN) -> Contest:
    source = generator("bench", "holes")
    x = luminance(photograph("chelsea.png"))[:, :192, :256]
    known = random_holes((192, 256), 0.3, source)
    y = (x * known)[None]
    operator = Mask(known[None, None])
    rivals: dict[str, Callable[[], Any]] = {"scikit-image, biharmonic": lambda: biharmonic(y[0, 0], known)}
    try:
        import cv2
    except ImportError:
        pass
    else:
        library: Any = cv2
        grey, holes = (255 * y[0, 0]).byte().numpy(), (~known).byte().numpy()
        rivals["OpenCV, Telea"] = lambda: library.inpaint(grey, holes, 3, library.INPAINT_TELEA)
    return Contest("fill", "holes of a photograph, 192 x 256", lambda: network(y, operator), rivals)


# Quality --------------------------------------------------------------------------------------------------------------


def judged(noise: float = 0.0) -> Iterator[tuple[str, str, float, float]]:
    """Task, method, and means of PSNR and SSIM over the luminance of photographs that nothing was trained on. Pictures
    are measured with the given noise and rounded to bytes, as files are."""
    photos = [luminance(photograph(name))[None] for name in HELD_OUT]
    photos = [x[..., : x.shape[-2] // 4 * 4, : x.shape[-1] // 4 * 4] for x in photos]
    for task in TASKS:
        scores: dict[str, list[tuple[float, float]]] = {}
        for number, x in enumerate(photos):
            for method, restored in _methods(task, x, noise, generator("judged", task, number)).items():
                cut = restored.clamp(0, 1)
                scores.setdefault(method, []).append((float(psnr(cut, x)), float(ssim(cut, x))))
        for method, values in scores.items():
            yield task, method, *(float(np.mean(column)) for column in zip(*values, strict=True))  # type: ignore[misc]


def _methods(task: str, x: Tensor, noise: float, source: torch.Generator) -> dict[str, Tensor]:
    """Every method's picture."""
    network = starter(task)
    assert network is not None
    network.tile = TILE
    size = (x.shape[-2], x.shape[-1])

    def rounded(y: Tensor) -> Tensor:
        y = y + noise * torch.randn(y.shape, generator=source)
        return (255 * y.clamp(0, 1)).round() / 255

    if task in ("sr2", "sr4"):
        operator: Operator = bicubic(*size, network.measure.factor)
        y = rounded(operator.forward(x))
        plain = enlarged(y, network.measure.factor)
        return {"ddn": network(y, operator).image, "bicubic": plain, "pseudo-inverse": operator.pinv(y),
                "bicubic, total variation": total_variation(plain, max(noise, 0.005))}  # fmt: skip
    if task == "inpaint":
        known = random_holes(size, 0.3, source)
        operator = Mask(known[None, None])
        y = operator.forward(rounded(x))
        return {"ddn": network(y, operator).image, "smooth fill": filled(y, known[None, None]),
                "scikit-image, biharmonic": biharmonic(y[0, 0], known)[None, None]}  # fmt: skip
    kernel = gaussian(1.5)
    wide = continued(continued(x[0], 39, -1), 39, -2)
    true = Blur((wide.shape[-2], wide.shape[-1]), kernel, 1e-9)
    y = rounded(true.forward(wide))[..., : size[0], : size[1]]  # blurred by all of the kernel, then cut
    again = continued(continued(y, 39, -1), 39, -2)
    operator = sized(network.measure, (again.shape[-2], again.shape[-1]), kernel)
    cut = (..., slice(0, size[0]), slice(0, size[1]))
    return {"ddn": network(again[None], operator).image[cut], "blurred": y[None],
            "pseudo-inverse": operator.pinv(again[None])[cut],
            **{f"scikit-image, Wiener {balance:g}": wiener(again[0], kernel, balance)[None, None][cut]
               for balance in (0.001, 0.01, 0.1)}}  # fmt: skip


def main() -> None:
    for noise in (0.0, NOISE):
        print(f"noise {noise:g}")
        for task, method, quality, similar in judged(noise):
            print(f"{task:10}{method:28}{quality:8.2f} dB{similar:9.4f}")


if __name__ == "__main__":
    main()
