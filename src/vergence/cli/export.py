"""``vergence export``: export trained weights to ONNX or torch.export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vergence import catalogue
from vergence.cli.options import read, take_name
from vergence.cli.show import document
from vergence.cli.use import choose_or_train, say_which
from vergence.contract.config import to_json
from vergence.core.progress import show_progress
from vergence.runs.folder import ROOT

DESCRIPTION = """Write a trained model as one file: ONNX, or a torch.export program (.pt2). Its outputs are compared
with the model's before it is kept. It carries system, config, facts and preprocessing. The batch size is dynamic where
the model allows it."""


@dataclass(frozen=True)
class ExportOptions:
    to: Literal["onnx", "torch"] = "onnx"
    """The format: onnx (needs the extra `export`), or torch for torch.export."""
    weights: str = ""
    """A weights file; default: the newest run's, or the system's starter weights."""
    output: str = ""
    """The file to write, also -o; default: NAME-VARIANT.onnx or .pt2 in the current folder."""
    json: bool = False
    """One JSON document on standard output."""
    quiet: bool = False
    """No progress."""
    runs: Path = ROOT
    """Where run folders are kept."""


def export(args: Sequence[str]) -> int:
    name, rest = take_name(args, "export")
    rest = ["--output" if a == "-o" else a for a in rest]
    options = read(ExportOptions, rest, f"export {name}", DESCRIPTION)
    system = catalogue.load(name)
    if not system.offers("build"):
        raise system.not_offered("model to export")
    from vergence.tools.exporting import SUFFIXES
    from vergence.tools.exporting import export as export_model

    with show_progress(options.quiet) as progress:
        chosen = choose_or_train(system, options.weights, options.runs)
        say_which(chosen, progress)
        assert chosen.model is not None
        identity = chosen.identity
        default = f"{name}-{identity.variant}" if identity.variant else name
        target = Path(options.output) if options.output else Path(default + SUFFIXES[options.to])
        task = progress.start(f"exporting to {options.to}", None)
        exported = export_model(system, chosen.model, identity, options.to, target)
        progress.finish(task)
    if options.json:
        document({"system": name, "weights": str(chosen.path), **to_json(exported)})
        return 0
    print(f"file: {exported.path}")
    for label, shape in exported.inputs.items():
        print(f"input {label}: {' x '.join(map(str, shape))}")
    for number, shape in enumerate(exported.outputs):
        print(f"output {number}: {' x '.join(map(str, shape))}")
    difference = f"differs by at most {exported.difference:.2g} (largest value {exported.scale:.3g})"
    print(f"checked with {exported.checked_with}: {difference}")
    if exported.operators:
        print(f"import vergence before opening it, for {', '.join(exported.operators)}")
    return 0
