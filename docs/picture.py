"""Draw systems' title pictures on real input and store them, from a source tree without uncommitted changes.

    python docs/picture.py NAME...               writes results/picture.png and results/picture.json of each
    python docs/picture.py NAME... --try FOLDER  draws into a folder only

The drawings are in docs/titles; they need the extra ``pretrained`` and scikit-image, and take seconds.
"""

from __future__ import annotations

import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from vergence.runs.versions import refuse_uncommitted
from vergence.studies.results import store_picture


def main() -> None:
    *names, folder = [*sys.argv[1:-2], sys.argv[-1]] if "--try" in sys.argv else [*sys.argv[1:], ""]
    if not names:
        sys.exit(__doc__)
    torch.set_num_threads(1)
    drawings = {name: import_module(f"titles.{name}") for name in names}
    if folder:
        for name, drawing in drawings.items():
            print(drawing.draw(Path(folder) / f"{name}.png"))
        return
    refuse_uncommitted()
    with tempfile.TemporaryDirectory() as scratch:
        for name, drawing in drawings.items():
            drawn = drawing.draw(Path(scratch) / f"{name}.png")
            print(store_picture(name, drawn, drawing.CAPTION, f"python docs/picture.py {name}"))


if __name__ == "__main__":
    main()
