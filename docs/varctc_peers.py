"""Character errors of varctc's starter weights and of Tesseract on pages that neither was trained on.

    python docs/varctc_peers.py [FONT...]

A FONT is a TrueType file (on Debian, the packages fonts-liberation, fonts-open-sans and fonts-roboto have some) for
screenshots of a text in four sizes.
Tesseract is a program of its own (on Debian, the package tesseract-ocr).
"""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import skimage.data
from PIL import Image, ImageDraw

import vergence
from vergence.documents.printed import printed
from vergence.metrics.reading import character_error, word_error
from vergence.rendering.documents.fonts import HELD_OUT, Face, opened

PAGE = """Region-based segmentation
Let us first determine markers of the coins and the
background. These markers are pixels that we can label
unambiguously as either object or background. Here,
the markers are found at the two extreme parts of the
histogram of grey values:
>>> markers = np.zeros_like(coins)"""
SIZES = (12, 16, 24, 40)
LETTER = """Dear Ms Whitfield,
Thank you for your order no. 48213-B of 17 March 2024.
We shipped 12 pcs (2.5 kg each) at $1,249.90 in total;
please pay within 30 days, quoting reference QX/7731.
Should anything be missing, call +44 20 7946 0958 or
write to help@example.org. Kind regards, J. O'Brien"""


def tesseract(picture: Image.Image, mode: int = 6) -> str:
    file = io.BytesIO()
    picture.save(file, "PNG")
    command = ["tesseract", "stdin", "stdout", "--psm", str(mode)]
    done = subprocess.run(command, input=file.getvalue(), capture_output=True, check=True)
    return "\n".join(line for line in done.stdout.decode().splitlines() if line.strip())


def screenshot(face: Face, size: int) -> Image.Image:
    font = opened(face, size)
    lines = LETTER.splitlines()
    wide = max(font.getlength(line) for line in lines)
    own = Image.new("RGB", (int(wide) + 40, int(1.5 * size * len(lines)) + 40), "white")
    for number, line in enumerate(lines):
        ImageDraw.Draw(own).text((20, 20 + 1.5 * size * number), line, (25, 25, 25), font)
    return own


def row(name: str, truth: list[str], ours: list[str], theirs: list[str]) -> None:
    errors = [(character_error(read, truth), word_error(read, truth)) for read in (ours, theirs)]
    print(f"| {name} | " + " | ".join(f"{c:.1f} / {w:.1f}" for c, w in errors) + " |")


def main() -> None:
    model = vergence.load("varctc")

    def read(picture: Image.Image, layout: str = "auto") -> str:
        return model.predict(images=np.asarray(picture), layout=layout).text

    print("| picture | varctc, CER / WER % | Tesseract, CER / WER % |\n|---|---|---|")
    page = Image.fromarray(skimage.data.page())
    row("scikit-image's page", [PAGE], [read(page)], [tesseract(page)])
    for face in [HELD_OUT[-1], *(Face(name, "sans") for name in sys.argv[1:])]:
        shots = [screenshot(face, size) for size in SIZES]
        for size, shot in zip(SIZES, shots, strict=True):
            row(f"{Path(face.file).stem}, {size} px", [LETTER], [read(shot)], [tesseract(shot)])
    lines = printed("lines", 300, "test", 32, 320, 1.0)
    pictures = [Image.fromarray(lines[k].picture[0].numpy()) for k in range(100)]
    truth = [lines[k].text for k in range(100)]
    row("100 worn lines", truth, [read(own, "line") for own in pictures], [tesseract(own, 7) for own in pictures])


if __name__ == "__main__":
    main()
