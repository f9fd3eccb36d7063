"""TabStruct-Net as a system: rendered and real tables, training, the protocol, and tables of a user's pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import First
from vergence.contract.inputs import Artifact
from vergence.contract.settings import NoFacts
from vergence.contract.system import System
from vergence.contract.training import Phase
from vergence.core.errors import VergenceError
from vergence.data.layouts import read, share
from vergence.documents.table_layouts import LAYOUTS
from vergence.documents.table_protocol import averaged, judged, pair_counts, structured
from vergence.documents.tables import Fitted, Recipe, RenderedTables, TableBatch
from vergence.documents.tabstruct import pictures, predict
from vergence.documents.tabstruct.claims import CLAIMS
from vergence.documents.tabstruct.model import TabStructNet, build
from vergence.documents.tabstruct.predict import Tables
from vergence.documents.tabstruct.settings import SETTINGS, Config, Inputs
from vergence.metrics.tables import Structure
from vergence.nn.detector_weights import weights_of
from vergence.nn.detectors import resnet_fpn

Ctx = Context[Config, NoFacts]
TOGETHER = 8
"""Small pictures that are judged at once."""
EXAMPLE = 6
"""Boxes of the example input."""


class TabStruct(System[Config, NoFacts, TabStructNet, Fitted, Tables]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    # Data and model ---------------------------------------------------------------------------------------------------

    def data(self, ctx: Ctx, split: str) -> Fitted:
        asked = ctx.config.data
        recipe = Recipe(asked.rows, asked.columns, asked.wear, asked.longest, asked.sizes, asked.fresh, asked.fresh)
        count = share(asked.count, split)
        tables = read(asked.source, self.layouts, split, lambda: RenderedTables(recipe, split, count, asked.fresh))
        train = split == "train"
        return Fitted(tables, ctx.config.model.pixels, asked.longest, asked.em, asked.jitter if train else 0.0,
                      asked.flip and train)  # fmt: skip

    def slice(self, data: Fitted) -> Any:
        return First(data, 16)

    def build(self, config: Config, facts: NoFacts) -> TabStructNet:
        return build(config.model)

    def example(self, config: Config, facts: NoFacts, batch: int = 1) -> tuple[Tensor, ...]:
        side = config.data.longest
        corner = torch.arange(EXAMPLE).view(-1, 1) * torch.tensor([[side / 16, side / 24]])
        boxes = torch.cat([corner, corner + torch.tensor([[side / 8, side / 12]])], 1)
        channels = 1 if config.model.pixels == "ink" else 3
        return torch.zeros(batch, channels, side, side), boxes.expand(batch, -1, -1).clone()

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {
            "pixels": "grey, paper 0, ink 1" if config.model.pixels == "ink" else "RGB, ImageNet's mean and deviation",
            "longer side": config.data.longest, "size of fonts": config.data.em or "as it comes",
            "padding": "zeros to multiples of 32",
        }  # fmt: skip

    def load_pretrained(self, config: Config, model: TabStructNet, state: Mapping[str, Any]) -> str:
        """Body and heads of a Mask R-CNN; the two-way pyramid, proposals and the classes of regions are new."""
        if config.model.body != "resnet" or model.detector is None:
            raise VergenceError("weights of a Mask R-CNN begin a detector with a ResNet (--model.body resnet)")
        scores = state.get("roi_heads.box_predictor.cls_score.weight")
        if not isinstance(scores, Tensor) or scores.dim() != 2:
            raise VergenceError("these weights are not a Mask R-CNN's: they have no classes of regions")
        family = "detectron2" if any(name.startswith("proposal_generator.") for name in state) else "torchvision"
        with torch.device("meta"):
            theirs = resnet_fpn(len(scores) - 1, True, config.model.depths, family)  # type: ignore[arg-type]
        project, found = weights_of(theirs, state)
        own = model.detector.state_dict()
        kept = {n: w for n, w in found.items() if n in own and own[n].shape == w.shape and "predictor" not in n}
        model.detector.load_state_dict({**own, **kept})
        return f"{len(kept)} of {len(own)} tensors of the detector are those of {project}, the others are new"

    # Training ---------------------------------------------------------------------------------------------------------

    def phases(self, config: Config, facts: NoFacts) -> Mapping[str, Phase]:
        ends = {"finish": config.finish} if config.finish.epochs or config.finish.steps else {}
        return {"train": config.train} | ends

    def losses(self, ctx: Ctx, model: TabStructNet, batch: TableBatch) -> Mapping[str, Tensor]:
        if model.detector is not None:
            sampled = ctx.config.finish_sampled if ctx.phase == "finish" else ctx.config.model.sampled
            model.detector.rpn.sampled, model.detector.roi_heads.sampled = sampled
        return model.losses(batch, ctx.config.loss, ctx.config.data.given, ctx.generator)

    # Use --------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Ctx, model: TabStructNet, data: Fitted) -> Mapping[str, float]:
        """S-A, or S-B where boxes are given; cells that are empty count in neither."""
        given, rows = ctx.config.data.given, []
        if given == "nothing" and model.detector is None:
            raise VergenceError("these weights have no detector: they are judged with boxes (--data.given content)")
        size = TOGETHER if model.config.body == "small" else 1
        for batch in ctx.batches(data, size, "judging"):
            boxes = [table.content if given == "content" else table.cells for table in batch.tables]
            with ctx.autocast():
                found = model.recognise(batch.pictures, batch.sizes, None if given == "nothing" else boxes)
                known = model.recognise(batch.pictures, batch.sizes, boxes) if given == "nothing" else found
            for own, exact, table, true in zip(found, known, batch.tables, boxes, strict=True):
                truth = Structure(true.double().cpu().numpy(), table.spans.cpu().numpy())
                row = judged(structured(*own, given == "content"), truth, ctx.stage == "test")
                if model.structure is not None:
                    row |= pair_counts((exact.rows, exact.columns), table.spans.cpu(), model.config.relation)
                rows.append(row)
        return averaged(ctx.gather(rows))

    def infer(self, ctx: Ctx, model: TabStructNet, inputs: Inputs) -> Tables:
        return predict.tables_of(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Tables) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, TabStructNet], data: Fitted) -> Sequence[Artifact]:
        return pictures.compared(ctx, models, data)


SYSTEM = TabStruct()
