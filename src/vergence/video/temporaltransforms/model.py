"""The network: a backbone for clips with a head for the pretext task and a classifier.

Clips are (B, T, 3, H, W). The maps of the backbone (:mod:`vergence.nn.clip_backbones`) are what the paper calls conv5.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn.clip_backbones import C3D, ResNet18
from vergence.video.temporaltransforms.settings import Config, Facts, ModelConfig


def dense(inputs: int, hidden: int) -> list[nn.Module]:
    """A fully connected layer with batch normalisation and ReLU."""
    return [nn.Linear(inputs, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU()]


class TemporalNet(nn.Module):
    """A network with a head for the pretext task, and a classifier if there are classes.

    ``transfer`` decides what the classifier stands on: the network's fully connected layers, trained further
    (``finetune``), three new layers on the frozen ``maps`` (``frozen``), or one (``linear``).
    """

    def __init__(self, asked: ModelConfig, frames: int, size: int, outputs: Mapping[str, int],
                 transfer: str = "none", classes: int = 0) -> None:  # fmt: skip
        super().__init__()
        self.trunk = (
            C3D(asked.widths, frames, size) if asked.network == "c3d" else ResNet18(asked.network, asked.widths)
        )
        width, hidden = self.trunk.outputs, asked.hidden
        self.top = nn.Sequential(*dense(width, hidden), *dense(hidden, hidden)) if hidden else nn.Identity()
        self.outputs, self.transfer = dict(outputs), transfer
        wide = hidden or width
        self.head = nn.Linear(wide, sum(outputs.values())) if outputs else None
        self.classifier: nn.Module | None = None
        if classes and transfer == "finetune":
            self.classifier = nn.Linear(wide, classes)
        elif classes and transfer == "frozen":
            self.classifier = nn.Sequential(*dense(width, wide), *dense(wide, wide), nn.Linear(wide, classes))
        elif classes and transfer == "linear":
            self.classifier = nn.Linear(width, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv3d | nn.Linear):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        for last in (self.head, self.classifier):
            ends = [m for m in last.modules() if isinstance(m, nn.Linear)] if last is not None else []
            for end in ends[-1:]:
                # Small, so that the first loss is near ln 4 + ln 4; not smaller, or Adam's first steps follow noise.
                nn.init.normal_(end.weight, std=0.2 * end.in_features**-0.5)
                nn.init.zeros_(end.bias)

    @property
    def frozen(self) -> bool:
        """Whether transfer leaves the pre-trained layers, and with them the pretext head, as they are."""
        return self.transfer in ("frozen", "linear", "none")

    def pretext(self, clips: Tensor) -> dict[str, Tensor]:
        """Logits of the pretext task by the name of its parts."""
        if self.head is None:
            raise VergenceError("this network has no pretext task")
        logits = self.head(self.top(self.trunk.flat(self.trunk.maps(clips))))
        return dict(zip(self.outputs, logits.split(list(self.outputs.values()), 1), strict=True))

    def classify(self, clips: Tensor) -> Tensor:
        """Logits of the classes (B, K)."""
        if self.classifier is None:
            raise VergenceError("this network has no classifier: it was pre-trained only")
        flat = self.trunk.flat(self.trunk.maps(clips))
        return self.classifier(self.top(flat) if self.transfer == "finetune" else flat)

    def forward(self, clips: Tensor) -> dict[str, Tensor]:
        """Clips (B, T, 3, H, W) to logits by name: ``motion`` and ``speed``, and ``classes`` if there are any."""
        flat = self.trunk.flat(self.trunk.maps(clips))
        top = self.top(flat)
        found: dict[str, Tensor] = {}
        if self.head is not None:
            found = dict(zip(self.outputs, self.head(top).split(list(self.outputs.values()), 1), strict=True))
        if self.classifier is not None:
            found["classes"] = self.classifier(top if self.transfer == "finetune" else flat)
        return found


def build(config: Config, facts: Facts) -> TemporalNet:
    outputs = config.pretext.outputs(facts.classes)
    return TemporalNet(config.model, config.data.frames, config.data.size, outputs, config.transfer.mode, facts.classes)


def pretext_losses(model: TemporalNet, clips: Tensor, target: Tensor, kappa: Tensor) -> dict[str, Tensor]:
    """Eq. 1 as means: the cross-entropy of the answers ``target`` (B,), and that of the speed ``kappa`` (B,) for the
    clips that are asked for it; -1 for the others."""
    logits = model.pretext(clips)
    losses = {name: F.cross_entropy(value, target) for name, value in logits.items() if name != "speed"}
    if "speed" in logits:
        losses["speed"] = F.cross_entropy(logits["speed"], kappa, ignore_index=-1)
    return losses
