"""Choices of explanations, shared by their code and by settings; importing them does not need PyTorch."""

from __future__ import annotations

from typing import Literal, get_args

from vergence.core.errors import VergenceError, did_you_mean

Background = Literal["grey", "mean", "black", "white"]
"""What hides a pixel: mid-grey (128 of 255), the mean colour of the picture, black or white."""
Baseline = Literal["rise", "occlusion", "lime", "shap", "gradcam", "ig", "extremal", "random", "centre"]
"""Methods that deepcover is compared with."""
Method = Literal["deepcover", "rise", "occlusion", "lime", "shap", "gradcam", "ig", "extremal", "random", "centre"]
METHODS: tuple[Method, ...] = get_args(Method)
LABELS: dict[str, str] = {
    "deepcover": "DeepCover", "rise": "RISE", "occlusion": "occlusion", "lime": "LIME", "shap": "Kernel SHAP",
    "gradcam": "Grad-CAM", "ig": "integrated gradients", "extremal": "extremal masks", "random": "random",
    "centre": "centre",
}  # fmt: skip
"""Methods by name, as tables and pictures call them."""


def methods_of(text: str) -> tuple[Method, ...]:
    """Methods from their names, separated by commas: ``rise,deepcover``."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in METHODS:
            raise VergenceError(f"no method {name!r}{did_you_mean(name, METHODS)}")
    if not names or len(set(names)) != len(names):
        raise VergenceError(f"methods are one or more different names of {', '.join(METHODS)}, got {text!r}")
    return tuple(method for name in names for method in METHODS if method == name)
