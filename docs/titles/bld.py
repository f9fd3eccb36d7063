"""A stream of handwritten digits, two classes after two: what fine-tuning and BLD still know after every task."""

from __future__ import annotations

import tempfile
from pathlib import Path

from titles.canvas import GAP, HEIGHT, INK, WIDTH, Canvas
from vergence import catalogue
from vergence.contract.context import Context
from vergence.core.progress import Progress
from vergence.engine.execute import execute
from vergence.recognition.bld.pictures import matrix, show_matrix
from vergence.runs.folder import Run
from vergence.runs.machine import Runtime
from vergence.runs.order import Order

CAPTION = (
    "Real handwritten digits as a stream, two classes after two, each picture seen once: the accuracy in per cent on "
    "every task after each task, by fine-tuning and by batch-level distillation, which keeps nothing but the network "
    "between batches (one training of each by the preset tiny; over three seeds no difference is resolved)."
)
SEED = 0
SHOWN = 4


def trained(variant: str) -> tuple[Run, dict[str, float]]:
    config = catalogue.load("bld").configure("tiny", variant, {"seed": SEED})
    run = Run.create(Order("bld", "tiny", variant, config, Runtime(device="cpu")), Path(tempfile.mkdtemp()))
    execute(run, Progress())
    return run, run.metrics


def draw(path: Path) -> Path:
    canvas = Canvas()
    system = catalogue.load("bld")
    measured = {}
    for variant, label in (("finetune", "fine-tuning"), ("bld", "BLD")):
        run, measured[label] = trained(variant)
    data = system.data(Context(run.order.config, path.parent), "test")
    width = WIDTH / len(data.tasks)
    side = 88
    for task in range(len(data.tasks)):
        own = [i for i in range(0, len(data)) if data[i]["task"] == task]
        chosen = [own[k * len(own) // SHOWN] for k in range(SHOWN)]
        left = task * width + (width - 2 * side - 4) / 2
        canvas.write(task * width + width / 2, 24, f"task {task + 1}", ha="center", size=30)
        for number, index in enumerate(chosen):
            pixels = data[index]["image"].permute(1, 2, 0).numpy()
            row, column = divmod(number, 2)
            canvas.picture(
                pixels, left + column * (side + 4), 48 + row * (side + 4), side, side, interpolation="bicubic"
            )
    top = 290
    for number, (label, metrics) in enumerate(measured.items()):
        values = matrix(metrics)
        x = number * WIDTH / 2
        canvas.write(x + 20, top - 20, label, size=32)
        canvas.write(x + WIDTH / 2 - 20, top - 20, f"{metrics['accuracy']:.0f} % in the end", size=32, ha="right")
        axes = canvas.axes(x + 70, top + 4, WIDTH / 2 - 90, HEIGHT - top - 4 - GAP)
        show_matrix(axes, values, size=19)
        axes.set_aspect("auto")
        axes.set_xticks([])
        axes.set_yticks(range(len(values)), [f"{n + 1}" for n in range(len(values))], fontsize=19)
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        canvas.write(x + 22, top + (HEIGHT - top) / 2, "after task", INK, 26, rotation=90, ha="center")
    return canvas.save(path)
