"""Sequences of noise with cues: a test of whether contents inform boundaries.

Every segment begins with a cue in channel 0 and ends with one in channel 1. Inside, channel 2 says that it is an action
and channel 3 that it is a decoy; the boundaries of both look alike. A network whose nodes see their own position only
can tell the two kinds of boundary apart through the spans between them and in no other way.
"""

from __future__ import annotations

import torch

from vergence.core.seeding import generator
from vergence.video.annotated import Annotated

CHANNELS = 16
NOISE = 0.35
SHORTEST, LONGEST = 3, 6


def cues(count: int, length: int, split: str) -> Annotated:
    """``count`` sequences of ``length`` positions, each a second long."""
    source = generator("cues", split)
    features, spans = [], []
    for _ in range(count):
        rows = NOISE * torch.randn(length, CHANNELS, generator=source)
        mine: list[tuple[float, float]] = []
        place = int(torch.randint(0, 3, (1,), generator=source))
        while place + SHORTEST < length:
            long = int(torch.randint(SHORTEST, LONGEST + 1, (1,), generator=source))
            end = min(place + long, length - 1)
            action = bool(torch.rand(1, generator=source) < 0.5)
            rows[place, 0] += 1
            rows[end, 1] += 1
            rows[place + 1 : end, 2 if action else 3] += 1
            if action:
                mine.append((place + 0.5, end + 0.5))  # the centres of the positions with the cues
            place = end + 1 + int(torch.randint(0, 3, (1,), generator=source))
        features.append(rows)
        spans.append(torch.tensor(mine, dtype=torch.float64).reshape(-1, 2))
    names = tuple(f"sequence {number}" for number in range(count))
    labels = tuple(("action",) * len(mine) for mine in spans)
    return Annotated(names, (float(length),) * count, tuple(spans), labels, features)
