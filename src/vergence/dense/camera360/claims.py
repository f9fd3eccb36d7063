"""The paper's claims, as tests that can fail."""

from __future__ import annotations

from vergence.contract.claims import Claim

CLAIMS: tuple[Claim, ...] = ()
