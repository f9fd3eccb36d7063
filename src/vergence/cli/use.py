"""``vergence eval`` and ``vergence predict``: trained weights, judged or used."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from vergence import catalogue
from vergence.cli.options import Output, asks_for_help, joined, peek, read, take_name
from vergence.cli.show import document, metrics_table, table
from vergence.contract.system import AnySystem
from vergence.core.errors import VergenceError
from vergence.core.progress import Progress, show_progress
from vergence.runs.folder import ROOT, runs
from vergence.runs.machine import Machine


@dataclass(frozen=True)
class EvalOptions:
    """What to judge."""

    weights: str = ""
    """A weights file; if none is given, those of the newest run."""
    split: Literal["train", "val", "test"] = "test"
    """Which part of the data."""


@dataclass(frozen=True)
class PredictOptions:
    """What to use and where to write."""

    weights: str = ""
    """A weights file; if none is given, those of the newest run."""
    output: str = "predictions"
    """The folder to write into, or the name of the main file, such as out.mp4; -o for short."""


def eval(args: Sequence[str]) -> int:  # named as the command is
    name, rest = take_name(args, "eval")
    system = catalogue.load(name)
    if not system.offers("evaluate"):
        raise system.not_offered("evaluation")
    described = "Judge weights by the paper's protocol. Flags of the config change what the weights came with."
    if asks_for_help(rest):
        _read_eval(system.configure("tiny"), rest, name, described)
    model, identity, path = _weights(system, rest)
    given = _read_eval(identity.config, rest, name, described)
    from vergence.api import run_judgement

    with show_progress(given.output.quiet) as progress:
        say_which(path, progress)
        split, machine = given.options.split, given.machine
        found = run_judgement(system, identity, model, given.config, split, machine, progress)
    if given.output.json:
        document({"system": name, "weights": str(path) if path else None, "split": split, "metrics": found})
    else:
        metrics_table(f"{name}, {split} data", system.metrics, {identity.variant or name: found})
    return 0


def _read_eval(config: Any, args: Sequence[str], name: str, described: str) -> Any:
    parts = [("options", EvalOptions()), ("output", Output()), ("machine", Machine()), ("config", config)]
    return read(joined(*parts), args, f"eval {name}", described)


def predict(args: Sequence[str]) -> int:
    name, rest = take_name(args, "predict")
    system = catalogue.load(name)
    if system.settings.inputs is None or not system.offers("predict"):
        raise system.not_offered("prediction on files")
    rest = ["--output" if a == "-o" else a for a in rest]
    parts = [
        ("inputs", system.settings.inputs),
        ("options", PredictOptions()),
        ("output", Output()),
        ("machine", Machine()),
    ]
    given: Any = read(joined(*parts), rest, f"predict {name}", f"Use {name} on your files.")
    from vergence.api import run_prediction

    with show_progress(given.output.quiet) as progress:
        model, identity, path = _weights(system, rest, system.needs_model(given.inputs))
        say_which(path, progress)
        folder = Path(given.options.output)
        made = run_prediction(system, identity, model, given.inputs, folder, given.machine, progress)
    if given.output.json:
        document([{"kind": a.kind, "path": str(a.path), "caption": a.caption} for a in made])
    else:
        table("", ["file", "what"], [[str(a.path), a.caption] for a in made])
    return 0


def _weights(system: AnySystem, args: Sequence[str], needed: bool = True) -> tuple[Any, Any, Path | None]:
    """:func:`find_weights`, before the whole line can be read."""
    return find_weights(system, peek(args, "--weights") or "", Path(peek(args, "--runs") or ROOT), needed)


def find_weights(system: AnySystem, given: str, root: Path, needed: bool = True) -> tuple[Any, Any, Path | None]:
    """The model, what it is, and its file: those given, else the newest run's; without a model, the preset."""
    from vergence.contract.identity import Identity
    from vergence.engine.weights import load_model_of

    name = system.about.name
    if not (system.offers("build") and (needed or given)):
        return None, Identity(name, "tiny", "", system.configure("tiny"), system.settings.facts()), None
    path = Path(given) if given else _newest_weights(name, root) or _offer_training(system, root)
    return *load_model_of(system, path), path


def _newest_weights(name: str, root: Path) -> Path | None:
    """Of the newest finished run; of the newest unfinished one if none has finished."""
    found = [run for run in runs(name, root) if run.weights]
    finished = [run for run in found if (run.folder / "result.json").exists()]
    return next((run.weights for run in finished + found), None)


def _offer_training(system: AnySystem, root: Path) -> Path:
    """Nobody has trained yet: on a terminal, ask; elsewhere say how."""
    name = system.about.name
    if not system.trains:
        raise VergenceError(f"no weights of {name} here: give --weights FILE, or make some with `vergence run {name}`")
    how = f"vergence train {name}"
    took = f", about {system.settings.minutes:g} minutes on two cores" if system.settings.minutes else ""
    question = f"no weights of {name} here: give --weights FILE, or train some first with `{how}` (tiny{took})"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise VergenceError(question)
    print(f"{question}. Train now? [y/N] ", end="", file=sys.stderr, flush=True)
    if input().strip().lower() not in ("y", "yes"):
        raise VergenceError(f"no weights of {name}")
    from vergence.cli.train import train

    if train([name, "--runs", str(root), "--no-report"]):
        raise VergenceError(f"the training of {name} failed")
    found = _newest_weights(name, root)
    if found is None:
        raise VergenceError(f"the training of {name} left no weights")
    return found


def say_which(path: Path | None, progress: Progress) -> None:
    """Whose weights these are, for who did not say."""
    if path is not None:
        progress.say(f"weights: {path}")
