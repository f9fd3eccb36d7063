"""Backbones as stages of residual blocks, with other blocks inserted between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from torch import Tensor, nn

from vergence.core.errors import VergenceError

Insert = Callable[[int], nn.Module]
"""Builds a module for the given number of channels."""


class Residual(Protocol):
    """Builds a residual block for a number of input channels, a width and a stride."""

    expansion: int

    def __call__(self, inputs: int, width: int, stride: int, /) -> nn.Module: ...


class Stage(nn.Module):
    """Residual blocks in a row, named ``0``, ``1``, ... as in the public weights; ``after_1`` is inserted after 1."""

    def __init__(self, blocks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.depth = len(blocks)
        for index, block in enumerate(blocks):
            self.add_module(str(index), block)

    def __len__(self) -> int:
        return self.depth

    def __getitem__(self, index: int) -> nn.Module:
        return self.get_submodule(str(index))

    def forward(self, x: Tensor) -> Tensor:
        for index in range(self.depth):
            x = self[index](x)
            after = self._modules.get(f"after_{index}")
            if after is not None:
                x = after(x)
        return x


class Stages(nn.Module):
    """A backbone with stages ``layer1``, ``layer2``, ...

    ``at`` names residual blocks as ``layer3.4``, the fifth of the third stage; ``insert`` builds the block after each.
    """

    def add_stages(
        self,
        block: Residual,
        inputs: int,
        depths: Sequence[int],
        widths: Sequence[int],
        at: Sequence[str],
        insert: Insert | None,
        strides: Sequence[int] | None = None,
    ) -> int:
        """Build the stages, the first at stride 1 and the others at 2 (or as given), and insert blocks; returns the
        number of output channels."""
        strides = strides or [1, *[2] * (len(depths) - 1)]
        places = {}
        for number, (depth, width, stride) in enumerate(zip(depths, widths, strides, strict=True), 1):
            blocks = []
            for index in range(depth):
                blocks.append(block(inputs, width, stride if index == 0 else 1))
                inputs = width * block.expansion
                places[f"layer{number}.{index}"] = inputs
            self.add_module(f"layer{number}", Stage(blocks))
        self.stage_count = len(depths)
        self.inserted_at: tuple[str, ...] = tuple(dict.fromkeys(at)) if insert else ()
        for place in self.inserted_at:
            if place not in places:
                raise VergenceError(f"no residual block {place!r} to insert after; there are {', '.join(places)}")
            assert insert is not None
            self.get_submodule(place.partition(".")[0]).add_module(_after(place), insert(places[place]))
        return inputs

    def run_stages(self, x: Tensor) -> Tensor:
        """Apply all stages and inserted blocks."""
        for number in range(1, self.stage_count + 1):
            x = self.get_submodule(f"layer{number}")(x)
        return x

    @property
    def inserted(self) -> dict[str, nn.Module]:
        """The inserted blocks, by the residual block they follow."""
        return {p: self.get_submodule(f"{p.partition('.')[0]}.{_after(p)}") for p in self.inserted_at}


def _after(place: str) -> str:
    return f"after_{place.partition('.')[2]}"
