"""Alphabets of recognisers."""

import string

ALPHANUMERIC = string.digits + string.ascii_lowercase
"""The 36 symbols of scene text benchmarks, which ignore case."""
PRINT = " " + string.digits + string.ascii_letters + string.punctuation + "€£°"
"""The 98 symbols of printed lines: ASCII, and three more."""
