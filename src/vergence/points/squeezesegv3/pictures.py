"""Pictures for reports: range images and their labels, and clouds from above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.drawing.figure import figure, saved
from vergence.metrics.segmentation import confusion, mean_iou
from vergence.points.classes import ClassSet
from vergence.points.range_images import Images


def painted(labels: Tensor, mask: Tensor, classes: ClassSet) -> Tensor:
    """Labels (H, W) in the colours of their classes, as bytes (H, W, 3); dark where there is no point."""
    colours = torch.tensor(classes.colours, dtype=torch.uint8)[labels.cpu()]
    return colours.where(mask.cpu().unsqueeze(2), torch.tensor(24, dtype=torch.uint8))


def compared(ctx: Context[Any, Any], models: Mapping[str, Any], data: Images) -> Sequence[Artifact]:
    """Draw held-out sweeps: their range, the ground truth, and the labels of each network."""
    artifacts = []
    for index in range(min(2, len(data))):
        sample = data[index]
        image, truth = sample["image"], sample["labels"]
        mask = image.abs().sum(0) > 0
        rows = [("range", None), ("ground truth", truth)]
        for name, model in models.items():
            scores = model(ctx.to_device(image.unsqueeze(0)))[0][0].float().cpu()
            scores[0] = -torch.inf
            labels = scores.argmax(0)
            counts = confusion(labels[mask], truth[mask], len(data.classes))
            rows.append((f"{name}: mIoU {mean_iou(counts):.1f} %", labels))
        drawn = figure(9.0, 0.3 + 1.25 * len(rows))
        for axis, (title, labels) in zip(drawn.subplots(len(rows), 1, squeeze=False)[:, 0], rows, strict=True):
            if labels is None:
                near = image[0].masked_fill(~mask, float("nan"))
                axis.imshow(near.numpy(), cmap="viridis_r", aspect="auto", interpolation="nearest")
            else:
                shown = painted(labels, mask, data.classes).numpy()
                axis.imshow(shown, aspect="auto", interpolation="nearest")
            axis.set_title(title, fontsize=9, loc="left")
            axis.set_axis_off()
        caption = "A held-out sweep as a range image: behind the scanner at both ends, straight ahead in the middle."
        artifacts.append(Artifact("image", saved(drawn, ctx.folder / f"sweep-{index + 1}.png"), caption))
    return artifacts
