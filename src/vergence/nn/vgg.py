"""VGG16 and VGG19 (Simonyan and Zisserman, 2015), with the parameter names of torchvision's weights."""

from __future__ import annotations

from torch import Tensor, nn

WIDTHS: tuple[tuple[int, ...], ...] = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Channels of the convolutions of each stage; a stage ends with a pooling layer."""


class VGG16(nn.Module):
    """Normalised images (B, 3, H, W) to logits (B, classes); published for 224 x 224."""

    widths = WIDTHS

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 3
        for stage in self.widths:
            for outputs in stage:
                layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
                inputs = outputs
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            nn.Linear(inputs * 49, 4096), nn.ReLU(), nn.Dropout(),
            nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(),
            nn.Linear(4096, classes),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


class VGG19(VGG16):
    """VGG16 with a fourth convolution in each of the last three stages."""

    widths = (*WIDTHS[:2], *((*stage, stage[-1]) for stage in WIDTHS[2:]))
