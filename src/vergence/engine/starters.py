"""Starter weights: small networks that come with a system, so that prediction works on the first try.

A system's ``weights/NAME.safetensors`` is a weights file like any other, in float16, whose metadata also says how it
was trained, on what, and how good it is. ``vergence weights SYSTEM --train`` makes it again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from vergence import catalogue
from vergence.contract.config import from_json, to_json
from vergence.contract.settings import Starter
from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.engine.weights import identify, load_model
from vergence.reading.tables import parse_json
from vergence.reading.weights import load_tensors, read_metadata
from vergence.runs.folder import Run

KEY = "starter"
LARGEST = 1_000_000
"""Size limit of one system's starter weights, in bytes; 25 MB for all systems."""


@dataclass(frozen=True)
class About:
    """Description of starter weights."""

    note: str
    """What they can do, in one line."""
    command: str
    data: str
    seed: int
    minutes: float
    """Training time on two cores."""
    quality: dict[str, float | None]
    """Metrics on the test data, by name."""
    licence: str
    commit: str | None = None
    date: str = ""
    tried: str = field(default="")
    """Other data they were tried on, and the outcome."""


def read_about(path: Path) -> About:
    """The description in a file of starter weights."""
    text = read_metadata(path).get(KEY)
    if text is None:
        raise VergenceError(f"{path} is not a file of starter weights: its metadata has no {KEY!r}")
    return from_json(About, parse_json(text, f"the metadata of {path}"), f"the metadata of {path}")


def one_line(path: Path) -> str:
    """One line that describes starter weights, for a command that was given no weights."""
    about = read_about(path)
    variant = identify(path).variant
    return f"starter weights ({variant}): {about.note}"


def store(name: str, key: str, starter: Starter, run: Run, command: str) -> Path:
    """Store the weights of a finished run as a system's starter weights, in float16."""
    settings, result = catalogue.settings(name), run.result
    if run.weights is None or result is None:
        raise VergenceError(f"{run.folder} has not finished: it has no weights to keep")
    tensors, metadata = load_tensors(run.weights)
    small = {n: t.half() if t.is_floating_point() else t for n, t in tensors.items()}
    about = About(
        note=starter.note,
        command=command,
        data=settings.embedded if starter.data == "" else starter.data,
        seed=run.order.config.seed,
        minutes=round(result.seconds / 60, 1),
        quality=dict(result.metrics),
        licence=starter.licence,
        commit=run.environment().commit,
        date=run.environment().date[:10],
        tried=starter.tried,
    )
    path = catalogue.folder(name) / "weights" / f"{key}.safetensors"
    extra: dict[str, Any] = {KEY: json.dumps(to_json(about), sort_keys=True)}
    save_tensors(path, small, metadata | extra)
    size = path.stat().st_size
    if size > LARGEST:
        path.unlink()
        raise VergenceError(f"starter weights of {name} are {size:,} bytes; the limit is {LARGEST:,}")
    load_model(path)  # what cannot be loaded is not kept
    return path


def float16_changes(path: Path, run: Run) -> float:
    """The largest rounding error of the weights in float16, relative to the largest value of each tensor."""
    small, _ = load_tensors(path)
    assert run.weights is not None
    worst = 0.0
    for name, tensor in load_tensors(run.weights)[0].items():
        if tensor.is_floating_point() and tensor.numel():
            apart = (small[name].to(torch.float32) - tensor).abs().max() / tensor.abs().max().clamp_min(1e-12)
            worst = max(worst, float(apart))
    return worst
