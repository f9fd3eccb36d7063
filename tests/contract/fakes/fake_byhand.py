"""Updates made by hand: a sign step on the first layer, an ordinary optimiser on the second.

```python
from fake_byhand import SYSTEM
assert SYSTEM.trains and SYSTEM.offers("update")
```
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from vergence.contract.about import About
from vergence.contract.settings import Learns, Metric, NoFacts, Published, Settings, Variant
from vergence.contract.system import System
from vergence.contract.training import Optimiser, Training
from vergence.core.errors import VergenceError
from vergence.reading.weights import load_archive

ABOUT = About("fake-byhand", "By hand", ("N. Body",), "Nowhere 2020", ("recognition",), "Steps.", "hand")


@dataclass(frozen=True)
class Config:
    sign_step: float = 0.01
    train: Training = Training(steps=20, batch=8, optimiser=Optimiser("adamw", lr=0.01))
    seed: int = 0


SETTINGS = Settings(
    ABOUT,
    Config,
    {"tiny": Config(), "paper": Config()},
    {"sign": Variant("sign"), "still": Variant("first layer still", {"sign_step": 0.0})},
    {"error": Metric("squared error", higher_is_better=False)},
    published={"paper": Published({}, (1, 1), parameters=33)},
    learns=Learns("fit", steps=20, share=0.8),
)


class ByHand(System):
    settings = SETTINGS

    def data(self, ctx, split):
        x = torch.randn(48, 6, generator=torch.Generator().manual_seed(len(split)))
        return [(row, row.abs().sum()) for row in x]

    def build(self, config, facts):
        return nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 1))

    def load_published(self, path):
        found = load_archive(path)
        if set(found) != {"first", "second"}:
            raise VergenceError(f"{path} is not a checkpoint of the authors: expected 'first' and 'second'")
        names = {"0.": found["first"], "2.": found["second"]}
        return Config(), NoFacts(), {f"{at}{k}": v for at, part in names.items() for k, v in part.items()}

    def example(self, config, facts, batch=1):
        return (torch.zeros(batch, 6),)

    def part(self, model, optimiser):
        return model[2]

    def update(self, ctx, model, batch):
        loss = ((model(batch[0])[:, 0] - batch[1]) ** 2).mean()
        first = model.get_submodule("0").weight
        ctx.optimisers["optimiser"].zero_grad()
        first.grad = None
        ctx.backward(loss)
        with torch.no_grad():
            first -= ctx.config.sign_step * first.grad.sign()
        ctx.optimisers["optimiser"].step()
        ctx.log(norm=first.norm())
        return {"fit": loss}

    def evaluate(self, ctx, model, data):
        parts = [(model(x)[:, 0] - y) ** 2 for x, y in ctx.batches(data, 16)]
        return {"error": ctx.gather(torch.cat(parts)).mean()}


SYSTEM = ByHand()
