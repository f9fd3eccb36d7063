"""placeholder"""

from saccade.claims import Claim

CLAIMS: tuple[Claim, ...] = ()
