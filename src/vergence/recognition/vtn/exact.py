"""What must hold exactly: the layer against its definition, limits of its softmax, invariances, and the loss."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.contract.claims import Evidence
from vergence.contract.evidence import apart, apart_with_gradients, filled, noise, uniform
from vergence.nn.vtn import VolumetricTransformer
from vergence.ops.deform import deformable_convolution
from vergence.ops.fields import candidate_probabilities, consistency, expected_offsets, sampled
from vergence.reference import fields as plain


def _layer(
    channels: int = 12, groups: int = 3, window: int = 5, beta: float = 1.0, **how: bool
) -> VolumetricTransformer:
    """A layer with random weights in float64, so that residual logits matter."""
    return filled(VolumetricTransformer(channels, groups, window, beta, widths=(4, 6), **how))


def _fresh(channels: int = 12, groups: int = 3, window: int = 5, beta: float = 1.0) -> VolumetricTransformer:
    """A layer as it starts."""
    torch.manual_seed(0)
    return VolumetricTransformer(channels, groups, window, beta, widths=(4, 6)).double().eval()


def layer_is_its_definition(_: Evidence) -> float:
    """The bent map and the fields against loops over positions and candidates, with all gradients."""
    layer, u = _layer(), noise(2, 12, 5, 6, seed="map").requires_grad_()
    warped, fields = layer.warp(u)
    theirs = plain.bent(u, layer.residual(*layer.pooled(u)), 3, 5, 1.0)
    return apart_with_gradients((warped, fields), theirs, [u, *layer.parameters()], relative=True)


def equal_responses_leave_the_map(_: Evidence) -> float:
    """Constant maps, no residual: fields in the interior, and the bent map there against the map; the corner's shift
    against its closed form, half the reach along both axes."""
    layer, u = _fresh(window=11, beta=10.0), torch.full((1, 12, 16, 17), 0.7, dtype=torch.float64)
    u = u * torch.arange(1, 13, dtype=torch.float64).view(-1, 1, 1)
    warped, fields = layer.warp(u)
    inside = fields[..., 5:-5, 5:-5].abs().max()
    corner = fields[:, :, :, 0, 0] - 2.5
    return max(float(inside), apart(warped[..., 5:-5, 5:-5], u[..., 5:-5, 5:-5]), float(corner.abs().max()))


def sharpness_has_its_limits(_: Evidence) -> float:
    """With large beta fields vanish in the interior; with small beta they point to the window's largest response."""
    response = uniform(1, 2, 13, 14, seed="response")
    flat = expected_offsets(candidate_probabilities(response, None, 5, 1e13), 5)
    sharp = expected_offsets(candidate_probabilities(response, None, 5, 1e-6), 5)
    padded = F.pad(response, (2,) * 4, value=-math.inf)
    best = padded.unfold(2, 5, 1).unfold(3, 5, 1).flatten(4).argmax(4)
    expected = torch.stack([best % 5 - 2, best // 5 - 2], 2).double()
    return max(float(flat[..., 2:-2, 2:-2].abs().max()), apart(sharp, expected))


def fields_stay_in_window_and_map(_: Evidence) -> float:
    """How far any shift leaves the window, or any sampled place the map, with strong random residuals."""
    response, residual = 3 * noise(2, 3, 7, 6, seed="r"), 9 * noise(2, 3, 121, 7, 6, seed="e")
    fields = expected_offsets(candidate_probabilities(response, residual, 11, 0.5), 11)
    x, y = (fields[:, :, i] + axis for i, axis in enumerate((torch.arange(6), torch.arange(7).unsqueeze(1))))
    beyond = [fields.abs().max() - 5, -x.min(), x.max() - 5, -y.min(), y.max() - 6]
    return max(0.0, *map(float, beyond))


def a_constant_changes_nothing(_: Evidence) -> float:
    """Change of the fields if a constant is added to all responses of a group."""
    response, residual = noise(1, 3, 6, 6, seed="r"), noise(1, 3, 25, 6, 6, seed="e")
    shifted = response + torch.tensor([0.0, 5.0, -3.0], dtype=torch.float64).view(-1, 1, 1)
    one, other = (expected_offsets(candidate_probabilities(r, residual, 5, 2.0), 5) for r in (response, shifted))
    return apart(one, other)


def training_starts_at_the_last_convolution(_: Evidence) -> float:
    """At the start: the change of fields under other estimator weights, plus the gradient of all weights but the last
    convolution's. Infinite if that has none, or if after one step the others still have none."""
    layer, u = _fresh(), noise(2, 12, 6, 6, seed="map")
    other = _fresh()
    for name, weight in other.estimator.named_parameters():
        if not name.startswith("out."):
            nn.init.normal_(weight)
    change = apart(layer.fields(u), other.fields(u))
    aim = noise(*u.shape, seed="aim")

    def gradients() -> tuple[float, float]:
        layer.zero_grad()
        (layer(u) * aim).sum().backward()
        sizes = {n: float(p.grad.abs().max()) if p.grad is not None else 0.0 for n, p in layer.named_parameters()}
        return max(v for n, v in sizes.items() if ".out." in n), max(v for n, v in sizes.items() if ".out." not in n)

    last, rest = gradients()
    with torch.no_grad():
        for p in layer.estimator.out.parameters():
            assert p.grad is not None
            p.sub_(0.1 * p.grad)
    later = gradients()[1]
    return change + rest if last > 0 and later > 0 else math.inf


def groups_have_their_limits(_: Evidence) -> float:
    """One group: the map warped once by one field; as many groups as channels: every channel by its own."""
    u = noise(1, 6, 5, 7, seed="map")
    one, each = _layer(6, 1), _layer(6, 6)
    whole, field = one.warp(u)
    worst = apart(whole, plain.group_by_group(u, field.expand(-1, 6, -1, -1, -1)))
    alone, fields = each.warp(u)
    for channel in range(6):
        worst = max(
            worst,
            apart(
                alone[:, channel : channel + 1], sampled(u[:, channel : channel + 1], fields[:, channel : channel + 1])
            ),
        )
    same = apart(fields[:, :1].expand_as(fields), fields)
    return worst if same > 1e-3 and field.shape[1] == 1 else math.inf


def constant_fields_shift(_: Evidence) -> float:
    """Fields of whole pixels against the shifted map, and zero fields against the map, also for a single row; one group
    after another gives the same."""
    worst = 0.0
    for height, width in ((6, 7), (1, 5), (4, 1), (1, 1)):
        u = noise(2, 4, height, width, seed="map")
        worst = max(worst, apart(sampled(u, u.new_zeros(2, 2, 2, height, width)), u))
    u, fields = noise(2, 4, 6, 7, seed="map"), torch.zeros(2, 2, 2, 6, 7, dtype=torch.float64)
    fields[:, 0, 0], fields[:, 1, 1] = 2, -1
    moved = sampled(u, fields)
    worst = max(worst, apart(moved[:, :2, :, :5], u[:, :2, :, 2:]), apart(moved[:, 2:, 1:], u[:, 2:, :5]))
    free = 1.5 * noise(2, 2, 2, 6, 7, seed="fields")
    leaves = [u.requires_grad_(), free.requires_grad_()]
    return max(worst, apart_with_gradients(sampled(u, free), plain.group_by_group(u, free), leaves))


def fields_follow_a_shift(_: Evidence) -> float:
    """At the start, a map moved by two pixels has its fields moved by two pixels, away from the border."""
    layer, whole = _fresh(), noise(1, 12, 14, 16, seed="map")
    one, other = layer.fields(whole[..., :-2]), layer.fields(whole[..., 2:])
    return apart(other[..., 2:-2, 2:-4], one[..., 2:-2, 4:-2])


def order_within_groups_does_not_matter(_: Evidence) -> float:
    """Channels permuted inside groups are permuted in the bent map, with the same fields. Infinite if a permutation
    across groups leaves the fields, too."""
    layer, u = _layer(), noise(1, 12, 6, 6, seed="map")
    inside = torch.tensor([2, 0, 3, 1, 4, 7, 6, 5, 11, 9, 8, 10])
    (warped, fields), (moved, same) = layer.warp(u), layer.warp(u[:, inside])
    across = layer.fields(u.roll(2, 1))
    return max(apart(moved, warped[:, inside]), apart(same, fields)) if apart(across, fields) > 1e-3 else math.inf


def loss_has_its_values(_: Evidence) -> float:
    """Eq. 4 for V = V', for V' = V'', and against loops; its gradient where the hinge is off."""
    v, other, third = (noise(3, 4, 5, 6, seed=name).requires_grad_() for name in ("v", "other", "third"))
    margin = 6.0
    gap = (v - other).square().sum(1)
    worst = apart(consistency(v, v, other, margin), F.relu(margin - gap).sum((1, 2)).mean())
    worst = max(worst, abs(float(consistency(v, other, other, margin)) - 30 * margin))
    looped = v.new_zeros(())
    for t in range(3):
        for y in range(5):
            for x in range(6):
                near, far = ((v[t, :, y, x] - o[t, :, y, x]).square().sum() for o in (other, third))
                looped = looped + torch.clamp(near - far + margin, min=0) / 3
    worst = max(worst, apart_with_gradients(consistency(v, other, third, margin), looped, [v, other, third]))
    off = consistency(v, v.detach(), v.detach() + 100, margin)
    return max(worst, float(off), float(torch.autograd.grad(off, v)[0].abs().max()))


def estimator_ignores_the_width(_: Evidence) -> float:
    """Parameters of the layer for 512 and for 2048 channels against the count by hand."""
    by_hand = sum(
        9 * a * b + 2 * b
        for a, b in zip((2, 16, 32, 64, 64, 64, 64, 32), (16, 32, 64, 64, 64, 64, 32, 16), strict=True)
    )
    by_hand += 2 * (32 * 24 + 24 * 16 + 16 * 12 + 12 * 8) + 9 * 16 * 121 + 121
    with torch.device("meta"):
        counts = [sum(p.numel() for p in VolumetricTransformer(k).parameters()) for k in (512, 2048)]
    return float(max(abs(count - by_hand) for count in counts))


def identity_mixes_are_none(_: Evidence) -> float:
    """Squeezes and expansions with identity matrices against the layer without mixing, which has the same other
    weights."""
    alone = _layer(mixing=False)
    mixed = VolumetricTransformer(12, 3, 5, 1.0, widths=(4, 6)).double().eval()
    state = alone.state_dict()
    for part in (mixed.estimator.encoder, mixed.estimator.decoder):
        for step in part:
            step[1].weight = nn.Parameter(torch.eye(3, dtype=torch.float64))  # type: ignore[index]
    mixed.load_state_dict(state, strict=False)
    u = noise(2, 12, 6, 7, seed="map")
    return apart(mixed.fields(u), alone.fields(u))


def deformable_forms_agree(_: Evidence) -> float:
    """Deformable convolution against a loop over output pixels and one over taps, with gradients."""
    x, weight = noise(2, 3, 6, 7, seed="x").requires_grad_(), noise(4, 3, 3, 3, seed="w").requires_grad_()
    offset = (1.2 * noise(2, 18, 6, 7, seed="o")).requires_grad_()
    ours = deformable_convolution(x, offset, weight, padding=1)
    rivals: list[Tensor] = [f(x, offset, weight, 1) for f in (plain.deformable_by_pixel, plain.deformable_by_tap)]
    return max(apart_with_gradients(ours, theirs, [x, offset, weight]) for theirs in rivals)
