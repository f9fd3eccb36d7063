"""Studies of many runs: comparisons, claims, stored results and their traces."""
