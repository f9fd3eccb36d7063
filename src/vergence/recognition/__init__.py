"""Recognition: what is in a picture."""
