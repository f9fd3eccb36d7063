"""Robustness: how a classifier stands up to pictures that were changed against it."""
