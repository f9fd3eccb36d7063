"""``vergence gallery``: a local web page with results and a live demo of every system."""

from __future__ import annotations

import importlib.util
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from vergence.app.limits import Limits
from vergence.cli.options import read
from vergence.core.errors import VergenceError
from vergence.runs.folder import ROOT


@dataclass(frozen=True)
class GalleryOptions:
    """Address of the page, and its contents."""

    host: str = "127.0.0.1"
    """The address to listen on; by default reachable from this machine only."""
    port: int = 7860
    """The port to listen on (0: any free port)."""
    runs: Path = ROOT
    """Where run folders are kept."""
    open: bool = True
    """Open the page in a browser."""
    limits: Annotated[Limits, tyro.conf.arg(name="")] = Limits()


def gallery(args: Sequence[str]) -> int:
    options = read(GalleryOptions, args, "gallery", "Systems, reports and live demos as a local web page.")
    if not 0 <= options.port <= 65535:
        raise VergenceError(f"--port is a number from 0 to 65535, got {options.port}")
    if importlib.util.find_spec("gradio") is None:
        raise VergenceError("the gallery needs Gradio, which is not installed: pip install 'vergence[app]'")
    from vergence.app.server import serve

    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # either signal closes it and removes its files
    with suppress(KeyboardInterrupt):
        serve(options.runs, options.host, options.port, options.limits, options.open)
    return 0
