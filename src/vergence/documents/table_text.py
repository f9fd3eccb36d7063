"""Texts of the cells of tables: by the recogniser that comes with the library, or by Tesseract."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from vergence.contract.context import Context
from vergence.core.errors import VergenceError
from vergence.documents.reader import PRINT, Read, Reader

Who = Literal["auto", "varctc", "tesseract", "none"]
PATIENCE = 120.0
"""Seconds that Tesseract has for a picture."""
NOTHING = Read("", 1.0)


class Seen(NamedTuple):
    """A word that Tesseract read."""

    text: str
    confidence: float
    x: float
    y: float
    """Its middle."""
    line: tuple[int, ...]
    """Block, paragraph and line."""


def read_cells(
    ctx: Context[Any, Any],
    pictures: Sequence[Tensor],
    boxes: Sequence[NDArray[Any]],
    crops: Sequence[Sequence[Tensor]],
    who: Who,
) -> tuple[list[list[Read]], str]:
    """The texts of the cells of several pictures (3, H, W), with boxes (N, 4) and pictures of their own, and a note if
    they could not be read. ``auto`` takes the library's recogniser, Tesseract if that is missing, or neither."""
    blank = [[NOTHING] * len(own) for own in boxes]
    if who == "none":
        return blank, ""
    if who == "varctc" or (who == "auto" and PRINT.find() is not None):
        try:
            reader = Reader.for_print(ctx)
        except VergenceError as error:
            if who == "varctc":
                raise
            return blank, f"cells were not read: {error}"
        flat = [crop for own in crops for crop in own]
        read = iter(reader.read(ctx, [crop for crop in flat if crop.numel()]))
        return [[next(read) if crop.numel() else NOTHING for crop in own] for own in crops], ""
    program = shutil.which("tesseract")
    if program is None:
        if who == "tesseract":
            raise VergenceError("tesseract is not installed: expected its program on the path (--text none goes on)")
        return blank, "cells were not read: neither the weights of varctc nor tesseract are there"
    return [placed(tesseract(program, p), own) for p, own in zip(pictures, boxes, strict=True)], ""


def tesseract(program: str, picture: Tensor) -> list[Seen]:
    """The words that Tesseract finds in a picture (3, H, W), anywhere on it."""
    file = io.BytesIO()
    Image.fromarray(picture.permute(1, 2, 0).numpy()).save(file, "PNG")
    try:
        done = subprocess.run(
            [program, "stdin", "stdout", "--psm", "11", "tsv"], input=file.getvalue(), capture_output=True,
            timeout=PATIENCE,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise VergenceError(f"tesseract took more than {PATIENCE:.0f} s (--text none goes on without)") from None
    except OSError as error:
        raise VergenceError(f"tesseract cannot be run: {error.strerror or error}") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise VergenceError(f"tesseract failed: {said[-1] if said else f'exit code {done.returncode}'}")
    return words_of(done.stdout.decode("utf-8", "replace"))


def words_of(table: str) -> list[Seen]:
    """The words of Tesseract's table (TSV)."""
    found = []
    for row in csv.DictReader(io.StringIO(table), delimiter="\t", quoting=csv.QUOTE_NONE):
        try:
            text, sure = (row["text"] or "").strip(), float(row["conf"])
            left, top, width, height = (float(row[name]) for name in ("left", "top", "width", "height"))
            line = tuple(int(row[name]) for name in ("block_num", "par_num", "line_num"))
        except (KeyError, TypeError, ValueError):
            continue
        if text and sure >= 0:
            found.append(Seen(text, sure / 100, left + width / 2, top + height / 2, line))
    return found


def placed(words: Sequence[Seen], boxes: NDArray[Any]) -> list[Read]:
    """Words in the cells (N, 4) that their middles lie in, line by line."""
    result = []
    for left, top, right, bottom in np.asarray(boxes, float).reshape(-1, 4):
        own = [w for w in words if left <= w.x < right and top <= w.y < bottom]
        own.sort(key=lambda w: (w.line, w.x))
        lines = dict.fromkeys(w.line for w in own)
        height = {line: min(w.y for w in own if w.line == line) for line in lines}
        own.sort(key=lambda w: (height[w.line], w.x))
        chance = float(np.prod([w.confidence for w in own])) if own else 1.0
        result.append(Read(" ".join(w.text for w in own), chance))
    return result
