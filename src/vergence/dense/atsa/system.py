"""ATSA as a system: rendered and real pictures with depth, training, the protocol, and objects in a user's pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import EMBEDDED, First
from vergence.contract.inputs import Artifact
from vergence.contract.settings import NoFacts
from vergence.contract.system import System
from vergence.data.layouts import read
from vergence.dense.atsa import predict
from vergence.dense.atsa.claims import CLAIMS
from vergence.dense.atsa.model import ATSA, build, load_vgg
from vergence.dense.atsa.predict import MEAN, STD, Saliency
from vergence.dense.atsa.settings import SETTINGS, Config, Inputs, Pictures
from vergence.dense.pairs import LAYOUTS, RenderedRGBD, Resized
from vergence.dense.scenes import ALIKE, OTHER, USELESS, rgbd_pictures
from vergence.drawing.grid import Panel, grid
from vergence.metrics import saliency as metrics

Ctx = Context[Config, NoFacts]
AT_ONCE = 16
"""Pictures of one size that are evaluated at once."""
KINDS = {"f_alike": ALIKE, "f_useless": USELESS, "f_both": OTHER}


class ATSASystem(System[Config, NoFacts, ATSA, Resized, Saliency]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    def data(self, ctx: Ctx, split: str) -> Resized:
        asked = ctx.config.data
        pictures = read(asked.source, self.layouts, split, embedded=lambda: _embedded(asked, split))
        if asked.source != EMBEDDED and asked.nearest != "found":
            pictures = pictures.oriented(asked.nearest)
        return Resized(pictures, asked.size, MEAN, STD, asked.augment, asked.jitter)

    def slice(self, data: Resized) -> Any:
        return First(data, 12)

    def build(self, config: Config, facts: NoFacts) -> ATSA:
        return build(config.model)

    def load_pretrained(self, config: Config, model: ATSA, state: Mapping[str, Any]) -> str:
        return load_vgg(model, state)

    def example(self, config: Config, facts: NoFacts, batch: int = 1) -> tuple[Tensor, ...]:
        size = config.data.size
        return torch.zeros(batch, 3, size, size), torch.zeros(batch, 1, size, size)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {
            "mean": MEAN, "std": STD, "range": "0 to 1", "size": config.data.size,
            "depth": "one channel from 0 (far) to 1 (near)", "output": "logits of background and salient object",
        }  # fmt: skip

    def losses(self, ctx: Ctx, model: ATSA, batch: Any) -> Mapping[str, Tensor]:
        """Eqs. 7 and 8: cross entropy over all pixels, their mean or their sum."""
        outputs = model(batch["image"], batch["depth"]).float()
        return {"entropy": F.cross_entropy(outputs, batch["mask"].long(), reduction=ctx.config.loss)}

    def evaluate(self, ctx: Ctx, model: ATSA, data: Resized) -> Mapping[str, float]:
        """Metrics of maps resized to the pictures' own size, averaged over pictures with equal weight. Maps are
        stretched to the range from 0 to 1, as in the public code."""
        rows: list[dict[str, float]] = []
        for batch in ctx.batches(data, AT_ONCE if data.equal else 1, "pictures"):
            masks = batch["mask"]
            found = model.saliency(batch["image"], batch["depth"])
            maps = metrics.stretched(_sized(found, masks))
            depth = _sized(batch["depth"][:, 0].float(), masks)
            f = metrics.adaptive_f(maps, masks)
            columns = {
                "f": f, "mae": metrics.mae(maps, masks), "s": metrics.s_measure(maps, masks),
                "e": metrics.adaptive_e(maps, masks), "f_max": metrics.max_f(maps, masks),
                "f_mean": metrics.mean_f(maps, masks), "f_boundary": metrics.boundary_f(maps, masks),
                "f_depth": metrics.adaptive_f(depth, masks),
            }  # fmt: skip
            columns |= {name: torch.where(batch["kind"] == kind, f, torch.nan) for name, kind in KINDS.items()}
            names, values = list(columns), torch.stack(list(columns.values()), 1).tolist()
            rows += [dict(zip(names, row, strict=True)) for row in values]
        rows = ctx.gather(rows)
        scores = {name: [row[name] for row in rows if not math.isnan(row[name])] for name in rows[0]}
        return {name: sum(values) / len(values) if values else math.nan for name, values in scores.items()}

    def infer(self, ctx: Ctx, model: ATSA, inputs: Inputs) -> Saliency:
        return predict.saliency_of(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Saliency) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, ATSA], data: Resized) -> Sequence[Artifact]:
        """Draws held-out pictures with depth, mask and the map of each network."""
        rows = []
        for index in _first_of_each(data):
            sample, own = data[index], data.data[index]
            inputs = [ctx.to_device(sample[name]).unsqueeze(0) for name in ("image", "depth")]
            row = [Panel(own.image / 255, "picture"), Panel(_grey(own.depth), "depth"), Panel(_grey(own.mask), "mask")]
            for name, model in models.items():
                found = _sized(model.saliency(*inputs), own.mask[None])
                f = float(metrics.adaptive_f(metrics.stretched(found.cpu()), own.mask[None]))
                row.append(Panel(_grey(found[0].cpu()), f"{self.settings.label(name)}: F {f:.2f}"))
            rows.append(row)
        caption = "Held-out rendered pictures: two of each kind, with depth, true mask and the map of each network."
        return [Artifact("image", grid(ctx.folder / "maps.png", rows, side=1.8), caption)]


def _sized(maps: Tensor, masks: Tensor) -> Tensor:
    size = masks.shape[-2:]
    if maps.shape[-2:] == size:
        return maps
    return F.interpolate(maps.unsqueeze(1), size, mode="bilinear", align_corners=False)[:, 0]


def _grey(values: Tensor) -> Tensor:
    return values.float().expand(3, -1, -1)


def _first_of_each(data: Resized) -> list[int]:
    """Two pictures of each kind."""
    if not data.equal:
        return list(range(min(6, len(data))))
    kinds = data.data.tensors["kind"]
    return [int(n) for kind in range(3) for n in (kinds == kind).nonzero()[:2, 0]]


def _embedded(asked: Pictures, split: str) -> RenderedRGBD:
    count = asked.pictures if split == "train" else asked.held_out
    share = "test" if split == "test" else "train"
    tensors = rgbd_pictures(count, asked.size, asked.size, asked.alike, asked.useless, ("embedded", split), share)  # type: ignore[arg-type]
    return RenderedRGBD(tensors)


SYSTEM = ATSASystem()
