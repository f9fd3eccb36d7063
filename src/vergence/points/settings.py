"""Settings that systems of this room share."""

from __future__ import annotations

from typing import Literal

World = Literal["perfect", "resampled"]
"""Whether every point has its partner in the second cloud, or surfaces are sampled afresh as a sensor does."""
