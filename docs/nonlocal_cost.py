"""Measure time and memory of the nonlocal blocks over the number of positions, and write a page with a plot.

    python docs/nonlocal_cost.py                   measure (about 15 minutes on a quiet machine, up to 4 GB) and draw
    python docs/nonlocal_cost.py --blocks snl nl   only these; results of the others are kept
    python docs/nonlocal_cost.py --draw            draw what was measured last

Writes docs/pages/nonlocal.md, nonlocal-cost.png and nonlocal-cost.json. Each time is the minimum over several
calls, forward and backward, on one thread; memory is the peak of one call, in a separate process.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib
import torch

from vergence.engine.memory import child_peak
from vergence.recognition.snl import bench
from vergence.runs.versions import environment

PAGES = Path(__file__).parent / "pages"
POSITIONS = (64, 256, 1024, 4096, 16384)
DENSE_MOST = {"cayleyexact": 1024, "cgnl": 256}
"""Largest size of the dense form, if below 4096: beyond, a call takes minutes or too much memory."""

PAGE = """# Cost of nonlocal blocks

![Time and memory of the nonlocal blocks against the number of positions](nonlocal-cost.png)

Forward and backward on one thread, with 64 channels (32 inner channels), for one sample. *Dense* is a direct
transcription of the block's formula with the N x N matrix (N·m x N·m for CGNL), for sizes at which it can be run.
Products of thin factors take time and memory linear in N; softmax and sigmoid take N² time with memory linear in N; the
dense forms take N² memory throughout. For few positions all of them cost the same, since call overhead dominates.

The numbers are in `docs/pages/nonlocal-cost.json`, with the machine and versions. This page is
written by `python docs/nonlocal_cost.py`; `vergence bench snl` measures ratios in one process, with their spread.
"""


def measure(blocks: list[str]) -> Iterator[dict]:
    """Measure all blocks, small sizes first."""
    torch.set_num_threads(1)
    for positions in POSITIONS:
        for block in blocks:
            for form in ("ours", "dense"):
                if form == "dense" and positions > DENSE_MOST.get(block, 4096):
                    continue
                held = child_peak("vergence.recognition.snl.bench:work", block, positions, form)
                seconds = least(bench.work(block, positions, form))
                print(f"{bench.LABELS[block]}, {form}, N = {positions}: {seconds * 1e3:.3g} ms, {held / 2**20:.3g} MiB")
                yield {"block": block, "form": form, "positions": positions, "seconds": seconds, "bytes": held}


def least(work) -> float:
    """Minimum time of a call, over one second of calls, or two calls if they are long."""
    times: list[float] = []
    while len(times) < 2 or (sum(times) < 1 and len(times) < 100):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def draw(found: list[dict]) -> None:
    """One panel of time above one of memory per block, five blocks per row."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    blocks = [block for block in bench.LABELS if any(r["block"] == block for r in found)]
    across = min(len(blocks), 5)
    rows = 2 * -(-len(blocks) // across)
    figure, axes = pyplot.subplots(rows, across, figsize=(2.6 * across + 0.6, 2 * rows), sharex=True, squeeze=False)
    for axis in axes.flat:
        axis.set_visible(False)
    for number, block in enumerate(blocks):
        for row, (key, scale, unit) in enumerate((("seconds", 1e3, "ms"), ("bytes", 2**-20, "MiB"))):
            axis = axes[2 * (number // across) + row, number % across]
            axis.set_visible(True)
            for form, style in (("dense", "C1s--"), ("ours", "C0o-")):
                own = [r for r in found if (r["block"], r["form"]) == (block, form)]
                axis.loglog(
                    [r["positions"] for r in own], [r[key] * scale for r in own], style, markersize=3, label=form
                )
            axis.set_ylim((0.1, 5e4) if key == "seconds" else (0.05, 1e3))
            axis.set_ylabel(unit)
            axis.grid(alpha=0.3)
            axis.tick_params(labelbottom=True)
            axis.set_title(bench.LABELS[block] if row == 0 else "", fontsize=9)
            axis.set_xlabel("" if row == 0 else "positions", fontsize=8)
    axes[0, 0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(PAGES / "nonlocal-cost.png", dpi=110)


def main() -> None:
    options = argparse.ArgumentParser(description="Time and memory of the nonlocal blocks against positions.")
    options.add_argument("--blocks", nargs="+", choices=list(bench.LABELS), default=list(bench.LABELS))
    options.add_argument("--draw", action="store_true", help="only draw what was measured last")
    chosen = options.parse_args()
    store = PAGES / "nonlocal-cost.json"
    kept = json.loads(store.read_text())["measured"] if store.exists() else []
    made = kept if chosen.draw else [row for row in kept if row["block"] not in chosen.blocks]
    for row in () if chosen.draw else measure(chosen.blocks):
        made.append(row)
        store.write_text(json.dumps({"environment": environment("snl"), "measured": made}, indent=1) + "\n")
    draw(made)
    (PAGES / "nonlocal.md").write_text(PAGE)


if __name__ == "__main__":
    main()
