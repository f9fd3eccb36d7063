"""One training step: losses, gradients, and the optimisers whose turn it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from vergence.contract.context import Context
from vergence.contract.system import AnySystem
from vergence.contract.training import Optimiser, Phase
from vergence.core.errors import VergenceError
from vergence.engine.devices import over_processes
from vergence.engine.optimisers import build_optimiser, load_state_by_name, set_rate, state_by_name

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class NotFinite(Exception):
    """A loss is NaN or infinite."""

    def __init__(self, name: str, value: float) -> None:
        super().__init__(name)
        self.name, self.value = name, value


class Objective(nn.Module):
    """A system's losses as a module: what runs inside its forward is under autocast and synchronised between
    processes, whichever parts of the model the system calls."""

    def __init__(self, system: AnySystem, ctx: Context[Any, Any], model: nn.Module) -> None:
        super().__init__()
        self.system, self.ctx, self.model = system, ctx, model

    def forward(self, batch: Any) -> dict[str, Tensor]:
        return dict(self.system.losses(self.ctx, self.model, batch))


class Stepper:
    """Training steps of one phase, with its optimisers."""

    def __init__(
        self,
        system: AnySystem,
        ctx: Context[Any, Any],
        model: nn.Module,
        phase: Phase,
        fabric: Fabric,
        memories: Mapping[str, Any],
    ) -> None:
        self.system, self.ctx, self.model, self.fabric = system, ctx, model, fabric
        self.specs = phase.optimisers() if phase.epochs or phase.steps else {}
        self.weight = 1.0
        self.by_hand = system.offers("update") and not (system.offers("losses") and self.specs)
        self._refuse_nonsense(phase)
        fabric.to_device(model.train())
        self.plain = {name: build_optimiser(spec, self._part(name)) for name, spec in self.specs.items()}
        self.objective: Any = Objective(system, ctx, model)
        if self.plain and not self.by_hand and ctx.world > 1:
            self.objective, *wrapped = fabric.setup(self.objective, *self.plain.values())
        else:  # one process has nothing to synchronise
            wrapped = [fabric.setup_optimizers(o) for o in self.plain.values()]
        self.optimisers = dict(zip(self.plain, wrapped, strict=True))
        for name, optimiser in self.plain.items():
            self._remember(name, optimiser, memories)
        ctx.optimisers, ctx.backward = self.optimisers, self._backward_by_hand

    def _part(self, name: str) -> nn.Module:
        part = self.system.part(self.model, name)
        if part is self.model and len(self.specs) > 1:
            raise VergenceError(
                f"the model of {self.system.about.name} has no part {name!r} for its optimiser to update"
            )
        return part

    def memories(self) -> dict[str, Any]:
        """The states of the optimisers, by optimiser and parameter name."""
        return {
            name: {"kind": self.specs[name].kind, "parameters": state_by_name(optimiser, self.model)}
            for name, optimiser in self.plain.items()
        }

    def rates(self) -> dict[str, float]:
        return {name: optimiser.param_groups[0]["lr"] for name, optimiser in self.plain.items()}

    def __call__(
        self, pieces: Sequence[tuple[float, Any]], step: int, rate: Callable[[Optimiser], float]
    ) -> dict[str, float]:
        """Take a step on a batch in pieces, each with its weight, and return the losses by name."""
        for name, spec in self.specs.items():
            set_rate(self.plain[name], rate(spec))
        if self.by_hand:
            self.weight, piece = pieces[0]
            with self.fabric.autocast():
                named = self.system.update(self.ctx, self.model, piece)
            return self._checked(named, self._stacked(named), self.weight)
        seen: dict[str, float] = {}
        for name, spec in self.specs.items():
            if (step + 1) % spec.every == 0:
                self.ctx.turn = name
                seen |= self._descend(name, spec, pieces)
        return seen

    def _descend(self, name: str, spec: Optimiser, pieces: Sequence[tuple[float, Any]]) -> dict[str, float]:
        optimiser = self.optimisers[name]
        self.plain[name].zero_grad(set_to_none=True)
        seen: dict[str, float] = {}
        for number, (weight, piece) in enumerate(pieces, 1):
            alone = self.ctx.world == 1 or number == len(pieces)
            with nullcontext() if alone else self.fabric.no_backward_sync(self.objective):
                with self.fabric.autocast():  # the losses only: gradients have the types of their parameters
                    named = self.objective(piece)
                stacked = self._stacked(named)
                for key, value in self._checked(named, stacked, weight).items():
                    seen[key] = seen.get(key, 0.0) + value
                total = stacked.sum()
                self.fabric.backward(total * weight if weight != 1 else total)
        if spec.clip:
            self.fabric.clip_gradients(self.objective, optimiser, max_norm=spec.clip, error_if_nonfinite=False)
        optimiser.step()
        return seen

    def _stacked(self, losses: Mapping[str, Tensor]) -> Tensor:
        if not losses:
            raise VergenceError(f"a training step of {self.system.about.name} returned no losses")
        return torch.stack(list(losses.values()))

    def _checked(self, names: Iterable[str], losses: Tensor, weight: float) -> dict[str, float]:
        """Losses as numbers, each with the weight of its piece, the mean over all processes; one that is not finite
        ends the run."""
        values = losses.detach().float()
        values = values * weight if weight != 1 else values
        if self.ctx.world > 1:
            values = over_processes(self.fabric, values, "mean")
        named = dict(zip(names, values.tolist(), strict=True))  # one transfer for all
        for name, value in named.items():
            if not math.isfinite(value):
                raise NotFinite(name, value)
        return named

    def _backward_by_hand(self, loss: Tensor) -> None:
        """Back-propagate, and average the gradients over processes, each with the weight of its share."""
        self.fabric.backward(loss * self.weight if self.weight != 1 else loss)
        if self.ctx.world > 1:
            for parameter in self.model.parameters():
                if parameter.grad is not None:
                    parameter.grad.copy_(over_processes(self.fabric, parameter.grad, "mean"))

    def _remember(self, name: str, optimiser: torch.optim.Optimizer, memories: Mapping[str, Any]) -> None:
        memory = memories.get(name)
        if memory is None:
            return
        if memory["kind"] != self.specs[name].kind:
            kinds = f"{memory['kind']} to {self.specs[name].kind}"
            raise VergenceError(
                f"the phase {self.ctx.phase!r} cannot keep the state of {name!r}: it changes from {kinds}"
            )
        load_state_by_name(optimiser, self.model, memory["parameters"])

    def _refuse_nonsense(self, phase: Phase) -> None:
        name = self.system.about.name
        if self.by_hand and phase.accumulate > 1:
            raise VergenceError(f"{name} makes its updates by hand: accumulate must be 1")
        if (phase.epochs or phase.steps) and not self.specs and not self.by_hand:
            raise VergenceError(f"the phase {self.ctx.phase!r} has no optimiser")
