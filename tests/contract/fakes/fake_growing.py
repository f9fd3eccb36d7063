"""Phases with a head that grows: the data decides how many tasks there are, and each brings a head.

```python
from fake_growing import Heads
assert len(Heads(2).heads) == 2
```
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn

from vergence.contract.about import About
from vergence.contract.settings import Learns, Metric, Published, Settings, Variant
from vergence.contract.system import System
from vergence.contract.training import Optimiser, Training

ABOUT = About("fake-growing", "Heads", ("N. Body",), "Nowhere 2020", ("recognition",), "Grows.", "heads")


@dataclass(frozen=True)
class Config:
    tasks: int = 3
    task: Training = Training(epochs=2, batch=8, carry=True, optimiser=Optimiser(lr=0.02))
    seed: int = 0


@dataclass(frozen=True)
class Facts:
    tasks: int
    heads: int = 0


class Heads(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.trunk = nn.Linear(6, 5)
        self.drop = nn.Dropout(0.2)
        self.heads = nn.ModuleList(nn.Linear(5, 1) for _ in range(count))

    def forward(self, x):
        hidden = self.drop(self.trunk(x).relu())
        return torch.cat([head(hidden) for head in self.heads], 1)


SETTINGS = Settings(
    ABOUT,
    Config,
    {"tiny": Config(), "paper": Config()},
    {"heads": Variant("heads")},
    {"error": Metric("mean error", higher_is_better=False)},
    facts=Facts,
    published={"paper": Published({"tasks": 3, "heads": 3}, (1, 3), parameters=53)},
    learns=Learns("regression", steps=40, share=0.7),
)


class Growing(System):
    settings = SETTINGS

    def data(self, ctx, split):
        x = torch.randn(40, 6, generator=torch.Generator().manual_seed(len(split)))
        return [(row, row[: ctx.config.tasks]) for row in x]

    def facts(self, ctx, data):
        return Facts(tasks=len(data[0][1]))

    def phases(self, config, facts):
        return {f"task-{t}": config.task for t in range(facts.tasks)}

    def build(self, config, facts):
        return Heads(facts.heads)

    def example(self, config, facts, batch=1):
        return (torch.zeros(batch, 6),)

    def start(self, ctx, model):
        ctx.facts = replace(ctx.facts, heads=ctx.facts.heads + 1)
        model.heads.append(nn.Linear(5, 1, device=ctx.device))
        model.trunk.requires_grad_(ctx.facts.heads < ctx.facts.tasks)  # the last task learns its head alone
        return model

    def losses(self, ctx, model, batch):
        task = int(ctx.phase.removeprefix("task-"))
        return {"regression": ((model(batch[0])[:, task] - batch[1][:, task]) ** 2).mean()}

    def evaluate(self, ctx, model, data):
        pairs = [(model(x), y[:, : ctx.facts.heads]) for x, y in ctx.batches(data, 16)]
        return {"error": ctx.gather(torch.cat([(p - y).abs() for p, y in pairs])).mean()}


SYSTEM = Growing()
