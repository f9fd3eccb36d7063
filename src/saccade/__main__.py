"""``python -m saccade``."""

from saccade.cli.main import entry

entry()
