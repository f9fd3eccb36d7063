"""Photographs that come with scikit-image and scikit-learn: textures of rendered scenes, training and test pictures.

They are split once for the whole library, so that starter weights can be tried on photographs that no training saw.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from vergence.data.images import read_image

TRAINING = (
    "astronaut.png", "coffee.png", "ihc.png", "hubble_deep_field.jpg", "camera.png", "coins.png", "brick.png",
    "grass.png", "gravel.png", "retina.jpg", "moon.png", "cell.png", "china.jpg",
)  # fmt: skip
"""Photographs to train on."""
HELD_OUT = ("chelsea.png", "rocket.jpg", "flower.jpg", "motorcycle_left.png")
"""Photographs that nothing is trained on."""
SURFACES = ("brick.png", "grass.png", "gravel.png")
"""Photographs of surfaces, which may be repeated as a texture."""
Share = Literal["train", "test"]


def path_of(name: str) -> Path:
    """The file of a photograph in the package that brings it."""
    import skimage
    import sklearn

    folders = (Path(skimage.__file__).parent / "data", Path(sklearn.__file__).parent / "datasets" / "images")
    return next(folder / name for folder in folders if (folder / name).is_file())


@cache
def photograph(name: str, longest: int = 640) -> Tensor:
    """A photograph as floats (3, H, W) from 0 to 255, reduced to at most ``longest`` pixels along each side."""
    picture = read_image(path_of(name)).float()
    share = min(longest / max(picture.shape[-2:]), 1.0)
    if share < 1:
        size = [max(round(side * share), 8) for side in picture.shape[-2:]]
        picture = F.interpolate(picture[None], size, mode="bilinear", antialias=True, align_corners=False)[0]
    return picture


def photographs(share: Share = "train", longest: int = 640) -> list[Tensor]:
    """The photographs for training or test, as :func:`photograph` gives them."""
    return [photograph(name, longest) for name in (TRAINING if share == "train" else HELD_OUT)]
