"""Eight metrics of a predicted map against the true one, their aggregation and comparison."""

from vergence.maps.metrics.agreement import Agreement, together
from vergence.maps.metrics.ccq import ccq
from vergence.maps.metrics.junct import junct
from vergence.maps.metrics.opt_g import opt_g, subg
from vergence.maps.metrics.opt_j import opt_j
from vergence.maps.metrics.opt_p import opt_p
from vergence.maps.metrics.scores import (
    Scores,
    aggregate,
    compare,
    consistency,
    correlation_matrix,
    preferences,
    rank_methods,
    triplets,
)  # fmt: skip
from vergence.maps.metrics.trips import apls, tlts, trips
from vergence.maps.settings import NAMES, NEW, OLD, PARITY, Ccq, Junct, Measures, OptJ, OptP, Subgraphs, Trips

__all__ = [
    "NAMES", "NEW", "OLD", "PARITY",
    "Agreement", "Ccq", "Junct", "Measures", "OptJ", "OptP", "Scores", "Subgraphs", "Trips",
    "aggregate", "apls", "ccq", "compare", "consistency", "correlation_matrix", "junct", "opt_g", "opt_j", "opt_p",
    "preferences", "rank_methods", "subg", "tlts", "together", "triplets", "trips",
]  # fmt: skip
