"""A weights file may ask for anything: every number of its config and facts is made huge, zero and negative, and it is
loaded and used in a process with little memory and time."""

import json
import os
import resource
import signal
import sys

import pytest

import vergence
from contract.test_contract import PREDICTING, TRAINED, _given, trained  # noqa: F401
from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.engine.weights import KEY
from vergence.reading.weights import load_tensors

VALUES = (10**9, 10**5, 0, -1)
SECONDS, BYTES = 25, 12 * 2**30


def numbers(value, at=()):
    """The places of all numbers in a tree of JSON, without those of training."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(inner, (*at, key)) if (*at, key) != ("config", "train") else ()
    elif isinstance(value, int | float) and not isinstance(value, bool) and at[0] in ("config", "facts"):
        yield at


def changed(described, at, value):
    described = json.loads(described)
    place = described
    for key in at[:-1]:
        place = place[key]
    place[at[-1]] = float(value) if isinstance(place[at[-1]], float) else value
    return json.dumps(described)


def outcome(work):
    """What happens in a child: "" if it ended well or was refused in a sentence."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
        signal.alarm(SECONDS)
        try:
            work()
            said = ""
        except VergenceError as error:
            said = "" if "\n" not in str(error) else f"several lines: {error}"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(sending, said.encode()[:1000])
        os._exit(0)
    os.close(sending)
    _, status = os.waitpid(child, 0)
    with os.fdopen(receiving, "rb") as file:
        said = file.read().decode("utf-8", "replace")
    return said if not status else f"it ended with the status {status}"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits on a process as Linux has them")
@pytest.mark.parametrize("name", [name for name in PREDICTING if name in TRAINED])
def test_no_number_in_a_weights_file_takes_the_machine(name, trained, here):  # noqa: F811
    tensors, metadata = load_tensors(trained(name).weights)
    inputs = _given(name, here)
    bad = {}
    for at in numbers(json.loads(metadata[KEY])):
        for value in VALUES:
            save_tensors(here / "odd.safetensors", tensors, metadata | {KEY: changed(metadata[KEY], at, value)})
            said = outcome(lambda: vergence.load(here / "odd.safetensors").infer([inputs]))
            if said:
                bad[f"{'.'.join(map(str, at))} = {value}"] = said
    assert bad == {}
