"""Sparse convolution against its plain form."""
