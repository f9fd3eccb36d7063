"""What the coverage-guided fuzzer runs, in a process of its own: ``python fuzz_target.py TARGET CORPUS [OPTIONS]``."""

import json
import sys
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["vergence"]):
    import vergence.contract.config
    import vergence.core.files
    import vergence.reading.pickles
    import vergence.runs.folder
    import vergence.studies.ledger
    from vergence.cli.completion import complete
    from vergence.core.errors import VergenceError
    from vergence.engine.weights import identify, load_model


def on_file(name, *readers):
    """Each reader gets the input as a file."""
    path = Path(name)  # in the working folder, which the test gives and removes

    def run(content):
        path.write_bytes(content)
        for read in readers:
            with suppress(VergenceError):
                read(path)

    return run


def line(content):
    words = content.decode("utf-8", "replace").split("\n")
    with suppress(VergenceError):
        complete(words or [""])


def config(path):
    order = vergence.runs.order.Order.read(path)
    assert vergence.contract.config.from_json(
        type(order.config), json.loads(json.dumps(vergence.contract.config.to_json(order.config)))
    )


TARGETS = {
    "config": on_file("config.json", config),
    "tensors": on_file("w.safetensors", vergence.reading.weights.load_tensors, identify, load_model),
    "archive": on_file("a.pt", vergence.reading.weights.load_archive),
    "pickle": on_file("p", vergence.reading.pickles.read_pickle),
    "metrics": on_file("metrics.jsonl", lambda path: vergence.runs.folder.Run(path.parent).records()),
    "claims": on_file("claims.json", lambda path: vergence.studies.ledger._items(path)),
    "line": line,
}


if __name__ == "__main__":
    atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[sys.argv[1]])
    atheris.Fuzz()
