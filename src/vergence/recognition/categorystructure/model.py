"""The ResNets for small pictures, and a student with its teacher."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.nn.distiller import DistillationLoss, Told
from vergence.nn.resnet import Basic, Bottleneck
from vergence.nn.stages import Residual, Stages
from vergence.recognition.categorystructure.settings import Config, Network

DEPTHS = {
    10: (1, 1, 1, 1), 18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)
}  # fmt: skip
WIDTHS = (64, 128, 256, 512)
MEMORY = 0.95
"""Share of a class centre that is kept when a batch has samples of the class."""


class SmallResNet(Stages):
    """A ResNet whose first layers keep the size of the picture: 3 x 3 convolution, max-pooling of stride 1, four
    stages, global average, linear classifier. Names are those of torchvision."""

    def __init__(self, classes: int, network: Network) -> None:
        super().__init__()
        widths = [max(round(width * network.width), 1) for width in WIDTHS]
        kind: Residual = Basic if network.depth < 50 else Bottleneck
        self.conv1 = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.maxpool = nn.MaxPool2d(3, network.pool, 1)
        self.outputs = self.add_stages(kind, widths[0], DEPTHS[network.depth], widths, (), None)
        self.fc = nn.Linear(self.outputs, classes)
        for module in (m for m in self.modules() if isinstance(m, nn.Conv2d)):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def told(self, x: Tensor) -> Told:
        """Answers (B, classes), and features (B, C, h, w) of the last stage."""
        features = self.run_stages(self.maxpool(F.relu(self.bn1(self.conv1(x)))))
        return Told(self.fc(features.mean((2, 3))), features)

    def forward(self, x: Tensor) -> Tensor:
        """Pictures (B, 3, H, W) to logits (B, classes)."""
        return self.told(x).logits


class Pair(nn.Module):
    """A student, its teacher and the loss between them (none of both if the student learns from labels alone), and
    running means of the pooled features of each class. Calling it gives the student's answers."""

    centres: Tensor
    teacher_centres: Tensor

    def __init__(self, config: Config, classes: int) -> None:
        super().__init__()
        self.student = SmallResNet(classes, config.model.student)
        self.register_buffer("centres", torch.zeros(classes, self.student.outputs))
        self.teacher: SmallResNet | None = None
        self.distillation: DistillationLoss | None = None
        if config.objective.taught:
            o = config.objective
            self.teacher = SmallResNet(classes, config.model.teacher).requires_grad_(False)
            self.register_buffer("teacher_centres", torch.zeros(classes, self.teacher.outputs))
            self.distillation = DistillationLoss(
                (self.student.outputs, self.teacher.outputs), alpha=o.alpha, answers=o.answers,
                temperature=o.temperature, beta=o.beta, gamma=o.gamma, norm=o.norm, hint=o.hint,
                congruence=o.congruence, distance=o.distance, angle=o.angle,
            )  # fmt: skip

    def train(self, mode: bool = True) -> Pair:
        """A frozen teacher stays in evaluation mode, or its normalisation would drift."""
        super().train(mode)
        if self.teacher is not None:
            self.teacher.train(mode and self.teacher.fc.weight.requires_grad)
        return self

    def teach(self, teaching: bool) -> None:
        """Train the teacher, or the student with a frozen teacher."""
        self.requires_grad_(not teaching)
        if self.teacher is not None:
            self.teacher.requires_grad_(teaching)

    def forward(self, x: Tensor) -> Tensor:
        return self.student(x)

    def losses(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The student's losses; the class centres follow its features."""
        told = self.student.told(x)
        follow(self.centres, told.features, labels)
        if self.teacher is None or self.distillation is None:
            return {"labels": F.cross_entropy(told.logits, labels)}
        with torch.no_grad():
            taught = self.teacher.told(x)
        follow(self.teacher_centres, taught.features, labels)
        losses: dict[str, Tensor] = self.distillation(told, taught, labels)
        return losses


@torch.no_grad()
def follow(centres: Tensor, features: Tensor, labels: Tensor) -> None:
    """Move the centres (classes, C) of the classes of a batch towards the means of their pooled features; a centre that
    is still zero goes there."""
    pooled = features.mean((2, 3)).to(centres)
    counts = torch.bincount(labels, minlength=len(centres)).to(centres).unsqueeze(1)
    means = torch.zeros_like(centres).index_add_(0, labels, pooled) / counts.clamp(min=1)
    kept = torch.where((centres == 0).all(1, keepdim=True), 0.0, MEMORY)
    centres.copy_(torch.where(counts > 0, kept * centres + (1 - kept) * means, centres))


def build(config: Config, classes: int) -> Pair:
    return Pair(config, classes)
