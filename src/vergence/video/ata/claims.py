"""The supplement's claims, as tests that can fail."""

from __future__ import annotations

from vergence.contract.claims import Claim, above, faster
from vergence.video.ata import exact

SEEDS = range(5, 10)
"""The embedded data was made while looking at seed 0, so no claim is measured on the seeds from 0 to 4."""

CLAIMS: tuple[Claim, ...] = (
    *exact.CLAIMS,
    faster("loop-fast", "All matches at once take at most two thirds of the published loop's time (8 clips of 16 "
           "frames of 14 x 14 patches).", "Algs. 1 and 2", "alignment", "published loop", threshold=1.5),
    faster("ata-below-joint", "At 16 frames a ViT-B block of ATA takes less time than one of joint attention.", "Eq. 1",
           "block-16", "joint attention", threshold=1, sense="above"),
    above("ata-above-factorised", "ATA recognises more than factorised attention.", "Table 1", better="ata",
          worse="factorised", metric="top1", seeds=SEEDS, unit="points of Top-1", paper="+1.6"),
    above("factorised-above-averaging", "Factorised attention recognises more than averaging frames.", "Table 1",
          better="factorised", worse="averaging", metric="top1", seeds=SEEDS, unit="points of Top-1", paper="+2.0"),
    above("ata-above-joint", "ATA recognises more than joint attention.", "Table 1", better="ata", worse="joint",
          metric="top1", seeds=SEEDS, unit="points of Top-1", paper="+2.2"),
    above("few-blocks-help", "Aligning the first quarter of the blocks alone is better than aligning none.", "Table 2",
          better="ata-1", worse="factorised", metric="top1", seeds=SEEDS, unit="points of Top-1", paper="+1.3"),
)  # fmt: skip
