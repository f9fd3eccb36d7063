"""Embedded sets of tokens: a few prototypes, new ones for every set, seen many times with noise.

Any token alone says little about its prototype; those like it, averaged, say almost all. Which are alike has to be
found out, since no prototype comes twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vergence.core.seeding import generator
from vergence.recognition.settings import Tokens


@dataclass(frozen=True)
class TokenSets:
    """Sets of noisy tokens with their targets, both (N, C): the same by index, drawn afresh for training."""

    view: Tokens
    count: int
    split: str

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.draw(index, generator("tokens", self.split, range(self.count)[index]))

    def draw(self, index: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        view = self.view
        prototypes = torch.randn(view.prototypes, view.width, generator=generator)
        clean = prototypes[torch.randint(view.prototypes, (view.tokens,), generator=generator)]
        noise = view.noise * torch.randn(view.tokens, view.width, generator=generator)
        return clean + noise, clean if view.target == "clean" else noise
