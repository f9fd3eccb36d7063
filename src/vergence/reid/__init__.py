"""Re-identification: the same person (or vehicle, or product) seen again by another camera."""
