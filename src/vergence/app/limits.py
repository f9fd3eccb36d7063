"""How much a visitor may ask for."""

from __future__ import annotations

from dataclasses import dataclass, fields

from vergence.core.errors import VergenceError


@dataclass(frozen=True)
class Limits:
    """How much a visitor may ask for."""

    upload_mb: int = 64
    """The largest file, and the most that one zip may unpack to, in megabytes."""
    folder_mb: int = 512
    """All uploads that are kept at a time, of all visitors together."""
    files: int = 200
    """Files of one field."""
    megapixels: int = 50
    """The largest picture or frame."""
    video_seconds: int = 60
    """The longest video."""
    cloud_points: int = 500_000
    """The largest point cloud."""
    keep_minutes: int = 30
    """How long uploads and results are kept."""
    job_seconds: int = 300
    """The longest prediction."""
    train_minutes: int = 60
    """The longest training."""
    jobs: int = 2
    """Jobs at once; others wait their turn."""
    waiting: int = 8
    """Jobs that may wait; more are turned away."""

    def __post_init__(self) -> None:
        for field in fields(self):
            least = 0 if field.name == "waiting" else 1
            if not least <= getattr(self, field.name) <= 10**9:
                flag = field.name.replace("_", "-")
                raise VergenceError(f"--{flag} is a number of at least {least}, got {getattr(self, field.name)}")

    @property
    def upload_bytes(self) -> int:
        return self.upload_mb * 10**6
