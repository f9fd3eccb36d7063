"""Explanations that need a classifier's gradients: Grad-CAM, integrated gradients, extremal masks.

They have the interface of :mod:`vergence.robustness.explainers`. A classifier without gradients, such as an ONNX file,
is refused with a sentence that names methods that need none.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn.probe import caught
from vergence.robustness.blackbox import Subject

PATH = 32
"""Integrated gradients: points of the path, at most."""
AREAS = (0.05, 0.1, 0.2, 0.4)
"""Extremal masks: shares of the picture that are visible."""
GRID = 14
"""Extremal masks: cells along a side."""


def gradcam(subject: Subject, queries: int, generator: torch.Generator) -> Tensor:
    """Grad-CAM (Selvaraju et al., 2017) at the last layer whose output is a map: its channels, weighted by the mean
    gradient of the label's score."""
    network = subject.box.classifier
    if not isinstance(network, nn.Module):
        subject.box.score("gradcam", subject.image[None], subject.label)  # an ONNX file has no gradients at all
        raise VergenceError(f"gradcam needs the layers of a PyTorch module, which {subject.box.name} is not")
    with torch.inference_mode(False), torch.enable_grad():
        image = subject.image[None].detach().clone().requires_grad_()
        modules = {name: module for name, module in network.named_modules() if name}
        score, seen = caught(modules, lambda: subject.box.score("gradcam", image, subject.label))
        maps = [out for out in seen.values() if isinstance(out, Tensor) and out.ndim == 4 and min(out.shape[-2:]) > 1]
        maps = [out for out in maps if out.requires_grad and len(out) == 1]
        if not maps:
            raise VergenceError(f"{subject.box.name} has no layer whose output is a map, which gradcam needs")
        (slope,) = torch.autograd.grad(score.sum(), maps[-1])
    heat = (slope.mean((2, 3), keepdim=True) * maps[-1].detach()).sum(1, keepdim=True).relu()
    return F.interpolate(heat, subject.size, mode="bilinear", align_corners=False)[0, 0].double()


def ig(subject: Subject, queries: int, generator: torch.Generator) -> Tensor:
    """Integrated gradients (Sundararajan et al., 2017) from the background colour to the picture, by the midpoint rule;
    a pixel's importance is the sum over its channels."""
    return integrated(subject, max(min(queries, PATH), 1)).sum(0).double()


def integrated(subject: Subject, steps: int) -> Tensor:
    """Attributions (C, H, W) whose sum tends to the difference of the label's scores with the number of steps."""
    start, change = subject.colour.expand_as(subject.image), subject.image - subject.colour
    shares = ((torch.arange(steps) + 0.5) / steps).to(change)
    total = torch.zeros_like(change)
    for part in shares.split(subject.box.batch):
        images = start + part.view(-1, 1, 1, 1) * change
        total += subject.box.gradients("ig", images, subject.label)[1].sum(0)
    return total / steps * change


def extremal(subject: Subject, queries: int, generator: torch.Generator) -> Tensor:
    """Extremal perturbations (Fong et al., 2019), on a coarse grid: for each of four areas, the smooth mask of that
    area that gives the label the highest score, by gradient ascent; a pixel's importance is the sum of the masks. A
    step counts as three queries, for its backward pass."""
    steps = max(queries // (3 * len(AREAS)), 1)
    masks = [_mask_of(subject, area, steps) for area in AREAS]
    return torch.stack(masks).sum(0).double()


def _mask_of(subject: Subject, area: float, steps: int) -> Tensor:
    """Adam on the cells; the area is held by the distance of the sorted mask from a step of that area."""
    height, width = subject.size
    with torch.inference_mode(False), torch.enable_grad():
        cells = torch.full((1, 1, GRID, GRID), 0.5, device=subject.image.device).requires_grad_()
        optimiser = torch.optim.Adam([cells], lr=0.1)
        wanted = (torch.arange(height * width, device=cells.device) >= (1 - area) * height * width).float()
        for step in range(steps):
            mask = F.interpolate(cells.clamp(0, 1), (height, width), mode="bilinear", align_corners=False)[0]
            score = subject.box.score("extremal", subject.blended(mask.to(subject.image)), subject.label).sum()
            outside = (mask.flatten().sort().values - wanted).square().mean()
            loss = 300 * (step + 1) / steps * outside - score
            (slope,) = torch.autograd.grad(loss, cells)
            cells.grad = slope
            optimiser.step()
            with torch.no_grad():
                cells.clamp_(0, 1)
        return F.interpolate(cells.detach(), (height, width), mode="bilinear", align_corners=False)[0, 0]
