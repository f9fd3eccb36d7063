"""The paper's claims, as tests that can fail."""

from vergence.contract.claims import Claim

CLAIMS: tuple[Claim, ...] = ()
