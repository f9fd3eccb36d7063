"""BLD's claims."""

from __future__ import annotations

from vergence.contract.claims import Claim

CLAIMS: tuple[Claim, ...] = ()
