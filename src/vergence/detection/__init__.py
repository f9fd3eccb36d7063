"""Objects in pictures, as boxes and classes."""
