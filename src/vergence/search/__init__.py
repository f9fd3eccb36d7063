"""Nearest-neighbour search among many descriptors, and query expansion."""

from vergence.search.expansion import Alpha, Average, Decayed, Discriminative, NoExpansion, augmented, expanded
from vergence.search.index import Index
from vergence.search.shards import Shards

__all__ = [
    "Alpha",
    "Average",
    "Decayed",
    "Discriminative",
    "Index",
    "NoExpansion",
    "Shards",
    "augmented",
    "expanded",
]
