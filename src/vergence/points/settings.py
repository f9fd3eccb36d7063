"""Settings shared by point-cloud systems."""

from __future__ import annotations

from typing import Literal

World = Literal["perfect", "resampled"]
"""perfect: every point has a match in the second cloud; resampled: surfaces are sampled again, as by a sensor."""
