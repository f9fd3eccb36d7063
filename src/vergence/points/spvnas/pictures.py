"""Held-out scans from above: the truth and what each network says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.metrics.segmentation import confusion, mean_iou
from vergence.points.batches import ScanSamples
from vergence.points.labelled import from_above
from vergence.points.spvnas.model import Network, Supernet
from vergence.points.spvnas.predict import class_set
from vergence.points.spvnas.settings import Config, Facts


def compared(
    ctx: Context[Config, Facts], models: Mapping[str, Network | Supernet], data: ScanSamples
) -> list[Artifact]:
    """Draw up to two scans with the classes of the ground truth and of each network."""
    classes = class_set(Facts(data.classes.names))
    artifacts = []
    for index in range(min(2, len(data))):
        batch = ctx.to_device(data.collate([data[index]]))
        points, labels = batch["points"], batch["labels"]
        views = [("truth", points[:, :3], labels)]
        for name, model in models.items():
            found = model(points, batch["cloud"]).argmax(1) + 1
            score = mean_iou(confusion(found, labels, len(classes)))
            views.append((f"{name}: mIoU {score:.0f} %", points[:, :3], found))
        path: Path = ctx.folder / f"scan-{index + 1}.png"
        drawn = from_above(path, views, classes.names, classes.colours, reach=25.0, pixels=260)
        artifacts.append(Artifact("image", drawn, "A held-out scan from above; forward is up."))
    return artifacts
