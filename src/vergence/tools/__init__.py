"""Tools around systems: checks of data sets and of the installation, export, and scaffolding of new systems."""
