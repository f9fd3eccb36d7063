"""Retrieval: finding pictures of the same thing among many."""
