"""Plain, slow, obviously right forms of the fast operators: for tests, claims and benchmarks."""
