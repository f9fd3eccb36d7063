"""Small data sets in the public layouts and without names, and files to search."""

from __future__ import annotations

from reid.picture_layouts import layouts as labelled
from reid.picture_layouts import picture, searched


def without_names(path):
    for seed in range(5):
        picture(path / f"IMG {seed}.png", seed)


layouts = {**labelled, "unlabelled": without_names}
prediction = searched
