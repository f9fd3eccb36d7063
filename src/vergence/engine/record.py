"""Records of a running training: ``metrics.jsonl``, and TensorBoard's event files beside it."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from vergence.engine.eventfile import EventFile
from vergence.runs.folder import Run


class Recorder:
    """Writes each record to both; without a run, to neither."""

    def __init__(self, run: Run | None, total: int) -> None:
        self.run = run
        self.board = EventFile(run.folder / "tensorboard", total + 1 if total else 0) if run else None

    def write(self, *, total: int, **values: Any) -> None:
        """One record at step ``total``."""
        if self.run is None or self.board is None:
            return
        self.run.record({"total": total, **values})
        prefix = values.get("split", values.get("phase", ""))
        for group in ("losses", "rates", "metrics"):
            for name, value in values.get(group, {}).items():
                self.board.add(f"{group}/{prefix}/{name}", value, total)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.board is not None:
            self.board.close()
