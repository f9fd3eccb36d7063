"""Tracking: where a thing that was shown once is in every later frame."""
