"""A photograph before and after the patch-wise attack, with what three networks say."""

from __future__ import annotations

from pathlib import Path

import vergence
from titles.canvas import INK, Canvas, badge, photograph, pixels, quarters
from vergence.drawing.figure import GREEN, RED

CAPTION = (
    "A photograph (scikit-image) before and after PI-FGSM with a budget of 16/255, made with EfficientNet-Lite0 alone; "
    "the change, amplified; and what it and two networks that the attack never saw say before and after."
)
AMPLIFIED = 4


def draw(path: Path) -> Path:
    result = vergence.load("patchwise").predict(images=[photograph("coffee.png")])
    canvas, places = Canvas(), quarters()
    clean, adversarial = (pixels(pictures[0]) for pictures in (result.clean, result.adversarial))
    before, after = ([result.name(label) for label in answers[0].tolist()] for answers in (result.before, result.after))
    badge(canvas.picture(clean, *places[0]), before[0], GREEN)
    badge(canvas.picture(adversarial, *places[1]), after[0], RED)
    change = ((adversarial.astype(float) - clean) * AMPLIFIED / 255 + 0.5).clip(0, 1)
    badge(canvas.picture(change, *places[2]), f"the change × {AMPLIFIED}")
    left, top = places[3][0] + 12, places[3][1]
    names = {"lite0": "attacked with", "lite1": "never seen", "lite2": "never seen"}
    for number, (network, old, new) in enumerate(zip(result.networks, before, after, strict=True)):
        y = top + 30 + 102 * number
        canvas.write(left, y, f"Lite{network[-1]}, {names[network]}:", INK, 28)
        canvas.write(left, y + 42, f"{old} →", GREEN, 33)
        canvas.write(left + 205, y + 42, new, RED if new != old else GREEN, 33, weight="bold")
    return canvas.save(path)
