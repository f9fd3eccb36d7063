"""What the supplement says that can be found false."""

from __future__ import annotations

from vergence.contract.claims import Claim, above
from vergence.video.ata.exact import COSTS, EXACT

CLAIMS: tuple[Claim, ...] = (
    *EXACT,
    *COSTS,
    above("ata-above-factorised", "ATA recognises more than factorised attention.", "Table 1", better="ata",
          worse="factorised", metric="top1", unit="points of Top-1", paper="+1.6"),
    above("factorised-above-averaging", "Factorised attention recognises more than averaging frames.", "Table 1",
          better="factorised", worse="averaging", metric="top1", unit="points of Top-1", paper="+2.0"),
    above("ata-above-joint", "ATA recognises more than joint attention.", "Table 1", better="ata", worse="joint",
          metric="top1", unit="points of Top-1", paper="+2.2"),
    above("few-blocks-help", "Aligning the first quarter of the blocks alone is better than aligning none.", "Table 2",
          better="ata-1", worse="factorised", metric="top1", unit="points of Top-1", paper="+1.3"),
)  # fmt: skip
