"""Points: what is where in three dimensions, and where it goes."""
