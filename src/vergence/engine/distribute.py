"""Several processes: torchrun starts them, Fabric joins them, and only the first one writes.

``vergence train NAME --devices 2`` starts itself again under torchrun. On several machines the user does::

    torchrun --nnodes 2 --nproc-per-node 4 --node-rank 0 --master-addr HOST --master-port 29500 \\
        -m vergence train NAME --devices 4 --nodes 2

on each of them (with its own ``--node-rank``), in a folder that all of them share.
"""

from __future__ import annotations

import atexit
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import NoReturn

from vergence.core.errors import Interrupted, VergenceError
from vergence.core.parent import TIED
from vergence.core.progress import EVENTS_VARIABLE, Progress, follow, show_progress
from vergence.engine import signals
from vergence.runs.machine import Runtime


def under_torchrun() -> bool:
    """Whether this is one of several processes that torchrun started."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "LOCAL_WORLD_SIZE" in os.environ


def leads() -> bool:
    """Whether this process is the only one, or the one that writes."""
    return not under_torchrun() or os.environ.get("RANK") == "0"


def leave(code: int) -> NoReturn:
    """Exit one of several processes once its work is done, without running C++ destructors.

    gloo's threads may still run while their owner is destroyed: on a busy machine one process in ten aborted, and
    torchrun then stopped the others, including the one that writes.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def launch(args: Sequence[str], runtime: Runtime, quiet: bool) -> int:
    """Start this command again as several processes, and wait for their end."""
    if runtime.nodes > 1:
        line = f"torchrun --nnodes {runtime.nodes} --nproc-per-node {runtime.devices} --node-rank RANK"
        raise VergenceError(
            f"on {runtime.nodes} machines, start it on each with: {line} --master-addr HOST --master-port 29500 "
            f"-m vergence train {' '.join(args)}"
        )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={runtime.devices}"]
    with show_progress(quiet) as progress, signals.listening() as stop:
        child = subprocess.Popen(
            [*command, "--no-python", sys.executable, "-m", "vergence", "train", *args],
            env=os.environ | {EVENTS_VARIABLE: "json"} | TIED,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        stop.listeners.append(lambda number: child.send_signal(signal.SIGTERM))
        message, cause, code = _last_words(child, progress)
    if stop():
        raise Interrupted(message or "stopped", stop.signal_number)
    if code:
        death = f"one of the {runtime.devices} processes died ({cause}), and the others were stopped"
        failure = VergenceError(message or death)
        failure.exit_code = code
        raise failure
    return 0


def _last_words(child: subprocess.Popen[str], progress: Progress) -> tuple[str, str, int]:
    """Show the progress of the processes. Returns Vergence's own error message, the cause of the first failure, and its
    exit code (torchrun's own is always 1)."""
    assert child.stderr is not None
    plain = follow(child.stderr, progress)
    ours = next((line.removeprefix("vergence: ") for line in plain if line.startswith("vergence: ")), "")
    first = next((int(match[1]) for line in plain if (match := re.search(r"exitcode\s*: (-?\d+)", line))), 1)
    return ours, _cause(plain, first), child.wait() and (first if ours and first > 0 else 1)


def _cause(plain: Sequence[str], code: int) -> str:
    """A signal by its name, or the last line of the first traceback of a process that trains."""
    if code < 0:
        return signal.Signals(-code).name
    raised = (re.match(r"(?:\[rank\d+\]:\s*)?([\w.]*(?:Error|Exception)\b.*)", line) for line in plain)
    return next((match[1] for match in raised if match), f"exit code {code}")
