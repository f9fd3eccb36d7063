"""Principal components in chunks: equal to the whole decomposition, exact or to the bound that is stated."""

import math

import pytest
import torch

from vergence.ops.pca import principal, randomised, shares


def samples(count, size, seed=0, offset=5.0):
    source = torch.Generator().manual_seed(seed)
    spread = torch.linspace(3, 0.01, size, dtype=torch.float64)
    turned = torch.linalg.qr(torch.randn(size, size, generator=source, dtype=torch.float64))[0]
    return (torch.randn(count, size, generator=source, dtype=torch.float64) * spread) @ turned.mT + offset


def whole(data):
    """The definition: eigenvectors of the covariance, with a divisor of N."""
    values, vectors = torch.linalg.eigh(torch.cov(data.mT, correction=0))
    return values.flip(0), vectors.flip(1)


@pytest.mark.parametrize(("count", "size", "chunk"), [(30, 80, 7), (80, 80, 80), (200, 60, 13), (1300, 520, 100)])
def test_chunks_give_the_components_of_the_whole(count, size, chunk):
    data = samples(count, size)
    basis = principal(data.split(chunk))
    values, vectors = whole(data)
    rank = basis.rank
    assert rank == min(count - 1, size)
    assert torch.allclose(basis.mean, data.mean(0), atol=1e-12)
    assert torch.allclose(basis.variances, values[:rank], atol=1e-11)
    assert torch.allclose(basis.vectors.mT @ basis.vectors, torch.eye(rank).double(), atol=1e-11)
    assert torch.allclose(basis.vectors[:, :9].abs(), vectors[:, :9].abs(), atol=1e-7)  # up to their signs
    assert basis.total == pytest.approx(float(values.sum()), rel=1e-12)
    assert basis.kept(5) == pytest.approx(float(values[:5].sum() / values.sum()), rel=1e-12)


def test_components_agree_with_scikit_learn():
    from sklearn.decomposition import PCA

    data = samples(150, 40)
    ours, theirs = principal(data.split(40), rank=6), PCA(6, svd_solver="full").fit(data.numpy())
    assert ours.variances.numpy() * 150 / 149 == pytest.approx(theirs.explained_variance_, rel=1e-10)
    assert [ours.kept(1), ours.kept(6)] == pytest.approx(theirs.explained_variance_ratio_.cumsum()[[0, 5]], rel=1e-10)
    assert ours.vectors.mT.abs().numpy() == pytest.approx(abs(theirs.components_), abs=1e-9)


def test_a_large_mean_cancels_no_digits():
    data = samples(300, 20, offset=0.0)
    near, far = principal(data.split(50)), principal((data + 1e6).split(50))
    assert torch.allclose(near.variances, far.variances, rtol=1e-7)


@pytest.mark.parametrize(("count", "size"), [(50, 200), (400, 100)])
def test_the_randomised_components_are_within_their_bound(count, size):
    source = torch.Generator().manual_seed(1)
    data = samples(count, size) * torch.logspace(0, -2, size).double()
    values, _ = whole(data)
    found = [randomised(lambda: data.split(33), 5, source, passes, dtype=torch.float64) for passes in (2, 4, 16)]
    for basis in found:
        apart = (basis.variances[:, None] - values).abs().amin(1)
        assert float(apart.max()) <= basis.error + 1e-12
        assert torch.allclose(basis.vectors.mT @ basis.vectors, torch.eye(5).double(), atol=1e-10)
        assert basis.total == pytest.approx(float(values.sum()), rel=1e-10)
    assert found[0].error > found[1].error > found[2].error
    assert torch.allclose(found[2].variances, values[:5], rtol=1e-6)
    assert torch.allclose(found[2].mean, data.mean(0), atol=1e-10)


def test_single_precision_is_close():
    data = samples(120, 90).float()
    exact = principal(data.split(30), 4)
    found = randomised(lambda: data.split(30), 4, torch.Generator().manual_seed(0), passes=12)
    assert found.vectors.dtype == torch.float32
    assert torch.allclose(found.variances.double(), exact.variances, rtol=1e-3)


def test_components_of_bytes_need_no_conversion():
    data = torch.randint(256, (40, 30), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(principal(data.split(9)).variances, principal(data.double().split(40)).variances)


def test_the_rank_cuts_the_components():
    data = samples(100, 20)
    every, few = principal(data.split(10)), principal(data.split(10), 3)
    assert torch.equal(every.vectors[:, :3], few.vectors)
    assert torch.equal(every.leading(3).variances, few.variances)
    assert every.least(0.5) == next(d for d in range(1, 21) if every.kept(d) >= 0.5)
    assert few.least(0.999999) is None
    assert torch.allclose(few.coordinates(data).square().mean(0), few.variances)


def test_duplicates_leave_the_vectors_orthonormal():
    few = samples(4, 30)
    basis = principal([few, few, few])
    assert basis.rank == 11
    assert torch.allclose(basis.variances[3:], torch.zeros(8).double(), atol=1e-12)
    assert torch.allclose(basis.vectors.mT @ basis.vectors, torch.eye(11).double(), atol=1e-10)


def test_shares_are_those_of_the_definition():
    vectors = torch.linalg.qr(samples(12, 12, offset=0))[0]
    directions = samples(5, 12, 3, offset=0)
    curve = shares(directions, vectors)
    for n, d in ((0, 1), (2, 7), (4, 12)):
        inside = sum(float(directions[n] @ vectors[:, i]) ** 2 for i in range(d))
        assert float(curve[n, d - 1]) == pytest.approx(inside / float(directions[n].square().sum()))
    assert (curve.diff(dim=1) >= 0).all()
    assert torch.allclose(curve[:, -1], torch.ones(5).double())
    assert shares(torch.zeros(1, 12).double(), vectors).isnan().all()


@pytest.mark.parametrize(
    ("chunks", "rank", "said"),
    [
        ([], None, "no samples"),
        ([torch.zeros(1, 5)], None, "two or more samples"),
        ([torch.full((9, 5), 0.3)], None, "all samples are the same"),
        ([torch.full((3, 50), 0.3)], None, "all samples are the same"),
        ([torch.rand(9, 5)], 6, "9 samples of 5 numbers have 1 to 5 principal components, 6 are asked for"),
        ([torch.rand(9, 50)], 9, "1 to 8 principal components"),
        ([torch.rand(9, 5), torch.rand(9, 6)], None, r"chunks \(n, 5\), got \(9, 6\)"),
        ([torch.rand(9)], None, "chunks"),
        ([torch.full((9, 5), math.nan)], None, "not finite"),
    ],
)
def test_what_has_no_components_is_refused(chunks, rank, said):
    with pytest.raises(ValueError, match=said):
        principal(chunks, rank)
    with pytest.raises(ValueError, match=said):
        randomised(lambda: chunks, rank or 2, torch.Generator())


def test_one_pass_is_not_enough():
    with pytest.raises(ValueError, match="two or more passes"):
        randomised(lambda: [torch.rand(9, 5)], 2, torch.Generator(), passes=1)
