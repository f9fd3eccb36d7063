"""``vergence eval`` and ``vergence predict``: evaluate weights, or use them on files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vergence import catalogue
from vergence.cli.options import Output, asks_for_help, joined, peek, read, take_name
from vergence.cli.show import document, metrics_table, table
from vergence.core.errors import NotOffered, VergenceError
from vergence.core.progress import Progress, show_progress
from vergence.runs.folder import ROOT
from vergence.runs.machine import Machine

if TYPE_CHECKING:
    from vergence.contract.system import AnySystem
    from vergence.engine.choose import Chosen


@dataclass(frozen=True)
class EvalOptions:
    """What to judge."""

    weights: str = ""
    """A weights file; default: the newest run's, or the system's starter weights."""
    split: Literal["train", "val", "test"] = "test"
    """Split of the data."""


@dataclass(frozen=True)
class PredictOptions:
    """Weights and output."""

    weights: str = ""
    """A weights file; default: the newest run's, or the system's starter weights."""
    output: str = "predictions"
    """The folder to write into, or the name of the main file, such as out.mp4; also -o."""


def eval(args: Sequence[str]) -> int:  # the name of the command
    name, rest = take_name(args, "eval")
    described = "Evaluate weights by the paper's protocol. Config flags override the config stored with the weights."
    if asks_for_help(rest):
        _read_eval(catalogue.settings(name).configure("tiny"), rest, name, described)
    system = catalogue.load(name)
    if not system.offers("evaluate"):
        raise system.not_offered("evaluation")
    chosen = choose_or_train(system, peek(rest, "--weights") or "", Path(peek(rest, "--runs") or ROOT))
    parsed = _read_eval(chosen.identity.config, rest, name, described)
    from vergence.engine.use import judge

    split = parsed.options.split
    with show_progress(parsed.output.quiet) as progress:
        say_which(chosen, progress)
        metrics = judge(system, chosen.identity, chosen.model, parsed.config, split, parsed.machine, progress)
    if parsed.output.json:
        weights = str(chosen.path) if chosen.path else None
        document({"system": name, "weights": weights, "split": split, "metrics": metrics})
    else:
        metrics_table(f"{name}, {split} data", system.metrics, {chosen.identity.variant or name: metrics})
    return 0


def _read_eval(config: Any, args: Sequence[str], name: str, described: str) -> Any:
    parts = [("options", EvalOptions()), ("output", Output()), ("machine", Machine()), ("config", config)]
    return read(joined(*parts), args, f"eval {name}", described)


def predict(args: Sequence[str]) -> int:
    name, rest = take_name(args, "predict")
    settings = catalogue.settings(name)
    if settings.inputs is None:
        raise NotOffered(f"{name} offers no prediction: its method has no use for it")
    rest = ["--output" if a == "-o" else a for a in rest]
    parts = [
        ("inputs", settings.inputs),
        ("options", PredictOptions()),
        ("output", Output()),
        ("machine", Machine()),
    ]
    parsed: Any = read(joined(*parts), rest, f"predict {name}", f"Use {name} on your files.")
    system = catalogue.load(name)  # imports PyTorch, after the options were checked
    from vergence.engine.use import infer

    with show_progress(parsed.output.quiet) as progress:
        needed = system.needs_model(parsed.inputs)
        spare = system.does_without(parsed.inputs)
        chosen = choose_or_train(system, parsed.options.weights, parsed.output.runs, needed, spare)
        say_which(chosen, progress)
        (result,) = infer(system, chosen.identity, chosen.model, [parsed.inputs], parsed.machine, progress)
        artifacts = result.save(parsed.options.output, progress)
    files = [{"kind": a.kind, "path": str(a.path), "caption": a.caption} for a in artifacts]
    if parsed.output.json:
        document({"system": name, "weights": chosen.origin, "result": result.to_json(), "files": files})
        return 0
    summary = result.summary()
    if summary:
        table("", ["result", ""], [[label, _shown(value)] for label, value in summary.items()])
    table("", ["file", "what"], [[file["path"], file["caption"]] for file in files])
    return 0


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_shown(v)}" for k, v in value.items())
    return ", ".join(map(_shown, value)) if isinstance(value, list | tuple) else str(value)


def choose_or_train(system: AnySystem, given: str, root: Path, needed: bool = True, spare: bool = False) -> Chosen:
    """The weights to use. If there are none, a user at a terminal is asked whether to train some."""
    from vergence.engine.choose import choose

    try:
        return choose(system, given, root, needed, spare)
    except VergenceError as nothing:
        asked = str(nothing).startswith("no weights of") and system.trains
        if not (asked and sys.stdin.isatty() and sys.stderr.isatty()):
            raise
        print(f"{nothing}. Train now? [y/N] ", end="", file=sys.stderr, flush=True)
    name = system.about.name
    if input().strip().lower() not in ("y", "yes"):
        raise VergenceError(f"no weights of {name}")
    from vergence.cli.train import train

    if train([name, "--runs", str(root), "--no-report"]):
        raise VergenceError(f"the training of {name} failed")
    return choose(system, given, root, needed)


def say_which(chosen: Chosen, progress: Progress) -> None:
    """Show which weights are used, if the user did not choose them."""
    if chosen.origin:
        progress.say(chosen.origin)
