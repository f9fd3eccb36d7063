"""Texts of the cells of tables: by the recogniser that comes with the library, or by Tesseract."""

from __future__ import annotations

import io
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from PIL import Image
from torch import Tensor

from vergence.contract.context import Context
from vergence.core.errors import VergenceError
from vergence.documents.reader import PRINT, Read, Reader

Who = Literal["auto", "varctc", "tesseract", "none"]
PATIENCE = 120.0
"""Seconds that Tesseract has for the cells of a table."""
LEGIBLE = 32.0
"""Size of fonts in pixels that Tesseract reads well."""
SEVERAL = 2.2
"""Height of a text in sizes of its font from which it has several lines."""
NOTHING = Read("", 1.0)


def read_cells(
    ctx: Context[Any, Any], crops: Sequence[Sequence[Tensor]], ems: Sequence[float], who: Who
) -> tuple[list[list[Read]], str]:
    """The texts of the cells of several tables, from pictures (3, H, W) of each, which may be empty, and the sizes of
    their fonts; and a note if they could not be read. ``auto`` takes the library's recogniser, Tesseract if that is
    missing, or neither."""
    blank = [[NOTHING] * len(own) for own in crops]
    if who == "none":
        return blank, ""
    if who == "varctc" or (who == "auto" and PRINT.find() is not None):
        reader = Reader.for_print(ctx)
        read = iter(reader.read(ctx, [crop for own in crops for crop in own if crop.numel()]))
        return [[next(read) if crop.numel() else NOTHING for crop in own] for own in crops], ""
    program = shutil.which("tesseract")
    if program is None:
        if who == "tesseract":
            raise VergenceError("tesseract is not installed: expected its program on the path (--text none goes on)")
        return blank, "cells were not read: neither the weights of varctc nor tesseract are there"
    return [tesseract(program, own, em) for own, em in zip(crops, ems, strict=True)], ""


def tesseract(program: str, crops: Sequence[Tensor], em: float) -> list[Read]:
    """What Tesseract reads in pictures of cells (3, H, W); those of one line, and of several, are the pages of one
    document each."""
    result = [NOTHING] * len(crops)
    filled = [k for k, crop in enumerate(crops) if crop.numel()]
    tall = [k for k in filled if crops[k].shape[-2] > SEVERAL * max(em, 1.0)]
    for mode, chosen in (("7", [k for k in filled if k not in set(tall)]), ("6", tall)):
        pages = [_legible(crops[k], em) for k in chosen]
        if pages:
            for page, words in _run(program, pages, mode).items():
                if page < len(chosen):
                    result[chosen[page]] = words
    return result


def _legible(crop: Tensor, em: float) -> Image.Image:
    """A picture of a cell, grey, with letters of a good size and paper around them."""
    grey = Image.fromarray(crop.permute(1, 2, 0).numpy()).convert("L")
    times = min(max(LEGIBLE / em if em else 1.0, 0.25), 4.0)
    grey = grey.resize(
        (max(round(grey.width * times), 1), max(round(grey.height * times), 1)), Image.Resampling.BICUBIC
    )
    values = np.asarray(grey)
    if values.mean() > np.median(values):
        values = 255 - values
    return Image.fromarray(np.pad(values, 12, constant_values=int(np.median(values))))


def _run(program: str, pages: Sequence[Image.Image], mode: str) -> dict[int, Read]:
    """The texts of pages, by their numbers from 0."""
    file = io.BytesIO()
    pages[0].save(file, "TIFF", save_all=True, append_images=list(pages[1:]), dpi=(300, 300))
    try:
        done = subprocess.run(
            [program, "stdin", "stdout", "--psm", mode, "tsv"], input=file.getvalue(), capture_output=True,
            timeout=PATIENCE,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise VergenceError(f"tesseract took more than {PATIENCE:g} s (--text none goes on without)") from None
    except OSError as error:
        raise VergenceError(f"tesseract cannot be run: {error.strerror or error}") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise VergenceError(f"tesseract failed: {said[-1] if said else f'exit code {done.returncode}'}")
    return texts_of(done.stdout.decode("utf-8", "replace"))


def texts_of(table: str) -> dict[int, Read]:
    """The texts of the pages of Tesseract's table (TSV), with the product of the words' confidences."""
    words: dict[int, list[tuple[str, float]]] = {}
    names, *lines = (line.split("\t") for line in (table or " ").splitlines())
    for line in lines:
        row = dict(zip(names, line, strict=False))
        try:
            page, text, sure = int(row["page_num"]), row["text"].strip(), float(row["conf"])
        except (KeyError, ValueError):
            continue
        if text and sure >= 0:
            words.setdefault(page - 1, []).append((text, sure / 100))
    return {
        page: Read(" ".join(text for text, _ in own), float(np.prod([sure for _, sure in own])))
        for page, own in words.items()
    }
