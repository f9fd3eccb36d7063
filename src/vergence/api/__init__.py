"""The Python door: everything the commands do is a short call."""
