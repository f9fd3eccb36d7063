"""Title pictures of systems: one module each, with ``CAPTION`` and ``draw(path)``."""
