"""Adding blocks to existing networks: ``vergence.attach(model, at="layer3.4", block="snl")``.

A block is called on the output of a module, and is stored inside that module under the name ``attached``. The names of
the network's own parameters do not change, so its checkpoints still load before attaching, or afterwards with
``strict=False``. A nonlocal block starts as the identity: the outputs of a trained network do not change by a single
bit. So does ``stn``, within rounding. A volumetric transformer (``vtn``) does not: its fields follow the responses of
the map from the start (Eq. 2 of its paper), and outputs change at once; a saliency sampler pulls inwards at the border.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from vergence.core.errors import VergenceError, did_you_mean
from vergence.nn import BLOCKS, WARPS
from vergence.nn.probe import caught

NAME = "attached"
Where = str | Iterable[str] | Callable[[str, nn.Module], bool]
Layout = Literal["map", "tokens", "sequence-first tokens"]


def attach(
    model: nn.Module,
    at: Where,
    block: str | Callable[[int], nn.Module] = "snl",
    *,
    channels: int | None = None,
    example: Any = None,
    **options: Any,
) -> dict[str, nn.Module]:
    """Insert a block after modules of any network, in place; returns the new blocks by the name of the module before.

    ``at`` is the name of a module, several of them, a pattern (``"layer*.0"``), or a function of name and module.
    ``block`` is a name of :data:`vergence.nn.BLOCKS` or :data:`vergence.nn.WARPS`, with ``options`` for it
    (``inner=32``, ``groups=16``), or a function that builds a module for the given number of channels. The number of
    channels is read from the last layer inside the module; where that is wrong, give ``example`` (an input of the
    network, or a tuple of inputs, to run once), or ``channels`` itself. Maps (B, C, *spatial) and tokens (B, ..., C)
    are distinguished by the dimension that has the channels.
    """
    places = _places(model, at)
    make = _maker(block, options)
    seen = {} if example is None else _shapes(model, places, example)
    blocks = {}
    for place in places:  # build everything before changing anything
        module = model.get_submodule(place)
        width, layout = _look(module)
        if place in seen:
            width = width if width in (seen[place][1], seen[place][-1]) else _guess(seen[place], layout)
        count = channels or width
        if count is None:
            raise VergenceError(
                f"the channels of {place!r} ({type(module).__name__}) cannot be told from its layers: "
                "give channels=... or example=..."
            )
        like = next((p for p in (*module.parameters(), *model.parameters()) if p.is_floating_point()), torch.empty(0))
        attached = _Attached(make(count), place, count, layout).to(like.device, like.dtype).train(module.training)
        blocks[place] = (attached, *_home(model, place))
    for place, (attached, home, name) in blocks.items():
        home.add_module(name, attached)
        module = model.get_submodule(place)
        if not (home is module and isinstance(module, nn.Sequential)):  # a plain Sequential calls all its children
            module.register_forward_hook(_Call(attached))
    return {place: attached.block for place, (attached, _, _) in blocks.items()}


def detach(model: nn.Module, at: Where | None = None) -> list[str]:
    """Remove attached blocks, all of them or those after ``at``; returns the names of the modules before them."""
    held = {m.place: m for m in model.modules() if isinstance(m, _Attached)}
    places = list(held) if at is None else _places(model, at)
    for place in places:
        if place not in held:
            raise VergenceError(f"nothing is attached at {place!r}{did_you_mean(place, held)}")
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, _Attached) and child.place in places:
                delattr(module, name)
        for key, hook in list(module._forward_hooks.items()):
            if isinstance(hook, _Call) and hook.attached.place in places:
                del module._forward_hooks[key]
    return places


class _Attached(nn.Module):
    """A block, with the output layout of the module that it follows."""

    def __init__(self, block: nn.Module, place: str, channels: int, layout: Layout) -> None:
        super().__init__()
        self.block, self.place, self.channels, self.layout = block, place, channels, layout

    def forward(self, given: Any) -> Any:
        if isinstance(given, tuple | list) and given and isinstance(given[0], Tensor):
            return type(given)([self._changed(given[0]), *given[1:]])
        if not isinstance(given, Tensor):
            raise VergenceError(f"a block needs a tensor, but {self.place!r} gives a {type(given).__name__}")
        return self._changed(given)

    def _changed(self, x: Tensor) -> Tensor:
        first, last = x.ndim > 2 and x.shape[1] == self.channels, x.ndim > 2 and x.shape[-1] == self.channels
        if not (first or last):
            raise VergenceError(
                f"{self.place!r} gives {tuple(x.shape)}, neither a map nor tokens of {self.channels} channels: "
                "attach with channels=... or example=..."
            )
        if first and (self.layout == "map" or not last):
            return self.block(x)
        if self.layout == "sequence-first tokens":
            return self.block(x.permute(1, 2, 0)).permute(2, 0, 1)
        return self.block(x.movedim(-1, 1)).movedim(1, -1)


class _Call:
    """A forward hook. It holds the block itself, so that copies of a network call their own block."""

    def __init__(self, attached: _Attached) -> None:
        self.attached = attached

    def __call__(self, module: nn.Module, args: Any, output: Any) -> Any:
        return self.attached(output)


def _maker(block: str | Callable[[int], nn.Module], options: dict[str, Any]) -> Callable[[int], nn.Module]:
    known: dict[str, Callable[..., nn.Module]] = {**BLOCKS, **WARPS}
    if isinstance(block, str) and block not in known:
        raise VergenceError(f"no block {block!r}{did_you_mean(block, known)}")
    if options.get("wiring") == "rectified":
        raise VergenceError(
            "a rectified block does not start as the identity, so it would change the network's outputs"
        )
    chosen = known[block] if isinstance(block, str) else block

    def make(channels: int) -> nn.Module:
        try:
            return chosen(channels, **options)
        except TypeError as error:
            raise VergenceError(
                f"the block {block!r} does not take {', '.join(options) or channels}: {error}"
            ) from error

    return make


def _places(model: nn.Module, at: Where) -> list[str]:
    """The names of the selected modules, each once."""
    names = {name: module for name, module in model.named_modules() if name and not _inside(model, name)}
    if callable(at):
        places = [name for name, module in names.items() if at(name, module)]
        wanted: list[str] = []
    else:
        wanted = [at] if isinstance(at, str) else list(at)
        places = []
    for name in wanted:
        matching = [name] if name in names else [n for n in names if _matches(n, name)]
        if not matching:
            raise VergenceError(f"the network has no module {name!r}{did_you_mean(name, names)}")
        places += matching
    if not places:
        raise VergenceError("there is no module to attach to: none was named, or the function chose none")
    return list(dict.fromkeys(places))


def _matches(name: str, pattern: str) -> bool:
    """Whether a dotted name matches a pattern, part by part: a star does not cross a dot."""
    parts, wanted = name.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def _inside(model: nn.Module, name: str) -> bool:
    """Whether a module is part of an attached block."""
    parts = name.split(".")
    return any(isinstance(model.get_submodule(".".join(parts[:n])), _Attached) for n in range(1, len(parts) + 1))


def _home(model: nn.Module, place: str) -> tuple[nn.Module, str]:
    """The module that stores a block and its name there: the one it follows, unless that iterates over its children."""
    module = model.get_submodule(place)
    if any(isinstance(m, _Attached) and m.place == place for m in model.modules()):
        raise VergenceError(f"a block is attached at {place!r} already: detach it first")
    if type(module).forward in (nn.Module.forward, nn.ModuleList.forward, nn.ModuleDict.forward):
        raise VergenceError(
            f"{place!r} is a {type(module).__name__}, which is not called as a whole: name one inside it"
        )
    if not isinstance(module, nn.Sequential | nn.ModuleList | nn.ModuleDict):
        return module, NAME
    if type(module).forward is nn.Sequential.forward:
        return module, NAME
    parts = place.split(".")
    for length in range(len(parts) - 1, -1, -1):
        home = model.get_submodule(".".join(parts[:length]))
        if not isinstance(home, nn.Sequential | nn.ModuleList | nn.ModuleDict):
            return home, f"{NAME}_{'_'.join(parts[length:])}"
    raise VergenceError(f"no module around {place!r} can store a block: all of them iterate over their children")


def _look(module: nn.Module) -> tuple[int | None, Layout]:
    """The number of channels of the last layer inside a module that has any, and the layout of such a layer."""
    tokens: Layout = "tokens"
    if any(getattr(m, "batch_first", True) is False for m in module.modules()):
        tokens = "sequence-first tokens"
    for layer in reversed(list(module.modules())):
        for name in ("out_channels", "num_features", "num_channels"):
            if isinstance(getattr(layer, name, None), int) and not isinstance(layer, nn.Linear):
                return getattr(layer, name), "map"
        if isinstance(layer, nn.Linear):
            return layer.out_features, tokens
        shape = getattr(layer, "normalized_shape", None)
        if isinstance(shape, tuple) and shape:
            return shape[-1], tokens
    return None, "map"


def _guess(shape: tuple[int, ...], layout: Layout) -> int:
    """The number of channels, guessed from an output shape."""
    return shape[-1] if layout != "map" or len(shape) == 2 else shape[1]


def _shapes(model: nn.Module, places: list[str], example: Any) -> dict[str, tuple[int, ...]]:
    """Output shapes of modules for an example; runs the network once, without changing it."""
    run = partial(model, *(example if isinstance(example, tuple | list) else (example,)))
    with torch.no_grad(), _evaluating(model):
        outputs = caught({place: model.get_submodule(place) for place in places}, run)[1]
    first = {p: o[0] if isinstance(o, tuple | list) and o else o for p, o in outputs.items()}
    seen = {place: tuple(output.shape) for place, output in first.items() if isinstance(output, Tensor)}
    for place in places:
        if len(seen.get(place, ())) < 3:
            gives = f"gives {seen[place]}, without positions" if place in seen else "gives no tensor for the example"
            raise VergenceError(f"no block can come after {place!r}: it {gives}")
    return seen


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
