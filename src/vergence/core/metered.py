"""Memory that tensors take while a block of code runs, counted storage by storage as they come and go."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Meter(TorchDispatchMode):
    """Counts the bytes of the tensors that are made inside a ``with`` block, those of autograd included.

    ``alive`` is what they take now, ``peak`` the most that they took at once. Tensors that existed before, and views of
    them, do not count. Two calls of the same code count the same bytes, whatever the allocator does::

        with Meter() as meter:
            loss = network(images).sum()
            loss.backward()
        print(meter.peak)
    """

    def __init__(self) -> None:
        super().__init__()
        self.alive = self.peak = 0
        self._sizes: dict[int, int] = {}
        """Bytes of each storage that is alive; 0 for those that existed before."""

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        for tensor in _tensors((args, kwargs)):
            self._know(tensor, older=True)
        results = func(*args, **(kwargs or {}))
        for tensor in _tensors(results):
            self._know(tensor, older=False)
        return results

    def _know(self, tensor: Tensor, older: bool) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._sizes:
            self._sizes[key] = 0 if older else storage.nbytes()
            self.alive += self._sizes[key]
            self.peak = max(self.peak, self.alive)
            weakref.finalize(storage, self._forget, key)

    def _forget(self, key: int) -> None:
        self.alive -= self._sizes.pop(key, 0)


def _tensors(values: Any) -> list[Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, Tensor)]
