"""The four tasks (pictures, videos, tracklets and tokens), and what they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from vergence.contract.context import Context
from vergence.core.errors import VergenceError
from vergence.recognition.settings import Facts, Tokens
from vergence.recognition.snl.predict import Labels, Shares
from vergence.recognition.snl.settings import Config, Footage, Pictures, Tracklets

Ctx = Context[Config, Facts]
S = TypeVar("S", bound=Pictures | Footage | Tracklets | Tokens)


def asked(config: Config, kind: type[S]) -> S:
    """The data settings of a config, checked to be of this kind."""
    if not isinstance(config.data, kind):
        raise VergenceError(f"expected settings of {kind.__name__}, got those of {type(config.data).__name__}")
    return config.data


def labelled(
    ctx: Ctx, paths: Sequence[Path], scores: Tensor, points: Sequence[Shares], attention: Sequence[Mapping[str, Tensor]]
) -> Labels:
    """Builds the result for files with probabilities (N, classes)."""
    classes = tuple(map(ctx.facts.name, range(ctx.facts.classes)))
    best = tuple(classes[i] for i in scores.argmax(1).tolist())
    return Labels(tuple(map(str, paths)), classes, best, scores, tuple(points), tuple(attention))
