"""Write the example files of the gallery ("Use the example"), from the systems' embedded data and scikit-image.

    python docs/gallery_examples.py [NAME...]

writes ``example/`` beside each system: ``inputs.json`` by field of its ``Inputs``, and the files it names. A new system
may also provide such a folder by other means.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from vergence import catalogue
from vergence.data.video import write_video


def picture(path: Path, pixels: Any) -> str:
    """Write an image of bytes (3, H, W) or (1, H, W)."""
    array = pixels.permute(1, 2, 0).numpy()
    Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array).save(path, quality=90)
    return path.name


def snl(folder: Path) -> dict[str, Any]:
    """A cat, from scikit-image (CC0); the attention of its eye."""
    from skimage import data

    Image.fromarray(data.chelsea()).save(folder / "chelsea.jpg", quality=88)
    return {"images": ["chelsea.jpg"], "points": [[178, 110]]}


def spvnas(folder: Path) -> dict[str, Any]:
    """A rendered sweep of 64 beams; the fourth column is the intensity."""
    from vergence.core.seeding import generator
    from vergence.points.sweeps import Scanner, street_sweep

    sweep = street_sweep(generator("gallery", "spvnas"), Scanner(64, 768))
    values = np.concatenate([sweep.points.numpy(), sweep.intensity.numpy()[:, None]], 1)
    np.save(folder / "sweep.npy", values.astype(np.float16))
    return {"scan": "sweep.npy"}


def patchwise(folder: Path) -> dict[str, Any]:
    """A cup of coffee, from scikit-image (CC0)."""
    from skimage import data

    Image.fromarray(data.coffee()[60:380, 100:420]).resize((224, 224)).save(folder / "coffee.jpg", quality=92)
    return {"images": ["coffee.jpg"]}


def deepcover(folder: Path) -> dict[str, Any]:
    """A man with a camera on a tripod, from scikit-image (CC0)."""
    from skimage import data

    Image.fromarray(data.camera()[90:431]).resize((384, 256)).convert("RGB").save(folder / "camera.jpg", quality=90)
    return {"images": ["camera.jpg"], "method": "deepcover,gradcam", "queries": 80}


def people(folder: Path, hiding: Any = "some", asked: int = 0) -> dict[str, Any]:
    """A rendered person by one camera, and six people by three others; names tell who it is."""
    from vergence.reid.crowds import population

    found = population(6, 192, 96, "example", (0, 1, 2, 3), 1, hiding)
    first = found.queries if hiding == "queries" else 0  # hidden people are not searched
    ranked = [
        place
        for place in range(first, len(found))
        if found.cameras[place] != found.cameras[asked] and found.identities[place]
    ]
    query = picture(folder / f"query-person-{found.identities[asked]}.jpg", found.pictures[asked])
    names = [f"person-{found.identities[place]}-camera-{found.cameras[place]}.jpg" for place in ranked]
    shots = [picture(folder / name, found.pictures[place]) for name, place in zip(names, ranked, strict=True)]
    return {"query": [query], "gallery": sorted(shots), "top": 6}


def csalr(folder: Path) -> dict[str, Any]:
    return people(folder)


def adtc(folder: Path) -> dict[str, Any]:
    return people(folder)


def gasm(folder: Path) -> dict[str, Any]:
    """A person whose legs are behind a block of stone."""
    return people(folder, "queries", 18)


def lattqe(folder: Path) -> dict[str, Any]:
    """Views of five photographs of scikit-image, all in the public domain (CC0 or NASA)."""
    from skimage import data

    random = np.random.default_rng(0)
    names = []
    for name in ("astronaut", "chelsea", "coffee", "rocket", "hubble_deep_field"):
        whole = Image.fromarray(getattr(data, name)())
        for number in range(4):
            side = int(min(whole.size) * random.uniform(0.6, 0.9))
            left, top = (int(random.integers(0, extent - side + 1)) for extent in whole.size)
            view = whole.crop((left, top, left + side, top + side)).rotate(float(random.uniform(-8, 8)))
            path = folder / f"{name}-{number}.jpg"
            view.resize((144, 144)).save(path, quality=82)
            names.append(path.name)
    query = [name for name in names if name.startswith("coffee-0")]
    rest = [name for name in names if name not in query]
    return {"query": query, "gallery": rest, "method": "alpha", "neighbours": 3, "backbone": "efficientnet-lite0"}


def lineintegral(folder: Path) -> dict[str, Any]:
    """A horse of scikit-image (public domain); among drawn silhouettes, the same horse as another camera sees it."""
    import torch
    from skimage import data

    from vergence.retrieval.masks import Cameras, homography, seen
    from vergence.retrieval.silhouettes import KINDS, silhouette

    horse = torch.from_numpy(~data.horse())
    view = homography(Cameras(stretch=2.5, tilt=0.05), torch.Generator().manual_seed(5))
    masks = {f"{kind}-{number}": silhouette(kind, number) >= 0.5 for kind in KINDS for number in (1, 2)}
    masks["horse-seen-askew"] = seen(horse, view, 220)

    def save(name: str, mask: Any) -> str:
        Image.fromarray(mask.numpy()).save(folder / f"{name}.png", optimize=True)
        return f"{name}.png"

    return {"query": [save("horse", horse)], "gallery": [save(name, mask) for name, mask in masks.items()], "top": 8}


def sesiam(folder: Path) -> dict[str, Any]:
    """A camera that moves over a photograph of scikit-image (NASA) and comes nearer; the face is followed."""
    from skimage import data

    whole = Image.fromarray(data.astronaut())
    frames, boxes = [], []
    for share in np.linspace(0, 1, 40):
        side = 330 - 110 * share
        left, top = 20 + 90 * np.sin(2.5 * share), 25 + 20 * np.sin(5 * share)
        frames.append(np.asarray(whole.resize((240, 240), box=(left, top, left + side, top + side))))
        boxes.append([(185 - left) * 240 / side, (75 - top) * 240 / side, 80 * 240 / side, 105 * 240 / side])
    write_video(folder / "astronaut.mp4", frames, 20.0)
    return {"video": "astronaut.mp4", "box": [[round(float(v), 1) for v in boxes[0]]]}


def ata(folder: Path) -> dict[str, Any]:
    from vergence.video.synth import turning

    data = catalogue.load("ata").configure("tiny").data
    found = turning(4, data.frames, data.size, data.scene, "example")
    write_video(folder / "turning.mp4", [f.permute(1, 2, 0).numpy() for f in found.clips[0]], 8.0)
    return {"videos": ["turning.mp4"]}


def categorystructure(folder: Path) -> dict[str, Any]:
    """Rendered things that no training saw, one of each of eight classes."""
    from PIL import Image

    from vergence.core.seeding import generator
    from vergence.recognition.objects import CLASSES, picture

    names = CLASSES[::2]
    for name in names:
        pixels = picture(name, 96, "test", generator("example", name)).permute(1, 2, 0).numpy()
        Image.fromarray(pixels).save(folder / f"{name}.jpg", quality=90)
    return {"images": [f"{name}.jpg" for name in names]}


def flot(folder: Path) -> dict[str, Any]:
    """A rendered street, as a scanner on a moving car sees it at two instants."""
    from vergence.points.streets import Streets

    first, second, *_ = Streets(3, 2048, ("example",))[0]
    for name, cloud in (("before.npy", first), ("after.npy", second)):
        np.save(folder / name, cloud.numpy().astype(np.float16))
    return {"first": "before.npy", "second": "after.npy"}


def squeezesegv3(folder: Path) -> dict[str, Any]:
    """A rendered sweep of a 64-beam scanner in a street."""
    import torch

    from vergence.core.seeding import generator
    from vergence.points.sweeps import Scanner, street_sweep

    sweep = street_sweep(generator("example", "sweep"), Scanner(64, 512))
    cloud = torch.cat([sweep.points, sweep.intensity.unsqueeze(1)], 1)
    np.save(folder / "street.npy", cloud.numpy().astype(np.float16))
    return {"scan": "street.npy"}


def roadmetrics(folder: Path) -> dict[str, Any]:
    from vergence.maps.synth import ErrorInjector, city

    truth = city(3, blocks=5)
    broken = ErrorInjector().inject("interruptions", truth, 4, seed=1)[1]
    predicted = ErrorInjector().inject("overconnections", broken, 2, seed=2)[1]
    for name, graph in (("truth.graph", truth), ("prediction.graph", predicted)):
        nodes = "".join(f"{x:.1f} {y:.1f}\n" for x, y in graph.points)
        (folder / name).write_text(nodes + "\n" + "".join(f"{i} {j}\n{j} {i}\n" for i, j in graph.edges))
    return {"truth": "truth.graph", "prediction": "prediction.graph"}


def affinecorr(folder: Path) -> dict[str, Any]:
    """The motorcycle pair of scikit-image (Middlebury 2014) with its calibration."""
    from vergence.matching.data import MOTORCYCLE, motorcycle

    names = ["left.jpg", "right.jpg"]
    for name, photograph in zip(names, motorcycle().pictures, strict=True):
        picture(folder / name, photograph)
    focal, cx, cy, shift, baseline = MOTORCYCLE
    lenses = f"{focal},{cx},{cy};{focal},{cx + shift:.3f},{cy}"
    return {"images": names, "intrinsics": lenses, "pose": f"{-baseline},0,0"}


def pyramidflow(folder: Path) -> dict[str, Any]:
    """Things that move on a table, rendered."""
    from vergence.core.seeding import generator
    from vergence.rendering.pairs import flow_pair

    pair = flow_pair(generator("flow", "test", 7), 288, 432, 50.0, "test")
    return {"images": [picture(folder / "before.jpg", pair.first), picture(folder / "after.jpg", pair.second)]}


WRITERS: tuple[Callable[[Path], dict[str, Any]], ...] = (
    snl,
    patchwise,
    deepcover,
    csalr,
    adtc,
    gasm,
    lattqe,
    lineintegral,
    sesiam,
    ata,
    categorystructure,
    flot,
    spvnas,
    squeezesegv3,
    roadmetrics,
    affinecorr,
    pyramidflow,
)


def main() -> None:
    for write in [w for w in WRITERS if w.__name__ in sys.argv[1:] or not sys.argv[1:]]:
        folder = catalogue.folder(write.__name__) / "example"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        given = write(folder)
        (folder / "inputs.json").write_text(json.dumps(given, indent=1) + "\n")
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{folder}: {len(list(folder.iterdir()))} files, {size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
