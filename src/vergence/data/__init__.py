"""Readers for images, videos, point clouds and archives that several tasks share."""
