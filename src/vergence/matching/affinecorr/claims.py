"""Statements of the paper."""

CLAIMS = ()
