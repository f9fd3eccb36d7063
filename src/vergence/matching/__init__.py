"""Correspondences between pictures: cameras, local affine frames, tracks, and the surfaces they belong to."""
