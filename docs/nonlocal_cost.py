"""Time and memory of the nonlocal blocks against the number of positions: measures, keeps the numbers, draws.

    python docs/nonlocal_cost.py           measure (about 15 minutes, up to 4 GB) and draw
    python docs/nonlocal_cost.py --draw    draw what was measured last

Writes docs/pages/nonlocal-cost.json and .svg. Each time is the least of several calls, forward and backward, on one
thread; each memory is what one call holds at most, in a process of its own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib
import torch

from saccade.engine.memory import child_peak
from saccade.recognition.snl import bench
from saccade.versions import environment

PAGES = Path(__file__).parent / "pages"
POSITIONS = (64, 256, 1024, 4096, 16384)
DENSE_MOST = {"cayleyexact": 1024, "cgnl": 256, "cayleysnl": 4096, "cayleysnl-relu": 4096, "chebysnl": 4096}
"""Where the dense form ends: beyond, it would take minutes a call, or more memory than most machines have."""


def measure() -> list[dict]:
    torch.set_num_threads(1)
    found = []
    for block in bench.LABELS:
        for form in ("ours", "dense"):
            for positions in POSITIONS:
                if form == "dense" and positions > DENSE_MOST.get(block, 4096):
                    continue
                held = child_peak("saccade.recognition.snl.bench:work", block, positions, form)
                seconds = least(bench.work(block, positions, form))
                found.append({"block": block, "form": form, "positions": positions, "seconds": seconds, "bytes": held})
                print(f"{bench.LABELS[block]}, {form}, N = {positions}: {seconds * 1e3:.3g} ms, {held / 2**20:.3g} MiB")
    return found


def least(work) -> float:
    """The least time of a call, over a second of them; of long calls, over two."""
    times: list[float] = []
    while len(times) < 2 or (sum(times) < 1 and len(times) < 100):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def draw(found: list[dict]) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        2, len(bench.LABELS), figsize=(2.1 * len(bench.LABELS), 5), sharex=True, sharey="row"
    )
    for column, (block, label) in enumerate(bench.LABELS.items()):
        for form, style in (("dense", "C1s--"), ("ours", "C0o-")):
            rows = [r for r in found if r["block"] == block and r["form"] == form]
            for row, (key, scale) in enumerate((("seconds", 1e3), ("bytes", 2**-20))):
                values = [max(r[key] * scale, 0.004) for r in rows]
                axes[row, column].loglog([r["positions"] for r in rows], values, style, markersize=3, label=form)
        axes[0, column].set_title(label.replace(", ", "\n"), fontsize=9)
        axes[1, column].set_xlabel("positions")
        for axis in axes[:, column]:
            axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("milliseconds, forward and backward")
    axes[1, 0].set_ylabel("MiB at most")
    axes[0, 0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(PAGES / "nonlocal-cost.svg", metadata={"Date": None})
    figure.savefig(PAGES / "nonlocal-cost.png", dpi=80)


if __name__ == "__main__":
    store = PAGES / "nonlocal-cost.json"
    if "--draw" not in sys.argv[1:]:
        store.write_text(json.dumps({"environment": environment("snl"), "measured": measure()}, indent=1) + "\n")
    draw(json.loads(store.read_text())["measured"])
