"""The contract between systems and the engine: what a system declares and what its hooks receive."""
