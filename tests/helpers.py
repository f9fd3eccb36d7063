"""Shared by tests: runs that are short, stopped and carried on."""

from __future__ import annotations

import dataclasses
import os
import signal

from vergence.contract.training import phases_of
from vergence.core.errors import Interrupted
from vergence.core.progress import Progress
from vergence.engine.execute import execute
from vergence.runs.folder import Run
from vergence.runs.machine import Runtime
from vergence.runs.order import Order


class StopAt(Progress):
    """Sends the process a signal when a training step is shown."""

    def __init__(self, step, number=signal.SIGINT):
        self.left, self.number = step, number

    def update(self, task, done, note="", total=None):
        if total is not None:  # only training steps say how many there are to be
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), self.number)


def short(system, steps, changes=None, preset="tiny", variant=None):
    """A preset whose phases all last ``steps`` steps and log every one of them."""
    config = system.configure(preset, variant, changes)
    cut = {
        name: dataclasses.replace(phase, epochs=0, steps=steps, log_every=1)
        for name, phase in phases_of(config).items()
    }
    return dataclasses.replace(config, **cut)


def start(name, config, root, variant="v", **runtime):
    return Run.create(Order(name, "tiny", variant, config, Runtime(device="cpu", **runtime)), root)


def stop_and_go_on(run, step, number=signal.SIGINT):
    """Stop a run after a step, then carry it to its end."""
    try:
        execute(run, StopAt(step, number))
    except Interrupted as error:
        assert error.exit_code == 128 + number
    else:
        raise AssertionError(f"the run ended before step {step}")
    return execute(run, Progress())
