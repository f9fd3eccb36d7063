"""What must hold exactly: the operator against its definition, its special cases, the network, and the vote."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.contract.claims import Evidence
from vergence.contract.evidence import apart, apart_with_gradients, filled, noise
from vergence.core.seeding import generator
from vergence.nn.adaptive import Coordinates, PerPlace, SqueezeExcite
from vergence.ops.adaptive import Patches, adaptive_convolution
from vergence.ops.label_vote import label_vote
from vergence.ops.spherical import spherical_project
from vergence.points.squeezesegv3.model import build
from vergence.points.squeezesegv3.settings import ModelConfig
from vergence.reference import adaptive as plain
from vergence.reference import range_image

CHANNELS, OUTPUTS, HEIGHT, WIDTH = 3, 2, 6, 7


def _parts(side: int = 3, shared: bool = False) -> dict[str, Tensor]:
    """Features, coordinates, and the weights of a convolution and of its attention, all with gradients."""
    channels = 1 if shared else CHANNELS
    shapes = {
        "x": (1, CHANNELS, HEIGHT, WIDTH),
        "coordinates": (1, 3, HEIGHT, WIDTH),
        "attention": (channels * side**2, 3, 7, 7),
        "shift": (channels * side**2,),
        "weight": (OUTPUTS, CHANNELS, side, side),
        "bias": (OUTPUTS,),
    }
    return {name: (noise(*shape, seed=name) * 0.5).requires_grad_() for name, shape in shapes.items()}


def _attention(parts: dict[str, Tensor]) -> Tensor:
    return F.conv2d(parts["coordinates"], parts["attention"], parts["shift"], padding=3).sigmoid()


def sums_over_six_indices(_: Evidence) -> float:
    """ISK and SK against the loops of Eqs. 3 and 4, forward and in every gradient."""
    worst = 0.0
    for shared in (False, True):
        parts = _parts(shared=shared)
        scale = _attention(parts)[0].view(-1, 3, 3, HEIGHT, WIDTH).permute(0, 3, 4, 1, 2)
        theirs = plain.adaptive_sum(parts["x"][0], scale.expand(CHANNELS, -1, -1, -1, -1), parts["weight"])
        theirs = theirs + parts["bias"].view(-1, 1, 1)
        worst = max(worst, apart_with_gradients(adaptive_convolution(*parts.values())[0], theirs, list(parts.values())))
    return worst


def attention_of_one_is_a_convolution(_: Evidence) -> float:
    """With a bias of 60, where the sigmoid is one, and kernels of side 1, 3 and 5."""
    worst = 0.0
    for side in (1, 3, 5):
        parts = _parts(side)
        parts |= {"attention": torch.zeros_like(parts["attention"]), "shift": torch.full_like(parts["shift"], 60.0)}
        theirs = F.conv2d(parts["x"], parts["weight"], parts["bias"], padding=side // 2)
        leaves = [parts[name] for name in ("x", "weight", "bias")]
        worst = max(worst, apart_with_gradients(adaptive_convolution(*parts.values()), theirs, leaves))
    return worst


def scaled_channels_are_scaled_kernels(_: Evidence) -> float:
    """SE: features scaled by channel, then convolved, against the kernel scaled by channel."""
    layer = filled(SqueezeExcite(CHANNELS, 7))
    x = noise(1, CHANNELS, HEIGHT, WIDTH, seed="x").requires_grad_()
    scale = layer.mlp(x.mean((2, 3), keepdim=True)).sigmoid()
    theirs = F.conv2d(x, layer.conv.weight * scale, layer.conv.bias, padding=1)
    return apart_with_gradients(layer(x, Coordinates(x)), theirs, [x, *layer.parameters()])


def scaled_places_are_neighbours_attention(_: Evidence) -> float:
    """SAC-IS by its recipe against the sum of Eq. 3 with A[n, p + i', q + j'] in place of A[n, p, q, i, j]."""
    layer = filled(PerPlace(CHANNELS, 7, shared=False))
    x, at = noise(1, CHANNELS, HEIGHT, WIDTH, seed="x"), noise(1, 3, HEIGHT, WIDTH, seed="xyz")
    assert layer.conv.bias is not None
    with torch.no_grad():
        scale = layer.attention_norm(layer.attention(at)).sigmoid()
        around = F.unfold(scale, 3, padding=1).view(CHANNELS, 3, 3, HEIGHT, WIDTH).permute(0, 3, 4, 1, 2)
        theirs = plain.adaptive_sum(x[0], around, layer.conv.weight) + layer.conv.bias.view(-1, 1, 1)
        return apart(layer(x, Coordinates(at))[0], theirs)


def same_place_same_kernel(_: Evidence) -> float:
    """With constant coordinates, shifted features give a shifted map, away from the border. Infinite if they also do
    with coordinates that vary."""
    weights = list(_parts().values())[2:]
    x = noise(1, CHANNELS, 16, 24, seed="wide")
    inside = (..., slice(4, -4), slice(5, -5))
    differences = []
    for at in (torch.ones(1, 3, 16, 24, dtype=torch.float64), noise(1, 3, 16, 24, seed="at")):
        with torch.no_grad():
            moved = adaptive_convolution(x.roll(1, 3), at, *weights)
            differences.append(apart(moved[inside], adaptive_convolution(x, at, *weights).roll(1, 3)[inside]))
    return differences[0] if differences[1] > 1e-3 else math.inf


def attention_only_weakens(_: Evidence) -> float:
    """The largest amount by which an output without bias exceeds the sum of |W| |x|."""
    parts = _parts()
    with torch.no_grad():
        out = adaptive_convolution(*list(parts.values())[:-1]).abs()
        return float((out - F.conv2d(parts["x"].abs(), parts["weight"].abs(), padding=1)).max())


def norm_from_the_coordinates(_: Evidence) -> float:
    """Batch norm's statistics of the attention map, against those from the moments of the coordinates' patches."""
    parts = _parts()
    at = torch.cat([parts["coordinates"], parts["coordinates"] ** 2]) + 3
    seen = F.conv2d(at, parts["attention"], parts["shift"], padding=3)
    ours = Patches.of(at.detach(), 7).norm(parts["attention"], parts["shift"])
    theirs = seen.mean((0, 2, 3)), seen.var((0, 2, 3), correction=0)
    return apart_with_gradients(ours, theirs, [parts["attention"], parts["shift"]])


def network_is_the_published_one(_: Evidence) -> float:
    """All five levels, and every gradient in evaluation mode, against the direct transcription."""
    network = filled(build(ModelConfig(widths=(3, 4, 5, 6)), 5))
    image = noise(1, 5, 6, 32, seed="image")
    return apart_with_gradients(
        network(image), plain.squeezesegv3(network, image), list(network.parameters()), relative=True
    )


def training_is_the_published_one(_: Evidence) -> float:
    """In training mode, with batch statistics: the levels, every gradient, and the running statistics afterwards."""
    ours, theirs = (filled(build(ModelConfig(widths=(3, 4, 5, 6), dropout=0.0), 5)).train() for _ in range(2))
    image = noise(2, 5, 6, 32, seed="image")
    directions = [noise(2, 5, 6, 32 // step, seed=f"d{n}") for n, step in enumerate((1, 2, 4, 8, 8))]
    results = []
    for network, levels in ((ours, ours(image)), (theirs, plain.squeezesegv3(theirs, image))):
        gradients = torch.autograd.grad(levels, list(network.parameters()), directions)
        statistics = [norm.running_var for norm in network.modules() if isinstance(norm, nn.BatchNorm2d)]
        results.append([*levels, *gradients, *statistics])
    return max(apart(a, b, relative=True) for a, b in zip(*results, strict=True))


def only_the_width_shrinks(_: Evidence) -> float:
    """Deviations of the five levels from a height of 6 and widths of W, W/2, W/4, W/8, W/8."""
    network = build(ModelConfig(widths=(3, 4, 5, 6)), 5).eval()
    sizes = [tuple(level.shape[2:]) for level in network(torch.zeros(1, 5, 6, 32))]
    return float(sum(a != b for a, b in zip(sizes, [(6, 32), (6, 16), (6, 8), (6, 4), (6, 4)], strict=True)))


def known_directions_have_known_pixels(_: Evidence) -> float:
    """Pixels of points ahead, to the left, 3 degrees up and far below that are not where Eq. 1 has them; and pixels
    that do not show the nearest, or the farthest, of their points."""
    high, low = math.radians(3 - 1e-9), math.radians(-60)
    points = [[1, 0, 0], [2, 0, 0], [0, 1, 0], [math.cos(high), 0, math.sin(high)], [math.cos(low), 0, math.sin(low)]]
    cloud = torch.tensor([*points, [0.5, 0, 0]], dtype=torch.float64)
    wrong = 0
    for keep, shown in (("nearest", 5), ("farthest", 1)):
        seen = spherical_project(cloud, 64, 2048, keep=keep)  # type: ignore[arg-type]
        wrong += sum(
            (
                seen.column.tolist() != [1024, 1024, 512, 1024, 1024, 1024],
                seen.row.tolist()[3:5] != [0, 63],
                int(seen.index[seen.row[0], 1024]) != shown,
                int(seen.mask.sum()) != 4,
            )
        )
    return float(wrong)


def votes_are_the_public_ones(_: Evidence) -> float:
    """Points whose elected label is not that of the public definition; or is class 0, or not the only label of an
    image with one."""
    source = generator("claims", "votes")
    cloud = torch.randn(3000, 3, generator=source, dtype=torch.float64) * 6
    seen = spherical_project(cloud, 16, 64)
    ranges = seen.image(seen.range, -1.0)
    wrong = 0
    for labels in (torch.randint(5, (16, 64), generator=source), torch.full((16, 64), 3), torch.zeros(16, 64).long()):
        asked = (ranges, labels, seen.range, seen.row, seen.column, 5)
        ours = label_vote(*asked)
        wrong += int((ours != range_image.vote(*asked)).sum()) + int((ours == 0).sum())
        wrong += int((ours != 3).sum()) if (labels == 3).all() else 0
    return float(wrong)


def planted_attention(steps: int = 300, seed: int = 0) -> tuple[float, float]:
    """Errors of one SAC-ISK layer and of one convolution that learn a convolution whose kernel depends on the place."""
    torch.manual_seed(seed)
    channels, height, width = 4, 8, 32
    angle = torch.linspace(0, 2 * math.pi, width).expand(height, -1)
    at = torch.stack([angle.sin(), angle.cos(), torch.linspace(-1, 1, height).unsqueeze(1).expand(-1, width)])
    at = at.unsqueeze(0).expand(8, -1, -1, -1)
    truth = torch.randn(9 * channels, 3, 3, 3), torch.randn(9 * channels), torch.randn(channels, channels, 3, 3)
    attention, shift, kernel = (nn.Parameter(0.3 * torch.randn_like(t)) for t in truth)
    other = nn.Parameter(kernel.detach().clone())
    optimiser = torch.optim.Adam([attention, shift, kernel, other], 0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    errors = 0.0, 0.0
    for _ in range(steps):
        x = torch.randn(8, channels, height, width)
        target = adaptive_convolution(x, at, *truth)
        adaptive = (adaptive_convolution(x, at, attention, shift, kernel) - target).square().mean()
        plain_error = (F.conv2d(x, other, padding=1) - target).square().mean()
        optimiser.zero_grad()
        (adaptive + plain_error).backward()
        optimiser.step()
        schedule.step()
        errors = float(adaptive.detach()), float(plain_error.detach())
    return errors


def adaptive_layer_learns_planted_attention(_: Evidence) -> float:
    """The largest error of the adaptive layer relative to the convolution's, over three seeds."""
    errors = [planted_attention(seed=seed) for seed in range(3)]
    return max(adaptive / ordinary for adaptive, ordinary in errors)
