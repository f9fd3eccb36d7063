"""Pictures for reports: held-out objects from all views, real and as each variant draws them from one picture."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.drawing.grid import Panel, grid
from vergence.generation.cdvae.model import CDVAE
from vergence.generation.cdvae.settings import Config, Facts
from vergence.generation.turntables import Turntable

Ctx = Context[Config, Facts]
OBJECTS, MOST = 3, 12


def drawn(ctx: Ctx, labels: Mapping[str, str], models: Mapping[str, CDVAE], data: Turntable) -> list[Artifact]:
    """One picture per object: its real views, then the views that each variant draws from the same source."""
    made = []
    several = [own for own in data.of_object.values() if len(own) > 1][:OBJECTS]
    for number, own in enumerate(several, 1):
        shown = own[:MOST]
        source = shown[(3 * number) % len(shown)]
        given, label = ctx.to_device(data.picture(source))[None], int(data.labels[source])
        wanted = data.labels[shown].to(ctx.device)
        rows = [[Panel((data.picture(source) + 1) / 2, f"given: {data.names[label]}")]]
        rows[0] += [Panel((data.picture(i) + 1) / 2, data.names[int(data.labels[i])]) for i in shown]
        for model in models.values():
            source_view = torch.full_like(wanted, label)
            views = model(given.expand(len(shown), -1, -1, -1), source_view, wanted)
            rows.append([Panel((given[0].cpu() + 1) / 2), *(Panel((view.cpu().float() + 1) / 2) for view in views)])
        path = grid(ctx.folder / f"object-{number}.png", rows, 1.1, ["real", *(labels[name] for name in models)])
        made.append(Artifact("image", path, "A held-out object: its real views, and those drawn from one of them."))
    return made
