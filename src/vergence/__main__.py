"""``python -m vergence``."""

from vergence.cli.main import entry

entry()
