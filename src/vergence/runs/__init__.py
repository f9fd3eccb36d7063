"""Runs: what is asked for, the folder that holds it, and what it was made with."""
