"""The appendix's tables, each beside the presets of its task."""

from __future__ import annotations

from vergence.contract.settings import Reported

_IMAGES = ("tiny", "paper", "paper-cifar10", "paper-imagenet", "paper-cub")
_RANKED = ("rank1", "map")


def _table(where: str, metrics: tuple[str, ...], presets: tuple[str, ...], **rows: tuple[float, ...]) -> Reported:
    return Reported(where, {name: dict(zip(metrics, row, strict=True)) for name, row in rows.items()}, presets)


REPORTED = (
    _table(
        "Table 1: CIFAR-100, PreResNet-56 (bottlenecks)", ("top1", "top5"), _IMAGES,
        none=(75.33, 93.97), nl=(75.29, 94.07), ns=(75.39, 93.00), a2=(75.51, 92.90), cgnl=(74.71, 93.60),
        snl=(76.41, 94.38), cayleysnl=(76.72, 94.54),
    ),
    _table(
        "Table 4: CUB-200-2011, ResNet-50", ("top1", "top5"), _IMAGES,
        none=(85.43, 96.70), nl=(85.34, 96.77), ns=(85.54, 96.56), a2=(85.91, 96.56), cgnl=(86.14, 96.34),
        snl=(86.02, 96.65),
    ),
    _table("Table 3: UCF-101, P3D", ("top1",), ("tiny-video", "paper-ucf101", "paper-ucf101-p3d"),
           none=(81.23,), snl=(82.65,)),
    _table("Table 3: UCF-101, VTN", ("top1",), ("tiny-vtn", "paper-ucf101-vtn"), none=(90.06,), snl=(90.34,)),
    _table("Table 3: UCF-101, MARS", ("top1",), ("paper-ucf101-mars",), none=(92.29,), snl=(92.79,)),
    _table("Table 2: MARS", _RANKED, ("tiny-reid", "paper-mars"),
           none=(82.30, 75.70), nl=(83.21, 76.54), snl=(83.40, 76.80)),
    _table("Table 2: iLIDS-VID", _RANKED, ("tiny-reid", "paper-ilids-vid"),
           none=(74.70, 81.60), nl=(75.30, 83.00), snl=(76.30, 84.80)),
    _table("Table 2: PRID-2011", _RANKED, ("tiny-reid", "paper-prid2011"),
           none=(86.50, 90.50), nl=(85.40, 89.70), snl=(88.80, 92.40)),
)  # fmt: skip
