"""The structure of categories in a batch of features (Chen et al., 2020): how samples lie around the centre of their
class (intra), and how similar the centres are to each other (inter); and the distance of a student's structure from a
teacher's.

Class sums are taken by index, so nothing loops over classes. Samples around a class centre are a linear function of
features, so the structure of the difference of two feature tensors is the difference of their structures: the intra
distance centres one tensor, not two. Centring is a projection, so the gradient of a norm of centred samples is the
centred samples themselves, scaled: the backward pass is one product.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from vergence.ops.precision import full_precision, wide

Norm = Literal["fro", "mse"]
"""How differences are measured: the unsquared Frobenius norm as printed in the paper, or the mean of squares."""


class Groups(NamedTuple):
    """The classes of a batch; classes that it does not contain do not appear."""

    classes: Tensor
    """(K,), the labels that occur, in order."""
    places: Tensor
    """(N,), the place of each sample's label in ``classes``."""
    counts: Tensor
    """(K,), samples of each class."""


def groups(labels: Tensor) -> Groups:
    """The classes of labels (N,)."""
    return Groups(*labels.unique(return_inverse=True, return_counts=True))


def class_centres(features: Tensor, labels: Tensor | Groups) -> Tensor:
    """The mean features (K, D) of each class of a batch of features (N, ...), which are flattened (Eq. 6)."""
    among = _groups(labels)
    flat = features.flatten(1)
    sums = flat.new_zeros(len(among.classes), flat.shape[1]).index_add(0, among.places, flat)
    return sums / among.counts.unsqueeze(1)


def intra_structure(features: Tensor, labels: Tensor | Groups) -> Tensor:
    """Samples (N, D) minus the centre of their class (Eq. 7)."""
    among = _groups(labels)
    return features.flatten(1) - class_centres(features, among)[among.places]


def inter_structure(features: Tensor, labels: Tensor | Groups) -> Tensor:
    """Cosines (K, K) between the centres of the classes of a batch (Eq. 8). A centre at zero has the cosine 0 with
    every other."""
    return centre_cosines(class_centres(features, labels))


def centre_cosines(centres: Tensor) -> Tensor:
    """Cosines (K, K) between class centres (K, D)."""
    lengths = _root(centres.square().sum(1, keepdim=True))
    units = centres / lengths.masked_fill(lengths == 0, 1)
    return units @ units.mT


def intra_distance(student: Tensor, teacher: Tensor, labels: Tensor | Groups, norm: Norm = "fro") -> Tensor:
    """How far a student's samples lie from the teacher's around their class centres: the first term of Eq. 9 without β.

    ``student`` and ``teacher`` are (N, ...) of one shape. ``fro`` is the mean over the classes of the batch of the
    Frobenius norm of the difference, ``mse`` its mean square. Zero, with a zero gradient, if no class has two samples.
    Differentiable once.
    """
    among = _groups(labels)
    with full_precision(student):
        difference = (wide(student) - wide(teacher)).flatten(1)
        scatter: Tensor = _Scatter.apply(difference, among.places, among.counts)  # type: ignore[no-untyped-call]
        return _root(scatter).mean() if norm == "fro" else scatter.sum() / difference.numel()


def inter_distance(student: Tensor, teacher: Tensor, labels: Tensor | Groups, norm: Norm = "fro") -> Tensor:
    """How far the cosines between a student's class centres are from the teacher's: the second term of Eq. 9 without γ.

    ``student`` and ``teacher`` are (N, ...) and may differ in shape. ``fro`` is the Frobenius norm of the difference,
    ``mse`` its mean square.
    """
    among = _groups(labels)
    with full_precision(student):
        squares = (inter_structure(wide(student), among) - inter_structure(wide(teacher), among)).square()
        return _root(squares.sum()) if norm == "fro" else squares.mean()


def _groups(labels: Tensor | Groups) -> Groups:
    return labels if isinstance(labels, Groups) else groups(labels)


class _Scatter(torch.autograd.Function):
    """The sum of squared distances (K,) of rows (N, D) from the mean of their group."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, index: Tensor, counts: Tensor) -> Tensor:
        sums = rows.new_zeros(len(counts), rows.shape[1]).index_add_(0, index, rows)
        centred = rows - sums.div_(counts.unsqueeze(1)).index_select(0, index)
        ctx.save_for_backward(centred, index)
        squares = torch.linalg.vecdot(centred, centred)
        return rows.new_zeros(len(counts)).index_add_(0, index, squares)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        centred, index = ctx.saved_tensors
        return centred * (2 * gradient)[index].unsqueeze(1), None, None


def _root(squares: Tensor) -> Tensor:
    """The square root, with a gradient of 0 at 0, where that of the root itself is infinite."""
    zero = squares == 0
    return squares.masked_fill(zero, 1).sqrt().masked_fill(zero, 0)
