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
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib
import torch

from saccade.engine.memory import child_peak
from saccade.recognition.snl import bench
from saccade.versions import environment

PAGES = Path(__file__).parent / "pages"
POSITIONS = (64, 256, 1024, 4096, 16384)
DENSE_MOST = {"cayleyexact": 1024, "cgnl": 256}
"""Where the dense form ends, if before 4096: beyond, it takes minutes a call, or more memory than a machine has."""


def measure() -> Iterator[dict]:
    """Few positions first."""
    torch.set_num_threads(1)
    for positions in POSITIONS:
        for block in bench.LABELS:
            for form in ("ours", "dense"):
                if form == "dense" and positions > DENSE_MOST.get(block, 4096):
                    continue
                held = child_peak("saccade.recognition.snl.bench:work", block, positions, form)
                seconds = least(bench.work(block, positions, form))
                print(f"{bench.LABELS[block]}, {form}, N = {positions}: {seconds * 1e3:.3g} ms, {held / 2**20:.3g} MiB")
                yield {"block": block, "form": form, "positions": positions, "seconds": seconds, "bytes": held}


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


if __name__ == "__main__":
    store = PAGES / "nonlocal-cost.json"
    if "--draw" not in sys.argv[1:]:
        made: list[dict] = []
        for row in measure():
            made.append(row)
            store.write_text(json.dumps({"environment": environment("snl"), "measured": made}, indent=1) + "\n")
    draw(json.loads(store.read_text())["measured"])
