"""What everything stands on: errors, files, randomness and progress."""
