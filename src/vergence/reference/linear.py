"""Linear operators as matrices over the reals, column by column; complex numbers are pairs."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from vergence.ops.linear import Operator

Side = Literal["domain", "codomain"]


def matrix(operator: Operator) -> Tensor:
    """The matrix (measurements, pixels) of an operator in float64."""
    units = torch.eye(count(operator, "domain"), dtype=torch.float64)
    return torch.stack([flat(operator.forward(shaped(unit, operator, "domain"))) for unit in units], 1)


def count(operator: Operator, side: Side) -> int:
    """The real numbers of a picture or of a measurement."""
    return math.prod(getattr(operator, side)) * (2 if getattr(operator, f"complex_{side}") else 1)


def shaped(vector: Tensor, operator: Operator, side: Side) -> Tensor:
    """A vector of real numbers as a picture or a measurement."""
    shape = getattr(operator, side)
    if getattr(operator, f"complex_{side}"):
        return torch.view_as_complex(vector.reshape(*shape, 2).contiguous())
    return vector.reshape(shape)


def flat(x: Tensor) -> Tensor:
    """A picture or a measurement as a vector of real numbers."""
    return (torch.view_as_real(x.resolve_conj()) if x.is_complex() else x).flatten()
