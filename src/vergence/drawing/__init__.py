"""Drawing: figures, grids of pictures, self-contained pages and viewers that all systems share."""
