"""Rendered scenes and figures as data, kept on disk: what :mod:`vergence.retrieval.staging` draws, by the hundred."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.rendered import rendered
from vergence.rendering.things import choice
from vergence.retrieval.actors import MOTIONS
from vergence.retrieval.cutouts import trimmed
from vergence.retrieval.foregrounds import Pairs
from vergence.retrieval.staging import UPPER, Stage, cut_out, stage

CODE = ("vergence.rendering", "vergence.reid.people", "vergence.retrieval.actors", "vergence.retrieval.staging",
        "vergence.data.photographs")  # fmt: skip
LIGHTS, VIEWS = ("left", "right"), ("front", "side")
NAMES = (
    *(f"{motion}, {view}, lit from the {light}" for motion, view, light in product(MOTIONS, VIEWS, LIGHTS)),
    *(f"upper body, lit from the {light}" for light in LIGHTS),
)
"""Of the 18 patterns: motion, view and light; of a figure that is cut, the light alone."""


def pattern_of(motion: int, view: int, light: int) -> int:
    """The pattern of a figure; motion ``UPPER`` stands for one that is cut."""
    return (motion * len(VIEWS) + (0 if motion == UPPER else view)) * len(LIGHTS) + light


def _bytes(pictures: Tensor) -> Tensor:
    return (pictures * 255).round().to(torch.uint8)


def _joined(parts: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _chunks(count: int, size: int) -> list[range]:
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def figures(each: int, side: int, seed: tuple[int | str, ...]) -> dict[str, Tensor]:
    """Cut-outs ``pictures`` (20 * each, 4, side, side) of bytes, ``each`` of every motion, view and light, and their
    ``patterns``."""
    return _joined([_some_figures(numbers, side, seed) for numbers in _chunks(each, 8)])


def _some_figures(numbers: range, side: int, seed: tuple[int | str, ...]) -> dict[str, Tensor]:
    def render_all() -> dict[str, Tensor]:
        pictures, patterns = [], []
        for number, motion, view in product(numbers, range(UPPER + 1), range(len(VIEWS))):
            both = _bytes(cut_out(motion, view, side, generator("cut-out", *seed, motion, view, number)))
            pictures += list(both)
            patterns += [pattern_of(motion, view, light) for light in range(2)]
        return {"pictures": torch.stack(pictures), "patterns": torch.tensor(patterns)}

    return rendered("cut-outs", {"numbers": numbers, "side": side, "seed": seed}, CODE, render_all)


def scenes(count: int, side: int, seed: tuple[int | str, ...]) -> dict[str, Tensor]:
    """``count`` scenes, each under two lights and mirrored, so 4 * count queries: ``pictures`` (n, 3, side, side) of
    bytes, ``boxes`` (n, 4) in pixels, their own ``patterns``, the second pattern that ``fits`` (the same if there is
    none), the ``props`` as motions, ``where`` these are, and the ``lights``: left, right or overcast."""
    return _joined([_some_scenes(numbers, side, seed) for numbers in _chunks(count, 100)])


def _some_scenes(numbers: range, side: int, seed: tuple[int | str, ...]) -> dict[str, Tensor]:
    def render_all() -> dict[str, Tensor]:
        rows: dict[str, list[Tensor]] = {}
        for number in numbers:
            source = generator("stage", *seed, number)
            motion, view = number % (UPPER + 1), number // (UPPER + 1) % 2
            lights: list[int | None] = [0, 1]
            if choice(source, 2) == 0:
                lights[choice(source, 2)] = None
            made = stage(motion, view, lights, side, source)
            for picture, light in zip(made.pictures, lights, strict=True):
                own = choice(source, 2) if light is None else light
                for mirrored in (False, True):
                    for name, value in _row(made, picture, motion, view, light, own, mirrored).items():
                        rows.setdefault(name, []).append(value)
        return {name: torch.stack(values) for name, values in rows.items()}

    return rendered("stages", {"numbers": numbers, "side": side, "seed": seed}, CODE, render_all)


def _row(
    made: Stage, picture: Tensor, motion: int, view: int, light: int | None, own: int, mirrored: bool
) -> dict[str, Tensor]:
    """A query of a scene under one light; mirrored, the light comes from the other side."""
    side = picture.shape[-1]
    lit = 1 - own if mirrored else own
    other = 1 - lit if light is None else lit
    left, top, wide, high = made.box.tolist()
    return {
        "pictures": _bytes(picture.flip(-1) if mirrored else picture),
        "boxes": torch.tensor([side - left - wide if mirrored else left, top, wide, high]),
        "patterns": torch.tensor(pattern_of(motion, view, lit)),
        "fits": torch.tensor(pattern_of(motion, view, other)),
        "props": torch.tensor(made.prop),
        "where": torch.tensor(made.where),
        "lights": torch.tensor(2 if light is None else lit),
    }


def staged(count: int, each: int, side: int, split: str) -> Pairs:
    """Rendered queries and figures as data: 4 * count queries, and 2 * each figures of every motion and view. A
    training query's own figure is a random one of its pattern: within a pattern they are interchangeable."""
    made, drawn = scenes(count, side, (split,)), figures(each, side, (split,))
    source, patterns = generator("own", split), drawn["patterns"]
    members = [(patterns == pattern).nonzero()[:, 0] for pattern in range(len(NAMES))]
    own = [members[p][choice(source, len(members[p]))] for p in made["patterns"].tolist()]
    fits = (made["patterns"].unsqueeze(1) == patterns) | (made["fits"].unsqueeze(1) == patterns)
    return Pairs(
        made["pictures"],
        made["boxes"],
        [trimmed(picture, "a figure") for picture in drawn["pictures"]],
        torch.stack(own),
        patterns,
        NAMES,
        fits,
        where=made["where"],
        scenes=torch.stack([made["props"], made["lights"]], 1),
        scene_sizes=(UPPER, len(LIGHTS) + 1),
    )
