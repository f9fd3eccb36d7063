"""Single objects followed through video."""
