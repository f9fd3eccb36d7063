"""Small data sets in the public layouts, and files to search."""

from reid.picture_layouts import layouts, searched

__all__ = ["layouts"]


def prediction(folder):
    return [*searched(folder), "--points", "20,30"]
