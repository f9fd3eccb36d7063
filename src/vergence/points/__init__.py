"""Point clouds: scene flow between two instants."""
