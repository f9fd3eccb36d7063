"""Video: action recognition."""
