"""The weights to use: those given, those of the newest run, or the system's starter weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from vergence import catalogue
from vergence.contract.identity import Identity
from vergence.contract.system import AnySystem
from vergence.core.errors import VergenceError
from vergence.core.progress import about_minutes
from vergence.engine.starters import one_line
from vergence.engine.weights import load_model_of, origin
from vergence.runs.folder import runs


@dataclass(frozen=True)
class Chosen:
    """A model with its identity and origin."""

    model: nn.Module | None
    identity: Identity
    path: Path | None = None
    origin: str = ""
    """One line that says where the weights come from; empty if none are needed."""


def without_model(system: AnySystem) -> Identity:
    """The identity of a system that works without trained weights."""
    return Identity(system.about.name, "tiny", "", system.configure("tiny"), system.settings.facts())


def choose(
    system: AnySystem, given: str | Path = "", root: Path | None = None, needed: bool = True, spare: bool = False
) -> Chosen:
    """The weights to use: those given; else of the newest run below ``root``; else the starter weights; else none, if
    the system can do without (``spare``)."""
    if not (system.offers("build") and (needed or given)):
        return Chosen(None, without_model(system))
    name = system.about.name
    newest = newest_weights(name, root) if root is not None and not given else None
    starter = catalogue.starter(name) if not given and newest is None else None
    path = Path(given).expanduser() if given else newest or starter
    if path is None and spare:
        return Chosen(None, without_model(system))
    if path is None:
        raise VergenceError(nothing_here(system))
    model, identity = load_model_of(system, path)
    return Chosen(model, identity, path, one_line(path) if path == starter else origin(path, identity))


def newest_weights(name: str, root: Path) -> Path | None:
    """Weights of the newest finished run; of the newest unfinished one if none has finished."""
    trained = [run for run in runs(name, root) if run.weights]
    finished = [run for run in trained if (run.folder / "result.json").exists()]
    return next((run.weights for run in finished + trained), None)


def nothing_here(system: AnySystem) -> str:
    """The error for a system without weights, which says how to get some."""
    name, minutes = system.about.name, system.settings.minutes
    if not system.trains:
        return f"no weights of {name} here: give --weights FILE, or make some with `vergence run {name}`"
    took = f", {about_minutes(minutes)} on two cores" if minutes else ""
    return (
        f"no weights of {name} here: give --weights FILE, or train some first with `vergence train {name}` (tiny{took})"
    )
