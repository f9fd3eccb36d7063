"""What a run writes down as it goes: ``metrics.jsonl``, and TensorBoard's files beside it."""

from __future__ import annotations

from typing import Any

from saccade.run import Run


class Recorder:
    """Writes each record to both."""

    def __init__(self, run: Run, total: int) -> None:
        from tensorboardX import SummaryWriter

        self.run = run
        self.board = SummaryWriter(str(run.folder / "tensorboard"), purge_step=total or None)

    def write(self, *, total: int, **values: Any) -> None:
        """One record at step ``total``."""
        self.run.record({"total": total, **values})
        prefix = values.get("split", values.get("phase", ""))
        for group in ("losses", "rates", "metrics"):
            for name, value in values.get(group, {}).items():
                self.board.add_scalar(f"{group}/{prefix}/{name}", value, total)

    def close(self) -> None:
        self.board.close()
