"""Gradient leaking as a system: classifiers trained with and without the defence, and how easily each is fooled."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import EMBEDDED, First
from vergence.contract.inputs import Artifact
from vergence.contract.system import System
from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.data.layouts import read
from vergence.nn.mahalanobis import centre_loss
from vergence.ops.pca import Basis, principal, randomised
from vergence.recognition.data import LAYOUTS
from vergence.recognition.idx import MNIST
from vergence.robustness import linf
from vergence.robustness.gradleak import pictures, predict
from vergence.robustness.gradleak.claims import CLAIMS
from vergence.robustness.gradleak.model import Network, build, diagnose, transformed
from vergence.robustness.gradleak.predict import Diagnosis
from vergence.robustness.gradleak.settings import SETTINGS, Config, Facts, Inputs
from vergence.robustness.linf import PGD, divergence
from vergence.robustness.minimal import Attack, CarliniWagner, DeepFool, IterativeL2, Strongest
from vergence.robustness.protocols import BUDGETS, Protocol
from vergence.robustness.things import Framed, Points, curve, things
from vergence.robustness.whitebox import UNIT, Bounds

Ctx = Context[Config, Facts]
Data = Framed | Points
EXACT = 4096
"""Numbers of a picture up to which principal components are exact; beyond, they are randomised."""
CHUNK = 500
"""Pictures read at once for the components."""
GLANCE = 200
"""Test pictures for ᾱ while training goes on."""


class GradLeakSystem(System[Config, Facts, Network, Data, Diagnosis]):
    settings = SETTINGS
    layouts = {"cifar10": LAYOUTS["cifar10"], "mnist": MNIST, "folder": LAYOUTS["folder"]}
    claims = CLAIMS

    # Data and network -------------------------------------------------------------------------------------------------

    def data(self, ctx: Ctx, split: str) -> Data:
        asked, training = ctx.config.data, split == "train"
        if asked.source == EMBEDDED and asked.scene == "curve":
            return curve(asked.count if training else asked.tests, split, ctx.config.seed)
        number = asked.count if training else asked.tests
        found = read(asked.source, self.layouts, split, embedded=lambda: things(number, asked.side, split))
        if training and asked.most:
            found = First(found, asked.most)
        return Framed(found, asked.side, asked.channels, asked.shift, asked.mirror)

    def facts(self, ctx: Ctx, data: Data) -> Facts:
        return Facts(len(data.classes), data.classes if len(data.classes) <= 100 else ())

    def slice(self, data: Data) -> Any:
        return First(data, 24)

    def build(self, config: Config, facts: Facts) -> Network:
        return build(config, facts.classes)

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        return (torch.full((batch, *config.data.shape), 0.5),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {"range": [0, 1], "side": config.data.shape[-1], "channels": config.data.shape[0]}

    # Training ---------------------------------------------------------------------------------------------------------

    def start(self, ctx: Ctx, model: Network) -> Network:
        """Find the principal components of the training pictures, without crops and flips."""
        ctx.progress.say("principal components of the training pictures")
        model.to(ctx.device).stored.fill(components(ctx.config, self.data(ctx, "train")))
        with torch.no_grad(), linf.evaluating(model):
            alpha = leaks(ctx, model, First(self.data(ctx, "val"), GLANCE), attacked=False)["alpha"]
        ctx.facts = replace(ctx.facts, history=(alpha,))
        return model

    def losses(self, ctx: Ctx, model: Network, batch: Any) -> Mapping[str, Tensor]:
        images, labels = batch
        config, defence = ctx.config, ctx.config.defence
        name = "centre" if config.model.head == "mahalanobis" else "cross_entropy"
        loss = partial(_scaled_centre_loss, length=config.model.length) if name == "centre" else F.cross_entropy
        if defence.kind == "none":
            change = config.transform
            basis = model.stored.basis()
            images = transformed(images, basis, change.mode, change.kept, change.noisy, change.scale, ctx.generator)
            return {name: loss(model(images), labels)}
        rival = linf.Defence(defence.eps / 255, defence.steps, defence.step / 255)
        if defence.kind == "at":
            attacked = rival.attacked(model, images, labels, ctx.generator, defence.targeted)
            return {name: loss(model(attacked), labels)}
        attacked = rival.trades(model, images, ctx.generator)
        clean, moved = model(torch.cat([images, attacked])).chunk(2)
        apart = divergence(moved, clean.softmax(1)).mean()
        return {name: loss(clean, labels), "divergence": defence.weight * apart}

    # Use --------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Ctx, model: Network, data: Data) -> Mapping[str, float]:
        """Tables 2 and 3 on the first test pictures; while training goes on, errors and ᾱ alone (Fig. 4)."""
        ctx.facts.refuse_others(data.classes)
        wrong = [model(images).argmax(1) != labels for images, labels in ctx.batches(data, 250, "classifying")]
        metrics = {"err": 100 * float(ctx.gather(torch.cat(wrong)).double().mean())}
        if ctx.stage == "validate":
            metrics |= leaks(ctx, model, First(data, GLANCE), attacked=False)
            ctx.facts = replace(ctx.facts, history=(*ctx.facts.history, metrics["alpha"]))
            return metrics
        chosen = First(data, ctx.config.protocol.pictures)
        metrics |= leaks(ctx, model, chosen) | resisted(ctx, model, chosen)
        history = ctx.facts.history
        if len(history) > 1:
            metrics |= {"alpha_untrained": history[0], "alpha_first": history[1], "alpha_highest": max(history)}
        return metrics

    def needs_model(self, inputs: Inputs) -> bool:
        """Never: without weights, the named classifiers or EfficientNet-Lite are diagnosed."""
        return False

    def infer(self, ctx: Ctx, model: Network | None, inputs: Inputs) -> Diagnosis:
        return predict.diagnosis(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Diagnosis) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, Network], data: Data) -> Sequence[Artifact]:
        return pictures.draw(ctx, models, data)


def _scaled_centre_loss(logits: Tensor, labels: Tensor, length: float) -> Tensor:
    """The loss of the Max-Mahalanobis head with gradients as large as cross-entropy's: SGD diverges without."""
    return centre_loss(logits, labels) / length


# Principal components -------------------------------------------------------------------------------------------------


def components(config: Config, data: Data) -> Basis:
    """The leading components of all training pictures, as they are by index."""

    def chunks() -> Iterator[Tensor]:
        for start in range(0, len(data), CHUNK):
            some = [data[index][0] for index in range(start, min(start + CHUNK, len(data)))]
            yield torch.stack(some).flatten(1)

    rank, dimensions = config.transform.rank, math.prod(config.data.shape)
    try:
        if dimensions <= EXACT:
            return principal(chunks(), rank)
        return randomised(chunks, rank, generator(config.seed, "components"))
    except ValueError as error:
        raise VergenceError(f"the training pictures of {config.data.source} cannot be used: {error}") from None


# The protocol ---------------------------------------------------------------------------------------------------------


def leaks(ctx: Ctx, model: Network, data: Any, attacked: bool = True) -> dict[str, float]:
    """Table 2: gradient norms, ᾱ, and sizes of minimal perturbations."""
    protocol, transform = ctx.config.protocol, ctx.config.transform
    basis, bounds = model.stored.basis(), bounds_of(ctx.config)
    attack = attack_of(protocol, bounds) if attacked else None
    rows = []
    for images, labels in ctx.batches(data, protocol.batch, "attacking" if attacked else ""):
        leak = diagnose(model, images, basis, labels, attack, protocol.batch, bounds)
        centred = images.flatten(1) - basis.mean
        inside = (centred @ basis.vectors[:, : transform.narrow]).square().sum(1)
        alpha, change = (curve[:, transform.narrow - 1] for curve in (leak.curves, leak.change_curves))
        columns = [leak.norms, alpha, leak.curves[:, transform.wide - 1], leak.sizes, change, leak.right, inside,
                   centred.square().sum(1)]  # fmt: skip
        rows.append(torch.stack([column.double() for column in columns], 1))
    grad, alpha, wide, sizes, change, right, inside, whole = ctx.gather(torch.cat(rows)).unbind(1)
    found = {"grad": grad.mean(), "alpha": alpha.nanmean(), "alpha_wide": wide.nanmean()}
    if attacked:
        known = sizes.isfinite()
        fooled = sizes[known & (right > 0)]
        found |= {
            "pert": fooled.mean(), "median": fooled.median() if len(fooled) else grad.new_tensor(math.nan),
            "pert_all": sizes[known].mean(), "alpha_pert": change.nanmean(), "energy": 100 * inside.sum() / whole.sum(),
            "missed": (~known).sum(),
        }  # fmt: skip
    return {name: float(value) for name, value in found.items()}


def resisted(ctx: Ctx, model: Network, data: Any) -> dict[str, float]:
    """Table 3: accuracy under L-infinity PGD with the C&W loss."""
    protocol, bounds = ctx.config.protocol, bounds_of(ctx.config)
    attacks = {f"pgd{eps}": PGD(eps / 255, 10, BUDGETS[eps] / 255, bounds=bounds) for eps in protocol.budgets}
    if attacks:
        first = next(iter(attacks.values()))
        step = min(first.step, 2 / 255)
        attacks |= {"pgd_long": replace(first, steps=50, step=step), "pgd_targeted": replace(first, targeted=True)}
    rows: dict[str, list[Tensor]] = {name: [] for name in attacks}
    for images, labels in ctx.batches(data, protocol.batch, "PGD") if attacks else ():
        for name, attack in attacks.items():
            rows[name].append(attack.accuracy(model, images, labels, ctx.generator))
    return {name: 100 * float(ctx.gather(torch.cat(parts)).double().mean()) for name, parts in rows.items()}


def bounds_of(config: Config) -> Bounds:
    return UNIT if config.data.pictures else None


def attack_of(protocol: Protocol, bounds: Bounds) -> Attack:
    """The attack that measures minimal perturbations."""
    wagner = CarliniWagner(protocol.searches, protocol.steps, protocol.rate, protocol.constant, bounds=bounds)
    attacks: dict[str, Attack] = {
        "cw": wagner, "deepfool": DeepFool(bounds=bounds), "bim": IterativeL2(bounds=bounds),
        "strongest": Strongest((DeepFool(bounds=bounds), wagner)),
    }  # fmt: skip
    return attacks[protocol.attack]


SYSTEM = GradLeakSystem()
