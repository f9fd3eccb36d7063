"""ddn as a system: every variant measured alike, trained alike and judged by one protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import First, Spread
from vergence.contract.inputs import Artifact
from vergence.contract.settings import NoFacts
from vergence.contract.system import System
from vergence.core.seeding import generator
from vergence.data.layouts import read
from vergence.generation.classical import landweber, total_variation
from vergence.generation.crops import LAYOUTS, Cropped, Embedded
from vergence.generation.ddn import pictures, predict
from vergence.generation.ddn.claims import CLAIMS
from vergence.generation.ddn.model import DDN
from vergence.generation.ddn.predict import Restoration
from vergence.generation.ddn.settings import SETTINGS, Config, Inputs, Pictures
from vergence.generation.measurements import drawn, measured, multiple
from vergence.metrics.fidelity import nmse, psnr, ssim
from vergence.ops.linear import Operator

Ctx = Context[Config, NoFacts]
TRAINING_SHARE = 64
"""Training pictures on which the generalisation error is measured, at most."""
LARGE = 512
"""Pictures with longer sides than that are evaluated in tiles."""


class DDNSystem(System[Config, NoFacts, DDN, Cropped, Restoration]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    def data(self, ctx: Ctx, split: str) -> Cropped:
        asked, channels = ctx.config.data, ctx.config.model.channels
        found = read(asked.source, self.layouts, split, lambda: _embedded(asked, split, channels))
        return Cropped(found, asked.side, multiple(ctx.config.measure), turned=channels != 2)

    def slice(self, data: Cropped) -> Cropped:
        return Cropped(First(data.data, 8), data.side, data.multiple, data.turned)

    def build(self, config: Config, facts: NoFacts) -> DDN:
        return DDN(config.model, config.measure)

    def example(self, config: Config, facts: NoFacts, batch: int = 1) -> tuple[Tensor, ...]:
        side, channels = config.data.side // multiple(config.measure), config.model.channels
        if config.measure.kind == "fourier":
            shape = (batch, side, side) if channels == 2 else (batch, channels, side, side)
            return (torch.zeros(shape, dtype=torch.complex64),)
        return (torch.zeros(batch, channels, side, side),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {"range": [0, 1], "channels": "luminance", "measurement": config.measure.kind}

    def losses(self, ctx: Ctx, model: DDN, batch: Any) -> Mapping[str, Tensor]:
        """Eq. 9: the error of the picture, and of the predicted noise. Decoupled, the error's two orthogonal parts, of
        which G's does not reach F."""
        x, config = batch["image"], ctx.config
        source = generator("measure", int(torch.randint(0, 2**31, (), generator=_on_cpu(ctx))))
        operator = drawn(config.measure, x, source)
        y, e = measured(config.measure, operator, x, source, vary=True)
        found = model(y, operator)
        losses = {"restored": _mse(found.image, x)}
        if config.model.decoupled:
            z = operator.pinv(y)
            losses = {
                "restored": _mse(z - found.noise, operator.range(x)),
                "detail": _mse(found.detail, operator.null(x)),
            }
        if config.noise_weight and model.noise is not None and config.model.method == "ddn":
            losses["noise"] = config.noise_weight * _mse(operator.forward(found.raw.to(x.dtype)), e)
        return losses

    def evaluate(self, ctx: Ctx, model: DDN, data: Cropped) -> Mapping[str, float]:
        """Means over pictures. PSNR and SSIM are of pictures cut to 0 to 1; MSE, to which the noise floor belongs, is
        not."""
        sums = self._scores(ctx, model, data, classical=True)
        scores = sums.mean(0).tolist()
        names = ("psnr", "ssim", "nmse", "mse", "floor", "misfit", "psnr_pinv", "psnr_landweber", "psnr_tv")
        found = dict(zip(names, scores, strict=True))
        if ctx.stage != "validate" and not ctx.config.data.source.startswith("benchmark:"):
            train = self.data(ctx, "train")
            some = Cropped(Spread(train.data, TRAINING_SHARE), train.side, train.multiple, train.turned)
            found["gap"] = abs(found["mse"] - float(self._scores(ctx, model, some)[:, 3].mean()))
        found["misfit"] = found["misfit"] ** 0.5
        return found

    def _scores(self, ctx: Ctx, model: DDN, data: Cropped, classical: bool = False) -> Tensor:
        """One row of scores per picture; noise and random measurements depend on the index alone."""
        rows = []
        for index in ctx.batches(_Indexed(data), 1, "pictures" if classical else ""):
            number, x = int(index["index"]), index["image"]
            source = generator("ddn", "test", number)
            operator = drawn(ctx.config.measure, x, source)
            y, e = measured(ctx.config.measure, operator, x, source)
            model.tile = LARGE if max(x.shape[-2:]) > LARGE else 0
            found = model(y, operator).image.to(x.dtype)
            rows.append(_row(ctx.config, operator, x, y, e, found, classical))
        return ctx.gather(torch.stack(rows).double())

    def infer(self, ctx: Ctx, model: DDN, inputs: Inputs) -> Restoration:
        return predict.restore(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Restoration) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, DDN], data: Cropped) -> Sequence[Artifact]:
        return pictures.of_variants(ctx, models, data)


def _embedded(asked: Pictures, split: str, channels: int) -> Embedded:
    return Embedded(split, asked.scene, asked.pictures, asked.held_out, asked.side, channels)


class _Indexed:
    """Samples with their index."""

    def __init__(self, data: Cropped) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return self.data[index] | {"index": torch.tensor(index)}


def _row(config: Config, operator: Operator, x: Tensor, y: Tensor, e: Tensor, found: Tensor, classical: bool) -> Tensor:
    cut, truth = magnitude(found).clamp(0, 1), magnitude(x)
    score = [psnr(cut, truth), ssim(cut, truth), 100 * nmse(magnitude(found), truth), 1000 * _each(found - x)]
    if not classical:
        return torch.cat(score)
    z = operator.pinv(y)
    misfit = operator.forward(found) - y
    score += [1000 * _each(operator.pinv(e)), misfit.abs().square().flatten(1).mean(1)]
    largest = operator.largest(10) if config.measure.kind in ("blur", "bicubic") else _known(config)
    rivals = (z, landweber(operator, y, largest=largest), total_variation(z, config.measure.noise))
    score += [psnr(magnitude(rival).clamp(0, 1), truth) for rival in rivals]
    return torch.cat(score)


def _known(config: Config) -> float:
    """|H| of block means and of orthonormal measurements."""
    return 1 / config.measure.factor if config.measure.kind == "average" else 1.0


def magnitude(x: Tensor) -> Tensor:
    """What is judged and shown: the magnitude of complex pictures, others as they are."""
    return x.norm(dim=1, keepdim=True) if x.shape[1] == 2 else x


def _mse(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).abs().square().mean()


def _each(x: Tensor) -> Tensor:
    return x.square().flatten(1).mean(1)


def _on_cpu(ctx: Ctx) -> torch.Generator:
    """A generator on the CPU that follows the run's."""
    if ctx.generator.device.type == "cpu":
        return ctx.generator
    number = torch.randint(0, 2**31, (), generator=ctx.generator, device=ctx.generator.device)
    return generator("ddn", int(number))


SYSTEM = DDNSystem()
