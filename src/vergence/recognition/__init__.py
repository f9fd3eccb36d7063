"""Recognition: classification of pictures."""
