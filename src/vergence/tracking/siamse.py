"""Checkpoints of the public code of SE-SiamFC (ISosnovik/SiamSE): what their names, shapes and buffers mean here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.ops.scale import hermite_basis
from vergence.tracking.crops import MEAN, STD

ROOT = "features.features."


def _modules() -> dict[str, str]:
    """Maps the modules of a public checkpoint to those of the residual trunk."""
    names = {"conv1": "stem.conv", "bn1": "stem.norm"}
    for theirs, ours, units in (("layer1", "stage2", (0, 1, 2)), ("layer2", "stage3", (0, 2, 3, 4))):
        for unit in units:
            for number, part in enumerate(("reduce", "conv", "expand"), 1):
                names[f"{theirs}.{unit}.conv{number}"] = f"{ours}.{unit}.{part}.conv"
                names[f"{theirs}.{unit}.bn{number}"] = f"{ours}.{unit}.{part}.norm"
        names[f"{theirs}.0.downsample.0"] = f"{ours}.0.shortcut.conv"
        names[f"{theirs}.0.downsample.1"] = f"{ours}.0.shortcut.norm"
    return {ROOT + theirs: f"trunk.{ours}" for theirs, ours in names.items()}


MODULES = _modules()


def extents(weights: Mapping[str, Tensor]) -> tuple[int, int]:
    """The number of scales in the first 1x1 kernel, and the side of the stem's largest kernel."""
    first, stem = weights[f"{ROOT}layer1.0.conv1.weight"], weights[f"{ROOT}conv1.basis"]
    return first.shape[2] if first.dim() == 5 else 1, stem.shape[-1]


def renamed(weights: Mapping[str, Tensor], scales: Sequence[float]) -> dict[str, Tensor]:
    """The parameters and statistics of a public checkpoint under the names and shapes of the network here.

    Its other buffers are constants here: the bases of the kernels at ``scales``, and the mean and deviation of colours.
    They are compared, and others than these are refused. A name that is not known stays as it is.
    """
    found = {}
    for name, tensor in weights.items():
        module, _, kind = name.rpartition(".")
        if kind == "basis":
            _refuse_other_basis(name, tensor, scales)
        elif module == "features" and kind in ("mean", "std"):
            _refuse_other(name, tensor, torch.tensor(MEAN if kind == "mean" else STD))
        else:
            # A 1x1 kernel over scales is (O, I, i) here; (O, I, 1, 1) or (O, I, i, 1, 1) there. The one after the
            # pooling of scales is a plain convolution in both.
            plain = module == f"{ROOT}layer2.0.conv1"
            tapped = kind == "weight" and tensor.dim() > 3 and tensor.shape[-1] == 1 and not plain
            found[f"{MODULES.get(module, module)}.{kind}"] = tensor.flatten(2) if tapped else tensor
    return found


def _refuse_other_basis(name: str, basis: Tensor, scales: Sequence[float]) -> None:
    functions, _, side, _ = basis.shape
    own = hermite_basis(side, scales, round(functions**0.5))
    _refuse_other(name, basis, torch.stack([F.pad(b, ((side - b.shape[-1]) // 2,) * 4) for b in own], 1))


def _refuse_other(name: str, tensor: Tensor, expected: Tensor) -> None:
    if tensor.shape != expected.shape or not torch.allclose(tensor.double(), expected.double(), atol=1e-5):
        raise VergenceError(f"{name!r} is not that of the published network: it was trained with other constants")
