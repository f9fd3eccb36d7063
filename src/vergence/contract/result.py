"""Prediction results in memory, before anything is written or drawn."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vergence.contract.config import to_json
from vergence.core.errors import VergenceError
from vergence.core.progress import Progress

if TYPE_CHECKING:
    from vergence.contract.inputs import Artifact

INLINE = 10_000
"""Arrays up to this size are written into JSON in full; larger ones as shape, type and range."""
Render = Callable[[Path, Progress], "list[Artifact]"]


@dataclass(frozen=True, eq=False)
class Result:
    """Base of what :meth:`Task.infer` returns: a frozen dataclass of arrays, tensors and plain values.

    ``result.save("folder")`` writes everything as files, ``result.show()`` opens a picture, and a notebook displays it
    by itself.
    """

    def summary(self) -> Mapping[str, Any]:
        """The main numbers by name, which the command prints first."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {name: value for name, value in plain.items() if isinstance(value, str | int | float)}

    def to_json(self) -> dict[str, Any]:
        """All fields as plain data for ``json``; large arrays as shape, type and range."""
        return {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}

    def save(self, folder: str | Path, progress: Progress | None = None) -> list[Artifact]:
        """Write everything into a folder: machine-readable files, pictures, pages. All of them appear, or none."""
        return self._render(Path(folder), progress or Progress())

    def show(self) -> None:
        """Open the first picture in the operating system's viewer; in a notebook, display it there."""
        image = self._picture()
        if image is None:
            raise VergenceError("this result has no picture to show; save(folder) writes what it has")
        with suppress(ImportError, NameError):
            from IPython import get_ipython  # type: ignore[import-not-found]
            from IPython.display import Image, display  # type: ignore[import-not-found]

            if get_ipython() is not None:
                display(Image(data=image))
                return
        import io

        from PIL import Image as Pillow

        Pillow.open(io.BytesIO(image)).show()

    def _repr_png_(self) -> bytes | None:
        return self._picture()

    def _picture(self) -> bytes | None:
        with tempfile.TemporaryDirectory() as scratch:
            for artifact in self._render(Path(scratch), Progress()):
                if artifact.kind == "image" and artifact.path.suffix == ".png":
                    return artifact.path.read_bytes()
        return None

    @property
    def _render(self) -> Render:
        render: Render | None = self.__dict__.get("_rendered_by")
        if render is None:
            raise VergenceError("this result was not made by a model's predict: it cannot be drawn")
        return render

    def rendered_by(self, render: Render) -> None:
        """Set the function that writes and draws this result."""
        object.__setattr__(self, "_rendered_by", render)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if hasattr(value, "tolist") and hasattr(value, "shape"):
        return _array(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return to_json(value)


def _array(value: Any) -> Any:
    size = math.prod(value.shape)
    if size <= INLINE:
        return _plain(value.tolist())
    described = {"shape": list(value.shape), "type": str(value.dtype).removeprefix("torch.")}
    return described | {"least": float(value.min()), "most": float(value.max())}


def several(results: Sequence[Result]) -> Any:
    """One result as itself, several as a list."""
    return results[0] if len(results) == 1 else list(results)
