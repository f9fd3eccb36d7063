"""Shared basics: errors, files, seeding and progress."""
