"""Blocks inserted after residual blocks of a backbone, without changing the names of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn

Insert = Callable[[int], nn.Module]
"""Makes a module for so many channels."""


class Stages(nn.Module):
    """A backbone's stages ``layer1``, ``layer2``, ... as attributes, and what is inserted after their blocks.

    ``at`` names residual blocks as ``layer3.4``: the fifth of the third stage.
    """

    def add_stages(
        self, stages: Sequence[Sequence[nn.Module]], widths: Sequence[int], at: Sequence[str], insert: Insert | None
    ) -> None:
        """Take the stages, and make a block after each place of ``at``."""
        self.stage_names = [f"layer{i}" for i in range(1, len(stages) + 1)]
        for name, blocks in zip(self.stage_names, stages, strict=True):
            setattr(self, name, nn.Sequential(*blocks))
        self.inserted = nn.ModuleDict()
        places = {f"{s}.{i}": w for s, b, w in zip(self.stage_names, stages, widths, strict=True) for i in range(len(b))}
        for place in at if insert else ():
            if place not in places:
                raise ValueError(f"no residual block {place!r} to insert after; there are {', '.join(places)}")
            self.inserted[place.replace(".", "_")] = insert(places[place])  # type: ignore[misc]

    def run_stages(self, x: Tensor) -> Tensor:
        """Through all stages and what is inserted."""
        for name in self.stage_names:
            for index, block in enumerate(self.get_submodule(name)):  # type: ignore[arg-type]
                x = block(x)
                key = f"{name}_{index}"
                if key in self.inserted:
                    x = self.inserted[key](x)
        return x
