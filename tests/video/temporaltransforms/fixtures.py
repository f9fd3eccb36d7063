"""Small data sets in the public layouts and without labels, and two short videos."""

from __future__ import annotations

from video.ata import fixtures as labelled
from video.ata.fixtures import frames, video


def any_arrangement(path):
    video(path / "a.mp4", 0)
    video(path / "holidays" / "2020" / "b.avi", 1)
    frames(path / "holidays" / "frames of c", 2, 16)
    video(path / "d.webm", 3)


layouts = {**labelled.layouts, "unlabelled": any_arrangement}


def prediction(folder):
    video(folder / "a.mp4", 0, 40)
    video(folder / "b.mp4", 1, 30)
    return ["a.mp4", "b.mp4", "--hop", "0.3"]
