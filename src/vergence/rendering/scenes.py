"""Scenes: solids with surfaces, grouped into things, a light and a background."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from vergence.rendering.solids import Solids
from vergence.rendering.textures import Atlas

PLAIN = -1
"""The texture of a surface of one colour."""


@dataclass(frozen=True)
class Surfaces:
    """Surfaces of n solids."""

    colour: Tensor
    """(n, 3) from 0 to 1."""
    texture: Tensor
    """(n,), index in the atlas; -1 for none."""
    blend: Tensor
    """(n,), from the colour alone (0) to the texture times twice the colour (1)."""
    density: Tensor
    """(n,), texels per metre."""
    offset: Tensor
    """(n, 2), in texels."""
    gloss: Tensor
    """(n,), strength of the highlight."""


@dataclass(frozen=True)
class Light:
    """Light from far away, and light from all sides."""

    towards: Tensor
    """(3,), the direction from the scene to the light."""
    direct: float = 0.7
    ambient: float = 0.45
    colour: tuple[float, float, float] = (1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Scene:
    """What cameras see."""

    solids: Solids
    surfaces: Surfaces
    thing: Tensor
    """(n,), the thing that each solid is a part of."""
    light: Light
    atlas: Atlas
    sky: int | tuple[float, float, float] = (0.7, 0.8, 0.9)
    """What rays meet that hit nothing: a colour, or a texture of the atlas wrapped around the scene."""

    def moved(self, rotation: Tensor, shift: Tensor) -> Scene:
        """The scene after rigid motions of its things, (things, 3, 3) and (things, 3)."""
        return replace(self, solids=self.solids.moved(rotation[self.thing], shift[self.thing]))


@dataclass
class SceneBuilder:
    """Collects solids one by one: ``add`` puts a part into the current thing, ``begin`` starts another."""

    atlas: Atlas
    light: Light
    sky: int | tuple[float, float, float] = (0.7, 0.8, 0.9)
    things: int = 0
    _rows: list[tuple[object, ...]] = field(default_factory=list)

    def begin(self) -> int:
        """Start a new thing; returns its number."""
        self.things += 1
        return self.things - 1

    def add(
        self,
        shape: int,
        centre: Sequence[float] | Tensor,
        half: Sequence[float] | Tensor,
        rotation: Tensor | None = None,
        *,
        colour: Sequence[float] | Tensor = (0.6, 0.6, 0.6),
        texture: int = PLAIN,
        blend: float = 1.0,
        density: float = 100.0,
        offset: Sequence[float] = (0.0, 0.0),
        gloss: float = 0.0,
        inside: bool = False,
    ) -> None:
        """Add a solid with half axes ``half`` to the current thing."""
        frame = torch.diag(torch.as_tensor(half, dtype=torch.float32))
        if rotation is not None:
            frame = rotation.float() @ frame
        at = torch.as_tensor(centre, dtype=torch.float32)
        shade = torch.as_tensor(colour, dtype=torch.float32)
        thing = max(self.things - 1, 0)
        self._rows.append((shape, frame, at, inside, thing, shade, texture, blend, density, tuple(offset), gloss))

    def scene(self) -> Scene:
        """The scene as it is now."""
        shape, frame, centre, inside, thing, colour, texture, blend, density, offset, gloss = zip(
            *self._rows, strict=True
        )
        return Scene(
            Solids(torch.tensor(shape), torch.stack(frame), torch.stack(centre), torch.tensor(inside)),
            Surfaces(
                torch.stack(colour),
                torch.tensor(texture),
                torch.tensor(blend, dtype=torch.float32),
                torch.tensor(density, dtype=torch.float32),
                torch.tensor(offset, dtype=torch.float32),
                torch.tensor(gloss, dtype=torch.float32),
            ),
            torch.tensor(thing),
            self.light,
            self.atlas,
            self.sky,
        )
