"""Distillation of any student from any teacher: answers, features and the structure of categories."""

from __future__ import annotations

import warnings
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn.probe import caught
from vergence.ops.category_structure import Norm, groups, inter_distance, intra_distance
from vergence.ops.distilling import correlation_congruence, relational_angle, relational_distance, soft_targets

Answers = Literal["logits", "hinton"]
RELATIONS = {"congruence": correlation_congruence, "distance": relational_distance, "angle": relational_angle}


class Told(NamedTuple):
    """What a network says about a batch."""

    logits: Tensor
    """(N, K)."""
    features: Tensor
    """(N, C, H, W), or (N, C)."""


class DistillationLoss(nn.Module):
    """The losses between a student and a teacher: by default those of category structure (CSKD) with their published
    weights.

    ``channels`` are those of the student's features and of the teacher's. The projector between them, a 1 x 1
    convolution without bias, learns with the student and is not needed after training. ``alpha`` weighs the labels and
    ``1 - alpha`` the teacher's answers (Eq. 10): ``logits`` compares them by the mean squared difference, ``hinton`` by
    the divergence at a ``temperature``. ``beta`` and ``gamma`` weigh the intra and the inter structure (Eq. 9),
    ``hint`` FitNet's regression of features, ``congruence`` CCKD, ``distance`` and ``angle`` RKD; what weighs 0 is not
    computed.
    """

    def __init__(
        self,
        channels: tuple[int, int],
        *,
        alpha: float = 0.1,
        answers: Answers = "logits",
        temperature: float = 4.0,
        beta: float = 0.01,
        gamma: float = 0.2,
        norm: Norm = "fro",
        hint: float = 0.0,
        congruence: float = 0.0,
        distance: float = 0.0,
        angle: float = 0.0,
    ) -> None:
        super().__init__()
        self.alpha, self.answers, self.temperature, self.norm = alpha, answers, temperature, norm
        self.weights = {
            "intra": beta, "inter": gamma, "hint": hint, "congruence": congruence, "distance": distance, "angle": angle
        }  # fmt: skip
        self.projector = nn.Conv2d(*channels, 1, bias=False) if beta > 0 or hint > 0 else None
        self._warned = False

    def forward(self, student: Told, teacher: Told, labels: Tensor) -> dict[str, Tensor]:
        """The weighted losses of a batch by name; their sum is to be minimised. The teacher gets no gradient. Maps of
        the teacher of another size than the student's are averaged to it."""
        logits, theirs = student.logits, teacher.logits.detach()
        if logits.shape != theirs.shape:
            raise VergenceError(
                f"student and teacher differ in their classes: expected answers of one shape, got {tuple(logits.shape)}"
                f" and {tuple(theirs.shape)}"
            )
        _check_labels(labels, logits)
        losses = {"labels": self.alpha * F.cross_entropy(logits, labels)} if self.alpha else {}
        if self.alpha < 1:
            hinton = self.answers == "hinton"
            apart = soft_targets(logits, theirs, self.temperature) if hinton else F.mse_loss(logits, theirs)
            losses["answers"] = (1 - self.alpha) * apart
        ours, given = _maps(student.features, logits), _maps(teacher.features.detach(), logits)
        if given.shape[2:] != ours.shape[2:]:
            given = F.adaptive_avg_pool2d(given, (ours.shape[2], ours.shape[3]))
        projected = None if self.projector is None else self.projector(ours)
        for name, weight in self.weights.items():
            if weight:
                losses[name] = weight * self._term(name, ours, projected, given, labels)
        return losses

    def _term(self, name: str, ours: Tensor, projected: Tensor | None, theirs: Tensor, labels: Tensor) -> Tensor:
        if name == "inter":  # Eq. 8 has the student's features as they are; cosines do not need equal channels
            return inter_distance(ours, theirs, labels, self.norm)
        if name in RELATIONS:
            return RELATIONS[name](ours.mean((2, 3)), theirs.mean((2, 3)))
        assert projected is not None
        if name == "hint":
            return F.mse_loss(projected, theirs)
        among = groups(labels)
        if not self._warned and int(among.counts.max()) < 2:
            self._warned = True
            warnings.warn(
                "no class has two samples in this batch, so its intra-category structure is empty: use batches larger "
                "than the number of classes, or with several samples per class",
                stacklevel=2,
            )
        return intra_distance(projected, theirs, among, self.norm)


class Distiller(nn.Module):
    """Your student with your teacher, which it freezes, and the loss between them.

    ``at`` names the modules of student and teacher whose outputs are compared: maps (N, C, H, W) or vectors (N, C).
    Both networks run once on ``example``, a few inputs, to find the channels. ``weights`` are those of
    :class:`DistillationLoss`::

        distiller = Distiller(student, teacher, ("layer4", "layer4"), pictures[:2])
        optimiser = torch.optim.SGD(distiller.trained(), lr=0.1)
        loss = distiller.loss(pictures, labels)

    Calling it gives the student's answers.
    """

    def __init__(
        self, student: nn.Module, teacher: nn.Module, at: tuple[str, str], example: Tensor, **weights: Any
    ) -> None:
        super().__init__()
        self.student, self.teacher, self.at = student, teacher.requires_grad_(False), at
        modes = student.training, self.training
        self.eval()
        with torch.no_grad():
            told = [self.told(example), self.taught(example)]
        channels = [_maps(one.features, one.logits).shape[1] for one in told]
        self.distillation = DistillationLoss((channels[0], channels[1]), **weights).to(example.device)
        self.train(modes[1])
        student.train(modes[0])

    def trained(self) -> list[nn.Parameter]:
        """The parameters of the student and of the projector."""
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def train(self, mode: bool = True) -> Distiller:
        """Training mode for the student; the teacher stays in evaluation mode, or its normalisation would drift."""
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.student(x)
        return logits

    def told(self, x: Tensor) -> Told:
        """The student's answers and features."""
        return _run(self.student, self.at[0], x)

    @torch.no_grad()
    def taught(self, x: Tensor) -> Told:
        """The teacher's answers and features."""
        return _run(self.teacher, self.at[1], x)

    def losses(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The weighted losses of a batch with labels (N,), by name."""
        found: dict[str, Tensor] = self.distillation(self.told(x), self.taught(x), labels)
        return found

    def loss(self, x: Tensor, labels: Tensor) -> Tensor:
        """The sum of the losses."""
        return torch.stack(list(self.losses(x, labels).values())).sum()


def _run(network: nn.Module, at: str, x: Tensor) -> Told:
    place = dict(network.named_modules()).get(at)
    if place is None:
        raise VergenceError(f"{type(network).__name__} has no module {at!r} to take features from")
    logits, seen = caught({at: place}, lambda: network(x))
    features = seen.get(at)
    if not isinstance(features, Tensor) or features.dim() not in (2, 4) or len(features) != len(x):
        got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise VergenceError(f"the module {at!r} gives {got}: expected features (N, C) or maps (N, C, H, W)")
    return Told(logits, features)


def _maps(features: Tensor, logits: Tensor) -> Tensor:
    """Features as maps; a vector is a map of one position."""
    if features.dim() not in (2, 4) or len(features) != len(logits):
        raise VergenceError(
            f"features for answers {tuple(logits.shape)} are (N, C) or (N, C, H, W), got {tuple(features.shape)}"
        )
    return features if features.dim() == 4 else features[..., None, None]


def _check_labels(labels: Tensor, logits: Tensor) -> None:
    if labels.shape != logits.shape[:1] or not len(labels):
        raise VergenceError(f"a batch of {len(logits)} needs as many labels, got the shape {tuple(labels.shape)}")
    if labels.is_floating_point() or labels.dtype == torch.bool:
        raise VergenceError(f"labels are whole numbers, got {labels.dtype}")
    low, high = (int(value) for value in labels.aminmax())
    if low < 0 or high >= logits.shape[1]:
        wrong = low if low < 0 else high
        raise VergenceError(f"the label {wrong} is outside 0 to {logits.shape[1] - 1}, the classes of the networks")
