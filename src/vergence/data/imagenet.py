"""ImageNet's 1000 classes in words."""

from __future__ import annotations

from functools import cache
from pathlib import Path

COUNT = 1000


@cache
def words() -> tuple[str, ...]:
    """The name of each class, by its index: ``words()[504]`` is "coffee mug"."""
    lines = Path(__file__).with_name("imagenet.txt").read_text(encoding="utf-8").splitlines()
    return tuple(line for line in lines if not line.startswith("#"))
