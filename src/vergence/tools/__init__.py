"""Tools around systems: checks of data sets and of this set-up, and export to other programs."""
