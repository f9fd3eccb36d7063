"""Agents: who does what to whom. People and things in pictures, and the relations between them."""
