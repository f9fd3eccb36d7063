"""Drawing shared by all systems: figures, grids of pictures, self-contained pages and viewers."""
