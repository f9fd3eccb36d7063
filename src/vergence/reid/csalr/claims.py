"""The paper's claims, as tests that can fail."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from vergence.contract.claims import Claim, Evidence, above, compared_models, faster, lighter
from vergence.contract.evidence import ROUNDING, apart, apart_with_gradients, filled, noise
from vergence.nn import CompressedSelfAttentionLowRank2d, SelfAttention2d
from vergence.ops import Patches, sampled
from vergence.ops.lowrank import landmark_block
from vergence.reference import self_attention as plain
from vergence.reid.csalr.bench import DENSE, DENSE_NETWORK, LARGER
from vergence.reid.csalr.model import PartNetwork, attended
from vergence.reid.csalr.pictures import compressed, errors
from vergence.reid.synth import population


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


def least_singular_value(_: Evidence) -> float:
    """The smallest singular value of Eq. 16 over blocks of 96 landmarks with logits of deviation 0.1 to 10."""
    least = float("inf")
    for number, scale in enumerate((0.1, 0.3, 1.0, 3.0, 10.0) * 4):
        query, key = noise(96, 16, seed=f"q{number}"), noise(96, 16, seed=f"k{number}")
        block = landmark_block(scale / 4 * query, key)
        least = min(least, float(torch.linalg.svdvals(block).min()))
    return least


def _errors(network: PartNetwork) -> dict[int, float]:
    """Error of CSALR's attention maps by number of landmarks: first stage of a trained network, held-out pictures."""
    people = population(4, 96, 56, "test")
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
_NORM = "of the map's norm"

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
    faster("csalr-fast", "CSALR on 96 x 32 positions is at least 4 times as fast as self-attention, forward and "
           "backward.", "Secs. 3.2 and 4.7", "module", DENSE, threshold=4),
    lighter("csalr-light", "CSALR on 96 x 32 positions holds at most a fifth of what self-attention holds.",
            "Secs. 3.2 and 4.7", "module", DENSE, threshold=5),
    faster("csalr-linear-time", "4 times the positions take about 4 times the time (self-attention: 16 times).",
           "Sec. 3.2", "growth", LARGER, threshold=6, sense="at most"),
    lighter("csalr-linear-memory", "4 times the positions hold about 4 times the memory (self-attention: 16 times).",
            "Sec. 3.2", "growth", LARGER, threshold=5, sense="at most"),
    faster("network-fast", "PCB with CSALR gives descriptors faster than PCB with self-attention.", "Table 5",
           "network-2-groups", DENSE_NETWORK, threshold=1, sense="above", paper="1.73"),
    lighter("network-light", "PCB with CSALR trains in less memory than PCB with self-attention.", "Table 5",
            "training-2-groups", DENSE_NETWORK, threshold=1, sense="above", paper="1.56"),
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
    compared_models("more-landmarks", "More landmarks bring the approximation closer to the whole attention map (24 "
                    "against 3).", "Sec. 4.4", {"csalr": "csalr"}, more_landmarks_are_closer, unit=_NORM),
    compared_models("reconstruction", "A few landmarks reconstruct the attention map: less than half of its norm is "
                    "missed.", "Sec. 4.8", {"csalr": "csalr"}, lambda of: _errors(of["csalr"])[12], threshold=0.5,
                    sense="below", unit=_NORM),
)  # fmt: skip
