"""Labels of a user's sweeps: projected, segmented, and carried back to the points."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.core.errors import VergenceError
from vergence.ops.label_vote import label_vote
from vergence.ops.spherical import RangeImage
from vergence.points import nuscenes
from vergence.points.classes import ClassSet
from vergence.points.range_images import network_input, project
from vergence.points.scans import Labelled, label_scans
from vergence.points.semantickitti import CLASS_SET
from vergence.points.squeezesegv3.settings import Config, Facts, Inputs, Sweeps

Ctx = Context[Config, Facts]
FARTHEST = 1e6
"""Metres: points beyond are no measurements."""


def classes_of(facts: Facts) -> ClassSet:
    """The classes that weights know, with the colours of their data set."""
    known = (CLASS_SET, nuscenes.CLASSES)
    return next((classes for classes in known if classes.names == facts.classes), ClassSet.of(facts.classes))


def scores_of(model: Any, points: Tensor, intensity: Tensor, settings: Sweeps) -> tuple[RangeImage, Tensor]:
    """The range image of a sweep, and the scores (classes, H, W) of its pixels."""
    seen = project(points, settings)
    return seen, model(network_input(seen, points, intensity, settings).unsqueeze(0))[0][0].float()


def elected(seen: RangeImage, scores: Tensor) -> Tensor:
    """The label (P,) that the pixels around each point elect, from scores (classes, H, W)."""
    ranges = seen.image(seen.range, -1.0)
    labels = scores.argmax(0)
    return label_vote(ranges, labels, seen.range, seen.row, seen.column, len(scores))


def labelled(ctx: Ctx, model: Any, inputs: Inputs) -> Labelled:
    """The sweeps of the inputs with a class for every point."""
    settings = ctx.config.data

    def label(points: Tensor, intensity: Tensor) -> Tensor:
        far = int((points.abs().amax(1) > FARTHEST).sum())
        if far:
            raise VergenceError(
                f"{inputs.scan} has {far} of {len(points)} points farther than {FARTHEST:,.0f} m: expected metres"
            )
        ctx.need(4e3 * settings.height * settings.width, f"a range image of {settings.height} x {settings.width}")
        with ctx.autocast():
            seen, scores = scores_of(model, points, intensity, settings)
        scores[0] = -torch.inf  # every point gets a class
        of_points = seen.points(scores.permute(1, 2, 0))
        return of_points if inputs.labels == "pixel" else _won(of_points, elected(seen, scores))

    return label_scans(ctx, inputs.scan, classes_of(ctx.facts), label)


def _won(scores: Tensor, winner: Tensor) -> Tensor:
    """Scores (P, classes) in which the elected class has the score of the pixel's own, and the other way round: a point
    whose label the vote has changed keeps the confidence of its pixel."""
    own = scores.argmax(1, keepdim=True)
    winner = winner.unsqueeze(1)
    highest, lower = scores.gather(1, own), scores.gather(1, winner)
    return scores.scatter(1, own, lower).scatter(1, winner, highest)
