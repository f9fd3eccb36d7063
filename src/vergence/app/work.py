"""The process of a prediction: ``python -m vergence.app.work FOLDER``.

The folder holds the order and gets the results; progress goes to standard error.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from vergence import catalogue
from vergence.app.jobs import INPUTS, MADE, ORDER, OUTPUTS
from vergence.contract.config import from_json, to_json
from vergence.core.errors import VergenceError, reason
from vergence.core.files import write_json
from vergence.core.progress import show_progress
from vergence.engine.choose import without_model
from vergence.engine.weights import load_model_of
from vergence.reading.tables import read_json
from vergence.runs.machine import Machine

TEXTS = (".csv", ".tsv", ".json", ".txt", ".html", ".geojson", ".md")


def work(folder: Path) -> None:
    """Run the prediction that the order asks for."""
    from vergence.engine.use import infer

    order = read_json(folder / ORDER)
    system = catalogue.load(order["system"])
    assert system.settings.inputs is not None
    inputs: Any = from_json(system.settings.inputs, order["inputs"], f"{order['system']}'s inputs")
    with show_progress() as progress:
        task = progress.start("opening the weights" if order["weights"] else "beginning", None)
        model: Any = None
        if order["weights"]:
            model, identity = load_model_of(system, Path(order["weights"]))
        else:
            identity = without_model(system)
        progress.finish(task)
        task = progress.start("computing", None)
        (result,) = infer(system, identity, model, [inputs], Machine(), progress)
        artifacts = result.save(folder / OUTPUTS, progress)
        progress.finish(task)
    for path in (folder / OUTPUTS).rglob("*"):
        if path.suffix.lower() in TEXTS and path.is_file() and not path.is_symlink():
            path.write_bytes(without_folder(path.read_bytes(), folder))
    write_json(folder / MADE, to_json(artifacts))


def without_folder(content: bytes, folder: Path) -> bytes:
    """Replace paths on the server by the visitor's file names, and folders by the name of their field."""
    for place in {folder, folder.resolve()}:
        content = re.sub(re.escape(os.fsencode(f"{place}/{INPUTS}/")) + rb"(\w+/)?", b"", content)
    return content


def main() -> int:
    try:
        work(Path(sys.argv[1]))
    except VergenceError as error:
        print(f"vergence: {' '.join(str(error).split())}", file=sys.stderr)
        return error.exit_code
    except MemoryError:
        print("vergence: there is not enough memory for this", file=sys.stderr)
        return 1
    except Exception as error:
        print(f"vergence: unexpected error: {reason(error)}", file=sys.stderr)
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
