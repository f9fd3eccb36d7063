"""Strided 1x1 convolutions."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class Pointwise(nn.Conv2d):
    """A 1x1 convolution without bias that takes every ``stride``-th pixel first, then mixes channels.

    Same values, parameter and name as the strided form. PyTorch's CPU kernel for that one (oneDNN 3.12 on AVX-512)
    crashes the process in its backward pass when there are few channels in channels-last layout.
    """

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        rows, columns = self.stride
        return F.conv2d(x[..., ::rows, ::columns], self.weight)
