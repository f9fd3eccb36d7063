"""Fed anything: whatever is in a flag, a config, a run's folder, a data set or a weights file, the answer is a result
or one sentence; never a traceback, never a file half-written.

`make test` tries some inputs, always the same; `make test-all` tries many, and other ones each time.
"""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fuzz_seeds
from helpers import StopAt, short, start
from vergence import catalogue
from vergence.cli import completion
from vergence.cli.main import COMMANDS, main
from vergence.contract.config import from_json, override, to_json
from vergence.core.errors import Interrupted, VergenceError
from vergence.core.progress import Progress
from vergence.engine.execute import execute
from vergence.engine.weights import identify, load_model
from vergence.reading.weights import load_archive, load_tensors
from vergence.runs.folder import Run
from vergence.tools import doctor

NAME = "fake-byhand"
TRAINED = ("fake-byhand", "fake-game", "fake-growing", "fake-mining")
TIMES = int(os.environ.get("VERGENCE_FUZZ", "10"))
"""How many times as many inputs `make test-all` tries."""
MEMORY = Path("/dev/shm")
PLACE = MEMORY if os.access(MEMORY, os.W_OK) else None
"""Where folders are made: in memory if the system has such a place, for there are thousands."""


def fuzz(*strategies, examples):
    """A test over inputs that are drawn: some, and with `slow` many."""

    def wrap(check):
        common = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
        some = settings(max_examples=examples, derandomize=True, **common)(given(*strategies)(check))
        many = settings(max_examples=examples * TIMES, **common)(given(*strategies)(check))

        @pytest.mark.parametrize("much", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "many"])
        def test(much):
            (many if much else some)()

        return test

    return wrap


# What is tried -------------------------------------------------------------------------------------------------------

# Numbers stay small: a config that asks for a billion steps is a good config.
numbers = st.one_of(
    st.integers(-3, 40),
    st.sampled_from([0.0, -0.5, 0.5, 1e-300, 1e300, math.inf, -math.inf, math.nan, 10**400, -(10**20)]),
)
NASTY = [
    "", "\0", "a\0b", "\ud800", "\udcff", "x" * 300, "nan", "inf", "1e999", "9" * 5000, "-1", "../..", "~", "~nobody/x",
    "/dev/null", "embedded", "embedded:x", "folder:", ":", "cifar10:x", "last", "tiny", "a\nb", "[/]", "[red]", "{}",
    "%s", "é", "runs", "authors.pt",
]  # fmt: skip
nasty = st.sampled_from(NASTY)
texts = st.one_of(st.text(max_size=8), nasty, nasty)
leaves = st.one_of(st.none(), st.booleans(), numbers, texts)
anything = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)
shares = st.floats(0, 1, exclude_max=True)
damages = st.one_of(
    st.tuples(st.just("cut"), shares),
    st.tuples(st.just("flip"), st.lists(st.tuples(shares, st.integers(0, 7)), min_size=1, max_size=4)),
    st.tuples(st.just("write"), st.one_of(st.binary(max_size=40), st.just(b"[" * 100_000), st.just(b'{"":' * 100_000))),
    st.tuples(st.just("insert"), st.tuples(shares, st.binary(min_size=1, max_size=6))),
)
edits = st.tuples(st.sampled_from(["replace", "remove", "rename"]), st.integers(0, 10_000), anything)


def damaged(content, damage):
    """Bytes after one kind of damage."""
    how, what = damage
    if how == "cut":
        return content[: int(what * len(content))]
    if how == "write":
        return what
    if how == "insert":
        at = int(what[0] * len(content))
        return content[:at] + what[1] + content[at:]
    spoilt = bytearray(content)
    for share, bit in what if content else ():
        spoilt[int(share * len(content))] ^= 1 << bit
    return bytes(spoilt)


def edited(tree, edit):
    """JSON after one change somewhere in it."""
    how, number, value = edit
    tree = json.loads(json.dumps(tree))
    places = list(_places(tree))
    if not places:
        return value
    holder, key = places[number % len(places)]
    if how == "replace" or isinstance(holder, list):
        holder[key] = value
    elif how == "remove":
        del holder[key]
    else:
        holder[f"{key}x"] = holder.pop(key)
    return tree


def _places(tree):
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key
        yield from _places(value)


def as_json(value):
    """As a program without scruples would write it: NaN, and halves of characters."""
    return json.dumps(value).encode("utf-8", "surrogatepass")


# What must hold ------------------------------------------------------------------------------------------------------


@contextmanager
def place(template=None):
    """An empty working folder, or a copy of one."""
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=PLACE) as folder:
        if template is not None:
            shutil.copytree(template, folder, dirs_exist_ok=True, symlinks=True)
        with chdir(folder):
            yield Path(folder)


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}


def answered(*args, codes=(0, 2)):
    """The exit code of a command that answered as it should, and what it printed."""
    here = Path.cwd()
    before = contents(here)
    # As a shell gives them: what cannot be written in UTF-8 cannot be printed either.
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True)
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(arg) for arg in args])
    said = err.buffer.getvalue().decode()
    shown = f"vergence {' '.join(map(repr, args))} ended with {code} and said: {said}"
    assert code in codes, shown
    assert "Traceback" not in said, shown
    sentences = [line for line in said.splitlines() if line.startswith("vergence: ")]
    if code == 2 and sentences:
        assert len(sentences) == 1, shown
        assert said.rstrip("\n").splitlines()[-1] == sentences[0], shown
    assert not list(here.rglob("*.partial")), shown
    assert not [p for p in here.rglob(".partial-*")], shown
    if code == 2:  # nothing that was there is lost
        after = contents(here)
        assert all(after.get(path) == content for path, content in before.items()), shown
    for path in here.rglob("*.json"):
        if before.get(path.relative_to(here)) != path.read_bytes():
            json.loads(path.read_text())
    return code, out.buffer.getvalue().decode()


def printed_json(*args, codes=(0, 2)):
    code, out = answered(*args, "--json", codes=codes)
    if code != 2:
        json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    return code


@cache
def finished():
    """A folder with a finished run, its weights, claims and authors' weights: copied, never changed."""
    root = Path(tempfile.mkdtemp(prefix="fuzz-template-", dir=PLACE))
    with chdir(root), redirect_stdout(io.StringIO()):
        run = start(NAME, short(catalogue.load(NAME), 3), Path("runs"), variant="sign")
        execute(run, Progress())
        run.folder.rename("runs/fake-byhand/one")
        shutil.copytree("runs/fake-byhand/one", "runs/fake-byhand/two")
        assert main(["claims", "fake-ruler", "--quiet"]) == 0
        first, second = torch.nn.Linear(6, 4), torch.nn.Linear(4, 1)
        torch.save({"first": first.state_dict(), "second": second.state_dict()}, "authors.pt")
    return root


@cache
def unfinished():
    """A folder with a run that was stopped, and the bits it must end with."""
    root = Path(tempfile.mkdtemp(prefix="fuzz-template-", dir=PLACE))
    with chdir(root):
        config = short(catalogue.load(NAME), 6)
        whole = start(NAME, config, Path("whole"), variant="sign")
        execute(whole, Progress())
        run = start(NAME, config, Path("runs"), variant="sign", save_every=0.0)
        with suppress(Interrupted):
            execute(run, StopAt(4))
        run.folder.rename("runs/fake-byhand/one")
        weights = (whole.folder / "last.safetensors").read_bytes()
        shutil.rmtree("whole")
    return root, weights


@pytest.fixture(scope="module", autouse=True)
def _tidy():
    yield
    for made in (finished, unfinished, data_sets):
        if made.cache_info().currsize:
            found = made()
            shutil.rmtree(found[0] if isinstance(found, tuple) else found)


# Configs, overrides, flags -------------------------------------------------------------------------------------------


@fuzz(st.sampled_from(catalogue.names()), st.lists(edits, min_size=1, max_size=3), examples=80)
def test_a_config_is_read_or_refused(name, changes):
    system = catalogue.load(name)
    tree = to_json(system.configure("tiny"))
    for change in changes:
        tree = edited(tree, change)
    try:
        config = from_json(system.settings.config, tree)
    except VergenceError as error:
        assert str(error)
    else:
        assert from_json(system.settings.config, to_json(config)) == config


@fuzz(st.sampled_from(catalogue.names()), st.integers(0, 10_000), texts, anything, examples=100)
def test_an_override_is_taken_or_refused(name, number, text, value):
    config = catalogue.load(name).configure("tiny")
    paths = [".".join(path) for path in _paths(to_json(config))]
    for path in (paths[number % len(paths)], text, f"{paths[number % len(paths)]}.{text}"):
        with suppress(VergenceError):
            assert type(override(config, {path: value})) is type(config)


def _paths(tree, at=()):
    for key, value in tree.items():
        yield (*at, key)
        if isinstance(value, dict):
            yield from _paths(value, (*at, key))


# What starts other processes or opens windows is not for here.
LEFT_OUT = {"--devices", "--nodes", "--workers", "--jobs", "--background", "--open", "--report", "--save-every"}
words = st.one_of(
    texts, numbers.map(str), st.sampled_from(["-1", "--", "-", "true", "cpu", "auto", "3,4", "test", "--x=1"])
)


@cache
def flags_of(command, name):
    return sorted(set(completion._flags(command, name)) - LEFT_OUT - {"--help"})


@fuzz(
    st.sampled_from(["eval fake-byhand", "eval fake-ruler", "predict fake-ruler", "show fake-byhand", "list",
                     "claims fake-ruler", "compare", "data check", "completion", "cite fake-byhand"]),
    st.lists(st.tuples(st.integers(0, 1000), st.lists(words, max_size=2)), max_size=2),
    st.lists(words, max_size=2),
    examples=45,
)  # fmt: skip
def test_any_flags_are_answered(what, given, rest):
    command, name = what.split()[0], what.split()[-1]
    known = flags_of(command, name if name in catalogue.names() else "")
    args = [*what.split(), *rest]
    for number, values in given:
        args += [known[number % len(known)], *values]
    with place(finished()):
        answered(*args, codes=(0, 1, 2))


@fuzz(
    st.sampled_from(TRAINED),
    st.lists(st.tuples(st.integers(0, 1000), st.lists(words, min_size=1, max_size=2)), min_size=1, max_size=2),
    examples=18,
)
def test_a_training_with_any_flags_ends_well_or_is_refused(name, given):
    known = flags_of("train", name)
    phases = [phase for phase in to_json(catalogue.load(name).configure("tiny")) if phase in ("train", "play", "task")]
    args = ["train", name, "--quiet", "--no-report", f"--{phases[0]}.epochs", "1"]
    for number, values in given:
        args += [known[number % len(known)], *values]
    with place(finished()):
        code, _ = answered(*args, codes=(0, 1, 2))
        for folder in Path("runs", name).glob("2*"):
            assert code == 1 or Run(folder).result is not None


# Run folders ---------------------------------------------------------------------------------------------------------

FILES = ("config.json", "environment.json", "facts.json", "metrics.jsonl", "result.json", "last.safetensors",
         "checkpoints/000001/manifest.json", "checkpoints/000001/state.pt",
         "checkpoints/000001/weights.safetensors")  # fmt: skip


def spoil(path, damage):
    """Damage a file, or take it away."""
    content = path.read_bytes() if path.exists() else b""
    path.unlink(missing_ok=True)  # weights have two names; the other one stays whole
    if damage is not None:
        path.write_bytes(damaged(content, damage))


def spoil_json(path, edit):
    path.write_bytes(as_json(edited(json.loads(path.read_text()), edit)))


@fuzz(st.sampled_from(FILES), st.one_of(st.none(), damages), examples=12)
def test_a_damaged_run_is_compared_judged_and_examined_or_refused(file, damage):
    with place(finished()), trusted_torch():
        folder = Path("runs/fake-byhand/two")
        spoil(folder / file, damage)
        printed_json("compare", folder, "runs/fake-byhand/one")
        printed_json("eval", NAME, "--quiet")
        printed_json("doctor", "--quiet", codes=(0, 1))
        printed_json("train", "--resume", folder, "--quiet", "--no-report", codes=(0, 1, 2))


@fuzz(st.sampled_from(FILES[:3] + FILES[4:5]), edits, examples=12)
def test_a_run_with_any_json_in_its_files_is_compared_and_repeated_or_refused(file, edit):
    with place(finished()), trusted_torch():
        folder = Path("runs/fake-byhand/two")
        spoil_json(folder / file, edit)
        printed_json("compare", "runs/fake-byhand/one", folder)
        answered("compare", "runs/fake-byhand/one", folder)
        printed_json("doctor", "--quiet", codes=(0, 1))
        printed_json("train", "--from-run", folder, "--quiet", "--no-report", codes=(0, 1, 2))


@contextmanager
def trusted_torch():
    """PyTorch is not tried again in a child for every input."""
    said = {"torch": {"done": True, "build": "", "devices": []}}
    ask = doctor._ask
    doctor._ask = lambda *words: said[words[0]]
    try:
        yield
    finally:
        doctor._ask = ask


@fuzz(st.integers(0, 100), st.one_of(st.none(), damages), examples=12)
def test_a_run_with_any_damage_goes_on_to_the_same_bits(number, damage):
    template, weights = unfinished()
    with place(template):
        folder = Path("runs/fake-byhand/one")
        files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name not in ("config.json", ".lock"))
        assert len(files) > 6
        spoil(files[number % len(files)], damage)
        code, _ = answered("train", "--resume", folder, "--quiet", "--no-report")
        if code == 0:
            assert (folder / "last.safetensors").read_bytes() == weights


@fuzz(st.lists(st.one_of(anything.map(as_json), st.binary(max_size=12)), max_size=4), examples=25)
def test_any_metrics_are_compared_or_refused(lines):
    with place(finished()):
        path = Path("runs/fake-byhand/two/metrics.jsonl")
        path.write_bytes(path.read_bytes() + b"\n".join(lines))
        printed_json("compare", "runs/fake-byhand/one", "runs/fake-byhand/two")


@fuzz(st.lists(edits, min_size=1, max_size=2), st.integers(0, 5), examples=25)
def test_metrics_with_any_change_are_compared_or_refused(changes, number):
    with place(finished()):
        path = Path("runs/fake-byhand/two/metrics.jsonl")
        records = [json.loads(line) for line in path.read_text().splitlines()]
        for change in changes:
            records[number % len(records)] = edited(records[number % len(records)], change)
        path.write_bytes(b"".join(as_json(record) + b"\n" for record in records))
        printed_json("compare", "runs/fake-byhand/two", "runs/fake-byhand/one")
        answered("compare", "runs/fake-byhand/two", "runs/fake-byhand/one")


@fuzz(st.one_of(edits, damages), examples=18)
def test_any_stored_claims_are_shown_or_refused(change):
    with place(finished()):
        path = Path("runs/fake-ruler/claims.json")
        spoil(path, change) if len(change) == 2 else spoil_json(path, change)
        printed_json("claims", "fake-ruler", "--known", "--quiet")
        answered("claims", "fake-ruler", "--known", "--quiet")
        printed_json("claims", "fake-ruler", "--quiet")


# Weights and data ----------------------------------------------------------------------------------------------------


def header_of(content):
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def with_header(header, body):
    head = as_json(header)
    return len(head).to_bytes(8, "little") + head + body


@fuzz(st.one_of(damages, edits), st.booleans(), examples=25)
def test_any_weights_are_used_or_refused(change, inside):
    with place(finished()):
        path = Path("w.safetensors")
        content = Path("runs/fake-byhand/one/last.safetensors").read_bytes()
        if len(change) == 2:
            path.write_bytes(damaged(content, change))
        else:
            header, body = header_of(content)
            if inside:  # the metadata is JSON in JSON
                meta = edited(json.loads(header["__metadata__"]["vergence"]), change)
                header["__metadata__"]["vergence"] = json.dumps(meta)
            else:
                header = edited(header, change)
            path.write_bytes(with_header(header, body))
        printed_json("eval", NAME, "--weights", path, "--quiet")
        for read in (load_tensors, identify, load_model):
            with suppress(VergenceError):
                read(path)


@fuzz(st.one_of(damages, edits), examples=8)
def test_a_training_starts_from_any_weights_or_is_refused(change):
    with place(finished()):
        path = Path("w.safetensors")
        content = Path("runs/fake-byhand/one/last.safetensors").read_bytes()
        header, body = header_of(content)
        path.write_bytes(damaged(content, change) if len(change) == 2 else with_header(edited(header, change), body))
        answered("train", NAME, "--init", path, "--train.steps", "1", "--quiet", "--no-report", codes=(0, 1, 2))


@fuzz(damages, examples=20)
def test_any_archive_is_read_or_refused(damage):
    with place(finished()):
        path = Path("authors.pt")
        path.write_bytes(damaged(path.read_bytes(), damage))
        with suppress(VergenceError):
            load_archive(path)
        printed_json("eval", NAME, "--weights", path, "--quiet")


@fuzz(anything, examples=15)
def test_an_archive_of_anything_is_used_or_refused(value):
    with place(finished()):
        torch.save({"first": value, "second": {"weight": torch.zeros(1, 4), "bias": value}}, "authors.pt")
        printed_json("eval", NAME, "--weights", "authors.pt", "--quiet")


@cache
def data_sets():
    from recognition.snl.fixtures import cifar10_binary, cifar100_python, class_folders

    root = Path(tempfile.mkdtemp(prefix="fuzz-template-", dir=PLACE))
    class_folders(root / "folder")
    cifar10_binary(root / "cifar10")
    cifar100_python(root / "cifar100")
    return root


@fuzz(
    st.sampled_from(["folder", "cifar10", "cifar100"]), st.integers(0, 100), st.one_of(st.none(), damages), examples=25
)
def test_any_data_set_is_checked(layout, number, damage):
    with place(data_sets()):
        files = sorted(p for p in Path(layout).rglob("*") if p.is_file())
        spoil(files[number % len(files)], damage)
        printed_json("data", "check", f"{layout}:{layout}", "--system", "snl", "--quiet")


@fuzz(anything, examples=25)
def test_a_pickle_of_anything_is_no_data_set_and_refused(value):
    with place(data_sets()):
        names = {b"data": value, b"fine_labels": value, b"fine_label_names": value}
        Path("cifar100/cifar-100-python/train").write_bytes(pickle.dumps(names, protocol=2))
        assert printed_json("data", "check", "cifar100:cifar100", "--quiet") == 2


# One odd thing at a time ----------------------------------------------------------------------------------------------

LINES = [
    "{}", "show {}", "list --task {}", "claims {}", "claims fake-ruler --only {}",
    "claims fake-ruler --known --runs {}",
    "claims fake-ruler --quiet --runs {}", "bench {}", "compare {} runs/fake-byhand/one", "completion {}", "data {}",
    "data check {}", "data check cifar10:{}", "data check x --system {}", "doctor --quiet --runs {}",
    "eval fake-byhand --weights {}", "eval fake-byhand --runs {}", "eval fake-ruler --data {}",
    "eval fake-byhand --seed {}", "export fake-byhand --quiet --weights {}", "predict fake-ruler {} {}",
    "predict fake-ruler authors.pt authors.pt -o {}", "run fake-byhand --quiet --variants {}",
    "run fake-ruler --quiet --jobs 1 --runs {}", "train {}", "train --resume {}", "train --from-run {}",
    "train fake-byhand --preset {}", "train fake-byhand --variant {}",
    "train fake-byhand --quiet --no-report --init {}", "train fake-byhand --quiet --no-report --train.steps {}",
    "train fake-byhand --quiet --no-report --train.steps 1 --train.optimiser.lr {}",
    "train fake-byhand --quiet --no-report --train.steps 1 --train.optimiser.schedule.warmup {}",
    "train fake-byhand --quiet --no-report --train.steps 1 --runs {}",
]  # fmt: skip


def odd_line(line, word):
    with place(finished()), trusted_torch():
        answered(*(part.replace("{}", word) for part in line.split()), codes=(0, 1, 2))


@fuzz(st.sampled_from(LINES), nasty, examples=60)
def test_a_command_with_an_odd_word_is_answered(line, word):
    odd_line(line, word)


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
def test_a_command_with_every_odd_word_is_answered(line):
    for word in NASTY:
        odd_line(line, word)


ONE, TWO = "runs/fake-byhand/one", "runs/fake-byhand/two"
VALUES = [None, True, -1, 0, 3, 1.5, math.nan, math.inf, -math.inf, 1e300, 10**30, "", "\0", "\ud800", "x" * 300, "[/]",
          "../x", [], {}, [1], {"a": 1}]  # fmt: skip
READERS = {
    f"{TWO}/config.json": [f"train --from-run {TWO} --quiet --no-report", f"compare {ONE} {TWO}", "doctor --quiet"],
    f"{TWO}/environment.json": [f"compare {ONE} {TWO}", f"train --resume {TWO} --quiet", "doctor --quiet"],
    f"{TWO}/result.json": [f"compare {ONE} {TWO}", f"compare {ONE} {TWO} --json", f"train --resume {TWO} --quiet"],
    f"{TWO}/metrics.jsonl": [f"compare {ONE} {TWO}", f"compare {ONE} {TWO} --json", f"train --resume {TWO} --quiet"],
    "runs/fake-ruler/claims.json": ["claims fake-ruler --known", "claims fake-ruler --known --json"],
    f"{TWO}/last.safetensors": [f"eval fake-byhand --weights {TWO}/last.safetensors --quiet"],
}


def opened(path):
    """The JSON in a file, and how to write it back."""
    if path.suffix == ".safetensors":  # the metadata is JSON in JSON
        header, body = header_of(path.read_bytes())
        tree = header | {"__metadata__": json.loads(header["__metadata__"]["vergence"])}

        def written(changed):
            inner = changed.get("__metadata__")
            return with_header(changed | {"__metadata__": {"vergence": json.dumps(inner)}}, body)

        return tree, written
    if path.suffix == ".jsonl":
        records = [json.loads(line) for line in path.read_text().splitlines()]
        return records[-2:], lambda changed: b"".join(as_json(record) + b"\n" for record in changed)
    return json.loads(path.read_text()), as_json


def odd_field(file, number, how, value):
    tree, written = opened(finished() / file)
    content = written(edited(tree, (how, number, value)))
    for command in READERS[file]:
        with place(finished()), trusted_torch():
            Path(file).unlink()
            Path(file).write_bytes(content)
            answered(*command.split(), codes=(0, 1, 2))


@fuzz(st.sampled_from(sorted(READERS)), st.integers(0, 500), st.sampled_from(["replace", "remove"]),
      st.sampled_from(VALUES), examples=25)  # fmt: skip
def test_a_file_with_an_odd_field_is_read_or_refused(file, number, how, value):
    odd_field(file, number, how, value)


@pytest.mark.slow
@pytest.mark.parametrize("file", READERS)
def test_a_file_with_every_field_odd_in_some_way_is_read_or_refused(file):
    for number in range(len(list(_places(opened(finished() / file)[0])))):
        odd_field(file, number, "remove", None)
        for value in VALUES[number % 3 :: 3]:
            odd_field(file, number, "replace", value)


# Words ---------------------------------------------------------------------------------------------------------------


@fuzz(st.lists(words, max_size=4), examples=80)
def test_any_command_line_is_answered(args):
    with place():
        answered(*args, codes=(0, 2))


@fuzz(st.lists(st.one_of(words, st.sampled_from([*COMMANDS, NAME, "--preset", "--"])), max_size=4), examples=80)
def test_any_words_are_completed_or_not(args):
    with place():
        answered("completion", "words", *args)


# Coverage-guided -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "target",
    ["config", "tensors", "archive", "pickle", "metrics", "claims", "line", "opcodes", "image", "npy", "npz", "ply",
     "off", "obj", "xyz", "pcd", "mat", "gzip", "zip", "tar", "json", "rows", "graph", "geojson", "graphml", "video",
     "index"],
)  # fmt: skip
def test_a_fuzzer_that_looks_at_coverage_finds_nothing(target, tmp_path):
    pytest.importorskip("atheris")
    script = Path(__file__).with_name("fuzz_target.py")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    run = finished() / "runs" / "fake-byhand" / "one"
    seeds = {
        "config": run / "config.json", "tensors": run / "last.safetensors", "archive": finished() / "authors.pt",
        "metrics": run / "metrics.jsonl", "claims": finished() / "runs" / "fake-ruler" / "claims.json",
        "pickle": data_sets() / "cifar100" / "cifar-100-python" / "meta",
    }  # fmt: skip
    if target in seeds:
        shutil.copy(seeds[target], corpus)
    for path in fuzz_seeds.write(target, corpus):
        assert path.stat().st_size
    done = subprocess.run(
        [sys.executable, str(script), target, str(corpus), "-max_total_time=20", "-rss_limit_mb=4096", "-timeout=20",
         f"-artifact_prefix={tmp_path}/"],
        capture_output=True, text=True, cwd=tmp_path, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "DONE" in done.stderr or "Done" in done.stderr
