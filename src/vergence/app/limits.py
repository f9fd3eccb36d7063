"""Limits on uploads and jobs of the gallery."""

from __future__ import annotations

from dataclasses import dataclass, fields

from vergence.core.errors import VergenceError


@dataclass(frozen=True)
class Limits:
    """Limits on uploads and jobs."""

    upload_mb: int = 64
    """Maximum size of a file, and of the contents of a zip, in megabytes."""
    folder_mb: int = 512
    """Maximum size of all uploads together."""
    files: int = 200
    """Maximum number of files per field."""
    megapixels: int = 50
    """Maximum size of a picture or video frame."""
    video_seconds: int = 60
    """Maximum length of a video."""
    cloud_points: int = 500_000
    """Maximum number of points in a cloud."""
    keep_minutes: int = 30
    """How long uploads and results are kept."""
    job_seconds: int = 300
    """Time limit of a prediction."""
    train_minutes: int = 60
    """Time limit of a training."""
    jobs: int = 2
    """Jobs that run at once; the others wait."""
    waiting: int = 8
    """Maximum number of waiting jobs; more are refused."""

    def __post_init__(self) -> None:
        for field in fields(self):
            least = 0 if field.name == "waiting" else 1
            if not least <= getattr(self, field.name) <= 10**9:
                flag = field.name.replace("_", "-")
                raise VergenceError(f"--{flag} is a number of at least {least}, got {getattr(self, field.name)}")

    @property
    def upload_bytes(self) -> int:
        return self.upload_mb * 10**6
