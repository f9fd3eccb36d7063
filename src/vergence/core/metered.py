"""Memory that tensors take while a block of code runs, counted storage by storage as they come and go."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode


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
        super().__init__()  # type: ignore[no-untyped-call]
        self.alive = self.peak = 0
        self._sizes: dict[int, int] = {}
        """Bytes of each storage that is alive; 0 for those that existed before."""
        self._watches: dict[int, weakref.ref[UntypedStorage]] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self._know(args, older=True)
        if kwargs:
            self._know(kwargs.values(), older=True)
        results = func(*args, **(kwargs or {}))
        self._know((results,), older=False)
        return results

    def _know(self, values: Iterable[Any], older: bool) -> None:
        for value in values:
            if isinstance(value, Tensor):
                self._add(value.untyped_storage(), older)
            elif isinstance(value, list | tuple):
                self._know(value, older)

    def _add(self, storage: UntypedStorage, older: bool) -> None:
        key = storage._cdata
        if key in self._sizes:
            return
        size = 0 if older else storage.nbytes()
        self._sizes[key] = size
        self.alive += size
        self.peak = max(self.peak, self.alive)
        self._watches[key] = weakref.ref(storage, lambda _: self._forget(key))

    def _forget(self, key: int) -> None:
        del self._watches[key]
        self.alive -= self._sizes.pop(key)
