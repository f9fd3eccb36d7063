"""What must hold exactly: counts by hand, the deformable module against its definition, normalisation, losses."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.contract.claims import Evidence
from vergence.contract.evidence import apart, apart_with_gradients, filled, noise, uniform
from vergence.generation import losses
from vergence.generation.cdvae.model import CDM, CDVAE, DFNM, ViewMLP, adain, parameters
from vergence.generation.cdvae.settings import SMALL, ModelConfig
from vergence.generation.players import Discriminator
from vergence.reference.fields import deformable_by_tap

CHAIR_VIEWS = 62
HAND = {
    "CDM": 128 * 225 * 9 + 225 + 128 * 128 * 9 + 128,
    "DFNM": 256 * 32 * 9 + 32 + 2 * (32 * 128 * 9 + 128),
    "encoder": 6_530_561,
    "decoder": 6_072_964 + 256 * 512 + 512,
    "filters": 4 * (CHAIR_VIEWS * 128 + 128 * 128 + 128 + 128 * 25 + 25),
    "discriminator": (
        3 * 64 + 64
        + 64 * 64 * 9 + 64 + 64 * 128 * 9 + 128 + 64 * 128
        + 128 * 128 * 9 + 128 + 128 * 256 * 9 + 256 + 128 * 256
        + 2 * (256 * 256 * 9 + 256) + 256 * 256
        + 257 * 256 * 9 + 256 + 256 * 256 * 16 + 256
        + (1 + CHAIR_VIEWS) * 256 * 13 * 13 + 1
    ),
    "dac": 256 * 256 + 256 + 256 * CHAIR_VIEWS + CHAIR_VIEWS,
}  # fmt: skip
"""Parameters counted from the published list of layers; the decoder's with a layer from Z instead of its noise."""


def parts_have_their_counts(_: Evidence) -> float:
    """The largest difference of a part's parameters from the count by hand."""
    with torch.device("meta"):
        model = CDVAE(ModelConfig(features="none"), CHAIR_VIEWS, 128)
    encoder = model.translator.encoder
    dfnm = next(module for module in encoder.modules() if isinstance(module, DFNM))
    built = {
        "CDM": encoder.deformed.view, "DFNM": dfnm, "encoder": encoder,
        "decoder": model.translator.decoder, "filters": model.translator.filters,
        "discriminator": model.discriminator, "dac": model.dac,
    }  # fmt: skip
    return float(max(abs(parameters(part) - HAND[name]) for name, part in built.items()))


def one_filter_is_half(_: Evidence) -> float:
    """Filters and channels of ablation E against C' / 18 and 18 groups, and of the default against C' / 9 and 9."""
    with torch.device("meta"):
        two, one = (CDM(128, m, axes) for m, axes in ((25, 2), (12, 1)))
    config = ModelConfig(one_filter=True)
    off = [two.features.out_channels - 9 * 25, one.features.out_channels - 18 * 12, config.filter_size - 12]
    return float(max(map(abs, off)))


# The deformable module ------------------------------------------------------------------------------------------------


def _module(axes: int = 2, filters: int = 5) -> CDM:
    return filled(CDM(6, filters, axes), f"cdm {axes}")


def direct_flow(module: CDM, x: Tensor, filters: Tensor) -> Tensor:
    """The flow as it is defined: all channels F' are computed, and the filters convolve their groups one by one."""
    features = module.features(x)
    groups = features.view(len(x), module.groups, -1, *x.shape[2:])
    if filters.shape[1] == 1:
        return (groups * filters[:, 0, None, :, None, None]).sum(2)
    pairs = [(groups[:, tap] * filters[:, axis, :, None, None]).sum(1) for tap in range(9) for axis in (0, 1)]
    return torch.stack(pairs, 1)


def module_is_its_definition(_: Evidence) -> float:
    """Folded filters and one sampling of all taps against F', groups and a loop over taps, with all gradients."""
    worst = 0.0
    for axes in (1, 2):
        module, x = _module(axes), noise(3, 6, 7, 5, seed="map").requires_grad_()
        filters = noise(3, axes, 5, seed="filters").requires_grad_()
        flow = direct_flow(module, x, filters)
        theirs = deformable_by_tap(x, flow, module.deformed.weight, padding=1)
        theirs = theirs + module.deformed.bias.view(-1, 1, 1)  # type: ignore[union-attr]
        leaves = [x, filters, *module.parameters()]
        worst = max(worst, apart_with_gradients((module.flow(x, filters), module(x, filters)), (flow, theirs), leaves,
                                                relative=True))  # fmt: skip
    return worst


def no_filter_is_plain(_: Evidence) -> float:
    """With W = 0 the module is the plain convolution with the same weights."""
    module, x = _module(), noise(2, 6, 8, 9, seed="x")
    return apart(module(x, torch.zeros(2, 2, 5, dtype=x.dtype)), module.deformed(x))


def flow_is_linear(_: Evidence) -> float:
    """Flow at filters between two others against the flows between theirs."""
    module, x = _module(), noise(2, 6, 8, 9, seed="x")
    one, other = noise(2, 2, 5, seed="w1"), noise(2, 2, 5, seed="w2")
    between = [module.flow(x, torch.lerp(one, other, t)) for t in (0.25, 0.5, 0.9)]
    ends = module.flow(x, one), module.flow(x, other)
    return max(apart(flow, torch.lerp(*ends, t)) for flow, t in zip(between, (0.25, 0.5, 0.9), strict=True))


def labels_between_are_not_linear(_: Evidence) -> float:
    """The same for rows between two labels, relative to the difference of the two flows."""
    module, x, mlps = _module(), noise(1, 6, 8, 9, seed="x"), [filled(ViewMLP(4, 5), axis) for axis in "yx"]
    rows = torch.eye(4, dtype=torch.float64)[:2]
    filters = [torch.stack([mlp(row[None]) for mlp in mlps], 1) for row in (rows[0], rows[1], rows.mean(0))]
    one, other, middle = (module.flow(x, each) for each in filters)
    return float((middle - (one + other) / 2).detach().abs().max() / (one - other).detach().abs().max())


def shifts_are_pixels_down_and_right(_: Evidence) -> float:
    """Filters that make every dy one pixel shift the map by a row, and every dx by a column, away from borders."""
    module, x = _module(filters=2), noise(1, 6, 9, 9, seed="x")
    with torch.no_grad():
        module.features.weight.zero_()
        assert module.features.bias is not None
        module.features.bias.copy_(torch.tensor([1.0, 0.0]).repeat(9))
    plain, worst = module.deformed(x), 0.0
    for axis, (rows, columns) in enumerate((((3, 8), (2, 7)), ((2, 7), (3, 8)))):
        filters = torch.zeros(1, 2, 2, dtype=torch.float64)
        filters[0, axis, 0] = 1
        moved = module(x, filters)[..., 2:7, 2:7]
        worst = max(worst, apart(moved, plain[..., slice(*rows), slice(*columns)]))
    return worst


def view_enters_by_its_filters(_: Evidence) -> float:
    """Two labels with the same filters give the same picture, from the encoder on, though their labels differ."""
    torch.manual_seed(0)
    model = CDVAE(replace(SMALL, channels=2), 3, 32)
    filled(model.translator)
    model.double().eval()
    with torch.no_grad():
        for mlp in model.translator.filters:
            assert isinstance(mlp, ViewMLP)
            mlp.embedding[1] = mlp.embedding[0]
        x = uniform(1, 3, 32, 32, seed="picture") * 2 - 1
        labels = [torch.tensor([view]) for view in (0, 1, 2)]
        same = apart(model(x, labels[0], labels[0]), model(x, labels[1], labels[1]))
        differs = apart(model(x, labels[0], labels[0]), model(x, labels[0], labels[2]))
    return same if differs > 1e-6 else math.inf


# Normalisation --------------------------------------------------------------------------------------------------------


def dfnm_is_batch_norm(_: Evidence) -> float:
    """With a scale of 1 and no offset: batch normalisation without weights, and unit variance of each channel."""
    layer = filled(DFNM(5, 3, 4)).train()
    with torch.no_grad():
        assert layer.scale_offset.bias is not None
        layer.scale_offset.weight.zero_()
        layer.scale_offset.bias.copy_(torch.cat([torch.ones(5), torch.zeros(5)]))
    h, side = (3 * noise(4, 5, 6, 7, seed="h") + 2).requires_grad_(), noise(4, 3, 6, 7, seed="side")
    ours, theirs = layer(h, side), F.batch_norm(h, None, None, training=True)
    variance = float((ours.detach().var((0, 2, 3), unbiased=False) - 1).abs().max())
    return max(apart_with_gradients(ours, theirs, [h]), variance if variance > 1e-5 else 0.0)


def dfnm_scales_by_place(_: Evidence) -> float:
    """Against its definition, with two convolutions for scale and offset, forward and backward."""
    layer = filled(DFNM(5, 3, 4)).train()
    h, side = noise(4, 5, 6, 7, seed="h").requires_grad_(), noise(4, 3, 6, 7, seed="side").requires_grad_()
    ours = layer(h, side)
    hidden = layer.shared(side)
    weight, bias = layer.scale_offset.weight, layer.scale_offset.bias
    assert bias is not None
    scale, offset = (F.conv2d(hidden, weight[part], bias[part], padding=1) for part in (slice(5), slice(5, 10)))
    mean, var = h.mean((0, 2, 3), keepdim=True), h.var((0, 2, 3), unbiased=False, keepdim=True)
    theirs = scale * (h - mean) / (var + 1e-5).sqrt() + offset
    return apart_with_gradients(ours, theirs, [h, side, *layer.parameters()], relative=True)


def adain_sets_the_statistics(_: Evidence) -> float:
    """Mean and standard deviation of each channel of each picture after AdaIN against offset and |1 + scale|."""
    h, style = 2 * noise(3, 4, 9, 8, seed="h") + 1, noise(3, 8, seed="style")
    out = adain(h, style).flatten(2)
    deviation = h.flatten(2).var(2, unbiased=False)
    exact = (1 + style[:, :4]).abs() * (deviation / (deviation + 1e-5)).sqrt()
    return max(apart(out.mean(2), style[:, 4:]), apart(out.std(2, unbiased=False), exact))


# Players and losses ---------------------------------------------------------------------------------------------------


def _critic(rounds: int) -> tuple[Discriminator, list[Tensor]]:
    """A small discriminator after some power iterations, and its weights."""
    torch.manual_seed(0)
    critic = Discriminator(1, 2, 3, 32).double().train()
    layers = [layer for layer in critic.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    with torch.no_grad():
        for _ in range(rounds):
            weights = [layer.weight for layer in layers]
    return critic.eval().requires_grad_(False), weights


def layers_have_norm_one(_: Evidence) -> float:
    """The largest singular value of each layer of the discriminator after many power iterations, against 1."""
    weights = _critic(150)[1]
    return max(abs(float(torch.linalg.matrix_norm(weight.flatten(1), 2)) - 1) for weight in weights)


def score_is_linear_in_the_label(_: Evidence) -> float:
    """D(x, y) = f(x) + <e(y), h(x)>: the score at a row between two labels against the scores between theirs, relative
    to their difference."""
    critic, _weights = _critic(20)
    x, rows = noise(4, 3, 32, 32, seed="x"), torch.eye(3, dtype=torch.float64)
    scores = [critic(x, row.expand(4, -1)) for row in (rows[0], rows[1], 0.3 * rows[0] + 0.7 * rows[1])]
    return apart(scores[2], 0.3 * scores[0] + 0.7 * scores[1]) / apart(scores[0], scores[1])


def divergence_is_the_closed_form(_: Evidence) -> float:
    """Against PyTorch's distributions, zero at N(0, I), forward and backward."""
    mean, spread = noise(4, 6, seed="m").requires_grad_(), noise(4, 6, seed="s").requires_grad_()
    normal = torch.distributions.Normal(mean, (spread / 2).exp())
    prior = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
    theirs = torch.distributions.kl_divergence(normal, prior).mean()
    none = losses.divergence(torch.zeros(2, 3), torch.zeros(2, 3))
    return max(apart_with_gradients(losses.divergence(mean, spread), theirs, [mean, spread]), float(none.abs()))


def equal_shares_are_the_minimum(_: Evidence) -> float:
    """Eq. 2 at equal logits against log V, its gradient there against zero; elsewhere it is not below log V."""
    logits = torch.full((5, 13), 0.7, dtype=torch.float64, requires_grad=True)
    least = losses.to_equal_shares(logits)
    (slope,) = torch.autograd.grad(least, logits)
    others = min(float(losses.to_equal_shares(noise(5, 13, seed=seed))) for seed in range(20))
    return max(abs(float(least.detach()) - math.log(13)), float(slope.abs().max()), math.log(13) - others, 0.0)


def gram_is_its_definition(_: Evidence) -> float:
    """Against a loop over channels, and unchanged by a constant added to all channels of a place."""
    x = noise(2, 3, 4, 5, seed="x").requires_grad_()
    flat = (x - x.mean(1, keepdim=True)).flatten(2)
    theirs = torch.stack([torch.stack([(flat[:, i] * flat[:, j]).sum(1) for j in range(3)], 1) for i in range(3)], 1)
    shifted = losses.gram(x + noise(2, 1, 4, 5, seed="c"))
    return max(apart_with_gradients(losses.gram(x), theirs, [x]), apart(shifted, theirs))


def hinge_has_its_closed_form(_: Evidence) -> float:
    """Eqs. 7 and 8 on scores whose losses are known: each kind of fake weighs a third."""
    real, fake = torch.tensor([2.0, 0.5, -1.0]), torch.tensor([-2.0, -0.5, 1.0, 0.0, 3.0, -1.0])
    found = losses.hinge(real, fake) - (2.5 / 3 + 7.5 / 6)
    minus, printed = losses.fooled(fake, "minus") + 0.5 / 6, losses.fooled(fake, "printed") - 7.5 / 6
    return max(abs(float(each)) for each in (found, minus, printed))
