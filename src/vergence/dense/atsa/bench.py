"""ATSA against its direct transcription, its decoder by itself, and metrics against their plain forms."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.dense.atsa.exact import as_transcribed, transcribed
from vergence.dense.atsa.model import Decoder, build
from vergence.dense.atsa.settings import ModelConfig
from vergence.metrics import saliency as fast
from vergence.reference import saliency as plain

SIZE = 256


def contests() -> Iterator[Contest]:
    """Inference at the published size, one picture and four, the decoder, and the metrics of a batch."""
    for batch in (1, 4):
        yield _inference(batch)
    yield _decoder()
    yield _metrics()
    yield _boundaries()


def _random(*shape: int) -> Tensor:
    return torch.rand(shape, generator=generator("bench", *shape))


def _forms() -> tuple[Any, Any]:
    """The published network and its direct transcription with the same weights; norms have the statistics of a
    picture, so that maps are of the usual size."""
    torch.manual_seed(0)
    network = build(ModelConfig(unused=True, init="kaiming")).requires_grad_(False)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0
    network(_random(2, 3, 64, 64), _random(2, 1, 64, 64))
    network.eval()
    direct = transcribed(network.settings).eval().requires_grad_(False)
    direct.load_state_dict(as_transcribed(network), strict=False)  # side heads have no statistics
    return network, direct


def _inference(batch: int) -> Contest:
    network, direct = _forms()
    inputs = _random(batch, 3, SIZE, SIZE), _random(batch, 1, SIZE, SIZE)
    what = "one picture" if batch == 1 else f"{batch} pictures"
    title = f"inference of {what} of {SIZE} x {SIZE} pixels, float32"
    rivals = {"direct": partial(direct, *inputs), "folded": partial(_folded(direct), *inputs)}
    return Contest(f"inference-{batch}", title, partial(network, *inputs), rivals)


def _folded(direct: nn.Module) -> nn.Module:
    """The transcription as PyTorch's own tools speed it up: norms folded into convolutions, channels last in memory."""
    fused: Any = copy.deepcopy(direct)
    for module in fused.modules():
        own: dict[str, Any] = dict(module.named_children())
        if isinstance(own.get("norm"), nn.BatchNorm2d):
            module.conv, module.norm = fuse_conv_bn_eval(own["conv"], own["norm"]), nn.Identity()
    fused.to(memory_format=torch.channels_last)
    return fused


def _decoder() -> Contest:
    torch.manual_seed(0)
    decoder = Decoder(128, 128, 64).eval().requires_grad_(False)
    x = _random(1, 128, 64, 64)

    def direct() -> Tensor:
        out = x
        for number, layer in enumerate(decoder.layers):
            if number in (0, 3):
                out = F.interpolate(out, scale_factor=2, mode="bilinear", align_corners=True)
            out = F.relu(layer.norm(layer.conv(out)))  # type: ignore[operator]
        result: Tensor = decoder.head(out)
        return result

    return Contest("decoder", "decoder of 128 x 64 x 64 features", partial(decoder, x), {"direct": direct})


def _maps(count: int, side: int) -> tuple[Tensor, Tensor]:
    masks = F.interpolate(_random(count, 1, 6, 6), (side, side), mode="bilinear")[:, 0] > 0.55
    return (0.6 * masks + 0.4 * _random(count, side, side)).double(), masks


def _metrics() -> Contest:
    maps, masks = _maps(4, SIZE)
    pairs = [(m.numpy(), t.numpy()) for m, t in zip(maps, masks, strict=True)]
    names = ("adaptive_f", "f_curve", "s_measure", "adaptive_e", "e_curve")

    def ours() -> list[Tensor]:
        return [getattr(fast, name)(maps, masks) for name in names]

    def one_by_one() -> list[Any]:
        return [getattr(plain, name)(*pair) for name in names for pair in pairs]

    title = f"F, S and E with curves of 256 thresholds, 4 maps of {SIZE} x {SIZE}"
    return Contest("metrics", title, ours, {"plain": one_by_one})


def _boundaries() -> Contest:
    maps, masks = _maps(1, 64)
    one, other = maps[0].numpy(), masks[0].numpy()
    rivals = {"plain": partial(plain.boundary_f, one, other, 2)}
    return Contest("boundary", "boundary F of a map of 64 x 64", partial(fast.boundary_f, maps, masks, 2), rivals)
