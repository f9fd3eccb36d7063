"""``vergence export``: trained weights as a file for other programs."""

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

DESCRIPTION = """Write a trained model as one file: ONNX, or a program of torch.export (.pt2). The file is run beside
the model before it is kept, and carries system, config, facts and preprocessing. The batch is free where the model
lets it."""


@dataclass(frozen=True)
class ExportOptions:
    to: Literal["onnx", "torch"] = "onnx"
    """The format: onnx (needs the extra `export`), or torch for torch.export."""
    weights: str = ""
    """A weights file; if none is given, those of the newest run, or those that come with the system."""
    output: str = ""
    """The file to write; if none is given, NAME-VARIANT.onnx or .pt2 here. -o for short."""
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
        made = export_model(system, chosen.model, identity, options.to, target)
        progress.finish(task)
    if options.json:
        document({"system": name, "weights": str(chosen.path), **to_json(made)})
        return 0
    print(f"file: {made.path}")
    for given, shape in made.inputs.items():
        print(f"input {given}: {' x '.join(map(str, shape))}")
    for number, shape in enumerate(made.outputs):
        print(f"output {number}: {' x '.join(map(str, shape))}")
    print(
        f"checked with {made.checked_with}: differs by at most {made.difference:.2g} (largest value {made.scale:.3g})"
    )
    if made.operators:
        print(f"whoever opens it imports vergence first, for {', '.join(made.operators)}")
    return 0
