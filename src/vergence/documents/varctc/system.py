"""Variational CTC as a system: rendered and real words and lines, training, the protocol, and reading of pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.settings import NoFacts
from vergence.contract.system import System
from vergence.contract.training import Phase, phases_of
from vergence.data.layouts import read
from vergence.documents.layouts import LAYOUTS
from vergence.documents.lines import Alphabet, Lines
from vergence.documents.printed import Printed, printed
from vergence.documents.protocol import judged, recognised
from vergence.documents.reader import NARROWEST
from vergence.documents.varctc import pictures, predict
from vergence.documents.varctc.claims import CLAIMS
from vergence.documents.varctc.model import Recogniser, build, steps_of
from vergence.documents.varctc.predict import Reading
from vergence.documents.varctc.settings import SETTINGS, Config, Inputs

Ctx = Context[Config, NoFacts]


class VarCTCSystem(System[Config, NoFacts, Recogniser, Lines, Reading]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    def data(self, ctx: Ctx, split: str) -> Lines:
        asked = ctx.config.data
        held_out = ctx.phase == "calibrate"  # the temperature is learnt on data that the rest has not seen
        split = "val" if held_out and split == "train" else split
        texts = read(asked.source, self.layouts, split, embedded=lambda: self._embedded(ctx, split))
        augment = asked.augment and split == "train"
        alphabet = Alphabet(ctx.config.model.alphabet)
        lines = Lines.of(texts, alphabet, asked.unknown, asked.height, asked.width, augment, str(asked.source))
        if asked.width and split == "train":
            steps = steps_of(ctx.config.model, asked.width)
            long = lines.too_long(steps)
            if long:
                ctx.progress.say(
                    f"{len(long)} of {len(lines)} texts need more than the {steps} steps of a picture, such as "
                    f"{long[0][:40]!r}: their loss would be infinite and is left out"
                )
        return lines

    def _embedded(self, ctx: Ctx, split: str) -> Printed:
        asked = ctx.config.data
        count = asked.count if split == "train" else asked.held_out
        width = asked.wide if asked.embedded == "lines" else asked.width or 100
        return printed(asked.embedded, count, split, asked.height, width, asked.wear, asked.fonts == "more")

    def slice(self, data: Lines) -> Lines:
        return data.first(100)

    def build(self, config: Config, facts: NoFacts) -> Recogniser:
        return build(config.model)

    def example(self, config: Config, facts: NoFacts, batch: int = 1) -> tuple[Tensor, ...]:
        return (torch.zeros(batch, 1, config.data.height, max(config.data.width, NARROWEST)),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {
            "height": config.data.height, "width": config.data.width or "in proportion", "channels": "grey",
            "values": "minus the median, negated if the mean is above 0, over the standard deviation",
            "alphabet": config.model.alphabet, "blank": 0,
        }  # fmt: skip

    def phases(self, config: Config, facts: NoFacts) -> Mapping[str, Phase]:
        every = phases_of(config)
        return every if config.model.calibrated else {"train": every["train"]}

    def losses(self, ctx: Ctx, model: Recogniser, batch: Any) -> Mapping[str, Tensor]:
        if ctx.phase == "calibrate":
            model.eval()  # dropout and statistics of the batch would be calibrated, too
        found = model.losses(batch["image"], batch["target"], batch["length"], ctx.config.loss)
        return {"likelihood": found["likelihood"]} if ctx.phase == "calibrate" else found

    def evaluate(self, ctx: Ctx, model: Recogniser, data: Lines) -> Mapping[str, float]:
        """Greedy decoding with the prior; the confidence is the probability of the path (Eq. 9)."""
        return judged(recognised(ctx, model, data))

    def infer(self, ctx: Ctx, model: Recogniser, inputs: Inputs) -> Reading:
        return predict.reading_of(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Reading) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, Recogniser], data: Lines) -> Sequence[Artifact]:
        """Draws precision against recall, reliability, and what each network emits along two words."""
        return pictures.compared(ctx, models, data)


SYSTEM = VarCTCSystem()
