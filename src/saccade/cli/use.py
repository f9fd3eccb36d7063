"""``saccade eval`` and ``saccade predict``: trained weights, judged or used."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from saccade import catalogue
from saccade.cli.options import Output, joined, peek, read, take_name
from saccade.cli.show import document, metrics_table, table
from saccade.errors import SaccadeError
from saccade.progress import Progress, show_progress
from saccade.run import ROOT, Runtime, runs
from saccade.system import System


@dataclass(frozen=True)
class WeightOptions:
    """Which weights."""

    weights: str = ""
    """A weights file; if none is given, those of the newest run."""
    preset: str = "tiny"
    """For systems without weights: the config."""


@dataclass(frozen=True)
class EvalOptions(WeightOptions):
    """What to judge."""

    split: str = "test"
    """train, val or test."""


@dataclass(frozen=True)
class PredictOptions(WeightOptions):
    """What to use and where to write."""

    output: str = "predictions"
    """The folder to write into."""


def eval(args: Sequence[str]) -> int:  # named as the command is
    from saccade.engine.evaluate import run_evaluation
    from saccade.engine.execute import working

    name, rest = take_name(args, "eval")
    system = catalogue.load(name)
    if not system.offers("evaluate"):
        raise system.not_offered("evaluation")
    model, identity, path = _weights(system, rest)
    kind = joined(("options", EvalOptions), ("output", Output), ("runtime", Runtime), ("config", identity.config))
    start: Any = kind(EvalOptions(str(path or "")), Output(), Runtime(threads=0), identity.config)
    given: Any = read(kind, rest, f"eval {name}", "Judge weights by the paper's protocol.", start)
    with show_progress(given.output.quiet) as progress, tempfile.TemporaryDirectory() as scratch:
        _say_which(path, progress)
        folder = Path(scratch)
        with working(system, given.config, folder, given.runtime, progress, identity.facts) as ctx:
            data = system.prepare(ctx, system.data(ctx, given.options.split))
            found = run_evaluation(system, ctx, model.to(ctx.device) if model is not None else None, data)
    if given.output.json:
        document({"system": name, "weights": str(path) if path else None, "metrics": found})
    else:
        metrics_table(f"{name}, {given.options.split} data", system.metrics, {identity.variant or name: found})
    return 0


def predict(args: Sequence[str]) -> int:
    from saccade.api import run_prediction

    name, rest = take_name(args, "predict")
    system = catalogue.load(name)
    if system.inputs_type is None or not system.offers("predict"):
        raise system.not_offered("prediction on files")
    rest = ["--output" if a == "-o" else a for a in rest]
    asks_help = any(a in ("-h", "--help") for a in rest)
    kind = joined(("inputs", system.inputs_type), ("options", PredictOptions), ("output", Output), ("runtime", Runtime))
    described = f"Use {name} on your files."
    if asks_help:
        read(kind, rest, f"predict {name}", described)
    model, identity, path = _weights(system, rest)
    given: Any = read(kind, rest, f"predict {name}", described)
    runtime = given.runtime if peek(rest, "--threads") else replace(given.runtime, threads=0)
    with show_progress(given.output.quiet) as progress:
        _say_which(path, progress)
        folder = Path(given.options.output)
        made = run_prediction(system, identity, model, given.inputs, folder, runtime, progress)
    if given.output.json:
        document([{"kind": a.kind, "path": str(a.path), "caption": a.caption} for a in made])
    else:
        table("", ["file", "what"], [[str(a.path), a.caption] for a in made])
    return 0


def _weights(system: System[Any, Any], args: Sequence[str]) -> tuple[Any, Any, Path | None]:
    """The model, what it is, and its file: those given, else the newest run's; without a model, the preset."""
    from saccade.engine.weights import Identity, load_model_of

    name = system.about.name
    if not system.offers("build"):
        preset = peek(args, "--preset") or "tiny"
        return None, Identity(name, preset, "", system.configure(preset), system.facts_type()), None
    root, given = Path(peek(args, "--runs") or ROOT), peek(args, "--weights")
    path = Path(given) if given else _newest_weights(name, root) or _offer_training(system, root)
    return *load_model_of(system, path), path


def _newest_weights(name: str, root: Path) -> Path | None:
    """Of the newest finished run; of the newest unfinished one if none has finished."""
    found = [run for run in runs(name, root) if run.weights]
    finished = [run for run in found if (run.folder / "result.json").exists()]
    return next((run.weights for run in finished + found), None)


def _offer_training(system: System[Any, Any], root: Path) -> Path:
    """Nobody has trained yet: on a terminal, ask; elsewhere say how."""
    name = system.about.name
    how = f"saccade train {name}"
    took = f", about {system.tiny_minutes:g} minutes on two cores" if system.tiny_minutes else ""
    question = f"no weights of {name} here: give --weights FILE, or train some first with `{how}` (tiny{took})"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise SaccadeError(question)
    print(f"{question}. Train now? [y/N] ", end="", file=sys.stderr, flush=True)
    if input().strip().lower() not in ("y", "yes"):
        raise SaccadeError(f"no weights of {name}")
    from saccade.cli.train import train

    if train([name, "--runs", str(root), "--no-report"]):
        raise SaccadeError(f"the training of {name} failed")
    found = _newest_weights(name, root)
    if found is None:
        raise SaccadeError(f"the training of {name} left no weights")
    return found


def _say_which(path: Path | None, progress: Progress) -> None:
    if path is not None:
        progress.say(f"weights: {path}")
