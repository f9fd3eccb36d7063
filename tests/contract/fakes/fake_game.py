"""Two optimisers in an n:1 rhythm: a generator that steps once while its critic steps three times.

```python
import torch
from fake_game import Game
assert Game().generator(torch.zeros(2, 4)).shape == (2, 1)
```
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from vergence.contract.about import About
from vergence.contract.settings import Learns, Metric, Published, Settings, Variant
from vergence.contract.system import System
from vergence.contract.training import Optimiser, Phase

ABOUT = About("fake-game", "A game", ("N. Body",), "Nowhere 2020", ("generation",), "Plays.", "game")


@dataclass(frozen=True)
class Play(Phase):
    critic: Optimiser = Optimiser("adam", lr=1e-2)
    generator: Optimiser = Optimiser("adam", lr=1e-2, every=3)


@dataclass(frozen=True)
class Config:
    penalty: float = 0.1
    play: Play = Play(epochs=3, batch=16, evaluate_every=2)
    seed: int = 0


class Game(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = nn.Linear(4, 1)
        self.critic = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, noise):
        return self.critic(self.generator(noise))


SETTINGS = Settings(
    ABOUT,
    Config,
    {"tiny": Config(), "paper": Config()},
    {"game": Variant("game"), "free": Variant("no penalty", {"penalty": 0.0}, headline=False)},
    {"gap": Metric("gap of the means", higher_is_better=False)},
    published={"paper": Published({}, (1, 1), parameters=30)},
    learns=Learns("critic", steps=24, share=0.5),
)


class GameSystem(System):
    settings = SETTINGS

    def data(self, ctx, split):
        return 3 + torch.randn(64, 1, generator=torch.Generator().manual_seed(len(split)))

    def build(self, config, facts):
        return Game()

    def example(self, config, facts, batch=1):
        return (torch.zeros(batch, 4),)

    def losses(self, ctx, model, batch):
        fake = model.generator(torch.randn(len(batch), 4, generator=ctx.generator, device=batch.device))
        if ctx.turn == "generator":
            return {"generator": (model.critic(fake) ** 2).mean()}
        real, made = model.critic(batch), model.critic(fake.detach())
        penalty = ctx.config.penalty * (real**2).mean()
        return {"critic": ((real - 0) ** 2).mean() + ((made - 1) ** 2).mean(), "penalty": penalty}

    def evaluate(self, ctx, model, data):
        made = model.generator(torch.randn(256, 4, generator=ctx.generator, device=ctx.device))
        return {"gap": (made.mean() - data.mean()).abs()}


SYSTEM = GameSystem()
