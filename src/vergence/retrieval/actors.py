"""Figures that act: people built from solids who walk, sit, kick or ride a board, for scenes that call for one of them.

A figure is a skeleton of angles with the garments of :class:`vergence.reid.people.Person`. Axes are those of the
renderer (right, down, forward); a figure that is turned by 0 faces away from the camera.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from vergence.reid.people import STATURE, Person, Vector
from vergence.rendering.scenes import SceneBuilder
from vergence.rendering.solids import CYLINDER, ELLIPSOID
from vergence.rendering.things import Part, about, place, rod, uniform

MOTIONS = ("walk", "sit", "kick", "ride")
THIGH, SHIN, UPPER, LOWER = 0.43, 0.42, 0.28, 0.27
"""Lengths of the limbs of a body of 1.75 m, in metres."""
FOOT = 0.06
"""The ankle is this far above the sole."""


@dataclass(frozen=True)
class Limb:
    """Angles of an arm or a leg, in radians: how far it points to the front and to its side, and the bend of its
    joint."""

    front: float
    side: float
    bend: float


@dataclass(frozen=True)
class Stance:
    """A moment of a motion: the two legs, the two arms, and how far the trunk leans to the front."""

    legs: tuple[Limb, Limb]
    arms: tuple[Limb, Limb]
    lean: float = 0.0

    @classmethod
    def drawn(cls, motion: str, source: torch.Generator) -> Stance:
        """A random moment of one of the motions."""

        def near(angle: float, spread: float = 0.15) -> float:
            return angle + uniform(source, -spread, spread)

        if motion == "sit":
            legs = tuple(Limb(near(1.42, 0.1), near(0.05, 0.04), near(1.45, 0.2)) for _ in range(2))
            arms = tuple(Limb(near(0.45), near(0.03, 0.03), near(0.8, 0.3)) for _ in range(2))
            return cls((legs[0], legs[1]), (arms[0], arms[1]), near(0.05, 0.1))
        if motion == "kick":
            legs = (Limb(near(1.05), near(0.12, 0.1), near(0.15)), Limb(near(-0.25), near(0.1, 0.05), near(0.2)))
            arms = (Limb(near(-0.7), near(0.3, 0.1), near(0.3)), Limb(near(0.7), near(0.3, 0.1), near(0.4)))
            return cls((legs[0], legs[1]), (arms[0], arms[1]), near(-0.18, 0.08))
        if motion == "ride":
            legs = tuple(Limb(near(0.6), near(0.3, 0.08), near(1.1)) for _ in range(2))
            arms = tuple(Limb(near(0.15), near(1.35, 0.15), near(0.25)) for _ in range(2))
            return cls((legs[0], legs[1]), (arms[0], arms[1]), near(0.25, 0.1))
        stride = uniform(source, 0.25, 0.5) * (1 if uniform(source, 0, 1) < 0.5 else -1)
        legs = tuple(Limb(sign * stride, 0.04, near(0.25, 0.1)) for sign in (1, -1))
        arms = tuple(Limb(-sign * 0.8 * stride, near(0.12, 0.06), near(0.45, 0.25)) for sign in (1, -1))
        return cls((legs[0], legs[1]), (arms[0], arms[1]), near(0.04, 0.04))


def figure(person: Person, stance: Stance) -> list[Part]:
    """The parts of a figure whose lowest foot stands on the ground."""
    build = person.build
    sides = tuple(zip((-1, 1), stance.legs, stance.arms, strict=True))
    feet = [_joints((side * 0.095 * build, 0.0, 0.0), leg, side, THIGH, SHIN, -1) for side, leg, _ in sides]
    hip = -max(foot[1] for _, foot in feet) - FOOT  # the lowest foot is on the ground
    tilt = about("x", -stance.lean)

    def up(x: float, y: float, z: float) -> Vector:
        """A place of the upper body, given upright with the hips as origin."""
        turned = (tilt @ torch.tensor([x, y, z])).tolist()
        return (turned[0], turned[1] + hip, turned[2])

    covered = "second" if person.legs == 0 else person.skin
    sleeve = "main" if person.sleeves else person.skin
    parts: list[Part] = []
    for (side, _, arm), (knee, foot) in zip(sides, feet, strict=True):
        top = (side * 0.095 * build, hip, 0.0)
        middle, end = ((x, y + hip, z) for x, y, z in (knee, foot))
        parts += [rod(top, middle, 0.082 * build, "second"), Part(ELLIPSOID, middle, (0.07 * build,) * 3, covered)]
        parts += [rod(middle, end, 0.058 * build, covered)]
        parts.append(Part(ELLIPSOID, (end[0], end[1] + 0.02, end[2] + 0.06), (0.05, 0.045, 0.13), person.shoes))
        shoulder = up(side * 0.185 * build, -0.49, 0.0)
        elbow, hand = (
            (shoulder[0] + x, shoulder[1] + y, shoulder[2] + z)
            for x, y, z in _joints((0.0, 0.0, 0.0), arm, side, UPPER, LOWER, 1)
        )
        parts += [rod(shoulder, elbow, 0.054 * build), Part(ELLIPSOID, shoulder, (0.07 * build,) * 3)]
        parts += [rod(elbow, hand, 0.044 * build, sleeve), Part(ELLIPSOID, hand, (0.045, 0.06, 0.045), person.skin)]
    hair = person.shoes if person.style == 2 else person.hair
    parts += [
        Part(ELLIPSOID, up(0, -0.35, 0), (0.178 * build, 0.22, 0.12 * build), "main", tilt),
        Part(ELLIPSOID, up(0, -0.16, 0), (0.158 * build, 0.2, 0.115 * build), "main", tilt),
        Part(ELLIPSOID, up(0, -0.02, 0), (0.162 * build, 0.12, 0.12 * build), "second", tilt),
        Part(CYLINDER, up(0, -0.57, 0), (0.05, 0.06, 0.05), person.skin, tilt),
        Part(ELLIPSOID, up(0, -0.69, 0.015), (0.08, 0.11, 0.095), person.skin, tilt),
        Part(ELLIPSOID, up(0, -0.73, -0.018), (0.09, 0.095, 0.1), hair, tilt),
    ]
    if person.style == 1:
        parts.append(Part(ELLIPSOID, up(0, -0.6, -0.06), (0.085, 0.17, 0.055), hair, tilt))
    return parts


def _joints(start: Vector, limb: Limb, side: int, first: float, second: float, folds: int) -> tuple[Vector, Vector]:
    """Middle and end of a limb that hangs down from ``start``; the joint folds to the front (1) or to the back (-1)."""

    def along(front: float, length: float) -> Tensor:
        down = math.cos(front) * math.cos(limb.side)
        return length * torch.tensor([side * math.sin(limb.side), down, math.sin(front) * math.cos(limb.side)])

    middle = torch.tensor(start) + along(limb.front, first)
    end = middle + along(limb.front + folds * limb.bend, second)
    return _vector(middle), _vector(end)


def _vector(values: Tensor) -> Vector:
    x, y, z = values.tolist()
    return (x, y, z)


def add_figure(builder: SceneBuilder, person: Person, stance: Stance, at: Vector, turn: float) -> int:
    """Put a figure into a scene, standing at a point; returns the number of the thing."""
    return place(builder, figure(person, stance), at, turn, person.height / STATURE, person.top, person.bottom)


def extent(builder: SceneBuilder, thing: int) -> Tensor:
    """Points (n, 3) on the surfaces of a thing, dense enough to bound it in a picture."""
    scene = builder.scene()
    mine = scene.thing == thing
    ticks = torch.tensor([-1.0, 0.0, 1.0])
    cube = torch.cartesian_prod(ticks, ticks, ticks)
    cube = cube[cube.abs().sum(1) > 0]
    ball = torch.nn.functional.normalize(cube, dim=1)
    shapes, frames, centres = scene.solids.shape[mine], scene.solids.frame[mine], scene.solids.centre[mine]
    local = torch.where((shapes == ELLIPSOID).view(-1, 1, 1), ball, cube)  # a cube also bounds cylinders and cones
    return (torch.einsum("nij,npj->npi", frames, local) + centres.unsqueeze(1)).flatten(0, 1)
