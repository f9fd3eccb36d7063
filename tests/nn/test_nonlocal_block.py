"""Nonlocal blocks: their formulas, their start as the identity, and that they learn from there."""

import pytest
import torch

from saccade.errors import SaccadeError
from saccade.nn import Nonlocal, NonlocalStage, SpectralNonlocal
from saccade.reference import nonlocal_block as plain

BLOCKS = [Nonlocal, NonlocalStage, SpectralNonlocal]


def filled(kind, channels=8):
    """A block in float64 whose BatchNorm no longer hides it."""
    torch.manual_seed(0)
    block = kind(channels).double().eval()
    torch.nn.init.normal_(block.norm.weight)
    return block


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("spatial", [(11,), (4, 5), (2, 3, 4)])
def test_any_number_of_dimensions_gives_the_definition(kind, spatial):
    block = filled(kind)
    x = torch.randn(2, 8, *spatial, dtype=torch.float64)
    weights = [m.weight for m in (block.theta, block.phi, block.g)]
    weights += [block.w1.weight, block.w2.weight] if kind is SpectralNonlocal else [block.w.weight]
    formula = {Nonlocal: plain.nl, NonlocalStage: plain.ns, SpectralNonlocal: plain.snl}[kind]
    expected = formula(x.flatten(2).mT, *weights).mT / (1 + block.norm.eps) ** 0.5  # fresh running statistics
    expected = x + (expected * block.norm.weight[:, None]).reshape(x.shape)
    torch.testing.assert_close(block(x), expected)


@pytest.mark.parametrize("kind", BLOCKS)
def test_it_starts_as_the_identity_to_the_last_bit_and_every_parameter_moves(kind):
    torch.manual_seed(0)
    block = kind(8)
    x = torch.randn(2, 8, 5, 5)
    assert torch.equal(block(x), x)
    before = {name: p.detach().clone() for name, p in block.named_parameters()}
    optimiser = torch.optim.SGD(block.parameters(), lr=0.1)
    for _ in range(2):
        optimiser.zero_grad()
        ((block(x) - x.flip(-1)) ** 2).mean().backward()
        optimiser.step()
    assert [name for name, p in block.named_parameters() if torch.equal(p, before[name])] == []


@pytest.mark.parametrize("kind", BLOCKS)
def test_attention_gives_the_rows_of_the_affinity_as_maps(kind):
    block = filled(kind)
    x = torch.randn(2, 8, 3, 4, dtype=torch.float64)
    affinity = plain.spectral_affinity if kind is SpectralNonlocal else plain.softmax_affinity
    dense = affinity(x.flatten(2).mT, block.theta.weight, block.phi.weight)
    index = torch.tensor([7, 0])
    torch.testing.assert_close(block.attention(x, index), dense[:, index].reshape(2, 2, 3, 4))


@pytest.mark.parametrize("kind", BLOCKS)
def test_permuting_the_positions_permutes_the_output(kind):
    block, x = filled(kind), torch.randn(2, 8, 15, dtype=torch.float64)
    order = torch.randperm(15, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(block(x)[..., order], block(x[..., order]))


@pytest.mark.parametrize(("kind", "expected"), [(Nonlocal, 8320), (NonlocalStage, 8320), (SpectralNonlocal, 10368)])
def test_parameters_are_as_published(kind, expected):
    assert sum(p.numel() for p in kind(64).parameters()) == expected


def test_no_channels_is_refused():
    with pytest.raises(SaccadeError, match="channels=0"):
        Nonlocal(0)
