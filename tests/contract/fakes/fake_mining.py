"""Data rebuilt from the weights between epochs: each epoch trains on the half that was fitted worst, with noise added.

```python
from fake_mining import SYSTEM
assert SYSTEM.trains
```
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from vergence.contract.about import About
from vergence.contract.loader import Augmented
from vergence.contract.settings import Learns, Metric, Published, Settings, Variant
from vergence.contract.system import System
from vergence.contract.training import Optimiser, Schedule, Training

ABOUT = About("fake-mining", "Mining", ("N. Body",), "Nowhere 2020", ("retrieval",), "Mines.", "mining")
SCHEDULE = Schedule("cosine", warmup=2)


@dataclass(frozen=True)
class Config:
    noise: float = 0.01
    train: Training = Training(epochs=4, batch=8, accumulate=2, keep="best", optimiser=Optimiser(lr=0.1, clip=1.0))
    polish: Training = Training(steps=5, batch=8, carry=True, optimiser=Optimiser(lr=0.05, schedule=SCHEDULE))
    seed: int = 0


SETTINGS = Settings(
    ABOUT,
    Config,
    {"tiny": Config(), "paper": Config()},
    {"mining": Variant("mining")},
    {"error": Metric("squared error", higher_is_better=False)},
    published={"paper": Published({}, (1, 1), parameters=7)},
    learns=Learns("error", steps=12, share=0.8),
)


class Mining(System):
    settings = SETTINGS

    def data(self, ctx, split):
        count = {"train": 64, "val": 48, "test": 40}[split]
        x = torch.randn(count, 6, generator=torch.Generator().manual_seed(count))
        noise = ctx.config.noise

        def jitter(sample, generator):
            return sample[0] + noise * torch.randn(6, generator=generator), sample[1]

        return Augmented([(row, row[:2].sum()) for row in x], jitter)

    def prepare(self, ctx, data):
        kept = ctx.keep(f"mean-{len(data)}", lambda: {"mean": torch.stack([x for x, _ in data.data]).mean(0)})
        return Augmented([(x - kept["mean"], y) for x, y in data.data], data.augment)

    def build(self, config, facts):
        return nn.Linear(6, 1)

    def example(self, config, facts, batch=1):
        return (torch.zeros(batch, 6),)

    def rebuild(self, ctx, model, data, epoch):
        if epoch % 2:
            return None
        errors = ctx.gather(torch.cat([(model(x)[:, 0] - y).abs() for x, y in ctx.batches(data, 16)]))
        return {"hard": errors.argsort(descending=True)[: len(data) // 2]}

    def rebuilt(self, ctx, data, state):
        return Augmented([data[i] for i in state["hard"].tolist()], data.augment)

    def losses(self, ctx, model, batch):
        return {"error": ((model(batch[0])[:, 0] - batch[1]) ** 2).mean()}

    def evaluate(self, ctx, model, data):
        parts = [(model(x)[:, 0] - y) ** 2 for x, y in ctx.batches(data, 16)]
        return {"error": ctx.gather(torch.cat(parts)).mean()}


SYSTEM = Mining()
