"""Pictures of text read by a recogniser: lines cut out, read in batches of equal width, with a confidence each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.assets import Asset
from vergence.contract.context import Context
from vergence.documents.ink import even_light, inked
from vergence.documents.lines import WIDEST, Alphabet, strip
from vergence.documents.page import LineBox, Page, find_lines
from vergence.ops.ctc import collapse

BUCKET = 64
"""Strips are padded with paper to a multiple of this many columns and read in batches of equal width, so that no
reading depends on what else is read."""
AT_ONCE = 32
NARROWEST = 32
"""Columns that every recogniser takes."""
PRINT = Asset(
    "the recogniser of printed lines",
    source="vergence",
    licence="Apache-2.0",
    file="weights/print.safetensors",
    package="vergence.documents.varctc",
)
"""Weights for print that come with the library."""


class Read(NamedTuple):
    """What a picture says."""

    text: str
    confidence: float
    """From 0 to 1: the probability of the most probable path."""


@dataclass(frozen=True)
class Reader:
    """A recogniser, and how it takes pictures."""

    model: Callable[[Tensor], Tensor]
    """Strips (B, 1, height, W) to log probabilities (T, B, 1 + symbols), the blank first."""
    alphabet: Alphabet
    height: int = 32
    width: int = 0
    """Columns that strips are stretched to; 0: in proportion."""

    @classmethod
    def for_print(cls, ctx: Context[Any, Any]) -> Reader:
        """The recogniser of printed lines that comes with the library."""
        model, identity = ctx.load(PRINT.path())
        return cls(model, Alphabet(identity.config.model.alphabet), identity.config.data.height,
                   identity.config.data.width)  # fmt: skip

    def strips(self, page: Page) -> list[Tensor]:
        """The lines of a page as the network takes them, in even light."""
        if not page.lines:
            return []
        tall = float(np.median([box.bottom - box.top for box in page.lines]))
        even = even_light(page.picture, max(int(1.5 * tall), 15) | 1).numpy()
        cuts = (torch.from_numpy(np.ascontiguousarray(box.cut(even))) for box in page.lines)
        return [strip(cut, self.height, self.width) for cut in cuts]

    def emitted(self, ctx: Context[Any, Any], strips: Sequence[Tensor]) -> list[Tensor]:
        """Log probabilities (T, K) of each strip (1, height, W)."""
        widths = [s.shape[-1] if self.width else max(-(-s.shape[-1] // BUCKET) * BUCKET, NARROWEST) for s in strips]
        ctx.need(sum(widths) * 32 * 4 + AT_ONCE * min(max(widths, default=0), WIDEST) * 32 * 600, "reading the lines")
        found: list[Tensor] = [torch.empty(0)] * len(strips)
        order = sorted(range(len(strips)), key=lambda k: widths[k])
        while order:
            width = widths[order[0]]
            some = [k for k in order[:AT_ONCE] if widths[k] == width]
            order = order[len(some) :]
            batch = torch.stack([F.pad(strips[k], (0, width - strips[k].shape[-1])) for k in some])
            log_probs = self.model(ctx.to_device(batch)).float().cpu()
            for place, k in enumerate(some):
                found[k] = log_probs[:, place]
        return found

    def read(self, ctx: Context[Any, Any], pictures: Sequence[Tensor]) -> list[Read]:
        """What small pictures (3, H, W) say, such as the cells of a table: each has no text, a line, or a few lines,
        which are joined by spaces. All lines of all pictures are read together."""
        pages = [lines_of(picture) for picture in pictures]
        emitted = iter(self.emitted(ctx, [own for page in pages for own in self.strips(page)]))
        return [self._joined([next(emitted) for _ in page.lines]) for page in pages]

    def _joined(self, lines: Sequence[Tensor]) -> Read:
        texts, score = [], 0.0
        for log_probs in lines:
            best, path = log_probs.max(-1)
            texts.append(self.alphabet.decode(collapse(path.tolist())).strip())
            score += float(best.sum())
        return Read(" ".join(text for text in texts if text), min(math.exp(score), 1.0))


def lines_of(picture: Tensor) -> Page:
    """A small upright picture (3, H, W) with its lines; one line if there is ink and no letters are found."""
    page = find_lines(picture, 0.0)
    if page.lines or not page.ink.any():
        return page
    return Page(page.picture, 0.0, page.ink, (whole_line(page.ink),))


def whole_line(ink: np.ndarray[Any, np.dtype[np.bool_]]) -> LineBox:
    """The rows of a picture that have ink, and a little more."""
    rows = np.nonzero(ink.any(1))[0]
    more = max(int(0.08 * (rows[-1] - rows[0])), 1)
    return LineBox(0, max(int(rows[0]) - more, 0), ink.shape[1], min(int(rows[-1]) + 1 + more, ink.shape[0]))


def one_line(picture: Tensor) -> Page:
    """A picture (3, H, W) as a single line."""
    ink = inked(picture)
    return Page(picture, 0.0, ink, (whole_line(ink),) if ink.any() else ())


def centres(steps: int, width: int) -> Tensor:
    """The column of the picture in the middle of each step's view, (steps,)."""
    return 4 * (torch.arange(steps) + 0.5 + (width // 4 - steps) / 2)


def word_spans(path: Sequence[int], alphabet: Alphabet) -> list[tuple[int, int]]:
    """Steps, from the first to before the last, of the words of a path: what lies between its spaces."""
    space = alphabet.symbols.find(" ") + 1
    spans, start = [], 0
    for step, symbol in enumerate([*path, -1]):
        if (symbol == space and space) or symbol == -1:
            if any(path[start:step]):
                spans.append((start, step))
            start = step + 1
    return spans
