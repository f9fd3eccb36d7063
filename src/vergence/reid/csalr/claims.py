"""The paper's claims, as tests that can fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from vergence.contract.claims import Claim, Evidence, above, compared_models, faster, lighter
from vergence.contract.evidence import ROUNDING, apart, apart_with_gradients, filled, noise
from vergence.nn import CompressedSelfAttentionLowRank2d, SelfAttention2d
from vergence.ops import Patches, sampled
from vergence.ops.lowrank import landmark_block, plain_block, solve
from vergence.reference import self_attention as plain
from vergence.reid.crowds import population
from vergence.reid.csalr.bench import DENSE, DENSE_NETWORK, LARGER, PCB
from vergence.reid.csalr.model import PartNetwork, attended
from vergence.reid.csalr.pictures import compressed, errors


def _module(grid: tuple[int, int]) -> CompressedSelfAttentionLowRank2d:
    """CSALR on 8 channels, filled with noise, with its gate open."""
    module = filled(CompressedSelfAttentionLowRank2d(8, grid=grid, groups=1))
    torch.nn.init.constant_(module.alpha, 0.7)
    return module


def sampling_is_exact(_: Evidence) -> float:
    """A matrix of rank 5, neither symmetric nor definite, from 5 of its rows and 5 other columns."""
    matrix = noise(30, 5, seed="left") @ noise(5, 30, seed="right")
    approximation = sampled(matrix, torch.tensor([2, 9, 11, 20, 28]), torch.tensor([0, 3, 14, 15, 25]))
    z = noise(30, 4, seed="z")
    return max(apart(approximation.dense(), matrix), apart(approximation @ z, matrix @ z))


def csalr_is_its_definition(_: Evidence) -> float:
    """Against the n x n matrix with an explicit inverse; 7 x 5 positions do not divide by 3 x 2 patches."""
    module, x = _module((3, 2)), noise(2, 8, 7, 5, seed="x").requires_grad_()
    query, key, value = (layer(x).flatten(2).mT for layer in (module.query, module.key, module.value))
    mixed = plain.csalr(query, key, value, plain.rectangles(7, 5, 3, 2)).mT.reshape(x.shape)
    return apart_with_gradients(module(x), x + module.alpha * mixed, [x, *module.parameters()])


def all_landmarks_are_self_attention(_: Evidence) -> float:
    """With as many landmarks as positions, against self-attention with the same weights."""
    module, x = _module((6, 4)), noise(2, 8, 6, 4, seed="x")
    whole = SelfAttention2d(8).double()
    whole.load_state_dict(module.state_dict())
    return apart(module(x), whole(x))


def alike_neighbours_are_exact(_: Evidence) -> float:
    """Queries that are the same within each patch, and keys that are not."""
    patches = Patches(8, 6, 4, 3)
    query, key = patches.spread(noise(2, 12, 5, seed="query")), noise(2, 48, 5, seed="key")
    return apart(compressed("csalr", query, key, patches).dense(), plain.softmax_matrix(query, key))


LANDMARKS = 96


def _landmarks() -> Iterator[tuple[Tensor, Tensor]]:
    """Queries and keys of landmarks with logits of deviation 0.1 to 10; then of landmarks in pairs that attend more
    and more to each other, until the softmax is saturated."""
    for number, scale in enumerate((0.1, 0.3, 1.0, 3.0, 10.0) * 4):
        yield scale / 4 * noise(LANDMARKS, 16, seed=f"q{number}"), noise(LANDMARKS, 16, seed=f"k{number}")
    alone = torch.eye(LANDMARKS, dtype=torch.float64)
    for scale in (10.0, 30.0, 100.0, 1000.0):
        yield scale * alone[torch.arange(LANDMARKS) ^ 1], alone


def least_singular_value(_: Evidence) -> float:
    """The smallest singular value relative to the largest of Eq. 16 as printed, over blocks in float64."""
    least = float("inf")
    for query, key in _landmarks():
        values = torch.linalg.svdvals(plain_block(query, key) + torch.eye(LANDMARKS, dtype=torch.float64))
        least = min(least, float(values.min() / values.max()))
    return least


def solutions_that_fail(_: Evidence) -> float:
    """The number of solutions with our block that are not finite, in float32 and float64."""
    failed = 0
    for query, key in _landmarks():
        for dtype in (torch.float32, torch.float64):
            block = landmark_block(query.to(dtype), key.to(dtype))
            failed += int((~solve(block, torch.eye(LANDMARKS, dtype=dtype)).isfinite()).sum())
    return float(failed)


def _errors(network: PartNetwork) -> dict[int, float]:
    """Error of CSALR's attention maps by number of landmarks: first stage of a trained network, held-out pictures."""
    people = population(4, 96, 48, "test", shots=1)
    pictures = (people.pictures[:8].float() / 255 - 0.4) / 0.25
    with torch.no_grad():
        seen = attended(network, pictures, [(0.5, 0.5)])[2]
        grids = [(3, 1), (3, 2), (6, 2), (6, 4)]
        return dict(errors(network.attention_after("layer1"), seen["layer1"], grids)["csalr"])


def more_landmarks_are_closer(of: Mapping[str, PartNetwork]) -> float:
    """Reduction of the error from 3 to 24 landmarks."""
    by_landmarks = _errors(of["csalr"])
    return by_landmarks[3] - by_landmarks[24]


_POINTS = "points of mAP"
_SEEDS = 3
_NORM = "of the map's norm"

CLAIMS = (
    Claim("sampling-exact", "Sampled rows and columns give a matrix exactly when the block where they cross has its "
          "rank.", "Eq. 9", "exact", sampling_is_exact, ROUNDING),
    Claim("csalr-definition", "CSALR is the low-rank approximation of the attention map applied to the values, forward "
          "and backward.", "Eqs. 13-17", "check", csalr_is_its_definition, ROUNDING),
    Claim("csalr-all-landmarks", "With as many landmarks as positions CSALR is self-attention.", "Eqs. 10-17", "check",
          all_landmarks_are_self_attention, ROUNDING),
    Claim("csalr-alike-neighbours", "Where the queries of a patch are the same, the approximation is exact.",
          "Sec. 3.2", "check", alike_neighbours_are_exact, ROUNDING),
    Claim("block-invertible", "With the indicator, the block of landmarks always has an inverse.", "Eq. 16", "exact",
          least_singular_value, LANDMARKS * torch.finfo(torch.float64).eps, "above",
          "of the largest singular value (less is rounding)"),
    Claim("block-solved", "Our block, kept above the unit of rounding, is solved with finite numbers even where two "
          "landmarks attend only to each other.", "Eq. 16", "check", solutions_that_fail, 0),
    faster("csalr-fast", "CSALR on 96 x 32 positions is at least 4 times as fast as self-attention, forward and "
           "backward.", "Secs. 3.2 and 4.7", "module", DENSE, threshold=4),
    lighter("csalr-light", "CSALR on 96 x 32 positions holds at most a fifth of what self-attention holds.",
            "Secs. 3.2 and 4.7", "module", DENSE, threshold=5),
    faster("csalr-linear-time", "4 times the positions take about 4 times the time (self-attention: 16 times).",
           "Sec. 3.2", "growth", LARGER, threshold=6, sense="at most"),
    lighter("csalr-linear-memory", "4 times the positions hold about 4 times the memory (self-attention: 16 times).",
            "Sec. 3.2", "growth", LARGER, threshold=5, sense="at most"),
    faster("network-fast", "PCB with CSALR gives descriptors 1.73 times as fast as PCB with self-attention.", "Table 5",
           "network-2-groups", DENSE_NETWORK, threshold=1.73, paper="1.73"),
    lighter("network-light", "PCB with self-attention trains in 1.56 times the memory of PCB with CSALR.", "Table 5",
            "training-2-groups", DENSE_NETWORK, threshold=1.56, paper="1.56"),
    faster("network-cost-time", "CSALR in one group lowers PCB's throughput by 13 % at most.", "Table 5",
           "network-1-group", PCB, threshold=0.87, paper="0.87 (-12.7 %)"),
    lighter("network-cost-memory", "CSALR in one group raises PCB's memory in training by 20 % at most.", "Table 5",
            "training-1-group", PCB, threshold=1 / 1.2, paper="0.83 (+19.9 %)"),
    above("sa-above-none", "Self-attention finds people better than none.", "Table 1", better="sa", worse="none",
          metric="map", seeds=_SEEDS, unit=_POINTS, paper="+4.8"),
    above("csalr-above-none", "CSALR finds people better than no attention.", "Table 1", better="csalr", worse="none",
          metric="map", seeds=_SEEDS, unit=_POINTS, paper="+5.0"),
    above("csalr-not-below-sa", "CSALR is not worse than self-attention by more than a point.", "Table 1",
          better="csalr", worse="sa", metric="map", seeds=_SEEDS, margin=-1.0, unit=_POINTS, paper="+0.2"),
    above("csalr-above-csa", "CSALR finds people better than CSA.", "Table 1", better="csalr", worse="csa",
          metric="map", seeds=_SEEDS, unit=_POINTS, paper="+0.1"),
    above("csalr-above-nearest", "CSALR finds people better than its control, in which each position takes the output "
          "of its own landmark: the inverse is worth something.", "Sec. 3.2 (our control)", better="csalr",
          worse="nearest", metric="map", seeds=_SEEDS, unit=_POINTS),
    above("shallow-above-deep", "CSALR after the first stage is worth more than after the second and third.",
          "Table 4", better="csalr-shallow", worse="csalr-deep", metric="map", seeds=_SEEDS, unit=_POINTS,
          paper="+0.5"),
    compared_models("more-landmarks", "More landmarks bring the approximation closer to the whole attention map (24 "
                    "against 3).", "Sec. 4.4", {"csalr": "csalr"}, more_landmarks_are_closer, seeds=_SEEDS, unit=_NORM),
    compared_models("reconstruction", "A few landmarks reconstruct the attention map: less than half of its norm is "
                    "missed.", "Sec. 4.8", {"csalr": "csalr"}, lambda of: _errors(of["csalr"])[12], threshold=0.5,
                    sense="below", seeds=_SEEDS, unit=_NORM),
)  # fmt: skip
