"""The Python interface: every command is also a short function call."""
