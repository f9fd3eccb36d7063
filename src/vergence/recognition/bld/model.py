"""The network, one classifier per task on a shared backbone, and the update that a batch makes: BLD and its rivals.

Gradients are accumulated in ``.grad`` over chunks of augmented copies, so that a step needs one set of gradients and
the activations of one chunk, whatever the number of copies. After a step nothing is left but the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.nn.stages import Stages
from vergence.recognition.bld.settings import Config, Facts, Method, ModelConfig
from vergence.recognition.copies import Copies

MEAN, STD = 0.5, 0.25
"""Of pixels from 0 to 1, subtracted and divided by in the network."""


class Block(nn.Module):
    """A basic residual block with GroupNorm."""

    def __init__(self, inputs: int, width: int, stride: int, groups: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.norm1 = nn.GroupNorm(groups, width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = nn.GroupNorm(groups, width)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != width:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, width, 1, stride, bias=False), nn.GroupNorm(groups, width)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        return F.relu(out + (x if self.downsample is None else self.downsample(x)))


class Backbone(Stages):
    """Ψ: a ResNet for small pictures (B, 3, H, W) from 0 to 1; its output is the mean of the last map."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()

        class Grouped(Block):
            expansion = 1

            def __init__(self, inputs: int, width: int, stride: int) -> None:
                super().__init__(inputs, width, stride, config.groups)

        self.conv1 = nn.Conv2d(3, config.widths[0], 3, config.stride, 1, bias=False)
        self.norm1 = nn.GroupNorm(config.groups, config.widths[0])
        self.outputs = self.add_stages(Grouped, config.widths[0], config.depths, config.widths, (), None)
        for module in (m for m in self.modules() if isinstance(m, nn.Conv2d)):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        return self.run_stages(F.relu(self.norm1(self.conv1((x - MEAN) / STD)))).mean((2, 3))


class Anchor(nn.Module):
    """What EWC keeps: the weights after the last task, and how much the older tasks depend on each (Fisher)."""

    def __init__(self, parameters: int) -> None:
        super().__init__()
        self.weights: Tensor
        self.fisher: Tensor
        self.register_buffer("weights", torch.zeros(parameters))
        self.register_buffer("fisher", torch.zeros(parameters))


class Reservoir(nn.Module):
    """What replay keeps: a uniform sample of all pictures so far, as bytes."""

    def __init__(self, room: int, size: int) -> None:
        super().__init__()
        self.pictures: Tensor
        self.homes: Tensor
        self.seen: Tensor
        self.register_buffer("pictures", torch.zeros(room, 3, size, size, dtype=torch.uint8))
        self.register_buffer("homes", torch.zeros(room, 2, dtype=torch.long))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def add(self, pictures: Tensor, homes: Tensor, generator: torch.Generator) -> None:
        """Reservoir sampling: the n-th picture takes a random place out of n, if that is one of ours."""
        for picture, home in zip(pictures.mul(255).round().to(torch.uint8), homes, strict=True):
            self.seen += 1
            count = int(self.seen)
            place = int(torch.randint(count, (), generator=generator, device=generator.device))
            place = count - 1 if count <= len(self.pictures) else place
            if place < len(self.pictures):
                self.pictures[place], self.homes[place] = picture, home

    @property
    def stored(self) -> tuple[Tensor, Tensor]:
        """The pictures (n, 3, S, S) from 0 to 1, and their labels and tasks (n, 2)."""
        count = min(int(self.seen), len(self.pictures))
        return self.pictures[:count].float() / 255, self.homes[:count]


class Network(nn.Module):
    """Backbone and classifiers φ_1 ... φ_t; logits of every task from pictures (B, 3, H, W) from 0 to 1."""

    def __init__(self, config: ModelConfig, counts: Sequence[int], memory: nn.Module | None = None) -> None:
        super().__init__()
        self.backbone = Backbone(config)
        self.heads = nn.ModuleList()
        self.memory = memory
        for count in counts:
            self.add_head(count)

    def add_head(self, classes: int) -> None:
        """A classifier for a new task, where the network is."""
        like = self.backbone.conv1.weight
        head = nn.Linear(self.backbone.outputs, classes, dtype=like.dtype)
        self.heads.append(head if like.is_meta else head.to(like.device))

    def forward(self, x: Tensor) -> list[Tensor]:
        features = self.backbone(x)
        return [head(features) for head in self.heads]

    @property
    def counts(self) -> list[int]:
        """The number of classes of each task."""
        return [len(head.bias) for head in self.heads if isinstance(head, nn.Linear)]

    def learning(self) -> list[nn.Parameter]:
        return list(self.parameters())


def build(config: Config, facts: Facts) -> Network:
    """The network with the classifiers of the tasks that have begun, and what the method keeps beside it."""
    memory: nn.Module | None = None
    if config.method.kind == "ewc":
        with torch.device("meta"):
            parameters = sum(p.numel() for p in Backbone(config.model).parameters())
        memory = Anchor(parameters)
    elif config.method.kind == "replay":
        memory = Reservoir(room(config, facts), config.data.size)
    return Network(config.model, facts.counts, memory)


def bank_bytes(batch: int, copies: int, classes: int) -> int:
    """Size of the predictions that BLD stores within a batch, for the classes of all old tasks, in float32."""
    return 4 * batch * copies * classes


def room(config: Config, facts: Facts) -> int:
    """The number of pictures that fit into the memory of BLD's predictions in the last task; at least one."""
    old = sum(len(task) for task in facts.tasks[:-1])
    size = bank_bytes(config.train.batch, config.method.copies, old)
    return max(size // (3 * config.data.size**2), 1)


# The update of a batch ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    """The copies of a batch with labels and tasks (B,) of its pictures."""

    copies: Copies
    labels: Tensor
    tasks: Tensor


@dataclass(frozen=True)
class Learner:
    """Learns a batch by gradient descent; it has no state but the network's."""

    network: Network
    method: Method
    rate: float
    warm: float
    """Learning rate of the warm-up."""
    backward: Callable[[Tensor], None] = torch.autograd.backward
    share: float = 1.0
    """By how much to multiply sums over the batch, where several processes have a part of it each."""

    # Passes over all copies: each adds a gradient to `.grad` and returns the loss per picture.

    def warm_up(self, batch: Batch, old: int) -> tuple[Tensor, Tensor]:
        """Algorithm 1 without its update: the bank Ŷ of predictions (K, B, old classes), and the new task's loss."""
        counts = self.network.counts[:old]
        size = (batch.copies.count, len(batch.labels), sum(counts))
        bank = torch.empty(size, dtype=_at_least_single(batch.copies.pictures), device=batch.labels.device)

        def loss(features: Tensor, numbers: range) -> Tensor:
            with torch.no_grad():
                parts = bank[numbers.start : numbers.stop].split(counts, -1)
                for part, softened in zip(parts, self._softened(features, numbers, old), strict=True):
                    part.copy_(softened.exp())
            return self._entropy(features, numbers, batch)

        return bank, self._passes(batch, loss)

    def entropy(self, batch: Batch) -> Tensor:
        """Eq. 1, the cross-entropy of the new task."""
        return self._passes(batch, lambda features, numbers: self._entropy(features, numbers, batch))

    def distillation(self, batch: Batch, bank: Tensor, old: int, strength: float = 1.0) -> Tensor:
        """Eq. 2, the cross-entropy between predictions now and those of the bank, (K or 1, B, old classes)."""
        return self._passes(batch, lambda features, numbers: strength * self._distance(features, numbers, bank, old))

    def both(self, batch: Batch, bank: Tensor, old: int, strength: float) -> Tensor:
        """Both losses in one pass, with a constant weight between them: (2,)."""

        def losses(features: Tensor, numbers: range) -> Tensor:
            learnt = self._entropy(features, numbers, batch)
            return torch.stack([learnt, strength * self._distance(features, numbers, bank, old)])

        return self._passes(batch, losses)

    def _passes(self, batch: Batch, loss: Callable[[Tensor, range], Tensor]) -> Tensor:
        total = torch.zeros((), device=batch.labels.device)
        for numbers, pictures in batch.copies.chunks(self.method.chunk):
            summed = loss(self.network.backbone(pictures), numbers) / batch.copies.count
            self.backward(summed.sum() * self.share)
            total = total + summed.detach()
        return total / len(batch.labels)

    def _entropy(self, features: Tensor, numbers: range, batch: Batch) -> Tensor:
        labels, tasks = batch.labels.repeat(len(numbers)), batch.tasks.repeat(len(numbers))
        losses = []
        for task in batch.tasks.unique().tolist():
            rows = tasks == task
            logits = self.network.heads[task](features[rows])
            logits = logits.to(_at_least_single(logits))
            losses.append(F.cross_entropy(logits, labels[rows], reduction="sum"))
        return torch.stack(losses).sum()

    def _distance(self, features: Tensor, numbers: range, bank: Tensor, old: int) -> Tensor:
        own = bank if len(bank) == 1 else bank[numbers.start : numbers.stop]
        return -(own * torch.cat(list(self._softened(features, numbers, old)), -1)).sum()

    def _softened(self, features: Tensor, numbers: range, old: int) -> Iterator[Tensor]:
        """Logarithms of the softened predictions of the old tasks, (n, B, classes) each."""
        for head in self.network.heads[:old]:
            logits = head(features).unflatten(0, (len(numbers), -1))
            yield F.log_softmax(logits.to(_at_least_single(logits)) / self.method.temperature, -1)

    # Updates

    def descend(self, rate: float) -> None:
        """A step of plain gradient descent, after which there are no gradients."""
        pairs = [(p, p.grad) for p in self.network.learning() if p.grad is not None]
        with torch.no_grad():
            torch._foreach_add_([p for p, _ in pairs], [g for _, g in pairs], alpha=-rate)
        for parameter, _ in pairs:
            parameter.grad = None

    def norms(self) -> Tensor:
        """‖G‖ of every layer, that is of every tensor of weights; 0 for those without gradient."""
        none = torch.zeros((), device=next(self.network.parameters()).device)
        return torch.stack([none if p.grad is None else p.grad.norm() for p in self.network.learning()])

    def balance(self, wanted: Tensor) -> None:
        """Scale the distillation gradient of each layer to λ times the norm ``wanted``. Layers that the new task does
        not use, the older classifiers, get none; where there is no gradient, none is made up."""
        sizes = self.norms()
        factors = torch.where(sizes > 0, self.method.strength * wanted / sizes, 0.0)
        for parameter, factor in zip(self.network.learning(), factors, strict=True):
            if parameter.grad is not None:
                parameter.grad.mul_(factor)

    def pull(self, weights: Sequence[Tensor], start: Sequence[Tensor], each: Sequence[Tensor | float]) -> None:
        """Add the gradient of Σ penalty · each · (w - start)²."""
        for parameter, before, importance in zip(weights, start, each, strict=True):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.add_(2 * self.method.penalty * importance * (parameter.detach() - before))

    # Methods

    def bld(self, batch: Batch, old: int) -> dict[str, Tensor]:
        """Batch-level distillation: Algorithm 1, then Algorithm 2 several times, with one bank Ŷ and one ‖G_w‖."""
        bank, learnt = self.warm_up(batch, old)
        wanted = self.norms()
        self.descend(self.warm)
        losses = {"entropy": learnt}
        for _ in range(self.method.iterations):
            if old:
                losses["distillation"] = self.distillation(batch, bank, old)
                self.balance(wanted)
            self.entropy(batch)
            self.descend(self.rate)
        return losses

    def unbalanced(self, batch: Batch, old: int) -> dict[str, Tensor]:
        """BLD with 1 for ‖G_w‖ / ‖G_d‖: a constant weight between the two losses."""
        bank, learnt = self.warm_up(batch, old)
        self.descend(self.warm)
        return {"entropy": learnt} | self._constant(batch, bank, old)

    def alternated(self, batch: Batch, old: int) -> dict[str, Tensor]:
        """The new task and the old ones in turns: a step for each."""
        bank, learnt = self.warm_up(batch, old)
        self.descend(self.warm)
        losses = {"entropy": learnt}
        for _ in range(self.method.iterations):
            self.entropy(batch)
            self.descend(self.rate)
            if old:
                losses["distillation"] = self.distillation(batch, bank, old, self.method.strength)
                self.descend(self.rate)
        return losses

    def lwf(self, batch: Batch, old: int, bank: Tensor) -> dict[str, Tensor]:
        """Learning without forgetting: the bank (B, old classes) was filled before the task began."""
        learnt = self.entropy(batch)
        self.descend(self.warm)
        return {"entropy": learnt} | self._constant(batch, bank.unsqueeze(0), old)

    def plain(self, batch: Batch, pull: Callable[[], Any] | None = None) -> dict[str, Tensor]:
        """The new task alone, with as many updates as BLD; ``pull`` may add to the gradient."""
        learnt = self.entropy(batch)
        self.descend(self.warm)
        for _ in range(self.method.iterations):
            self.entropy(batch)
            if pull is not None:
                pull()
            self.descend(self.rate)
        return {"entropy": learnt}

    def l2(self, batch: Batch) -> dict[str, Tensor]:
        """The distance to the weights at the start of the batch is penalised."""
        weights = self.network.learning()
        start = [parameter.detach().clone() for parameter in weights]
        return self.plain(batch, lambda: self.pull(weights, start, [1.0] * len(start)))

    def ewc(self, batch: Batch, anchor: Anchor) -> dict[str, Tensor]:
        """The distance to the weights after the last task, weighted by how much older tasks depend on each."""
        weights = list(self.network.backbone.parameters())
        sizes = [p.numel() for p in weights]
        start, fisher = (
            [part.view_as(p) for p, part in zip(weights, values.split(sizes), strict=True)]
            for values in (anchor.weights, anchor.fisher)
        )
        return self.plain(batch, lambda: self.pull(weights, start, fisher))

    def _constant(self, batch: Batch, bank: Tensor, old: int) -> dict[str, Tensor]:
        losses = {}
        for _ in range(self.method.iterations):
            if old:
                losses["distillation"] = self.both(batch, bank, old, self.method.strength)[1]
            else:
                self.entropy(batch)
            self.descend(self.rate)
        return losses


def _at_least_single(values: Tensor) -> torch.dtype:
    """float32, or the type of the values if that is wider."""
    return torch.promote_types(values.dtype, torch.float32)


def squared_gradients(network: Network, samples: Iterator[tuple[Tensor, int, int]]) -> Tensor:
    """The diagonal of the empirical Fisher information of the backbone's weights: the mean over samples (a picture, its
    label and task) of the squared gradient of the label's log-likelihood, as one vector."""
    weights = list(network.backbone.parameters())
    total, count = torch.cat([torch.zeros_like(p).flatten() for p in weights]), 0
    for picture, label, task in samples:
        logits = network.heads[task](network.backbone(picture.unsqueeze(0)))
        chances = F.log_softmax(logits.to(_at_least_single(logits)), 1)
        gradients = torch.autograd.grad(chances[0, label], weights)
        total += torch.cat([g.flatten() for g in gradients]).square()
        count += 1
    return total / max(count, 1)
