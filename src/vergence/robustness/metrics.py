"""Success rates of attacks, on their substitutes (white box) and on other networks (black box)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.metrics import topk_accuracy
from vergence.robustness.attacks import logits_of
from vergence.robustness.classifiers import Zoo

Attack = Callable[[nn.Module, Tensor, Tensor], Tensor]


def success_rate(logits: Tensor, labels: Tensor) -> float:
    """Percentage of pictures whose prediction is not their label. Those that were wrong before count too, as in the
    paper, which subtracts the clean error only for adversarially trained targets."""
    return 100 - topk_accuracy(logits, labels)


def wrong(zoo: Zoo, images: Tensor, labels: Tensor) -> Tensor:
    """Mask of the networks' errors on each picture, (N, networks)."""
    answers = [logits_of(classifier, images) for classifier in zoo.values()]
    return torch.stack([answer.argmax(1) != labels for answer in answers], 1)


def fooled(attack: Attack, zoo: Zoo, groups: Sequence[Sequence[str]], images: Tensor, labels: Tensor) -> Tensor:
    """Mask of errors after an attack with each group of substitutes, (N, groups, networks)."""
    return torch.stack([wrong(zoo, attack(zoo.together(g), images, labels), labels) for g in groups], 1)


@dataclass(frozen=True)
class Transfer:
    """Success in per cent of an attack: one row per group of substitutes, one column per target."""

    groups: tuple[tuple[str, ...], ...]
    targets: tuple[str, ...]
    success: Tensor
    clean_error: Tensor

    @classmethod
    def of(cls, zoo: Zoo, groups: Sequence[Sequence[str]], before: Tensor, after: Tensor) -> Transfer:
        """From :func:`wrong` and :func:`fooled` of all pictures."""
        if not len(after):
            raise VergenceError("there is no picture to count successes on")
        success, error = (100 * mask.double().mean(0).cpu() for mask in (after, before))
        return cls(tuple(map(tuple, groups)), tuple(zoo), success, error)

    def seen(self) -> Tensor:
        """Mask of the white-box cells, where the target is among the substitutes, (groups, targets)."""
        return torch.tensor([[target in group for target in self.targets] for group in self.groups])

    def summary(self) -> dict[str, float]:
        """Means over black-box and white-box cells, and each cell by name."""
        seen = self.seen()
        scores = {"accuracy": 100 - float(self.clean_error.mean())}
        if (~seen).any():
            scores = {
                "transfer": float(self.success[~seen].mean()),
                "induced": float((self.success - self.clean_error)[~seen].mean()),
            } | scores
        if seen.any():
            scores["whitebox"] = float(self.success[seen].mean())
        return scores | self.cells()

    def cells(self) -> dict[str, float]:
        names = ["+".join(group) for group in self.groups]
        return {
            f"{name} > {target}": float(self.success[i, j])
            for i, name in enumerate(names)
            for j, target in enumerate(self.targets)
        }
