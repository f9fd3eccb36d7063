"""The flow and the deformable module against their direct forms, all views at once, and a step of training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.generation.cdvae.exact import direct_flow
from vergence.generation.cdvae.model import CDM, CDVAE, Step
from vergence.generation.cdvae.settings import PRESETS
from vergence.reference.fields import deformable_by_tap

BATCH = 16
VIEWS = 8
PLAYERS = ("discriminator", "dac", "translator")


def contests() -> Iterator[Contest]:
    """Maps of 128 x 16 x 16, as published; the networks of ``tiny``."""
    x, filters = _noise(BATCH, 128, 16, 16), 0.2 * _noise(BATCH, 2, 25)
    yield Contest("flow", f"flow of {BATCH} maps of 128 x 16 x 16, 225 channels F', forward and backward",
                  _both_ways(CDM.flow, x, filters), {"all channels": _both_ways(direct_flow, x, filters)})  # fmt: skip
    rival = {"channels and taps": _both_ways(_by_tap, x, filters)}
    yield Contest("module", "the whole module there, forward and backward", _both_ways(CDM.forward, x, filters), rival)
    yield Contest("views", f"{VIEWS} views of one object, network of tiny", partial(_views, True),
                  {"one by one": partial(_views, False)})  # fmt: skip
    yield Contest("step", "a step of all players, network of tiny, 16 pictures", partial(_step, True),
                  {"fakes made for each player": partial(_step, False)})  # fmt: skip


def _noise(*shape: int) -> Tensor:
    return torch.randn(shape, generator=generator("bench", *shape))


@cache
def _module() -> CDM:
    torch.manual_seed(0)
    return CDM(128, 25, 2)


def _both_ways(function: Callable[..., Tensor], x: Tensor, filters: Tensor) -> Callable[[], Any]:
    """Forward, and backward with respect to map, filters and weights."""
    leaves = [part.clone().requires_grad_() for part in (x, filters)]

    def run() -> Any:
        module = _module()
        wanted = [*leaves, *module.parameters()]
        return torch.autograd.grad(function(module, *leaves).sum(), wanted, allow_unused=True)

    return run


def _by_tap(module: CDM, x: Tensor, filters: Tensor) -> Tensor:
    """The public code's way: all channels, their groups, and a loop over taps."""
    made = deformable_by_tap(x, direct_flow(module, x, filters), module.deformed.weight, padding=1)
    assert module.deformed.bias is not None
    return made + module.deformed.bias.view(-1, 1, 1)


@cache
def _network() -> CDVAE:
    torch.manual_seed(0)
    return CDVAE(PRESETS["tiny"].model, VIEWS, PRESETS["tiny"].data.size)


@torch.no_grad()
def _views(at_once: bool) -> Any:
    network, rows = _network().eval().translator, torch.eye(VIEWS)
    code = _noise(1, PRESETS["tiny"].model.latent)
    if at_once:
        return network.decode(code.expand(VIEWS, -1), rows)
    return [network.decode(code, row[None]) for row in rows]


def _step(once: bool) -> Any:
    network, weights = _network().train(), PRESETS["tiny"].loss
    size = PRESETS["tiny"].data.size
    pictures, labels = _noise(16, 3, size, size).tanh(), torch.arange(16) % VIEWS
    make = partial(Step, network, pictures, labels, generator("bench", "step"))
    step = make()
    for number, player in enumerate(PLAYERS):
        step = step if once or not number else make()
        for name, part in network.named_children():
            part.requires_grad_(name == player)
        torch.stack(list(step.losses(player, weights).values())).sum().backward()
    network.requires_grad_(True)
    network.zero_grad()
