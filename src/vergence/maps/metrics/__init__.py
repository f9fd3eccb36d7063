"""Eight measures of a predicted map against the true one, and how they are added up and compared."""

from vergence.maps.metrics.agreement import Agreement, together
from vergence.maps.metrics.ccq import Ccq, ccq
from vergence.maps.metrics.junct import Junct, junct
from vergence.maps.metrics.opt_g import Subgraphs, opt_g, subg
from vergence.maps.metrics.opt_j import OptJ, opt_j
from vergence.maps.metrics.opt_p import OptP, opt_p
from vergence.maps.metrics.scores import (
    NAMES,
    NEW,
    OLD,
    PARITY,
    Scores,
    Settings,
    aggregate,
    compare,
    consistency,
    correlation_matrix,
    preferences,
    rank_methods,
    triplets,
)  # fmt: skip
from vergence.maps.metrics.trips import Trips, apls, tlts, trips

__all__ = [
    "NAMES", "NEW", "OLD", "PARITY",
    "Agreement", "Ccq", "Junct", "OptJ", "OptP", "Scores", "Settings", "Subgraphs", "Trips",
    "aggregate", "apls", "ccq", "compare", "consistency", "correlation_matrix", "junct", "opt_g", "opt_j", "opt_p",
    "preferences", "rank_methods", "subg", "tlts", "together", "triplets", "trips",
]  # fmt: skip
