"""Principal components of data that comes in chunks, exact or randomised, and the share of a direction in them.

::

    basis = principal(images.split(500), rank=300)         # exact, in one pass and float64
    basis.kept(300)                                        # share of the variance, such as 0.9685
    shares(gradients, basis.vectors)[:, 299]               # how much of each gradient lies in the 300 components

The exact form needs no more memory than a D x D matrix, however many samples there are. Where that is too large (a
picture of 224 x 224 has D = 150,528), :func:`randomised` needs only D x rank, and bounds its own error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

BLOCK = 512
"""Columns of a block of the covariance: only blocks on and above the diagonal are computed."""


@dataclass(frozen=True)
class Basis:
    """The leading principal components of samples of D numbers."""

    mean: Tensor
    """(D,)."""
    vectors: Tensor
    """(D, rank), orthonormal columns by descending variance."""
    variances: Tensor
    """(rank,), with a divisor of N."""
    total: float
    """The variance of the samples in all D directions together."""
    count: int
    """N, the number of samples."""
    error: float = 0.0
    """Randomised: a bound. Every variance is within ``error`` of one of the exact covariance."""

    @property
    def dimensions(self) -> int:
        return len(self.mean)

    @property
    def rank(self) -> int:
        return self.vectors.shape[1]

    def kept(self, components: int) -> float:
        """The share of the variance in the leading components."""
        return float(self.variances[:components].double().sum()) / self.total

    def least(self, share: float) -> int | None:
        """The smallest number of components that keeps a share of the variance; None if all of them keep less."""
        enough = (self.variances.double().cumsum(0) >= share * self.total).nonzero()
        return int(enough[0]) + 1 if len(enough) else None

    def coordinates(self, samples: Tensor) -> Tensor:
        """Centred samples (..., D) in the components, (..., rank)."""
        return (samples - self.mean.to(samples)) @ self.vectors.to(samples)

    def leading(self, rank: int) -> Basis:
        """The first components alone."""
        return replace(self, vectors=self.vectors[:, :rank], variances=self.variances[:rank])


def shares(directions: Tensor, vectors: Tensor) -> Tensor:
    """Of directions (N, D), the share of the squared length in the first 1, 2, ... of orthonormal vectors (D, r).

    One product gives all curves, (N, r): from 0 to 1, and 1 at r = D. NaN for a direction of length zero.
    """
    inside = (directions @ vectors).square().cumsum(-1)
    return inside / directions.square().sum(-1, keepdim=True)


# Exact ----------------------------------------------------------------------------------------------------------------


def principal(chunks: Iterable[Tensor], rank: int | None = None) -> Basis:
    """The exact principal components, in float64, of chunks (n, D) of any type; all of them, or the first ``rank``.

    With fewer samples than dimensions, the N x N matrix of inner products gives the same components as the covariance.
    """
    waiting: list[Tensor] = []
    stream = _checked(chunks)
    for chunk in stream:
        waiting.append(chunk.double())
        if sum(map(len, waiting)) > chunk.shape[1]:
            break
    if not waiting:
        raise ValueError("there are no samples to find principal components of")
    count, size = sum(map(len, waiting)), waiting[0].shape[1]
    if count <= size:
        return _from_products(torch.cat(waiting), rank)
    return _from_covariance(waiting, (chunk.double() for chunk in stream), rank)


def _from_products(samples: Tensor, rank: int | None) -> Basis:
    """From the inner products of centred samples (N, D), N <= D."""
    count = len(samples)
    wanted = _wanted(rank, count, samples.shape[1])
    mean = samples.mean(0)
    centred = samples.sub_(mean)
    values, vectors = _leading(centred @ centred.mT / count, wanted)
    total = _spread(float(centred.square().sum()) / count, float(mean.square().sum()))
    # The products lose digits of components with little variance: QR makes them orthonormal again.
    axes, sizes = torch.linalg.qr(centred.mT @ vectors)
    return Basis(mean, _oriented(axes * sizes.diagonal().sign().where(sizes.diagonal() != 0, 1)), values, total, count)


def _from_covariance(first: list[Tensor], others: Iterable[Tensor], rank: int | None) -> Basis:
    shift = torch.cat(first).mean(0)  # a first guess of the mean, so that nothing large cancels
    moment = shift.new_zeros(len(shift), len(shift))
    drift, count = torch.zeros_like(shift), 0
    for chunk in _drained(first, others):
        moved = chunk - shift
        for start in range(0, len(shift), BLOCK):
            columns = slice(start, start + BLOCK)
            moment[columns, start:].addmm_(moved[:, columns].mT, moved[:, start:])
        drift += moved.sum(0)
        count += len(chunk)
    wanted = _wanted(rank, count, len(shift))
    drift /= count
    covariance = moment.triu_().div_(count)
    covariance.sub_(torch.outer(drift, drift).triu_())
    mean = shift + drift
    total = _spread(float(covariance.trace()), float(mean.square().sum()))
    values, vectors = _leading(covariance, wanted, "U")
    return Basis(mean, _oriented(vectors), values, total, count)


def _drained(first: list[Tensor], others: Iterable[Tensor]) -> Iterator[Tensor]:
    """The chunks that were read already, each freed after use, and then the others."""
    while first:
        yield first.pop(0)
    yield from others


def _leading(matrix: Tensor, wanted: int, half: str = "L") -> tuple[Tensor, Tensor]:
    """The largest eigenvalues of a symmetric matrix in descending order, and their vectors."""
    values, vectors = torch.linalg.eigh(matrix, half)
    return values.flip(0)[:wanted].clamp(min=0), vectors.flip(1)[:, :wanted]


def _oriented(vectors: Tensor) -> Tensor:
    """Each column with the sign that makes its largest entry positive."""
    largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
    return vectors * largest.sign()


def _wanted(rank: int | None, count: int, size: int) -> int:
    most = min(count - 1, size)
    if most < 1:
        raise ValueError(f"principal components need two or more samples, got {count}")
    if rank is not None and not 1 <= rank <= most:
        raise ValueError(
            f"{count:,} samples of {size:,} numbers have 1 to {most:,} principal components, {rank:,} are asked for"
        )
    return most if rank is None else rank


def _spread(total: float, scale: float) -> float:
    if not total > 1e-20 * (scale + 1e-300):
        raise ValueError("all samples are the same: they have no principal components")
    return total


def _checked(chunks: Iterable[Tensor]) -> Iterator[Tensor]:
    size = None
    for chunk in chunks:
        if chunk.ndim != 2 or (size is not None and chunk.shape[1] != size):
            raise ValueError(f"samples come in chunks (n, {size or 'D'}), got {tuple(chunk.shape)}")
        size = chunk.shape[1]
        if chunk.is_floating_point() and not chunk.isfinite().all():
            raise ValueError("a sample has values that are not finite numbers")
        if len(chunk):
            yield chunk


# Randomised -----------------------------------------------------------------------------------------------------------


def randomised(
    chunks: Callable[[], Iterable[Tensor]],
    rank: int,
    generator: torch.Generator,
    passes: int = 4,
    extra: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> Basis:
    """The leading ``rank`` components by block iteration, without a D x D matrix (Halko et al., 2011).

    ``chunks()`` is called once per pass and returns the samples again. ``extra`` more directions than asked for (half
    of ``rank``, by default) are carried along. The last pass measures how far the result is from being exact:
    ``error`` is the largest norm of ``C v - variance v``.
    """
    if passes < 2:
        raise ValueError(f"a randomised basis needs two or more passes, got {passes}")
    mean, total, count, product = _first_pass(chunks(), rank, extra, generator, dtype)
    axes = product
    for _ in range(passes - 1):
        axes = torch.linalg.qr(product)[0]
        product = torch.zeros_like(axes)
        for chunk in _checked(chunks()):
            centred = chunk.to(mean) - mean
            product.addmm_(centred.mT, centred @ axes)
        product /= count
    inner = axes.mT @ product
    values, turn = _leading((inner + inner.mT) / 2, rank)
    vectors = axes @ turn
    error = float((product @ turn - vectors * values).norm(dim=0).max())
    return Basis(mean, _oriented(vectors), values, total, count, error)


def _first_pass(
    chunks: Iterable[Tensor], rank: int, extra: int | None, generator: torch.Generator, dtype: torch.dtype
) -> tuple[Tensor, float, int, Tensor]:
    """Mean, total variance and number of samples, and the covariance times random directions."""
    shift = drift = probe = product = pulled = torch.zeros(0)
    square, count = 0.0, 0
    for chunk in _checked(chunks):
        values = chunk.to(dtype)
        if not count:
            shift = values.mean(0)
            size = len(shift)
            width = min(rank + (max(rank // 2, 8) if extra is None else extra), size)
            probe = torch.randn(size, width, generator=generator, device=generator.device, dtype=dtype).to(shift)
            drift, product, pulled = torch.zeros_like(shift), torch.zeros_like(probe), probe.new_zeros(width)
        moved = values - shift
        seen = moved @ probe
        product.addmm_(moved.mT, seen)
        drift += moved.sum(0)
        pulled += seen.sum(0)
        square += float(moved.double().square().sum())
        count += len(chunk)
    if not count:
        raise ValueError("there are no samples to find principal components of")
    _wanted(rank, count, len(shift))
    drift, pulled = drift / count, pulled / count
    mean = shift + drift
    total = _spread(square / count - float(drift.double().square().sum()), float(mean.double().square().sum()))
    return mean, total, count, product / count - torch.outer(drift, pulled)
