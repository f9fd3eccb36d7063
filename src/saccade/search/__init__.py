"""Finding the nearest of many descriptors, and asking better the second time."""

from saccade.search.expansion import Alpha, Average, Decayed, Discriminative, NoExpansion, augmented, expanded
from saccade.search.index import Index
from saccade.search.shards import Shards

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
