"""Classes of the points of a user's scans."""

from __future__ import annotations

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.points.classes import ClassSet
from vergence.points.scans import Labelled, label_scans
from vergence.points.semantickitti import CLASS_SET
from vergence.points.spvnas.model import Network
from vergence.points.spvnas.settings import Config, Facts, Inputs

BYTES = 250
"""Memory that a point takes for each channel of the widest stage, as measured."""


def class_set(facts: Facts) -> ClassSet:
    """The classes of the weights, with SemanticKITTI's colours where they are its classes."""
    return CLASS_SET if tuple(facts.names) == CLASS_SET.names else ClassSet.of(facts.names)


def labelled(ctx: Context[Config, Facts], network: Network, inputs: Inputs) -> Labelled:
    """The class of every point of a scan or of a folder of scans."""

    def scores(points: Tensor, intensity: Tensor) -> Tensor:
        ctx.need(len(points) * BYTES * max(network.arch.outputs), f"labelling {len(points):,} points")
        seen = torch.cat([points, intensity.unsqueeze(1)], 1)
        logits = network(seen, torch.zeros(len(seen), dtype=torch.long, device=seen.device)).float()
        return torch.cat([logits.new_full((len(logits), 1), -torch.inf), logits], 1)  # nothing is unlabelled

    return label_scans(ctx, inputs.scan, class_set(ctx.facts), scores)
