"""Small data sets in the public layouts, written from their published names with Pillow and NumPy alone."""

from __future__ import annotations

import numpy as np
import torch
from numpy.polynomial.hermite_e import hermeval
from PIL import Image


def _frames(folder, count, name="{:08d}.jpg", size=(64, 48), first=1):
    folder.mkdir(parents=True, exist_ok=True)
    ground = np.random.default_rng(0).integers(0, 90, (size[1], size[0], 3), dtype=np.uint8)
    for number in range(count):
        frame = ground.copy()
        frame[10:30, 12 + 2 * number : 32 + 2 * number] = (200, 180, 40)
        Image.fromarray(frame).save(folder / name.format(number + first), quality=90)


def _boxes(path, count, separator=",", shift=0):
    rows = [[12 + shift + 2 * n, 10 + shift, 20, 20] for n in range(count)]
    path.write_text("".join(separator.join(f"{v:.4f}" for v in row) + "\n" for row in rows))


def _flags(path, count, end="\n"):
    path.write_text(end.join(["0"] * (count - 1) + ["1"]) + "\n")


def got10k(path):
    for split, kind in (("train", "Train"), ("val", "Val")):
        names = [f"GOT-10k_{kind}_{n:06d}" for n in (1, 2)]
        for name in names:
            folder = path / split / name
            _frames(folder, 3)
            _boxes(folder / "groundtruth.txt", 3)
            (folder / "absence.label").write_text("0\n0\n0\n")
            (folder / "cover.label").write_text("8\n7\n8\n")
        (path / split / "list.txt").write_text("".join(f"{name}\n" for name in names))


def _otb(*names):
    def write(path):
        for number, name in enumerate(names):
            _frames(path / name / "img", 3, "{:04d}.jpg")
            _boxes(path / name / "groundtruth_rect.txt", 3, ",\t"[number % 2], shift=1)

    return write


def vot(path):
    for name in ("bag", "ball1"):
        _frames(path / name, 3)
        rows = [[12 + 2 * n, 10, 32 + 2 * n, 10, 32 + 2 * n, 30, 12 + 2 * n, 30] for n in range(3)]
        text = "".join(",".join(f"{v:.2f}" for v in row) + "\n" for row in rows)
        (path / name / "groundtruth.txt").write_text(text)
        _flags(path / name / "occlusion.label", 3)
    (path / "list.txt").write_text("bag\nball1\n")


def vot2018(path):
    _frames(path / "ants1" / "color", 3)
    rows = [[12 + 2 * n, 10, 32 + 2 * n, 10, 32 + 2 * n, 30, 12 + 2 * n, 30] for n in range(3)]
    (path / "ants1" / "groundtruth.txt").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))


def one_vot(path):
    _frames(path, 3)
    rows = [[12 + 2 * n, 10, 32 + 2 * n, 10, 32 + 2 * n, 30, 12 + 2 * n, 30] for n in range(3)]
    (path / "groundtruth.txt").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))


def lasot(path):
    for name in ("airplane/airplane-2", "airplane/airplane-9"):  # the second is tested on
        _frames(path / name / "img", 3)
        _boxes(path / name / "groundtruth.txt", 3, shift=1)
        (path / name / "full_occlusion.txt").write_text("0,0,0")
        (path / name / "out_of_view.txt").write_text("0,0,0")


def folder(path):
    for split in ("train", "test"):
        _frames(path / split / "mine", 3, "frame{:02d}.png")
        _boxes(path / split / "mine" / "groundtruth.txt", 3, " ")


def one_folder(path):
    _frames(path, 3, "{}.jpg")
    _boxes(path / "groundtruth_rect.txt", 3)


layouts = {
    "got10k": got10k,
    "otb2013": _otb("Basketball", "Bolt"),
    "otb50": _otb("Biker", "Box"),
    "otb100": _otb("Bird2", "Box"),
    "vot2016": vot,
    "vot2017": vot,
    "vot2018": vot2018,
    "vot": {"several": vot, "one": one_vot},
    "lasot": lasot,
    "folder": {"split": folder, "one": one_folder},
}


def prediction(folder):
    _frames(folder / "clip", 4)
    return ["clip", "--box", "12,10,20,20", "--box", "40,20,12,12"]


# Checkpoints of the authors' code, from its names and shapes ----------------------------------------------------------

SCALES = [0.9 * 1.4**i for i in range(3)]


def basis(size, order, scales=SCALES):
    """(order², 3, size, size): rows run through the orders first; norm 1 at the smallest scale; zero outside a grid."""
    out = np.zeros((order**2, len(scales), size, size))
    for s, scale in enumerate(scales):
        side = int(size * scale / max(scales) + 1e-9) // 2 * 2 + 1
        x = np.arange(side) - side // 2
        one = [np.exp(-(x**2) / (2 * scale**2)) / scale * hermeval(x / scale, [0] * n + [1]) for n in range(order)]
        edge = (size - side) // 2
        for f in range(order**2):
            out[f, s, edge : size - edge, edge : size - edge] = np.outer(one[f % order], one[f // order])
    return torch.tensor(out / np.sqrt((out[:, :1] ** 2).sum((2, 3), keepdims=True)), dtype=torch.float32)


def names_and_shapes():
    """As ``SESiamFCResNet22().state_dict()`` of the public code has them."""
    shapes = {"features.mean": (3,), "features.std": (3,)}
    stem = "features.features."
    shapes |= {f"{stem}conv1.basis": (49, 3, 9, 9), f"{stem}conv1.weight": (64, 3, 49)} | norm(f"{stem}bn1", 64)
    for layer, width, units in (("layer1", 64, (0, 1, 2)), ("layer2", 128, (0, 2, 3, 4))):  # layer2.1 is the pooling
        for unit in units:
            name, inputs = f"{stem}{layer}.{unit}", (width if layer == "layer1" else 256) if unit == 0 else 4 * width
            taps = (2, 1, 1) if name.endswith("layer1.0") else (1, 1)
            middle = (width, width, 9) if name.endswith("layer2.0") else (width, width, 1, 9)
            shapes |= {f"{name}.conv1.weight": (width, inputs, *taps), f"{name}.conv2.weight": middle}
            shapes |= {f"{name}.conv2.basis": (9, 3, 5, 5), f"{name}.conv3.weight": (4 * width, width, 1, 1)}
            shapes |= norm(f"{name}.bn1", width) | norm(f"{name}.bn2", width) | norm(f"{name}.bn3", 4 * width)
            if unit == 0:
                shapes[f"{name}.downsample.0.weight"] = (4 * width, inputs, 1, 1)
                shapes |= norm(f"{name}.downsample.1", 4 * width)
    return shapes


def norm(name, width):
    kinds = ("weight", "bias", "running_mean", "running_var")
    return {f"{name}.{kind}": (width,) for kind in kinds} | {f"{name}.num_batches_tracked": ()}


def weights():
    torch.manual_seed(0)
    made = {}
    for name, shape in names_and_shapes().items():
        if name.endswith("basis"):
            made[name] = basis(shape[-1], round(shape[0] ** 0.5))
        elif name.endswith("num_batches_tracked"):
            made[name] = torch.tensor(7)
        elif name.endswith(("bn1.weight", "bn2.weight", "bn3.weight", "running_var", "downsample.1.weight")):
            made[name] = torch.rand(shape) + 0.5
        else:
            made[name] = torch.randn(shape) * (0.1 if len(shape) == 1 else (2 / np.prod(shape[1:])) ** 0.5)
    made["features.mean"] = torch.tensor([0.485, 0.456, 0.406])
    made["features.std"] = torch.tensor([0.229, 0.224, 0.225])
    return made


def checkpoint(folder, state=None):
    """As the public training script saves one."""
    state, path = state or weights(), folder / "checkpoint_e50.pth"
    content = {"epoch": 50, "arch": "SESiamFCResNet22", "state_dict": state, "optimizer": {"state": {}}}
    torch.save(content, path, _use_new_zipfile_serialization=False)
    return path
