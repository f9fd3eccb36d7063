"""Finding the nearest of many descriptors."""

from saccade.search.index import Index

__all__ = ["Index"]
