"""Backbones as stages of residual blocks, with room for other blocks in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from saccade.errors import SaccadeError

Insert = Callable[[int], nn.Module]
"""Makes a module for so many channels."""


class Stage(nn.Module):
    """Residual blocks in a row, named ``0``, ``1``, ... as in the public weights; ``after_1`` is what comes after 1."""

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

    ``at`` names residual blocks as ``layer3.4``, the fifth of the third stage; ``insert`` makes what comes after each.
    """

    def add_stages(
        self, stages: Sequence[Sequence[nn.Module]], widths: Sequence[int], at: Sequence[str], insert: Insert | None
    ) -> None:
        """Take the stages, and insert."""
        self.inserted_at: tuple[str, ...] = tuple(dict.fromkeys(at)) if insert else ()
        for number, blocks in enumerate(stages, 1):
            self.add_module(f"layer{number}", Stage(blocks))
        places = {
            f"layer{number}.{index}": width
            for number, (blocks, width) in enumerate(zip(stages, widths, strict=True), 1)
            for index in range(len(blocks))
        }
        for place in self.inserted_at:
            if place not in places:
                raise SaccadeError(f"no residual block {place!r} to insert after; there are {', '.join(places)}")
            assert insert is not None
            self.get_submodule(place.partition(".")[0]).add_module(_after(place), insert(places[place]))
        self.stage_count = len(stages)

    def run_stages(self, x: Tensor) -> Tensor:
        """Through all stages and what is inserted."""
        for number in range(1, self.stage_count + 1):
            x = self.get_submodule(f"layer{number}")(x)
        return x

    @property
    def inserted(self) -> dict[str, nn.Module]:
        """What was inserted, by the residual block it comes after."""
        return {p: self.get_submodule(f"{p.partition('.')[0]}.{_after(p)}") for p in self.inserted_at}


def _after(place: str) -> str:
    return f"after_{place.partition('.')[2]}"
