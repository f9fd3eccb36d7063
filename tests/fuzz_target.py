"""What the coverage-guided fuzzer runs, in a process of its own: ``python fuzz_target.py TARGET CORPUS [OPTIONS]``."""

import json
import sys
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["vergence"]):
    import vergence.config
    import vergence.data.pickles
    import vergence.files
    import vergence.ledger
    import vergence.run
    from vergence.cli.completion import complete
    from vergence.engine.weights import identify, load_model
    from vergence.errors import VergenceError


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
    order = vergence.run.Order.read(path)
    assert vergence.config.from_json(type(order.config), json.loads(json.dumps(vergence.config.to_json(order.config))))


TARGETS = {
    "config": on_file("config.json", config),
    "tensors": on_file("w.safetensors", vergence.files.load_tensors, identify, load_model),
    "archive": on_file("a.pt", vergence.files.load_archive),
    "pickle": on_file("p", vergence.data.pickles.read_arrays),
    "metrics": on_file("metrics.jsonl", lambda path: vergence.run.Run(path.parent).metrics()),
    "claims": on_file("claims.json", lambda path: vergence.ledger._items(path)),
    "line": line,
}


if __name__ == "__main__":
    atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[sys.argv[1]])
    atheris.Fuzz()
