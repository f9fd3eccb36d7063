"""Counts, identities and closed forms that decide claims and checks without training."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.contract.claims import Evidence
from vergence.contract.evidence import apart, apart_with_gradients, filled, noise, uniform
from vergence.dense.atsa.model import ATSA, DepthAttention, LadderLayer, build
from vergence.dense.atsa.settings import SETTINGS, ModelConfig
from vergence.metrics import saliency as fast
from vergence.nn.convnorm import ConvNorm, GreyConvNorm, enlarged
from vergence.reference import saliency as plain

PARTS = (20_035_392, 1_665_152, 10_340_096, 50_626)
"""Parameters of VGG trunk, depth network, ladder (with what the public code never uses) and decoder."""
UNUSED = 6_200_320 + 28_036
"""Blocks of the branches that have just entered, and side heads."""
LITTLE = ModelConfig(
    trunk=(4, 6, 8, 10, 10), trunk_depths=(1, 2, 1, 1, 1), branches=(4, 8, 16, 32), blocks=1, depth_stem=(4, 6),
    unused=True, init="kaiming",
)  # fmt: skip


def _worst(values: Sequence[float]) -> float:
    """The largest value; not a number if one is not (Python's own maximum would pass it over)."""
    return float(torch.tensor(values, dtype=torch.float64).max())


def _count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def _megabytes(variant: str) -> float:
    """Size of a network of the public code as a file of float32: parameters and statistics of norms."""
    with torch.device("meta"):
        state = build(SETTINGS.configure("paper", variant).model).state_dict()
    return sum(t.numel() * t.element_size() for t in state.values()) / 1e6


def parts_have_their_counts(_: Evidence) -> float:
    """The largest difference of the parameters of parts from those counted by hand."""
    with torch.device("meta"):
        whole, lean = (build(SETTINGS.configure(preset).model) for preset in ("paper", "practical"))
        built = [whole.colour.trunk, whole.depth, whole.colour.ladder, whole.decoder]
        off = [abs(_count(part) - count) for part, count in zip(built, PARTS, strict=True)]  # type: ignore[arg-type]
        off += [abs(_count(DepthAttention(c)) - 2 * c * c - 3 * c) for c in (32, 128, 7)]
    return _worst([*off, abs(_count(whole) - _count(lean) - UNUSED)])


def megabytes_off(_: Evidence) -> float:
    """Size of ATSA relative to the paper's 128.9 MB."""
    return abs(_megabytes("atsa") / 128.9 - 1)


def symmetric_megabytes_off(_: Evidence) -> float:
    """Size of two equal streams relative to the paper's 244.4 MB."""
    return abs(_megabytes("symmetric") / 244.4 - 1)


def saved_by_asymmetry(_: Evidence) -> float:
    """Share of the size of two equal streams that the light depth network saves."""
    return 1 - _megabytes("atsa") / _megabytes("symmetric")


def shapes_are_published(_: Evidence) -> float:
    """Differences of the shapes of inner maps from the published ones, for pictures of 256 x 256."""
    seen: dict[str, Any] = {}
    with torch.device("meta"):
        network = build(SETTINGS.configure("practical").model).eval()
        network.depth.register_forward_hook(lambda *a: seen.update(depth=a[-1]))  # type: ignore[union-attr]
        network.colour.register_forward_hook(lambda *a: seen.update(colour=a[-1]))
        out = network(torch.zeros(1, 3, 256, 256), torch.zeros(1, 1, 256, 256))
    found = [tuple(t.shape[1:]) for t in (*seen["depth"], *seen["colour"], out)]
    ladder = [(32, 64, 64), (32, 64, 64), (128, 64, 64)]
    return float(sum(a != b for a, b in zip(found, [*ladder, *ladder, (2, 256, 256)], strict=True)))


# The network ----------------------------------------------------------------------------------------------------------

_NAMES: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"^colour\.trunk\.stages", "vgg"),
    (r"^colour\.ladder\.transitions", "trans"),
    (r"^colour\.ladder\.layers\.(\d)\.branches", r"branches.\1"),
    (r"^colour\.ladder\.layers\.(\d)\.fuse\.(\d)\.(\d)\.conv\.(conv|norm)", r"fuse.\1.\2.\3.0.\4"),
    (r"^colour\.ladder\.layers\.(\d)\.fuse\.(\d)\.(\d)\.(\d)\.(conv|norm)",
     lambda m: f"fuse.{m[1]}.{m[2]}.{m[3]}.{2 * int(m[4])}.{m[5]}"),
    (r"^depth\.stem\.(\d)\.(\d)", lambda m: f"stem.{2 * int(m[1]) + int(m[2])}"),
    (r"^depth\.enter", "transition1"), (r"^depth\.widen", "transition2"),
    (r"^depth\.first", "depth_stages.0"), (r"^depth\.second", "depth_stages.1"), (r"^depth\.third", "depth_stages.2"),
    (r"^attention", "gates"), (r"^decoder\.head", "decoder.2"), (r"^side\.(\d)\.head", r"side.\1.2"),
    (r"^decoder\.layers\.(\d)", lambda m: f"decoder.{int(m[1]) // 3}.{2 * (int(m[1]) % 3)}"),
    (r"^side\.(\d)\.layers\.(\d)", lambda m: f"side.{m[1]}.{int(m[2]) // 2}.{2 * (int(m[2]) % 2)}"),
)  # fmt: skip


def as_transcribed(network: ATSA) -> dict[str, Tensor]:
    """The weights of a network with everything the public code builds, under the names of its transcription."""
    state = {}
    for name, value in network.state_dict(keep_vars=True).items():
        for pattern, to in _NAMES:
            if re.search(pattern, name):
                state[re.sub(pattern, to, name)] = value
                break
    return state


def transcribed(model: ModelConfig) -> plain.Transcribed:
    """The direct transcription of the public code with a model's sizes."""
    return plain.Transcribed(model.trunk, model.trunk_depths, model.branches, model.blocks, model.depth_stem)


def forms() -> tuple[ATSA, plain.Transcribed]:
    """A little network in float64 and its transcription with the same weights."""
    network = filled(build(LITTLE))
    direct = transcribed(LITTLE).double().eval()
    direct.load_state_dict(as_transcribed(network))
    return network, direct


def network_is_the_published_one(_: Evidence) -> float:
    """Difference of outputs and gradients from the direct transcription, in evaluation and in training."""
    off = []
    for training in (False, True):
        network, direct = (form.train(training) for form in forms())
        picture, depth = (noise(2, c, 64, 96, seed=c).requires_grad_() for c in (3, 1))
        off.append(
            apart_with_gradients(network(picture, depth), direct(picture, depth), (picture, depth), relative=True)
        )
        stems = (network.depth.stem[0][0].conv.weight, direct.stem[0].conv.weight)  # type: ignore[union-attr,index]
        grads = [torch.autograd.grad(form(picture, depth).square().sum(), weight)[0]
                 for form, weight in zip((network, direct), stems, strict=True)]  # fmt: skip
        off.append(apart(grads[0], grads[1], relative=True))
    return _worst(off)


def fast_path_is_the_network(_: Evidence) -> float:
    """Difference of the network in float32 with folded norms and Winograd's convolutions from float64, relative to the
    largest output."""
    torch.manual_seed(0)
    model = ModelConfig(trunk=(32, 32, 32, 32, 32), trunk_depths=(1,) * 5, branches=(32, 64, 128, 256), blocks=1,
                        depth_stem=(32, 32), init="kaiming")  # fmt: skip
    network = filled(build(model))
    picture, depth = noise(1, 3, 64, 64, seed=0), uniform(1, 1, 64, 64, seed=1)
    with torch.no_grad():
        exact = network(picture, depth)
        quick = network.float()(picture.float(), depth.float())
    return float((quick - exact).abs().max() / exact.abs().max())


def enlarging_later_is_the_same(_: Evidence) -> float:
    """Difference of a 1 x 1 layer computed before its map is enlarged from one computed after, with gradients."""
    off = []
    for training in (False, True):
        layer = filled(ConvNorm(5, 7, 1, bias=True)).train(training)
        x = noise(2, 5, 6, 9, seed="x").requires_grad_()
        theirs = F.relu(layer.norm(layer.conv(enlarged(x, 2))))
        off.append(apart_with_gradients(layer(x, scale=2), theirs, (x, *layer.conv.parameters())))
    return _worst(off)


def grey_needs_one_channel(_: Evidence) -> float:
    """Difference of the first layer on one depth channel from the same layer on three copies, with gradients."""
    off = []
    for training in (False, True):
        layer = filled(GreyConvNorm(6)).train(training)
        x = noise(2, 1, 8, 7, seed="x").requires_grad_()
        theirs = F.relu(layer.norm(layer.conv(x.repeat(1, 3, 1, 1))))
        off.append(apart_with_gradients(layer(x), theirs, (x, layer.conv.weight)))
    return _worst(off)


def branches_fit(_: Evidence) -> float:
    """Differences of sizes after fusion from those before, for odd and even multiples of 32."""
    off = []
    with torch.device("meta"):
        for number in range(3):
            layer = LadderLayer((4, 8, 16, 32)[: number + 2], 1, number == 2, False).eval()
            for high, wide in ((1, 1), (3, 2), (5, 7)):
                sides = [(32 * high >> n + 2, 32 * wide >> n + 2) for n in range(number + 2)]
                out = layer([torch.zeros(1, 4 << n, *side) for n, side in enumerate(sides)])
                off += [abs(a - b) for t, side in zip(out, sides, strict=False)
                        for a, b in zip(t.shape[2:], side, strict=True)]  # fmt: skip
    return _worst([float(o) for o in off])


# Depth attention ------------------------------------------------------------------------------------------------------


def context_has_closed_forms(_: Evidence) -> float:
    """α: the mean for a key of zero, itself for a constant map, unchanged if positions are permuted, and the mean
    weighted by the softmax that Eq. 4 defines."""
    gate, depth = filled(DepthAttention(6)), noise(2, 6, 5, 7, seed="depth")
    with torch.no_grad():
        context = gate.context(depth)
        order = torch.randperm(35, generator=torch.Generator().manual_seed(0))
        permuted = depth.flatten(2)[..., order].view_as(depth)
        level = noise(2, 6, 1, 1, seed="level")
        powers = gate.key(depth).exp()
        by_hand = (depth * powers).sum((2, 3), keepdim=True) / powers.sum((2, 3), keepdim=True)
        off = [apart(gate.context(permuted), context), apart(gate.context(level.expand(-1, -1, 5, 7)), level),
               apart(context, by_hand)]  # fmt: skip
        gate.key.weight.zero_()
        off.append(apart(gate.context(depth), depth.mean((2, 3), keepdim=True)))
    return _worst(off)


def gate_starts_as_half(_: Evidence) -> float:
    """At the start the gate is σ(F / 2) in the public form and 1/2 in the printed one; colour of zero gives 1/2."""
    depth, colour = noise(2, 6, 5, 7, seed="depth"), noise(2, 6, 5, 7, seed="colour")
    off = []
    with torch.no_grad():
        for inner in (True, False):
            gate = filled(DepthAttention(6, inner))
            off.append(apart(gate(torch.zeros_like(colour), depth), torch.full_like(colour, 0.5)))
            gate.reset()
            expected = torch.sigmoid(depth / 2) if inner else torch.full_like(depth, 0.5)
            off += [apart(gate.gate(depth), expected), apart(gate(colour, depth), torch.sigmoid(colour * expected))]
    return _worst(off)


def fused_range(_: Evidence) -> float:
    """How far fused maps leave the range from 1/2 to 1, for colour maps that are not negative."""
    gate = filled(DepthAttention(8))
    with torch.no_grad():
        out = gate(3 * uniform(2, 8, 9, 9, seed="colour"), 3 * noise(2, 8, 9, 9, seed="depth"))
    return max(0.0, 0.5 - float(out.min()), float(out.max()) - 1)


# Losses ---------------------------------------------------------------------------------------------------------------


def sigmoids_bound_the_loss(_: Evidence) -> float:
    """How far probabilities and losses of sigmoids taken for logits leave [1 / (1 + e), e / (1 + e)] and
    [ln(1 + 1 / e), ln(1 + e)], and how far their ends are from being reached."""
    logits = torch.cat([50 * noise(4000, 2, seed="logits"), torch.tensor([[-800.0, 800.0], [800.0, -800.0]]).double()])
    squashed = logits.sigmoid()
    chance = squashed.softmax(1)[:, 1]
    loss = F.cross_entropy(squashed, torch.ones(len(squashed), dtype=torch.long), reduction="none")
    ends = (chance.min() - 1 / (1 + math.e), chance.max() - math.e / (1 + math.e),
            loss.min() - math.log1p(1 / math.e), loss.max() - math.log1p(math.e))  # fmt: skip
    return _worst([abs(float(end)) for end in ends])


def printed_loss_is_negative(_: Evidence) -> float:
    """The loss as printed, without a minus sign, of maps that are nearly right: its largest value."""
    truth = (uniform(50, seed="truth") > 0.5).double()
    chance = (truth - 0.01).abs()
    return float((truth * chance.log() + (1 - truth) * (1 - chance).log()).max())


# Metrics --------------------------------------------------------------------------------------------------------------


def cases() -> tuple[Tensor, Tensor]:
    """Random maps and masks (11, 23, 31), with perfect, inverted, empty, full and constant ones among them."""
    maps, masks = uniform(11, 23, 31, seed="maps"), uniform(11, 23, 31, seed="masks") > 0.7
    masks[0] = False
    masks[0, 5:12, 4:20] = True
    maps[0] = F.avg_pool2d(masks[0].double()[None, None], 5, 1, 2)[0, 0]
    maps[1], maps[2], maps[3] = masks[1].double(), 1 - masks[2].double(), 0
    masks[4], masks[5], maps[6], masks[7], maps[7] = False, True, 0.5, False, 0
    masks[8] = False
    masks[8, 22, 30] = True
    maps[9] = (maps[9] * 255).round() / 255
    return maps, masks


def metrics_are_the_plain_ones(_: Evidence) -> float:
    """The largest difference of the metrics of a batch from their plain forms, one picture at a time."""
    maps, masks = cases()
    pairs = [(m.numpy(), t.numpy()) for m, t in zip(maps, masks, strict=True)]
    off = []
    for name in ("adaptive_f", "s_measure", "adaptive_e", "f_curve", "e_curve"):
        theirs = torch.tensor([getattr(plain, name)(*pair) for pair in pairs], dtype=torch.float64)
        off.append(apart(getattr(fast, name)(maps, masks), theirs))
    for reach in (1, 2, 3):
        theirs = torch.tensor([plain.boundary_f(*pair, reach) for pair in pairs], dtype=torch.float64)
        off.append(apart(fast.boundary_f(maps, masks, reach), theirs))
    return _worst(off)


def metrics_have_closed_forms(_: Evidence) -> float:
    """Difference from the values of perfect, inverted and empty maps: MAE 0, 1 and the mask's share; F and E 1 for a
    perfect map and F 0 for an inverted one; S 1 for a perfect one."""
    mask = cases()[1][:1]
    perfect, inverted, empty = mask.double(), 1 - mask.double(), torch.zeros(mask.shape, dtype=torch.float64)
    share = float(mask.double().mean())
    wanted = [
        (fast.mae(perfect, mask), 0), (fast.mae(inverted, mask), 1), (fast.mae(empty, mask), share),
        (fast.adaptive_f(perfect, mask), 1), (fast.adaptive_f(inverted, mask), 0), (fast.max_f(perfect, mask), 1),
        (fast.s_measure(perfect, mask), 1), (fast.s_measure(empty, empty.bool()), 1),
        (fast.adaptive_e(perfect, mask), 1), (fast.adaptive_e(inverted, mask), 0),
        (fast.boundary_f(perfect, mask), 1), (fast.adaptive_f(empty + 0.2, ~empty.bool()), 0),
        # All pixels found: precision is the mask's share.
        (fast.f_curve(perfect, mask)[:, 0], 1.3 * share / (0.3 * share + 1)),
    ]  # fmt: skip
    return _worst([abs(float(value) - number) for value, number in wanted])
