"""Rendered films with spans in which a person does something, as features of their snippets.

What people do (walk, jump, wave, throw) is to be found. Things that move by themselves (balls, pendulums, falling
boxes, cars) begin and end just as suddenly and are not; neither is a bystander who walks all the time, nor the hand
that shakes the camera, nor a cut to another place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.rendered import rendered
from vergence.rendering.things import choice, uniform
from vergence.video.annotated import Annotated
from vergence.video.happenings import FPS, PEOPLE, THINGS, Film, Span, timeline
from vergence.video.snippets import describe, mirrored

HEIGHT, WIDTH = 48, 64
FRAMES = 2
"""Frames per snippet."""
SHOWN = 8
"""Frames kept of a film, to look at."""
MOST = 4
"""Instances kept of a film."""
CODE = (
    "vergence.video.films", "vergence.video.happenings", "vergence.video.snippets", "vergence.rendering",
    "vergence.reid.people",
)  # fmt: skip


def film(snippets: int, source: torch.Generator, height: int = HEIGHT, width: int = WIDTH) -> Film:
    """A film of 2 to 4 motions, at least one of them a person's; every third one has a cut in it."""
    frames = FRAMES * snippets
    if choice(source, 3):
        return timeline(_motions(2 + choice(source, 2), source), frames, height, width, source)
    cut = round(frames * uniform(source, 0.35, 0.65))
    first = timeline(_motions(1 + choice(source, 2), source), cut, height, width, source)
    second = timeline(_motions(1, source), frames - cut, height, width, source)
    later = tuple(Span(span.start + cut, span.end + cut, span.motion) for span in second.spans)
    return Film(torch.cat([first.frames, second.frames]), first.spans + later)


def _motions(count: int, source: torch.Generator) -> list[str]:
    """Motions of people and of things in random order, at least one a person's."""
    kinds = [True] + [bool(choice(source, 2)) for _ in range(count - 1)]
    order = torch.randperm(count, generator=source).tolist()
    pools = {True: PEOPLE, False: THINGS}
    return [pools[kinds[place]][choice(source, len(pools[kinds[place]]))] for place in order]


@dataclass(frozen=True)
class Films(Annotated):
    """Rendered films; ``shown`` holds a few frames of each, (N, SHOWN, 3, H, W)."""

    shown: Tensor = torch.empty(0)

    def with_mirrored(self) -> Films:
        """The films, and each of them with left and right exchanged."""
        names = self.names + tuple(f"{name}, mirrored" for name in self.names)
        features = [*self.features, *map(mirrored, self.features)]
        shown = torch.cat([self.shown, self.shown.flip(-1)])
        return Films(names, self.durations * 2, self.spans * 2, self.labels * 2, features, shown=shown)

    def first(self, count: int) -> Films:
        return replace(super().first(count), shown=self.shown[:count])


def films(count: int, snippets: int, split: str) -> Films:
    """``count`` films of ``snippets`` snippets each, rendered once and kept on disk."""
    asked = {"count": count, "snippets": snippets, "split": split}
    kept = rendered("films", asked, CODE, lambda: _rendered(count, snippets, split))
    step = FRAMES / FPS
    spans = tuple(row[row[:, 1] > 0].double() / FPS for row in kept["spans"])
    labels = tuple(
        tuple(PEOPLE[int(k)] for k in row[: len(mine)]) for row, mine in zip(kept["labels"], spans, strict=True)
    )
    names = tuple(f"film {number}" for number in range(count))
    features = kept["features"].float()
    made = Films(names, (snippets * step,) * count, spans, labels, features.unbind(), shown=kept["shown"])
    return made.with_mirrored() if split == "train" else made


def _rendered(count: int, snippets: int, split: str) -> dict[str, Tensor]:
    features, spans, labels, shown = [], [], [], []
    for number in range(count):
        taken = film(snippets, generator("films", split, number))
        features.append(describe(taken.frames[0::FRAMES], taken.frames[1::FRAMES]))
        people = [span for span in taken.spans if span.motion in PEOPLE][:MOST]
        row = torch.zeros(MOST, 2)
        row[: len(people)] = torch.tensor([(span.start, span.end) for span in people], dtype=torch.float32)
        kinds = torch.full((MOST,), -1.0)
        kinds[: len(people)] = torch.tensor([PEOPLE.index(span.motion) for span in people], dtype=torch.float32)
        spans.append(row)
        labels.append(kinds)
        places = torch.linspace(0, len(taken.frames) - 1, SHOWN).round().long()
        shown.append(taken.frames[places])
    return {
        "features": torch.stack(features),
        "spans": torch.stack(spans),
        "labels": torch.stack(labels),
        "shown": torch.stack(shown),
    }
