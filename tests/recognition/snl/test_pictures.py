"""Spectra and responses against what the theory says of them."""

import pytest
import torch

from vergence.nn import BLOCKS
from vergence.recognition.snl.model import build
from vergence.recognition.snl.pictures import _first, eigenvalues, response
from vergence.recognition.snl.settings import ModelConfig

SPECTRAL = ("snl", "gsnl", "chebysnl", "cayleysnl", "cayleysnl-relu", "cayleyexact")


def block_of(name, channels=6):
    torch.manual_seed(0)
    block = BLOCKS[name](channels, 3).double().eval()
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return block


@pytest.mark.parametrize("name", list(BLOCKS))
def test_eigenvalues_are_those_of_the_matrix_but_for_zeros(name):
    block = block_of(name)
    x = torch.randn(2, 6, 4, 5, dtype=torch.float64)
    found = eigenvalues(block, x)
    matrix = block.affinity(x.flatten(2).mT, (4, 5)).dense()
    expected = torch.linalg.eigvals(matrix).flatten(1)
    for ours, theirs in zip(found, expected, strict=False):
        for power in (1, 2, 3):  # sums of powers fix a spectrum, and zeros add nothing to them
            scale = float(theirs.abs().max()) ** power * len(theirs) + 1
            assert abs((ours**power).sum() - (theirs**power).sum()) < 1e-9 * scale


@pytest.mark.parametrize("name", SPECTRAL)
def test_symmetric_normalised_affinities_have_real_eigenvalues_within_one(name):
    found = eigenvalues(block_of(name), torch.randn(2, 6, 4, 5, dtype=torch.float64))
    assert found.imag.abs().max() < 1e-9
    assert found.real.abs().max() <= 1 + 1e-9


@pytest.mark.parametrize("name", ["nl", "nl-concatenation", "snl-softmax"])
def test_an_untrained_network_on_a_constant_clip_has_a_spectrum(name):
    """PyTorch's solver does not converge for its matrix, most of whose eigenvalues are the same."""
    torch.manual_seed(0)
    network = build(ModelConfig("vtn-tiny", name, dropout=0.0), 4).eval()
    block, x = _first(network, torch.zeros(2, 4, 3, 40, 40))
    found = eigenvalues(block, x)
    matrix = block.affinity(x.flatten(2).mT, x.shape[2:]).dense().detach()
    torch.testing.assert_close(found.sum(1).real, matrix.diagonal(dim1=-2, dim2=-1).sum(1))


@pytest.mark.parametrize("name", ["nl", "snl", "cgnl"])
def test_what_is_not_a_number_has_no_spectrum(name):
    assert eigenvalues(block_of(name), torch.full((1, 6, 3, 3), torch.nan, dtype=torch.float64)) is None


def test_too_many_positions_for_a_matrix_are_left_out():
    assert eigenvalues(block_of("nl"), torch.randn(1, 6, 50, 50, dtype=torch.float64)) is None


@pytest.mark.parametrize("name", ["nl", "ns", "snl", "gsnl", "chebysnl", "cayleysnl-relu", "cayleyexact"])
def test_the_response_is_what_the_block_does_to_an_eigenvector(name):
    """On a graph with eigenvector v, a signal v cᵀ comes out as v (c R(λ))ᵀ."""
    block = block_of(name)
    source = torch.Generator().manual_seed(1)
    symmetric = torch.randn(5, 5, generator=source, dtype=torch.float64)
    values, vectors = torch.linalg.eigh((symmetric + symmetric.mT) / 10)
    from vergence.ops import DenseAffinity

    with torch.no_grad():
        gains = []
        for k in range(5):
            z = block.g(torch.eye(6, dtype=torch.float64))  # a channel a sample
            signal = vectors[:, k][None, :, None] * z[:, None, :]
            out = block.filter(DenseAffinity(((symmetric + symmetric.mT) / 10).expand(6, 5, 5)), signal, signal)
            along = torch.einsum("n,bnc->bc", vectors[:, k], out)
            scale = block.norm.weight / (block.norm.running_var + block.norm.eps).sqrt()
            gains.append(torch.linalg.svdvals(torch.eye(6, dtype=torch.float64) + along * scale))
    torch.testing.assert_close(response(block, values), torch.stack(gains))


def test_a_new_block_has_a_gain_of_one_everywhere():
    for name in BLOCKS:
        fresh = BLOCKS[name](6, 3).double().eval()
        gains = response(fresh, torch.linspace(-1, 1, 5, dtype=torch.float64))
        torch.testing.assert_close(gains, torch.ones_like(gains))
