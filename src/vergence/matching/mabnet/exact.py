"""Counts, identities and closed forms that decide claims and checks without training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.flop_counter import FlopCounterMode

from vergence.contract.claims import Evidence
from vergence.contract.evidence import apart, apart_with_gradients, filled, noise
from vergence.matching.mabnet.model import ConvNorm, MAB2d, MAB3d, MABNet, MultiBranchHourglass, build, shuffled
from vergence.matching.mabnet.settings import SETTINGS, SMALL, ModelConfig
from vergence.ops.stereo import concatenation_volume, soft_argmin, volume_convolution
from vergence.reference import stereo as plain

PARTS = {
    "paper": (568_260, 83_072, 55_424, 287_520, 28_576),
    "paper-tiny": (18_284, 5_216, 3_488, 18_312, 1_960),
}
"""Parameters of the features, both layers of dres0, dres1, one hourglass and one head."""
BLOCKS = {(32, 32, 1): 1_292, (32, 64, 2): 5_816, (64, 64, 1): 4_376, (64, 128, 1): 20_848, (128, 128, 1): 15_920}
BLOCKS_3D = {32: 1_880, 64: 6_832, 8: 182, 16: 556}
SIZE = (256, 512)
"""Of the pictures that the paper counts operations for."""


def _worst(values: Sequence[float]) -> float:
    """The largest value; not a number if one is not (Python's own maximum would pass it over)."""
    return float(torch.tensor(values, dtype=torch.float64).max())


def _count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def parts_have_their_counts(_: Evidence) -> float:
    """The largest difference of the parameters of parts and blocks from those counted by hand."""
    off = []
    with torch.device("meta"):
        for preset, counts in PARTS.items():
            net = build(SETTINGS.configure(preset).model)
            filters = nn.ModuleList([net.first, net.second])
            built = [net.features, filters, net.residual, net.hourglasses[0], net.heads[0]]
            off += [abs(_count(part) - count) for part, count in zip(built, counts, strict=True)]
        off += [abs(_count(MAB2d(*ends)) - count) for ends, count in BLOCKS.items()]
        off += [abs(_count(MAB3d(channels)) - count) for channels, count in BLOCKS_3D.items()]
    return _worst(off)


def shares_cost_what_they_say(_: Evidence) -> float:
    """Difference of a bottleneck's parameters from the closed form in its λ: pointwise, depthwise and merging kernels
    with their norms."""
    off = []
    for channels, shares in ((32, (1, 0.5, 0.25)), (64, (0.5,)), (64, (1.0,)), (128, (0.25, 0.5, 1, 1)), (64, (2, 1))):
        half, widths = channels // 2, [int(share * channels / 2) for share in shares]
        formula = sum(half * w + 2 * w + 9 * w + 2 * w for w in widths) + sum(widths) * half + 2 * half
        off.append(abs(_count(MAB2d(channels, channels, 1, shares)) - formula))
    return _worst(off)


# Operations -----------------------------------------------------------------------------------------------------------


def _operations(network: nn.Module, *inputs: object) -> float:
    """Multiply-adds of convolutions, one operation per value after an activation and two per value after a norm, in
    billions."""
    others = 0

    def seen(module: nn.Module, _: object, out: Tensor) -> None:
        nonlocal others
        others += out.numel() * (2 if isinstance(module, nn.BatchNorm2d | nn.BatchNorm3d) else 1)

    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d | nn.BatchNorm3d | nn.ReLU):
            module.register_forward_hook(seen)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(*inputs)
    return (counter.get_total_flops() / 2 + others) / 1e9


def published_operations(model: ModelConfig) -> float:
    """Operations (billions) of the published form for a pair of 256 x 512 pixels and 192 disparities."""
    with torch.device("meta"):
        pair = torch.zeros(1, 3, *SIZE), torch.zeros(1, 3, *SIZE)
        return _operations(transcribed(model).eval(), *pair, 192)


def operations_of_mabnet(_: Evidence) -> float:
    """Operations of MABNet relative to the paper's 190.75 billion."""
    return abs(published_operations(ModelConfig()) / 190.75 - 1)


def operations_of_tiny(_: Evidence) -> float:
    """Operations of the tiny network relative to the paper's 6.60 billion."""
    return abs(published_operations(SMALL) / 6.60 - 1)


def twin_needs_more(_: Evidence) -> float:
    """Multiply-adds of the twin with residual blocks and plain hourglasses, relative to MABNet's."""
    counts = []
    with torch.device("meta"):
        pair = torch.zeros(1, 3, *SIZE), torch.zeros(1, 3, *SIZE)
        for variant in ("mab", "twin"):
            network = build(SETTINGS.configure("paper", variant).model).eval()
            with FlopCounterMode(display=False) as counter, torch.no_grad():
                network(*pair)
            counts.append(counter.get_total_flops())
    return counts[1] / counts[0]


# Blocks ---------------------------------------------------------------------------------------------------------------


def half_passes(_: Evidence) -> float:
    """Change of the first half of the channels in bottlenecks that keep the shape: it comes out as every other one."""
    flat, deep = noise(2, 16, 6, 7, seed="x"), noise(2, 8, 4, 6, 7, seed="y")
    with torch.no_grad():
        off = [
            apart(filled(MAB2d(16, 16))(flat)[:, ::2], flat[:, :8]), apart(filled(MAB3d(8))(deep)[:, ::2], deep[:, :4])
        ]  # fmt: skip
    return _worst(off)


def shuffle_is_undone(_: Evidence) -> float:
    """Difference of channels from those shuffled in 2 groups and then in C / 2, and from the definition."""
    x = noise(2, 12, 3, 4, seed="x")
    return _worst([apart(shuffled(shuffled(x, 2), 6), x), apart(shuffled(x, 2), plain.channel_shuffle(x, 2))])


# Volumes --------------------------------------------------------------------------------------------------------------


def volume_is_the_loop(_: Evidence) -> float:
    """The volume against the one that is filled level by level, forward and backward; and in a pair moved by d, both
    halves agree at level d, and are zero left of it."""
    off = []
    for width, levels in ((12, 8), (5, 8), (9, 4)):
        left, right = (noise(2, 3, 4, width, seed=side).requires_grad_() for side in ("l", "r"))
        ours, theirs = (f(left, right, levels) for f in (concatenation_volume, plain.concatenation_volume))
        off.append(apart_with_gradients(ours, theirs, [left, right]))
    wide = noise(1, 3, 4, 20, seed="wide")
    for d in (0, 3, 6):
        level = concatenation_volume(wide[..., :12], wide[..., d : d + 12], 8)[:, :, d]
        off += [apart(level[:, :3, :, d:], level[:, 3:, :, d:]), float(level[..., :d].abs().sum())]
    return _worst(off)


def first_layer_needs_no_volume(_: Evidence) -> float:
    """The convolution from flat maps against ``conv3d`` of the volume, forward and backward, also for more levels than
    columns."""
    off = []
    for height, width, levels in ((5, 12, 8), (4, 6, 8), (3, 6, 12), (4, 4, 4), (7, 20, 6)):
        left, right = (noise(2, 3, height, width, seed=side).requires_grad_() for side in ("l", "r"))
        kernel, bias = noise(4, 6, 3, 3, 3, seed="k").requires_grad_(), noise(4, seed="b").requires_grad_()
        ours = volume_convolution(left, right, kernel, bias, levels)
        theirs = F.conv3d(plain.concatenation_volume(left, right, levels), kernel, bias, padding=1)
        off.append(apart_with_gradients(ours, theirs, [left, right, kernel, bias], relative=True))
    return _worst(off)


def expectation_is_the_whole_softmax(_: Evidence) -> float:
    """The disparity from pieces of rows and powers against the softmax of the enlarged scores, forward and backward."""
    off = []
    for shape in ((2, 4, 3, 5), (1, 12, 9, 6), (1, 4, 1, 1)):
        scores = (3 * noise(*shape, seed="scores")).requires_grad_()
        off.append(apart_with_gradients(soft_argmin(scores), plain.soft_argmin(scores), [scores]))
    return _worst(off)


def expectation_has_closed_forms(_: Evidence) -> float:
    """Equal scores give the middle, 95.5 of 192; a peak at level j gives 4j + 1.5, and the middle of the two outermost
    disparities at the ends."""
    levels = 48
    off = [apart(soft_argmin(torch.zeros(1, levels, 2, 2).double()), torch.full((1, 8, 8), 95.5).double())]
    for level, expected in ((0, 0.5), (1, 5.5), (20, 81.5), (46, 185.5), (47, 190.5)):
        peak = -1e5 * (torch.arange(levels).double() - level).abs().view(1, -1, 1, 1).expand(1, -1, 2, 2)
        off.append(apart(soft_argmin(peak), torch.full((1, 8, 8), expected).double()))
    wild = soft_argmin(100 * noise(1, levels, 4, 4, seed="wild"))
    return _worst([*off, -float(wild.min()), float(wild.max()) - 191])


def printed_loss_jumps(_: Evidence) -> float:
    """The jump of Eq. 3 as printed, which is x² / 2 below |x| = 0.5 and |x| - 0.5 above."""
    return abs(0.5 * 0.5**2 - (0.5 - 0.5))


# The network ----------------------------------------------------------------------------------------------------------


def network_is_the_published_one(_: Evidence) -> float:
    """Disparity and every gradient, against the direct transcription with the same weights: the tiny network, and one
    of MABNet's form with four groups and three hourglasses."""
    small = ModelConfig(stem=8, blocks=(1, 2, 1, 1), widths=(8, 16, 16, 16), neck=8, channels=8, disparities=32)
    return _worst([_unlike(replace(SMALL, disparities=32)), _unlike(small)])


def _unlike(model: ModelConfig, size: Sequence[int] = (32, 64)) -> float:
    network = filled(build(model))
    with torch.device("meta"):
        direct = transcribed(model).eval()
    left, right = (noise(1, 3, *size, seed=side) for side in ("left", "right"))
    theirs = functional_call(direct, as_transcribed(network), (left, right, model.disparities))[0]
    ours = network(left, right)
    assert isinstance(ours, Tensor)
    return apart_with_gradients(ours, theirs, list(network.parameters()), relative=True)


# The direct transcription ---------------------------------------------------------------------------------------------


def transcribed(model: ModelConfig) -> plain.MABNet:
    """The published network as a plain module, of the same sizes; of variants with multibranch bottlenecks."""
    return plain.MABNet(
        model.stem, model.blocks, model.widths, model.neck, model.channels, model.hourglasses, model.shares,
        model.shares3d,
    )  # fmt: skip


def as_transcribed(network: MABNet) -> dict[str, Tensor]:
    """Parameters and statistics under the names of :func:`transcribed`; gradients flow through."""
    state: dict[str, Tensor] = {}

    def put(layer: ConvNorm, conv: str, norm: str, rows: slice = slice(None)) -> None:
        state[f"{conv}.weight"] = layer.weight[rows]
        for name in ("weight", "bias", "running_mean", "running_var"):
            state[f"{norm}.{name}"] = getattr(layer.norm, name)[rows]

    def put_all(layers: Iterable[ConvNorm], at: str, step: int = 2) -> None:
        for number, layer in enumerate(layers):
            put(layer, f"{at}.{step * number}", f"{at}.{step * number + 1}")

    features = network.features
    put_all(_layers(features.stem), "features.stem", 3)
    for g, group in enumerate(features.groups):
        for b, block in enumerate(_blocks(group)):
            at, row = f"features.groups.{g}.{b}", 0
            for n, (spatial, width) in enumerate(zip(_layers(block.spatial), block.widths, strict=True)):
                branch = f"{at}.branches.{n}"
                put(block.expand, f"{branch}.0", f"{branch}.1", slice(row, row + width))
                put(spatial, f"{branch}.3", f"{branch}.4")
                row += width
            put_all([block.merge], f"{at}.merge")
            if not block.same:
                put_all(_layers(block.shortcut), f"{at}.shortcut")
    put_all([features.joined], "features.lastconv")
    state["features.lastconv.3.weight"] = features.last.weight
    put_all([network.first, network.second], "dres0", 3)
    put_all(_layers(network.residual), "dres1", 3)
    for h, (hourglass, head) in enumerate(zip(network.hourglasses, network.heads, strict=True)):
        assert isinstance(hourglass, MultiBranchHourglass)
        at = f"hourglasses.{h}"
        for name in ("down", "again"):
            for n, conv in enumerate(_layers(getattr(hourglass, name))):
                put_all([conv], f"{at}.{name}.{n}")
        for name, mab in (("middle.0", hourglass.middle[0]), ("middle.1", hourglass.middle[1]),
                          ("bottom", hourglass.bottom)):  # fmt: skip
            assert isinstance(mab, MAB3d)
            for n, branch3d in enumerate(mab.branches):
                put_all(_layers(branch3d), f"{at}.{name}.branches.{n}", 3)
            put_all([mab.merge], f"{at}.{name}.merge")
        put_all([hourglass.up], f"{at}.up")
        put_all([hourglass.out], f"{at}.out")
        put_all(_layers(head), f"classif.{h}")
        state[f"classif.{h}.3.weight"] = head[1].weight  # type: ignore[index]
    return state


def _layers(modules: Any) -> Iterator[ConvNorm]:
    return (module for module in modules if isinstance(module, ConvNorm))


def _blocks(modules: Any) -> Iterator[MAB2d]:
    return (module for module in modules if isinstance(module, MAB2d))
