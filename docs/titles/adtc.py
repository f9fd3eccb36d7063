"""Pictures of people without names, the clusters found among them, and what was dropped."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from titles.canvas import Canvas, pixels
from vergence.core.seeding import generator
from vergence.drawing.figure import GREEN, RED
from vergence.reid.crowds import population
from vergence.reid.pseudo import Pseudo, two_stage

PEOPLE, HEIGHT, WIDTH = 40, 96, 48
CLUSTERS, TOP, K = 60, 8, 8
MEMBERS, SHOWN = 4, 6
"""Pictures of a cluster, and clusters."""
CAPTION = (
    "One round of labels for 480 rendered pictures of 40 people by 4 cameras: centres claim the pictures whose "
    "neighbourhoods overlap most with their own, and what several centres claim, or none, is dropped. The six clusters "
    "with most cameras are shown (green: the same person; red: another). Descriptors are colours of stripes: nothing "
    "was trained."
)


def colours(pictures: Tensor) -> Tensor:
    """Descriptors (N, 48): mean colours of 8 stripes through the middle and their deviations, each picture relative to
    its own mean, which takes out most of a camera's white balance."""
    middle = pictures[:, :, 8:88, 14:34].float().flatten(0, 1).view(len(pictures), 3, 8, 10, 20).flatten(3)
    mean, deviation = middle.mean(3), middle.std(3)
    mean = mean / pictures.float().mean((2, 3)).unsqueeze(2).clamp(min=1)
    return torch.cat([mean.flatten(1), 0.01 * deviation.flatten(1)], 1)


def best(found: Pseudo, cameras: tuple[int, ...]) -> list[list[int]]:
    """The clusters whose pictures come from most cameras, at least four pictures each."""
    members = [(found.labels == label).nonzero()[:, 0].tolist() for label in range(found.clusters)]
    large = [m for m in members if len(m) >= MEMBERS]
    return sorted(large, key=lambda m: (-len({cameras[i] for i in m}), -len(m)))[:SHOWN]


def spread(members: list[int], cameras: tuple[int, ...]) -> list[int]:
    """Four members, from as many cameras as there are."""
    firsts = list({cameras[i]: i for i in reversed(members)}.values())
    return (firsts + [i for i in members if i not in firsts])[:MEMBERS]


def draw(path: Path) -> Path:
    data = population(PEOPLE, HEIGHT, WIDTH, "train")
    found = two_stage(colours(data.pictures), CLUSTERS, TOP, K, generator("title", "adtc"))
    canvas = Canvas()
    order = torch.randperm(len(data), generator=generator("title", "order")).tolist()
    canvas.write(12, 26, f"{len(data)} pictures of people, no names")
    for place, index in enumerate(order[:15]):
        canvas.picture(pixels(data.pictures[index]), 12 + 63 * place, 50, 54, 108)
    canvas.write(12, 186, f"clusters: {int(found.kept.sum())} pictures in {found.clusters}")
    for number, members in enumerate(best(found, data.cameras)):
        own = [data.identities[i] for i in members]
        person = max(set(own), key=own.count)
        for place, index in enumerate(spread(members, data.cameras)):
            x, y = 12 + 318 * (number % 3) + 73 * place, 212 + 136 * (number // 3)
            tile(canvas, data.pictures[index], x, y, GREEN if data.identities[index] == person else RED)
    for left, word, dropped in (
        (12, "dropped: claimed twice", found.claims > 1),
        (492, "claimed by none", found.claims == 0),
    ):
        chosen = dropped.nonzero()[:, 0]
        canvas.write(left, 508, word)
        for place, index in enumerate(chosen[:: max(len(chosen) // 7, 1)][:7].tolist()):
            canvas.picture(pixels(data.pictures[index]) // 2 + 110, left + 63 * place, 530, 50, 100)
    return canvas.save(path)


def tile(canvas: Canvas, picture: Tensor, x: float, y: float, colour: str) -> None:
    """A picture in a frame."""
    axes = canvas.picture(pixels(picture), x, y, 64, 128)
    right, lower = WIDTH - 0.5, HEIGHT - 0.5
    axes.plot([-0.5, right, right, -0.5, -0.5], [-0.5, -0.5, lower, lower, -0.5], color=colour, linewidth=9)
