"""What every system of the catalogue must do, the fakes included. A new system gets these checks for nothing.

A system's own test folder has a ``fixtures.py`` with two things: ``layouts``, by layout name a function (or several by
the name of the form) that writes a small data set from the published names, never with Vergence's own writers; and
``prediction(folder)``, which writes files for ``vergence predict`` and returns the arguments. A system that reads the
checkpoints of its authors has a third, ``checkpoint(folder)``, which writes one and returns its path. ``lighter``
are further changes of a config that make its short training cheaper, and ``small`` those that fit every variant, where
these do not.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import math
import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import vergence
from crafted import huge_png, npy_header
from helpers import short, start, stop_and_go_on
from vergence import catalogue
from vergence.cli.main import main
from vergence.cli.options import joined
from vergence.cli.options import read as read_options
from vergence.cli.use import PredictOptions
from vergence.contract.claims import judge
from vergence.contract.config import documented, from_json, to_json
from vergence.contract.context import Context
from vergence.contract.data import Layout
from vergence.contract.identity import Identity
from vergence.contract.inputs import FILES, Kind, kinds
from vergence.contract.result import Result
from vergence.contract.training import phases_of
from vergence.core.errors import VergenceError
from vergence.core.files import home
from vergence.core.memory import peak
from vergence.core.progress import Progress
from vergence.engine.evaluate import run_evaluation
from vergence.engine.execute import execute
from vergence.engine.optimisers import build_optimiser
from vergence.engine.starters import LARGEST, read_about
from vergence.engine.use import infer
from vergence.engine.weights import identify, load_model
from vergence.reading.weights import load_tensors
from vergence.runs.order import Order
from vergence.studies.ledger import latest
from vergence.studies.study import RunEvidence
from vergence.tools.exporting import CannotExport, export

TESTS = Path(__file__).parents[1]
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
_listeners: list[list[Path]] = []


def _hear(event, args):
    """Python reports every file it opens and every name it changes; nothing can be written behind its back but by C."""
    if not _listeners:
        return
    if event == "open" and isinstance(args[0], str | bytes) and (args[2] or 0) & WRITES:
        changed = args[:1]
    elif event in ("os.rename", "os.link", "os.symlink"):
        changed = args[1:2]
    elif event in ("os.mkdir", "os.truncate"):
        changed = args[:1]
    else:
        return
    for heard in _listeners:
        heard += [Path(os.fsdecode(path)).resolve() for path in changed if isinstance(path, str | bytes | os.PathLike)]


sys.addaudithook(_hear)


@contextmanager
def written():
    """The paths that are written while the block runs."""
    heard: list[Path] = []
    _listeners.append(heard)
    try:
        yield heard
    finally:
        _listeners.remove(heard)


CHOSEN = os.environ.get("VERGENCE_SYSTEMS", "").split()
"""The systems to check, if not all: `make test SYSTEM=flot`."""
NAMES = [name for name in catalogue.names() if not CHOSEN or name in CHOSEN]
# What is tested is read from settings and fixtures: a worker loads only the systems that it tests.
SETTINGS = {name: catalogue.settings(name) for name in NAMES}
TRAINED = [name for name in NAMES if SETTINGS[name].learns]
BUILT = [name for name in NAMES if SETTINGS[name].published]
PREDICTING = [name for name in NAMES if SETTINGS[name].inputs]
PUBLISHED = [(name, preset) for name in BUILT for preset in SETTINGS[name].published]


@cache
def fixtures(name):
    """The system's ``fixtures.py``: beside its tests, or beside the fakes."""
    places = [
        *TESTS.glob(f"*/{name}/fixtures.py"),
        TESTS / "contract" / "fakes" / f"{name.replace('-', '_')}_fixtures.py",
    ]
    path = next((p for p in places if p.exists()), None)
    if path is None and name.startswith("fake-"):
        return SimpleNamespace()
    assert path is not None, f"{name} has no fixtures.py in its test folder"
    spec = importlib.util.spec_from_file_location(f"fixtures_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _forms(name, layout):
    writers = fixtures(name).layouts[layout]
    return list(writers) if isinstance(writers, dict) else [""]


def _writer(name, layout, form):
    writers = fixtures(name).layouts[layout]
    return writers[form] if isinstance(writers, dict) else writers


def _layouts():
    """Every layout of every system in every form; what one function writes for several systems is tested once."""
    seen = set()
    for name in NAMES:
        for layout in getattr(fixtures(name), "layouts", {}):
            for form in _forms(name, layout):
                writer = _writer(name, layout, form)
                code = getattr(writer, "__code__", None)
                plain = code is not None and not writer.__closure__
                key = (code.co_filename, code.co_firstlineno) if plain else (name, layout, form)
                if key not in seen:
                    seen.add(key)
                    yield name, layout, form


LAYOUTS = list(_layouts())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A short run of each system, made when first asked for: it is judged, loaded and used below."""
    root = tmp_path_factory.mktemp("runs")

    @cache
    def make(name):
        system = catalogue.load(name)
        run = start(name, _short(system), root, variant=next(iter(system.variants)))
        with written() as paths:
            execute(run, Progress())
        _outside[name] = [p for p in paths if run.folder not in (p, *p.parents)]
        return run

    return make


@pytest.fixture(scope="module")
def loaded(trained):
    """The model of that run; the name of a system that has none."""
    return cache(lambda name: vergence.load(trained(name)) if catalogue.load(name).offers("build") else name)


_outside: dict[str, list[Path]] = {}
"""What the short run of a system wrote outside its folder."""


def _short(system):
    learns = system.settings.learns
    changes = {**learns.changes, **getattr(fixtures(system.about.name), "lighter", {})}
    return short(system, learns.steps, changes, learns.preset, learns.variant)


def _quick(name):
    """Changes that make a system without training quick to judge."""
    learns = SETTINGS[name].learns
    return (
        {**learns.changes, **getattr(fixtures(name), "lighter", {})} if learns else getattr(fixtures(name), "quick", {})
    )


def _facts(system, published):
    return from_json(system.settings.facts, to_json(published.facts))


def _random(example):
    source = torch.Generator().manual_seed(0)
    return tuple(torch.randn(t.shape, generator=source) if t.is_floating_point() else t for t in example)


# The page -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows(name, capsys):
    assert main(["show", name]) == 0
    assert catalogue.about(name).title in " ".join(capsys.readouterr().out.split())  # a long one is folded
    assert main(["cite", name]) == 0
    assert capsys.readouterr().out.startswith("@")


@pytest.mark.parametrize("name", NAMES)
def test_what_it_declares_agrees_with_itself(name):
    system = catalogue.load(name)
    assert system.about.name == name
    assert {"tiny", "paper"} <= {preset.partition("-")[0] for preset in system.settings.presets}
    assert len({claim.id for claim in system.claims}) == len(system.claims)
    for reported in system.settings.reported:
        assert set(reported.rows) <= set(system.variants)
        assert {metric for row in reported.rows.values() for metric in row} <= set(system.metrics)
    for claim in system.claims:
        assert all(need.variant in system.variants and need.preset in system.settings.presets for need in claim.needs)
        assert claim.kind != "empirical" or len({need.seed for need in claim.needs}) >= 3
    if system.offers("infer"):
        assert system.offers("render")
        assert kinds(system.settings.inputs)
    assert system.trains == (system.settings.learns is not None), "`learns` says what a short training must show"
    assert system.offers("infer") == (system.settings.inputs is not None)
    assert system.offers("build") == bool(system.settings.published)
    assert set(system.layouts) == set(getattr(fixtures(name), "layouts", {})) if system.layouts else True
    assert system.offers("load_published") == hasattr(fixtures(name), "checkpoint"), "fixtures.py writes a checkpoint"
    if system.offers("build"):
        papers = [preset for preset in system.settings.presets if preset.startswith("paper")]
        assert set(papers) <= set(system.settings.published)


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_and_variant_makes_a_config_that_survives_json(name):
    """Every variant of `tiny`; of the other presets, the one they are."""
    settings = SETTINGS[name]
    for preset, variant in [*(("tiny", v) for v in settings.variants), *((p, None) for p in settings.presets)]:
        config = settings.configure(preset, variant)
        again = from_json(settings.config, json.loads(json.dumps(to_json(config))))
        assert again == config
        keys = {Order(name, preset, variant, either).key for either in (config, again)}
        assert len(keys) == 1, "a finished run could not be found again"


@pytest.mark.parametrize("name", TRAINED)
def test_every_preset_prints_its_help(name, capsys):
    for preset in list(SETTINGS[name].presets)[:2]:
        assert main(["train", name, "--preset", preset, "--help"]) == 0
        assert "--seed" in capsys.readouterr().out


PLAN = {"__init__", "settings", "model", "system", "claims", "bench"}
OPTIONAL = {"exact", "predict", "pictures", "tasks"}


@pytest.mark.parametrize("name", [name for name in NAMES if len(catalogue.code(name)) > 1])
def test_its_files_follow_the_plan(name):
    folder = catalogue.folder(name)
    found = {p.stem for p in folder.glob("*.py")} | {p.parent.name for p in folder.glob("*/*.py")}
    needed = PLAN if catalogue.load(name).offers("build") else PLAN - {"model"}
    assert needed <= found <= PLAN | OPTIONAL
    too_long = [p.name for p in folder.rglob("*.py") if len(p.read_text(encoding="utf-8").splitlines()) > 400]
    assert too_long == []


def test_settings_need_no_pytorch():
    """Help and wrong arguments are answered before PyTorch could be imported."""
    names = [name for name in NAMES if len(catalogue.code(name)) > 1]
    code = "import sys; from vergence import catalogue; [catalogue.settings(n) for n in sys.argv[1:]]; "
    code += "print([m for m in ('torch', 'matplotlib', 'scipy', 'lightning_fabric') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


# The model ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "preset"), PUBLISHED)
def test_the_published_size_runs_forward_without_memory(name, preset):
    system = catalogue.load(name)
    published = system.settings.published[preset]
    config, facts = system.configure(preset, published.variant), _facts(system, published)
    with torch.device("meta"):
        model = system.build(config, facts).eval()
        out = model(*system.example(config, facts))
    assert shapes(out) == published.output
    assert sum(p.numel() for p in model.parameters()) == published.parameters
    assert all(p.is_meta for p in model.parameters()), "build must leave the device to its caller"


@pytest.mark.parametrize("name", BUILT)
def test_every_variant_builds_and_its_optimisers_find_their_parameters(name):
    """Every variant of `tiny`, those of the main table at the first published size, and every other preset."""
    system = catalogue.load(name)
    large = next(iter(SETTINGS[name].published))
    pairs = [("tiny", variant) for variant in system.variants]
    pairs += [(large, key) for key, variant in system.variants.items() if variant.headline]
    built = set()
    for preset, variant in [*pairs, *((preset, None) for preset in SETTINGS[name].presets)]:
        config = system.configure(preset, variant)
        decisive = [getattr(config, part, None) for part in ("model", "data")]
        key = json.dumps([preset, *map(to_json, [*decisive, phases_of(config)])], sort_keys=True)
        if key in built and hasattr(config, "model"):
            continue  # variants that differ elsewhere have the same network
        built.add(key)
        facts = _facts(system, SETTINGS[name].published.get(preset, SETTINGS[name].published[large]))
        with torch.device("meta"):
            model = system.build(config, facts)
        assert isinstance(model, torch.nn.Module)
        for phase in system.phases(config, facts).values() if system.trains else ():
            for which, spec in (phase.optimisers() if phase.epochs or phase.steps else {}).items():
                build_optimiser(spec, system.part(model, which))


def shapes(out):
    """The shape of a tensor; of several, shapes in the same dict or list."""
    if isinstance(out, dict):
        return {key: shapes(value) for key, value in out.items()}
    return tuple(out.shape) if isinstance(out, torch.Tensor) else [shapes(value) for value in out]


def tensors(out):
    parts = out.values() if isinstance(out, dict) else out
    return [out] if isinstance(out, torch.Tensor) else [t for part in parts for t in tensors(part)]


@pytest.mark.parametrize("name", BUILT)
def test_bfloat16_autocast_is_finite_and_near_float32(name):
    system = catalogue.load(name)
    facts = _facts(system, next(iter(system.settings.published.values())))
    seen = set()
    for variant in system.variants:
        config = system.configure("tiny", variant, getattr(fixtures(name), "small", _quick(name)))
        torch.manual_seed(0)
        model = system.build(config, facts).eval()
        built = (repr(model), json.dumps(to_json(getattr(config, "model", config))))
        if built in seen:  # variants that differ in losses or data alone
            continue
        seen.add(built)
        for parameter in model.parameters():  # what starts at zero would hide what is behind it
            if not parameter.detach().any():
                torch.nn.init.uniform_(parameter, 0.5, 1.0)
        example = _random(system.example(config, facts, batch=2))
        with torch.no_grad():
            plain = tensors(model(*example))
            with torch.autocast("cpu", torch.bfloat16):
                low = tensors(model(*example))
        for ours, exact in zip(low, plain, strict=True):
            assert ours.isfinite().all()
            assert (ours.float() - exact).abs().max() <= 0.05 * exact.abs().max() + 0.02


# Training -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRAINED)
def test_the_loss_it_names_falls_as_it_says(name, trained):
    learns = catalogue.load(name).settings.learns
    records = [r for r in trained(name).records() if learns.loss in r.get("losses", {})]
    values = [r["losses"][learns.loss] for r in records if r["phase"] == records[0]["phase"]]
    some = max(len(values) // 10, 1)
    began, ended = sum(values[:some]) / some, sum(values[-some:]) / some
    assert ended <= learns.share * began, f"{learns.loss} went from {began:.4g} to {ended:.4g}"


@pytest.mark.parametrize("name", TRAINED)
def test_a_run_stopped_with_workers_goes_on_to_the_bits_of_one_without(name, trained, tmp_path):
    whole = trained(name)
    parted = start(name, whole.order.config, tmp_path, whole.order.variant, workers=1)
    stop_and_go_on(parted, step=2)
    assert (parted.folder / "last.safetensors").read_bytes() == (whole.folder / "last.safetensors").read_bytes()
    assert parted.records() == whole.records()
    assert parted.metrics == whole.metrics


@pytest.mark.parametrize("name", TRAINED)
def test_a_run_writes_nothing_outside_its_folder_but_rendered_data_and_compiled_kernels(name, trained):
    trained(name)
    kept = (home() / "rendered").resolve()
    # Asking for a fresh measure of memory is the one thing that looks like writing and is none.
    outside = [p for p in _outside[name] if p.parent.parent != Path("/proc") and Path("/dev") not in p.parents]
    outside = [p for p in outside if p not in kept.parents]  # the first run on a machine makes them
    assert [p for p in outside if kept not in (p, *p.parents) and "__pycache__" not in p.parts] == []


@pytest.mark.parametrize("name", TRAINED)
def test_the_weights_file_alone_rebuilds_the_model_and_is_judged_as_the_run_was(name, trained, capsys):
    run = trained(name)
    identity = identify(run.weights)
    assert (identity.system, identity.config) == (name, run.order.config)
    torch.rand(3)  # whatever happens elsewhere must not matter
    assert main(["eval", name, "--weights", str(run.weights), "--json", "--quiet", "--threads", "1"]) == 0
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    assert metrics == {k: None if math.isnan(v) else v for k, v in run.metrics.items()}
    assert next(iter(SETTINGS[name].metrics)) in metrics


@pytest.mark.parametrize("name", [name for name in NAMES if name not in TRAINED])
def test_evaluation_without_training_gives_the_same_numbers_twice(name, tmp_path):
    system = catalogue.load(name)
    metrics = []
    for _ in range(2):
        ctx = Context(system.configure("tiny", changes=_quick(name)), tmp_path, system.settings.facts())
        metrics.append(run_evaluation(system, ctx, None, system.prepare(ctx, system.data(ctx, "test"))))
        torch.rand(3)  # whatever happens elsewhere must not matter
    assert metrics[0] == metrics[1]
    assert next(iter(system.metrics)) in metrics[0]


# Use ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PREDICTING)
def test_prediction_gives_a_documented_result_in_memory_and_its_files(name, trained, here, capsys, monkeypatch):
    system, seen = catalogue.load(name), []

    def heard(*args):
        with written() as paths:
            seen.extend(infer(*args))
        kept = here / "index"  # where fixtures ask for something to be kept
        assert [p for p in paths if here in p.parents and kept not in (p, *p.parents)] == [], "infer wrote files"
        return seen

    monkeypatch.setattr("vergence.engine.use.infer", heard)
    args = fixtures(name).prediction(here)
    weights = ["--weights", str(trained(name).weights)] if system.offers("build") else []
    assert main(["predict", name, *args, *weights, "-o", "out", "--json", "--quiet"]) == 0
    told = json.loads(capsys.readouterr().out)
    (result,) = seen
    assert isinstance(result, Result)
    assert told["result"] == json.loads(json.dumps(result.to_json()))
    assert {f.name for f in dataclasses.fields(result)} == set(documented(type(result))), "every field is documented"
    assert all(documented(type(result)).values())
    assert result.summary()
    listed = set()
    for artifact in told["files"]:
        path = here / artifact["path"]
        assert here / "out" in path.parents
        assert path.stat().st_size > 0
        assert artifact["caption"].strip()
        listed |= {path, *path.rglob("*")}
    assert {p for p in (here / "out").rglob("*") if p.is_file()} <= listed, "files that no artifact tells of"


# Files from outside ---------------------------------------------------------------------------------------------------


def _given(name, folder):
    """The inputs of a system as its fixtures give them to the command: ``pictures``, if ``prediction`` needs none."""
    parts = joined(("inputs", SETTINGS[name].inputs), ("options", PredictOptions()))
    written = getattr(fixtures(name), "pictures", fixtures(name).prediction)
    return read_options(parts, written(folder), f"predict {name}", "").inputs


def _bad_files(kind, good, folder):
    """Paths of damaged files, each with whether it has to be refused; a part of a text may make sense."""
    suffix = good.suffix
    if kind is Kind.FOLDER or good.is_dir():
        (folder / "empty").mkdir()
        (folder / "loop").symlink_to(folder / "loop")
        yield from ((folder / name, True) for name in ("empty", "loop", "nowhere"))
        return
    content = good.read_bytes()
    parts = {"cut-1": content[:1], "cut-half": content[: len(content) // 2], "cut-end": content[:-7]}
    refused = {"empty": b"", "other": b"\x7fELF" + bytes(100)}
    if kind in (Kind.IMAGE, Kind.IMAGES):
        refused["huge"] = huge_png(30_000, 30_000)
    elif kind is Kind.CLOUD:
        refused["huge"], refused["nan"] = npy_header((10**12, 3)), npy_header((1, 3)) + b"\xff" * 12
        suffix = ".npy"
    for stem, made in {**parts, **refused}.items():
        path = folder / f"{stem}{suffix}"
        path.write_bytes(made)
        yield path, stem in refused
    loop, odd = folder / f"loop{suffix}", folder / os.fsdecode(b"odd-\xff" + good.suffix.encode())
    loop.symlink_to(loop)
    yield loop, True
    with suppress(OSError):  # a file system that takes no such names
        odd.write_bytes(content)
        yield odd, False


@pytest.mark.parametrize("name", PREDICTING)
def test_bad_files_are_refused_in_a_sentence_within_little_time_and_memory(name, loaded, here):
    system, inputs = catalogue.load(name), _given(name, here)
    model = loaded(name) if system.offers("build") else vergence.load(name)
    fields = {n: k for n, k in kinds(type(inputs)).items() if k in FILES and getattr(inputs, n)}
    assert fields
    first = None
    for field, kind in fields.items():
        value = getattr(inputs, field)
        good = value[0] if isinstance(value, tuple) else value
        (here / f"bad-{field}").mkdir()
        for path, must in _bad_files(kind, Path(good), here / f"bad-{field}"):
            changed = dataclasses.replace(inputs, **{field: (path,) if isinstance(value, tuple) else path})
            began, before = time.process_time(), peak()
            try:
                model.infer([changed])
            except VergenceError as refusal:
                first = first or (field, path)
                assert "\n" not in str(refusal)
                assert path.stem in str(refusal), f"{path.name} is not named: {refusal}"
            else:
                assert not must, f"{path.name} was taken as {field}"
            assert time.process_time() - began < 5
            assert peak() - before < 2**31
    assert first is not None


@pytest.mark.parametrize(("name", "layout", "form"), LAYOUTS)
def test_a_reader_reads_its_layout(name, layout, form, tmp_path):
    path = written_layout(name, layout, form, tmp_path)
    for split in ("train", "test"):
        data = catalogue.load(name).layouts[layout].read(path, split)
        assert len(data) > 0
        assert all(data[i] is not None for i in range(len(data)))


@pytest.mark.parametrize(("name", "layout", "form"), LAYOUTS)
def test_a_reader_refuses_what_is_missing_or_empty(name, layout, form, trained, loaded, here, capsys):
    (here / "empty").mkdir()
    (here / "empty.file").touch()
    for source in ("nowhere", "empty", "empty.file"):
        refused(name, f"{layout}:{source}", loaded, source)
    if layout == next(iter(catalogue.load(name).layouts)):
        refused_by_the_command(name, f"{layout}:nowhere", trained, capsys, "nowhere")


@pytest.mark.parametrize(("name", "layout", "form"), LAYOUTS)
def test_a_reader_refuses_every_file_cut_short(name, layout, form, loaded, here):
    reader = catalogue.load(name).layouts[layout]
    path = written_layout(name, layout, form, here)
    files = sorted(p for p in [path, *path.rglob("*")] if p.is_file())
    assert files
    for file in _of_each_kind(files):
        content = file.read_bytes()
        for length in (0, 1, len(content) // 2 + 1):
            file.write_bytes(content[:length])
            with pytest.raises(VergenceError) as refusal:
                _read_everything(reader, path)
            assert file.name in str(refusal.value), f"{file.name} was cut to {length}, and it said: {refusal.value}"
        file.write_bytes(content)
    _read_everything(reader, path)
    (files[0] if len(files) == 1 else _needed(files, path)).write_bytes(b"")
    refused(name, f"{layout}:{path}", loaded, path.name)


def written_layout(name, layout, form, folder):
    return _writer(name, layout, form)(folder / "data") or folder / "data"


def refused(name, source, loaded, named):
    with pytest.raises(VergenceError) as refusal:
        vergence.evaluate(loaded(name), data=source)
    assert named in str(refusal.value)
    assert "\n" not in str(refusal.value)


def refused_by_the_command(name, source, trained, capsys, named):
    weights = ["--weights", str(trained(name).weights)] if catalogue.load(name).offers("build") else []
    capsys.readouterr()
    assert main(["eval", name, "--data", source, "--quiet", *weights]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert named in message


def _of_each_kind(files):
    """Two files of each ending: a class of pictures has many that are alike."""
    kinds = {}
    for file in files:
        kinds.setdefault(file.suffix or file.name, []).append(file)
    return [file for some in kinds.values() for file in ([some[0], some[-1]] if len(some) > 1 else some)]


def _needed(files, folder):
    """A file that evaluation reads; the folder's own name says nothing."""
    names = ("test", "t10k")  # the second is MNIST's
    return next((f for f in files if any(n in str(f.relative_to(folder)).lower() for n in names)), files[-1])


def _read_everything(reader: Layout, path: Path):
    for split in ("train", "test"):
        data = reader.read(path, split)
        for index in range(len(data)):
            data[index]


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT)
@pytest.mark.parametrize("target", ["torch", "onnx"])
def test_every_variant_exports_or_says_what_cannot(name, target, tmp_path):
    if target == "onnx":
        pytest.importorskip("onnxscript")
    system = catalogue.load(name)
    facts = _facts(system, next(iter(system.settings.published.values())))
    for variant in system.variants:
        config = system.configure("tiny", variant)
        torch.manual_seed(0)
        identity = Identity(name, "tiny", variant, config, facts)
        try:
            made = export(system, system.build(config, facts), identity, target, tmp_path / variant)
            assert made.path.stat().st_size > 0
        except CannotExport as refusal:
            assert "this model cannot be exported" in str(refusal)
            assert "\n" not in str(refusal)


AUTHORED = [name for name in NAMES if hasattr(fixtures(name), "checkpoint")]


@pytest.mark.parametrize("name", AUTHORED)
def test_a_checkpoint_of_the_authors_is_recognised_alone_and_by_name(name, tmp_path):
    path = fixtures(name).checkpoint(tmp_path)
    alone, named = vergence.load(path), vergence.load(name, path)
    assert alone.identity == named.identity == vergence.describe(path)
    assert alone.identity.system == name
    assert f"authors of {name}" in repr(alone)
    assert all(torch.equal(a, b) for a, b in zip(alone.module.parameters(), named.module.parameters(), strict=True))
    other = "flot" if name == "fake-byhand" else "fake-byhand"
    with pytest.raises(VergenceError, match=f"checkpoint of the authors of '{name}', not of '{other}'"):
        vergence.load(other, path)


def test_a_file_of_nobody_is_refused_in_a_sentence(tmp_path):
    torch.save({"other": torch.zeros(1)}, tmp_path / "other.pth")
    (tmp_path / "text.tar").write_text("nothing of the kind")
    for name in ("other.pth", "text.tar"):
        with pytest.raises(VergenceError, match=rf"{name} is no weights file: .* known for [^,]+, .*flot") as refusal:
            vergence.load(tmp_path / name)
        assert "\n" not in str(refusal.value)


STARTED = [name for name in NAMES if SETTINGS[name].starters]


@pytest.mark.parametrize("name", STARTED)
def test_starter_weights_travel_and_say_how_they_were_made(name):
    files = catalogue.starters(name)
    assert set(files) == set(SETTINGS[name].starters), "vergence weights NAME --train makes them"
    assert {p.stem for p in (catalogue.folder(name) / "weights").iterdir()} == set(files)
    assert sum(path.stat().st_size for path in files.values()) <= LARGEST
    for key, path in files.items():
        about, identity = read_about(path), identify(path)
        assert all((about.note, about.command, about.data, about.licence, about.tried, about.date))
        assert about.commit
        assert not about.commit.endswith("+"), "made from uncommitted code"
        assert next(iter(SETTINGS[name].metrics)) in about.quality
        assert identity.preset == SETTINGS[name].starters[key].preset
        tensors, _ = load_tensors(path)
        assert {t.dtype for t in tensors.values() if t.is_floating_point()} == {torch.float16}
        assert next(load_model(path)[0].parameters()).dtype == torch.float32


def test_all_starter_weights_together_are_small():
    files = [path for name in NAMES for path in catalogue.starters(name).values()]
    assert sum(path.stat().st_size for path in files) <= 25_000_000


# What it says -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_checks_hold(name):
    """A claim of the paper may be false; a check of our own code must hold."""
    system = catalogue.load(name)
    judged = {claim.id: judge(claim, RunEvidence(system, {})) for claim in system.claims if claim.kind == "check"}
    assert {id: judgement for id, judgement in judged.items() if judgement.verdict != "holds"} == {}


@pytest.mark.parametrize("name", NAMES)
def test_exact_claims_that_held_still_do(name):
    system, stored = catalogue.load(name), latest(name, root=None)
    held = [e.claim for e in stored if e.claim.kind == "exact" and e.judgement and e.judgement.verdict == "holds"]
    judged = {claim.id: judge(claim, RunEvidence(system, {})) for claim in held}
    assert {id: judgement for id, judgement in judged.items() if judgement.verdict != "holds"} == {}


@pytest.mark.parametrize("name", NAMES)
def test_the_first_snippet_of_the_readme_runs(name, here):
    snippet = catalogue.snippet(name)
    assert snippet, f"the README of {name} opens with no Python snippet"
    exec(compile(snippet, f"README of {name}", "exec"), {"__name__": "readme"})
