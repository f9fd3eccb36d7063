"""Evaluate trackers trained on photographs on a real sequence, and write a page with a plot.

    vergence train sesiam --preset natural --variant siamfc
    vergence train sesiam --preset natural --variant se-siamfc
    python docs/sesiam_sequence.py vot:PATH siamfc=FILE se-siamfc=FILE

FILE is each run's last.safetensors. Writes docs/pages/sesiam.md, sesiam.json and sesiam.png: overlaps only, since
the frames may not be redistributed. ``--draw`` draws and writes again from the last measurement.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

import vergence
from vergence.core.files import write_json, write_text
from vergence.data.layouts import find
from vergence.runs.versions import environment
from vergence.tracking.boxes import polygon_overlap
from vergence.tracking.drawing import over_time
from vergence.tracking.metrics import vot
from vergence.tracking.protocol import follow, followed_with_restarts
from vergence.tracking.sesiam.settings import AXIS
from vergence.tracking.sesiam.system import SYSTEM
from vergence.tracking.siamese import Tracker, together

PAGES = Path(__file__).parent / "pages"
LABELS = {"siamfc": "SiamFC", "se-siamfc": "SE-SiamFC"}
FROM_AXIS = "SE-SiamFC, size from its own axis"

PAGE = """# Tracking a real sequence

Trackers of the preset `natural` (crops of 63 and 127 pixels, a quarter of the published width), trained here only on
objects cut from scikit-image's photographs, follow the sequence *{name}* of VOT ({frames}
frames) from its first frame. The overlap is between the box and the sequence's polygon.

![The overlap of every frame](sesiam.png)

{table}

*Lost at* is the first frame without overlap, without restarts; *failures* is the number of restarts by VOT's protocol.
The ground truth of a rotated target is a rotated box, which no upright box can match: the upright boxes of the ground
truth have a mean overlap of {ceiling:.2f}.

This page is written by `python docs/sesiam_sequence.py vot:PATH siamfc=FILE se-siamfc=FILE` after
`vergence train sesiam --preset natural` with both variants; the numbers are in `docs/pages/sesiam.json`, with the
machine and versions.
"""


def measure(source: str, weights: dict[str, Path]) -> dict:
    """Evaluate every tracker on the first sequence of the source, in one pass and with restarts."""
    layout = find(source, SYSTEM.layouts)
    assert layout is not None
    reader, path = layout
    track = reader.read(path, "test").sequences[0]
    polygons = track.polygons
    assert polygons is not None, "the sequence needs polygons"
    height, width = track.frames[0].shape[:2]

    def judged(boxes) -> list[float]:
        return [polygon_overlap(p, b, (width, height)) for p, b in zip(polygons, boxes, strict=True)]

    trackers = {}
    for name, file in weights.items():
        model = vergence.load(file)
        network, identity = model.module, model.identity
        readings = {LABELS.get(name, name): identity.config.inference}
        if len(network.scales) > 1:
            readings[FROM_AXIS] = replace(identity.config.inference, reading="axis", damping=AXIS["inference.damping"])
        for label, settings in readings.items():
            (followed,) = follow([track], lambda n=network, s=settings: Tracker(n, s), together)
            restarted = vot([followed_with_restarts(track, Tracker(network, settings))])
            trackers[label] = {
                "overlaps": judged(followed.boxes),
                "steps": steps(file),
                "of": identity.config.train.steps,
            } | restarted
    return {
        "command": "python docs/sesiam_sequence.py vot:PATH " + " ".join(f"{name}=FILE" for name in weights),
        "environment": environment("sesiam"),
        "name": track.name,
        "frames": len(track),
        "ceiling": float(np.nanmean(judged(track.boxes))),
        "trackers": trackers,
    }


def steps(weights: Path) -> int:
    """Number of training steps of a run, which may have been stopped early."""
    records = (weights.parent / "metrics.jsonl").read_text().splitlines()
    return max(json.loads(line).get("total", 0) for line in records)


def table(found: dict) -> str:
    lines = [
        "| tracker | trained, steps | mean overlap | frames above 0.5 | lost at | failures |",
        "|---|---|---|---|---|---|",
    ]
    for name, held in found["trackers"].items():
        later = np.array(held["overlaps"][1:], float)
        lost = np.flatnonzero(later <= 0)
        at = str(int(lost[0]) + 1) if len(lost) else "never"
        above = f"{100 * np.nanmean(later > 0.5):.0f} %"
        trained = f"{held['steps']} of {held['of']}" if held["steps"] < held["of"] else f"{held['of']}"
        mean, failures = f"{np.nanmean(later):.2f}", f"{held['robustness']:.0f}"
        lines.append(f"| {name} | {trained} | {mean} | {above} | {at} | {failures} |")
    return "\n".join(lines)


def main() -> None:
    torch.set_num_threads(1)
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("source", nargs="?", default="")
    options.add_argument("weights", nargs="*")
    options.add_argument("--draw", action="store_true")
    given = options.parse_args()
    if given.source:
        pairs = (text.partition("=") for text in given.weights)
        write_json(PAGES / "sesiam.json", measure(given.source, {name: Path(file) for name, _, file in pairs}))
    elif not given.draw:
        options.error("give vot:PATH and weights, or --draw")
    measured = json.loads((PAGES / "sesiam.json").read_text())
    overlaps = {name: np.array(held["overlaps"], float) for name, held in measured["trackers"].items()}
    over_time(PAGES / "sesiam.png", overlaps, f"{measured['name']}: overlap of every frame [mean]")
    write_text(PAGES / "sesiam.md", PAGE.format(table=table(measured), **measured))


if __name__ == "__main__":
    main()
