"""Filtering of noisy tokens by a single nonlocal block: which filters it can be, without a network around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.inputs import Artifact
from vergence.contract.system import Task
from vergence.data.layouts import share
from vergence.drawing.figure import BLUE, ORANGE, figure, saved
from vergence.recognition.settings import Facts, Tokens
from vergence.recognition.snl.model import TokenFilter
from vergence.recognition.snl.pictures import spectra
from vergence.recognition.snl.settings import SETTINGS, Config
from vergence.recognition.snl.tasks import Ctx, asked
from vergence.recognition.tokens import TokenSets

COLUMNS = 5
"""Panels in a row of the picture of tokens."""


class TokenTask(Task[Config, Facts, TokenFilter, TokenSets, None]):
    kind = Tokens

    def embedded(self, config: Config) -> str:
        view = asked(config, Tokens)
        wanted = "the token without its noise" if view.target == "clean" else "its noise alone"
        return (
            f"Embedded: sets of {view.tokens} tokens, each one of {view.prototypes} random prototypes plus noise, with "
            f"new prototypes in every set. For each token, {wanted} is wanted."
        )

    def judged_by(self, config: Config) -> str:
        return "mse"

    def data(self, ctx: Ctx, split: str) -> TokenSets:
        view = asked(ctx.config, Tokens)
        return TokenSets(view, share(view.count, split), split)

    def facts(self, ctx: Ctx, data: TokenSets) -> Facts:
        return Facts(1)

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        view = asked(config, Tokens)
        return (torch.zeros(batch, view.tokens, view.width),)

    def losses(self, ctx: Ctx, model: TokenFilter, batch: Any) -> Mapping[str, Tensor]:
        noisy, target = batch
        return {"squared_error": F.mse_loss(model(noisy), target)}

    def evaluate(self, ctx: Ctx, model: TokenFilter, data: TokenSets) -> Mapping[str, float]:
        errors = [(model(noisy).float() - target).square().mean((1, 2)) for noisy, target in ctx.batches(data, 100)]
        return {"mse": float(ctx.gather(torch.cat(errors)).mean())}

    def pictures(self, ctx: Ctx, models: Mapping[str, TokenFilter], data: TokenSets) -> Sequence[Artifact]:
        """Draws a held-out set with the answer of every variant, and the blocks' spectra."""
        batch = torch.stack([data[index][0] for index in range(min(4, len(data)))])
        return [_answers(ctx, models, data), *spectra(ctx.folder / "spectrum.png", models, ctx.to_device(batch))]


def _answers(ctx: Ctx, models: Mapping[str, TokenFilter], data: TokenSets) -> Artifact:
    """The first set in the plane in which its targets spread most."""
    noisy, target = data[0]
    answers = {"input": noisy}
    for name, model in models.items():
        answers[SETTINGS.label(name)] = model(ctx.to_device(noisy[None]))[0].float().cpu()
    plane = torch.linalg.svd(target - target.mean(0))[2][:2].mT  # (C, 2)
    rows = -(-len(answers) // COLUMNS)
    drawn = figure(2.1 * min(len(answers), COLUMNS), 2.6 * rows)
    axes = drawn.subplots(rows, min(len(answers), COLUMNS), squeeze=False, sharex=True, sharey=True).flatten()
    for axis, (label, answer) in zip(axes, answers.items(), strict=False):
        given, wanted = (answer @ plane).T, (target @ plane).T
        axis.plot(*torch.stack([given, wanted], 1), color="0.8", linewidth=0.7, zorder=1)  # what is missing
        axis.plot(*given, ".", color=BLUE, markersize=4, label="answer")
        axis.plot(*wanted, "+", color=ORANGE, markersize=6, label="target")
        error = float((answer - target).square().mean())
        axis.set_title(f"{label}: {error:.2f}", fontsize=8)
        axis.set_aspect("equal")
        axis.tick_params(labelsize=7)
    for axis in axes[len(answers) :]:
        axis.set_visible(False)
    axes[0].legend(fontsize=7)
    caption = (
        "A held-out set of tokens in the plane in which its targets spread most, and the answer of every variant, "
        "joined to its target, with the mean squared error."
    )
    return Artifact("image", saved(drawn, ctx.folder / "tokens.png"), caption)
