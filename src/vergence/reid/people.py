"""People built from solids: a body with a build, hair, garments in materials, and what is carried; and how it walks.

Many people share each kind and colour, so that only the combination identifies them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from vergence.rendering.scenes import SceneBuilder
from vergence.rendering.solids import BOX, CONE, CYLINDER, ELLIPSOID
from vergence.rendering.textures import photographic
from vergence.rendering.things import Material, Part, choice, place, rod, uniform

Vector = tuple[float, float, float]
JOINTS = (
    "nose", "left_eye", "right_eye", "left_ear", "right_ear", "left_shoulder", "right_shoulder", "left_elbow",
    "right_elbow", "left_wrist", "right_wrist", "left_hip", "right_hip", "left_knee", "right_knee", "left_ankle",
    "right_ankle",
)  # fmt: skip
"""Key points, in COCO's order."""
WEAR: tuple[Vector, ...] = (
    (0.62, 0.12, 0.12), (0.12, 0.22, 0.55), (0.12, 0.38, 0.17), (0.75, 0.62, 0.15), (0.85, 0.85, 0.83),
    (0.08, 0.08, 0.09), (0.4, 0.18, 0.42), (0.42, 0.3, 0.2), (0.4, 0.42, 0.45), (0.8, 0.45, 0.5),
)  # fmt: skip
SKIN: tuple[Vector, ...] = ((0.85, 0.66, 0.54), (0.7, 0.5, 0.36), (0.47, 0.32, 0.22), (0.3, 0.2, 0.14))
HAIR: tuple[Vector, ...] = ((0.07, 0.06, 0.05), (0.3, 0.18, 0.09), (0.65, 0.5, 0.25), (0.5, 0.5, 0.5))
STATURE = 1.75
"""Height of the body that parts are given for, in metres."""


@dataclass(frozen=True)
class Person:
    """What stays the same from picture to picture."""

    height: float
    build: float
    skin: Vector
    hair: Vector
    style: int
    """0: short hair, 1: long hair, 2: a hat."""
    top: Material
    sleeves: bool
    coat: bool
    bottom: Material
    legs: int
    """0: trousers, 1: shorts, 2: a skirt."""
    shoes: Vector
    bag: int
    """0: none, 1: a backpack, 2: a handbag, 3: a shoulder bag."""
    carried: Material

    @classmethod
    def drawn(cls, source: torch.Generator) -> Person:
        """A random person."""
        return cls(
            uniform(source, 1.55, 1.92), uniform(source, 0.85, 1.25), SKIN[choice(source, 4)], HAIR[choice(source, 4)],
            choice(source, 3), _garment(source, 0.5), bool(choice(source, 2)), choice(source, 4) == 0,
            _garment(source, 0.25), (0, 0, 1, 2)[choice(source, 4)], WEAR[choice(source, len(WEAR))],
            choice(source, 4), _garment(source, 0.3),
        )  # fmt: skip


def _garment(source: torch.Generator, textured: float) -> Material:
    colour = WEAR[choice(source, len(WEAR))]
    if uniform(source, 0, 1) > textured:
        return Material(colour)
    atlas = photographic("train")
    pale = (0.4 + 0.3 * colour[0], 0.4 + 0.3 * colour[1], 0.4 + 0.3 * colour[2])
    offset = (uniform(source, 0, 256), uniform(source, 0, 256))
    return Material(pale, choice(source, atlas.count), uniform(source, 0.5, 1.0), uniform(source, 250, 500), offset)


@dataclass(frozen=True)
class Pose:
    """How a person walks in one picture: angles in radians."""

    stride: float
    swing: float
    bend: float
    """Of the arms."""
    lift: float = 0.0
    """How far the right arm is raised to the front."""
    crouch: float = 0.0
    """How far both knees are bent."""

    @classmethod
    def drawn(cls, source: torch.Generator) -> Pose:
        """A random moment of a walk."""
        phase = uniform(source, 0, 2 * math.pi)
        wide = uniform(source, 0.2, 0.55)
        return cls(wide * math.sin(phase), 0.8 * wide * math.sin(phase), uniform(source, 0.2, 0.9))


def joints(person: Person, pose: Pose) -> dict[str, Vector]:
    """Places of the joints in the body's axes (left of the body is -x, down, forward), for a body of 1.75 m."""
    low = 0.43 * (1 - math.cos(pose.crouch)) + 0.41 * (1 - math.cos(0.9 * pose.crouch))  # of the hips
    at: dict[str, Vector] = {"nose": (0, -1.6 + low, 0.12)}
    for side, name in ((-1, "left"), (1, "right")):
        at |= {f"{name}_eye": (side * 0.035, -1.63 + low, 0.1), f"{name}_ear": (side * 0.085, -1.61 + low, 0.0)}
        step = side * pose.stride + pose.crouch
        hip = (side * 0.095 * person.build, -0.93 + low, 0.0)
        knee = (hip[0], hip[1] + 0.43 * math.cos(step), 0.43 * math.sin(step))
        back = min(step, 0.0) * 0.9 - 0.08 - 1.9 * pose.crouch  # a leg behind the body is bent
        ankle = (hip[0], knee[1] + 0.41 * math.cos(step + back), knee[2] + 0.41 * math.sin(step + back))
        shoulder = (side * 0.185 * person.build, -1.42 + low, 0.0)
        arm = -side * pose.swing + (pose.lift if side > 0 else 0.0)
        elbow = (side * 0.215 * person.build, shoulder[1] + 0.28 * math.cos(arm), 0.28 * math.sin(arm))
        wrist = (
            side * 0.2 * person.build,
            elbow[1] + 0.25 * math.cos(arm + pose.bend),
            elbow[2] + 0.25 * math.sin(arm + pose.bend),
        )
        at |= {f"{name}_hip": hip, f"{name}_knee": knee, f"{name}_ankle": ankle}
        at |= {f"{name}_shoulder": shoulder, f"{name}_elbow": elbow, f"{name}_wrist": wrist}
    return at


def body(person: Person, pose: Pose) -> list[Part]:
    """The parts of a person: the main material is the top, the second one the trousers or the skirt."""
    at, build = joints(person, pose), person.build
    covered = "second" if person.legs == 0 else person.skin
    upper = "second" if person.legs < 2 else person.skin
    sleeve = "main" if person.sleeves else person.skin
    parts: list[Part] = []
    for name in ("left", "right"):
        hip, knee, ankle = (at[f"{name}_{joint}"] for joint in ("hip", "knee", "ankle"))
        shoulder, elbow, wrist = (at[f"{name}_{joint}"] for joint in ("shoulder", "elbow", "wrist"))
        parts += [rod(hip, knee, 0.08 * build, upper), Part(ELLIPSOID, hip, (0.095 * build,) * 3, "second")]
        parts += [rod(knee, ankle, 0.058 * build, covered), Part(ELLIPSOID, knee, (0.068 * build,) * 3, covered)]
        parts.append(Part(ELLIPSOID, (ankle[0], ankle[1] + 0.03, ankle[2] + 0.07), (0.048, 0.045, 0.13), person.shoes))
        parts += [rod(shoulder, elbow, 0.052 * build), Part(ELLIPSOID, shoulder, (0.068 * build,) * 3)]
        parts += [rod(elbow, wrist, 0.042 * build, sleeve), Part(ELLIPSOID, elbow, (0.052 * build,) * 3, sleeve)]
        parts.append(Part(ELLIPSOID, (wrist[0], wrist[1] + 0.05, wrist[2]), (0.035, 0.07, 0.04), person.skin))
    low = at["left_hip"][1] + 0.93  # how far a crouching body is lowered
    trunk = [
        Part(ELLIPSOID, (0, -1.28, 0), (0.175 * build, 0.22, 0.12 * build)),
        Part(ELLIPSOID, (0, -1.08, 0), (0.155 * build, 0.2, 0.115 * build)),
        Part(ELLIPSOID, (0, -0.95, 0), (0.16 * build, 0.12, 0.12 * build), "second"),
        Part(CYLINDER, (0, -1.5, 0.0), (0.05, 0.06, 0.05), person.skin),
        Part(ELLIPSOID, (0, -1.62, 0.015), (0.08, 0.11, 0.095), person.skin),
        *_head(person),
        *_bag(person, {name: (x, y - low, z) for name, (x, y, z) in at.items()}),
    ]
    if person.coat:
        trunk.append(Part(CONE, (0, -0.98, 0), (0.26 * build, 0.4, 0.19 * build)))
    if person.legs == 2:
        trunk.append(Part(CONE, (0, -0.86, 0), (0.27 * build, 0.32, 0.24 * build), "second"))
    return parts + [replace(part, centre=(part.centre[0], part.centre[1] + low, part.centre[2])) for part in trunk]


def _head(person: Person) -> list[Part]:
    if person.style == 2:
        brim = Part(CYLINDER, (0, -1.68, 0.02), (0.14, 0.012, 0.15), person.shoes)
        return [brim, Part(ELLIPSOID, (0, -1.69, 0), (0.092, 0.085, 0.1), person.shoes)]
    parts = [Part(ELLIPSOID, (0, -1.66, -0.018), (0.09, 0.095, 0.1), person.hair)]
    if person.style == 1:
        parts.append(Part(ELLIPSOID, (0, -1.52, -0.06), (0.085, 0.17, 0.055), person.hair))
    return parts


def _bag(person: Person, at: dict[str, Vector]) -> list[Part]:
    look = person.carried.colour
    if person.bag == 1:
        straps = [Part(BOX, (x, -1.3, 0.1), (0.022, 0.16, 0.03), look) for x in (-0.1, 0.1)]
        return [Part(BOX, (0, -1.24, -0.2), (0.14, 0.21, 0.09), look), *straps]
    if person.bag == 2:
        x, y, z = at["right_wrist"]
        return [
            Part(BOX, (x + 0.03, y + 0.22, z), (0.045, 0.13, 0.16), look),
            rod((x, y, z), (x, y + 0.1, z), 0.012, look),
        ]
    if person.bag == 3:
        across = rod((-0.15, -1.45, 0.09), (0.17, -0.98, 0.1), 0.02, look, BOX)
        return [Part(BOX, (0.22 * person.build, -0.93, 0.02), (0.05, 0.11, 0.14), look), across]
    return []


def add_person(builder: SceneBuilder, person: Person, pose: Pose, at: Vector, turn: float) -> int:
    """Put a person into a scene, standing at a point; returns the number of the thing."""
    return place(builder, body(person, pose), at, turn, person.height / STATURE, person.top, person.bottom)
