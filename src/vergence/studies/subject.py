"""Contents of a report: finished runs by variant, the claims about them, and the system's pictures of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from vergence.contract.inputs import Artifact
from vergence.contract.system import AnySystem
from vergence.core.files import make_folder
from vergence.core.progress import Progress
from vergence.engine.contexts import working
from vergence.engine.weights import load_model
from vergence.runs.folder import Run
from vergence.studies.ledger import Entry


@dataclass(frozen=True)
class Subject:
    """Finished runs by variant (one per seed), and the claims about them."""

    system: AnySystem
    preset: str
    runs: Mapping[str, Sequence[Run]]
    entries: Sequence[Entry] = ()
    commands: Sequence[str] = ()

    @property
    def first(self) -> Run:
        return next(iter(self.runs.values()))[0]

    def label(self, variant: str) -> str:
        return self.system.variants[variant].label if variant in self.system.variants else variant


def draw(subject: Subject, folder: Path, progress: Progress) -> list[Artifact]:
    """Let the system draw its trained variants (one seed each) into ``pictures/``."""
    system = subject.system
    if not system.offers("pictures"):
        return []
    models, facts = {}, None
    for variant, runs in subject.runs.items():
        if runs[0].weights is not None:
            models[variant], identity = load_model(runs[0].weights)
            facts = identity.facts
    order = subject.first.order
    place = folder / "pictures"
    make_folder(place)
    with working(system, order.config, place, order.runtime, progress, facts) as ctx:
        ctx.measured = {variant: runs[0].metrics for variant, runs in subject.runs.items()}
        data = system.prepare(ctx, system.data(ctx, "test"))
        placed = {variant: model.to(ctx.device, ctx.float_type) for variant, model in models.items()}
        with torch.no_grad(), ctx.autocast():
            return list(system.pictures(ctx, placed, data))
