"""Image retrieval: finding pictures of the same object or place in a large collection."""
