"""What the paper says that can be found false."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from vergence.contract.claims import Claim, Evidence, Needs, above
from vergence.core.seeding import generator
from vergence.nn import CompressedSelfAttentionLowRank2d, SelfAttention2d
from vergence.ops import Patches, sampled
from vergence.ops.lowrank import landmark_block
from vergence.reference import self_attention as plain
from vergence.reid.csalr import approximation
from vergence.reid.csalr.bench import GROWTH, MODULE, NETWORK, TRAINING, contests
from vergence.reid.csalr.model import PartNetwork, attended
from vergence.reid.synth import population

ROUNDING = 1e-10
"""What float64 may differ by when two ways to compute one thing agree."""


def _normal(name: str, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator("claims", name), dtype=torch.float64)


def _module(grid: tuple[int, int], groups: int = 1) -> CompressedSelfAttentionLowRank2d:
    """CSALR on 8 channels, in float64, with its gate open."""
    made = CompressedSelfAttentionLowRank2d(8, grid=grid, groups=groups).double()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            parameter.copy_(0.5 * _normal(name, *parameter.shape))
        made.alpha.fill_(0.7)
    return made


def _worst(ours: Tensor, theirs: Tensor, leaves: Sequence[Tensor]) -> float:
    """The largest difference of two results and of their gradients."""
    probe = _normal("probe", *ours.shape)
    pairs = [(ours, theirs)]
    pairs += zip(torch.autograd.grad(ours, leaves, probe), torch.autograd.grad(theirs, leaves, probe), strict=True)
    return max(float((a - b).detach().abs().max()) for a, b in pairs)


def sampling_is_exact(_: Evidence) -> float:
    """A matrix of rank 5, neither symmetric nor definite, from 5 of its rows and 5 other columns."""
    matrix = _normal("left", 30, 5) @ _normal("right", 5, 30)
    found = sampled(matrix, torch.tensor([2, 9, 11, 20, 28]), torch.tensor([0, 3, 14, 15, 25]))
    z = _normal("z", 30, 4)
    return max(float((found.dense() - matrix).abs().max()), float((found @ z - matrix @ z).abs().max()))


def csalr_is_its_definition(_: Evidence) -> float:
    """Against the n x n matrix with an explicit inverse; 7 x 5 positions do not divide by 3 x 2 patches."""
    module, x = _module((3, 2)), _normal("x", 2, 8, 7, 5).requires_grad_()
    query, key, value = (cast(nn.Conv2d, getattr(module, n))(x).flatten(2).mT for n in ("query", "key", "value"))
    mixed = plain.csalr(query, key, value, plain.rectangles(7, 5, 3, 2)).mT.reshape(x.shape)
    return _worst(module(x), x + module.alpha * mixed, [x, *module.parameters()])


def all_landmarks_are_self_attention(_: Evidence) -> float:
    """With as many landmarks as positions, against self-attention with the same weights."""
    module, x = _module((6, 4)), _normal("x", 2, 8, 6, 4)
    whole = SelfAttention2d(8).double()
    whole.load_state_dict(module.state_dict())
    return float((module(x) - whole(x)).detach().abs().max())


def alike_neighbours_are_exact(_: Evidence) -> float:
    """Queries that are the same within each patch, and keys that are not."""
    patches = Patches(8, 6, 4, 3)
    query, key = patches.spread(_normal("query", 2, 12, 5)), _normal("key", 2, 48, 5)
    found = approximation.compressed("csalr", query, key, patches).dense()
    return float((found - plain.softmax_matrix(query, key)).abs().max())


def least_singular_value(_: Evidence) -> float:
    """The smallest singular value of Eq. 16 over blocks of 96 landmarks with logits of deviation 0.1 to 10."""
    least = float("inf")
    for number, scale in enumerate((0.1, 0.3, 1.0, 3.0, 10.0) * 4):
        query, key = _normal(f"q{number}", 96, 16), _normal(f"k{number}", 96, 16)
        block = landmark_block(scale / 4 * query, key)
        least = min(least, float(torch.linalg.svdvals(block).min()))
    return least


def faster_than_dense(evidence: Evidence) -> Sequence[float]:
    return evidence.times(MODULE)["SA, dense"]


def lighter_than_dense(evidence: Evidence) -> float:
    return evidence.memory(MODULE)["SA, dense"]


def time_growth(evidence: Evidence) -> Sequence[float]:
    return evidence.times(GROWTH)["4 times the positions"]


def memory_growth(evidence: Evidence) -> float:
    return evidence.memory(GROWTH)["4 times the positions"]


def network_faster(evidence: Evidence) -> Sequence[float]:
    return evidence.times(_listed(f"{NETWORK}, 2 groups"))["PCB + SA, dense"]


def network_lighter(evidence: Evidence) -> float:
    return evidence.memory(_listed(f"{TRAINING}, 2 groups"))["PCB + SA, dense"]


def _listed(start: str) -> str:
    return next(contest.name for contest in contests() if contest.name.startswith(start))


SEEDS = range(5)


def _errors(evidence: Evidence, seed: int) -> dict[int, float]:
    """Of a trained network's first stage on held-out pictures: error of CSALR's maps by number of landmarks."""
    network = cast(PartNetwork, evidence.model(Needs("csalr", seed)))
    people = population(4, 96, 56, "test")
    pictures = (people.pictures[:8].float() / 255 - 0.4) / 0.25
    with torch.no_grad():
        seen = attended(network, pictures, [(0.5, 0.5)])[2]
        module = cast(SelfAttention2d, network.attention["layer1"])
        return dict(approximation.errors(module, seen["layer1"], [(3, 1), (3, 2), (6, 2), (6, 4)])["csalr"])


def more_landmarks_are_closer(evidence: Evidence) -> Sequence[float]:
    """By how much twice the landmarks lower the error against a quarter of them."""
    found = [_errors(evidence, seed) for seed in SEEDS]
    return [errors[3] - errors[24] for errors in found]


def reconstruction(evidence: Evidence) -> Sequence[float]:
    return [_errors(evidence, seed)[12] for seed in SEEDS]


_TRAINED = tuple(Needs("csalr", seed) for seed in SEEDS)
_POINTS = "points of mAP"

CLAIMS = (
    Claim("sampling-exact", "Sampled rows and columns give a matrix exactly when the block where they cross has its "
          "rank.", "Eq. 9", "exact", sampling_is_exact, ROUNDING),
    Claim("csalr-definition", "CSALR is the low-rank approximation of the attention map applied to the values, forward "
          "and backward.", "Eqs. 13-17", "exact", csalr_is_its_definition, ROUNDING),
    Claim("csalr-all-landmarks", "With as many landmarks as positions CSALR is self-attention.", "Eqs. 10-17", "exact",
          all_landmarks_are_self_attention, ROUNDING),
    Claim("csalr-alike-neighbours", "Where the queries of a patch are the same, the approximation is exact.",
          "Sec. 3.2", "exact", alike_neighbours_are_exact, ROUNDING),
    Claim("block-invertible", "With the indicator, the block of landmarks always has an inverse.", "Eq. 16", "exact",
          least_singular_value, 0, "above"),
    Claim("csalr-fast", "CSALR on 96 x 32 positions is at least 4 times as fast as self-attention, forward and "
          "backward.", "Secs. 3.2 and 4.7", "cost", faster_than_dense, 4, "at least", "times"),
    Claim("csalr-light", "CSALR on 96 x 32 positions holds at most a fifth of what self-attention holds.",
          "Secs. 3.2 and 4.7", "cost", lighter_than_dense, 5, "at least", "times"),
    Claim("csalr-linear-time", "4 times the positions take about 4 times the time (self-attention: 16 times).",
          "Sec. 3.2", "cost", time_growth, 6, "at most", "times"),
    Claim("csalr-linear-memory", "4 times the positions hold about 4 times the memory (self-attention: 16 times).",
          "Sec. 3.2", "cost", memory_growth, 5, "at most", "times"),
    Claim("network-fast", "PCB with CSALR gives descriptors faster than PCB with self-attention.", "Table 5", "cost",
          network_faster, 1, "above", "times", "1.73"),
    Claim("network-light", "PCB with CSALR trains in less memory than PCB with self-attention.", "Table 5", "cost",
          network_lighter, 1, "above", "times", "1.56"),
    above("sa-above-none", "Self-attention finds people better than none.", "Table 1", better="sa", worse="none",
          metric="map", unit=_POINTS, paper="+4.8"),
    above("csalr-above-none", "CSALR finds people better than no attention.", "Table 1", better="csalr", worse="none",
          metric="map", unit=_POINTS, paper="+5.0"),
    above("csalr-not-below-sa", "CSALR is not worse than self-attention by more than a point.", "Table 1",
          better="csalr", worse="sa", metric="map", margin=-1.0, unit=_POINTS, paper="+0.2"),
    above("csalr-above-csa", "CSALR finds people better than CSA.", "Table 1", better="csalr", worse="csa",
          metric="map", unit=_POINTS, paper="+0.1"),
    above("shallow-above-deep", "CSALR after the first stage is worth more than after the second and third.",
          "Table 4", better="csalr-shallow", worse="csalr-deep", metric="map", unit=_POINTS, paper="+0.5"),
    Claim("more-landmarks", "More landmarks bring the approximation closer to the whole attention map (24 against 3).",
          "Sec. 4.4", "empirical", more_landmarks_are_closer, 0, "above", "of the map's norm", needs=_TRAINED),
    Claim("reconstruction", "A few landmarks reconstruct the attention map: less than half of its norm is missed.",
          "Sec. 4.8", "empirical", reconstruction, 0.5, "below", "of the map's norm", needs=_TRAINED),
)  # fmt: skip
