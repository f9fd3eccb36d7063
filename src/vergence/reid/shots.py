"""Rendered pictures of people by several cameras, with masks and joints.

Cameras differ in height, light, white balance, sharpness and surroundings; pictures in pose, direction, crop and
exposure; and someone or something may stand in front. What is seen of a person and where the joints are is known
exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.photographs import SURFACES
from vergence.data.rendered import rendered
from vergence.reid.people import JOINTS, STATURE, Person, Pose, Vector, add_person, joints
from vergence.rendering.cameras import Pinhole, look_at
from vergence.rendering.furniture import box, chair, plant
from vergence.rendering.outdoors import bench, bicycle, car, sign, tree
from vergence.rendering.scenes import Light, SceneBuilder
from vergence.rendering.solids import BOX
from vergence.rendering.textures import photographic
from vergence.rendering.things import about, choice, place, random_material, uniform
from vergence.rendering.views import exposed, render

REACH = 5.0
"""People walk up to this far to the left and right of a camera, in metres."""


@dataclass(frozen=True)
class Shot:
    """One picture of a person."""

    picture: Tensor
    """(3, H, W), bytes."""
    mask: Tensor
    """(H, W), where the person is seen."""
    joints: Tensor
    """(17, 3): x and y in pixels, and whether the joint is seen (1), hidden (0) or outside the picture (-1)."""


@dataclass(frozen=True)
class Camera:
    """What all pictures of a camera have in common."""

    number: int
    height: float
    distance: float
    light: Light
    balance: Vector
    blur: float
    yaw: float
    """Most people walk past it in this direction."""

    @classmethod
    def of(cls, number: int) -> Camera:
        """A camera by its number, the same for every population."""
        source = generator("people", "camera", number)
        towards = torch.tensor([uniform(source, -1, 1), -1.2, uniform(source, -1.2, 0.3)])
        light = Light(towards, uniform(source, 0.4, 0.8), uniform(source, 0.5, 0.7))
        balance = (uniform(source, 0.8, 1.15), uniform(source, 0.88, 1.08), uniform(source, 0.8, 1.15))
        height = uniform(source, 1.3, 3.5)
        return cls(
            number, height, uniform(source, 5, 9), light, balance, uniform(source, 0.3, 1.0), uniform(source, 0, 6.28)
        )

    def surroundings(self) -> SceneBuilder:
        """Ground, a wall, and what stands before it: the same in all pictures of the camera."""
        source = generator("people", "place", self.number)
        atlas = photographic("train")
        builder = SceneBuilder(atlas, self.light, (0.75, 0.8, 0.88))
        builder.begin()
        surfaces = atlas.named(SURFACES)
        for half, at in (
            ((60.0, 0.1, 60.0), (0.0, 0.1, 0.0)),
            ((60.0, 6.0, 0.2), (0.0, -6.0, uniform(source, 2.5, 6))),
        ):
            shade = uniform(source, 0.3, 0.7)
            colour = (shade * uniform(source, 0.85, 1.15), shade, shade * uniform(source, 0.85, 1.15))
            builder.add(BOX, at, half, colour=colour, texture=surfaces[choice(source, len(surfaces))],
                        blend=uniform(source, 0.4, 0.9), density=uniform(source, 60, 140))  # fmt: skip
        for _ in range(5):
            maker = (car, bench, tree, sign, plant, box)[choice(source, 6)]
            at = (uniform(source, -REACH - 1, REACH + 1), 0.0, uniform(source, 1.5, 3.0))
            look = random_material(source, range(atlas.count))
            place(builder, maker(source), at, uniform(source, 0, 6.28), 1.0, look, random_material(source))
        return builder


def shot(
    person: Person,
    camera: Camera,
    height: int,
    width: int,
    source: torch.Generator,
    hidden: float = 0.25,
    others: tuple[Person, ...] = (),
) -> Shot:
    """A picture of a person by a camera. With the probability ``hidden``, a thing or one of ``others`` is in front."""
    builder = camera.surroundings()
    turn = camera.yaw + (math.pi if choice(source, 2) else 0) + uniform(source, -0.7, 0.7)
    pose, at = Pose.drawn(source), (uniform(source, -REACH, REACH), 0.0, uniform(source, -0.5, 1.0))
    own = add_person(builder, person, pose, at, turn)
    if uniform(source, 0, 1) < hidden:
        _in_front(builder, at, source, others)
    seen = _aimed(person, camera, at, height, width, source)
    view = render(builder.scene(), seen, 2, shadows=True)
    image = view.image * view.image.new_tensor(camera.balance).view(3, 1, 1)
    image = exposed(image, source, gain=0.25, blur=camera.blur, noise=0.03)
    mask = view.thing == own
    return Shot((image * 255).round().to(torch.uint8), mask, _projected(person, pose, at, turn, seen, mask))


def _in_front(builder: SceneBuilder, at: Vector, source: torch.Generator, others: tuple[Person, ...]) -> None:
    """Something between the person and the camera, beside the middle."""
    side = at[0] + (2 * choice(source, 2) - 1) * uniform(source, 0.1, 0.5)
    near = at[2] - uniform(source, 0.6, 1.2)
    if others and choice(source, 2):
        other = others[choice(source, len(others))]
        add_person(builder, other, Pose.drawn(source), (side, 0.0, near), uniform(source, 0, 6.28))
        return
    makers = (box, chair, plant, bench, bicycle, car, sign)
    maker = makers[choice(source, len(makers))]
    size = 1.6 if maker is box else 1.0
    if maker is car:
        side, near = at[0] + 3 * (side - at[0]), near - 1.5
    textures = range(builder.atlas.count)
    place(builder, maker(source), (side, 0.0, near), uniform(source, 0, 6.28), size, random_material(source, textures),
          random_material(source))  # fmt: skip


def _aimed(person: Person, camera: Camera, at: Vector, height: int, width: int, source: torch.Generator) -> Pinhole:
    """A crop around the person, as a detector would cut it out: the camera's view, moved and scaled a little."""
    position = torch.tensor([0.4 * at[0], -camera.height, -camera.distance])
    target = torch.tensor(at) - torch.tensor([0.0, person.height / 2, 0.0])
    reach = float((position - target).norm())
    focal = height * reach / person.height * uniform(source, 0.82, 0.98)
    shift = (uniform(source, -0.06, 0.06) * width, uniform(source, -0.04, 0.04) * height)
    centre = ((width - 1) / 2 + shift[0], (height - 1) / 2 + shift[1])
    return Pinhole(height, width, focal, position, look_at(position, target, uniform(source, -0.04, 0.04)), centre)


def _projected(person: Person, pose: Pose, at: Vector, turn: float, camera: Pinhole, mask: Tensor) -> Tensor:
    own, scale = joints(person, pose), person.height / STATURE
    points = torch.stack([scale * (about("y", turn) @ torch.tensor(own[name])) for name in JOINTS]) + torch.tensor(at)
    places, _ = camera.project(points)
    column, row = places.round().long().unbind(1)
    inside = (column >= 0) & (column < camera.width) & (row >= 0) & (row < camera.height)
    seen = mask[row.clamp(0, camera.height - 1), column.clamp(0, camera.width - 1)]
    state = torch.where(inside, seen.long(), -1)
    return torch.cat([places, state.unsqueeze(1)], 1)


@dataclass(frozen=True)
class Crowd:
    """Pictures of people, one row each: identities, cameras, masks and joints."""

    pictures: Tensor
    """(N, 3, H, W), bytes."""
    identities: Tensor
    cameras: Tensor
    masks: Tensor
    """(N, H, W)."""
    joints: Tensor
    """(N, 17, 3), as in :class:`Shot`."""

    def __len__(self) -> int:
        return len(self.pictures)


def crowd(
    people: int,
    height: int,
    width: int,
    seed: tuple[int | str, ...],
    cameras: tuple[int, ...] = (0, 1, 2, 3),
    shots: int = 3,
    hidden: float = 0.2,
    like: tuple[int | str, ...] | None = None,
) -> Crowd:
    """``shots`` pictures of each of ``people`` persons by each camera, in that order: persons, cameras, shots. With
    ``like``, the persons are those of the crowd of that seed, in other pictures."""
    who = seed if like is None else like

    def render_all() -> dict[str, Tensor]:
        everyone = [Person.drawn(generator("person", *who, number)) for number in range(people)]
        taken, rows = [], []
        for number, person in enumerate(everyone):
            others = tuple(everyone[:number] + everyone[number + 1 :])
            for camera in cameras:
                for again in range(shots):
                    source = generator("shot", *seed, number, camera, again)
                    taken.append(shot(person, Camera.of(camera), height, width, source, hidden, others))
                    rows.append((number, camera))
        return {
            "pictures": torch.stack([one.picture for one in taken]),
            "masks": torch.stack([one.mask for one in taken]),
            "joints": torch.stack([one.joints for one in taken]),
            "rows": torch.tensor(rows),
        }

    asked = {"people": people, "size": (height, width), "seed": seed, "cameras": cameras, "shots": shots,
             "hidden": hidden, "like": who}  # fmt: skip
    code = ("vergence.rendering", "vergence.reid.people", "vergence.reid.shots", "vergence.data.photographs")
    tensors = rendered("people", asked, code, render_all)
    identities, seen_by = tensors["rows"].unbind(1)
    return Crowd(tensors["pictures"], identities, seen_by, tensors["masks"], tensors["joints"])
