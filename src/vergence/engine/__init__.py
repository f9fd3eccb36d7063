"""Training, evaluation and checkpoints for any system: knows the contract, and no system."""
