"""Inspecting a network: the outputs of its modules, and the cells of a feature map under points of an image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn


def caught(
    modules: Mapping[str, nn.Module], call: Callable[[], Any], inputs: bool = False
) -> tuple[Any, dict[str, Any]]:
    """The result of ``call()``, and by name the outputs of modules while it ran (or their inputs, with ``inputs``).

    For a module called several times, the last call counts; one that is not called is left out.
    """
    seen: dict[str, Any] = {}

    def keep(name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], output: Any = None) -> None:
            seen[name] = args[0] if inputs else output

        return hook

    hooks = [
        module.register_forward_pre_hook(keep(name)) if inputs else module.register_forward_hook(keep(name))
        for name, module in modules.items()
    ]
    try:
        answer = call()
    finally:
        for hook in hooks:
            hook.remove()
    return answer, seen


def cells(x: Tensor, points: Sequence[tuple[float, float]]) -> Tensor:
    """The positions (P,) of a map (B, C, h, w) or of the middle frame of (B, C, t, h, w) under points (x, y), given as
    fractions of the width and height."""
    *frames, height, width = x.shape[2:]
    start = frames[0] // 2 * height * width if frames else 0
    index = [start + min(int(v * height), height - 1) * width + min(int(u * width), width - 1) for u, v in points]
    return torch.tensor(index, dtype=torch.long, device=x.device)
