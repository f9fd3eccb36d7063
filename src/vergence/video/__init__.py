"""Video: what happens, and where."""
