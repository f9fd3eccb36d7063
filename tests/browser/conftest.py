"""A gallery that runs, and browsers that visit it: ``make test-browser`` brings what they need."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

VARIABLE = "VERGENCE_BROWSER"


def pytest_collection_modifyitems(items):
    reason = missing()
    if reason:
        for item in items:
            if "tests/browser/" in item.path.as_posix():
                item.add_marker(pytest.mark.skip(reason=reason))


def missing():
    if not os.environ.get(VARIABLE):
        return "a real browser is used by `make test-browser`"
    for package in ("gradio", "selenium"):
        if importlib.util.find_spec(package) is None:
            return f"needs {package}: pip install 'vergence[app,browser]'"
    if not (driver() and browser_path()):
        return "needs a browser and its driver: apt-get install chromium chromium-driver"
    return ""


def driver():
    return shutil.which("chromedriver")


def browser_path():
    return shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")


SMALL = {
    ("snl", "tiny-reid"): {"data.people": 4},
    ("snl", "tiny-video"): {"data.count": 16},
    ("snl", "tiny"): {},
    ("sesiam", "tiny"): {"model.width": 0.34, "data.scene.frames": 5, "data.tests": 2, "data.sequences": 2},
    ("flot", "tiny"): {},
    ("patchwise", "tiny"): {},
    ("csalr", "tiny"): {},
    ("lattqe", "tiny"): {"extractor.backbone": "resnet18"},
}
"""Systems whose demos are tried, their presets, and what makes them quick. Nobody trains them: what comes out is
nonsense. Of several presets a page takes the last one made, unless asked for another."""


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A runs folder with weights of every system whose demo is tried."""
    from helpers import short
    from vergence import catalogue
    from vergence.contract.identity import Identity
    from vergence.core.files import save_tensors
    from vergence.core.progress import Progress
    from vergence.engine.contexts import working
    from vergence.engine.weights import metadata
    from vergence.runs.folder import Run
    from vergence.runs.machine import Runtime
    from vergence.runs.order import Order

    root = tmp_path_factory.mktemp("runs")
    for (name, preset), changes in SMALL.items():
        system = catalogue.load(name)
        variant = "snl" if name == "snl" else next(iter(system.variants))
        config = short(system, 1, changes, preset, variant)
        run = Run.create(Order(name, preset, variant, config, Runtime(device="cpu")), root)
        with working(system, config, run.folder, run.order.runtime, Progress()) as ctx:
            ctx.phase = next(iter(system.phases(config, None)), "")
            facts = system.facts(ctx, system.prepare(ctx, system.data(ctx, "train")))
            model = system.build(config, facts)
        identity = Identity(name, preset, variant, config, facts)
        save_tensors(run.folder / "last.safetensors", model.state_dict(), metadata(identity, system))
    return root


@pytest.fixture(scope="session")
def gallery(runs, tmp_path_factory):
    """The address of a gallery that shows them."""
    process, address = opened(runs, tmp_path_factory.mktemp("cwd"))
    yield address
    closed(process)


def opened(runs, cwd, *flags):
    command = [sys.executable, "-m", "vergence", "gallery", "--no-open", "--port", "0", "--runs", str(runs), *flags]
    places = [str(Path(__file__).parents[1] / "contract" / "fakes"), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}  # with guests of the catalogue
    process = subprocess.Popen(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = []
    reader = threading.Thread(target=lambda: said.extend(process.stderr), daemon=True)
    reader.start()
    line = process.stdout.readline()
    found = re.search(r"http://\S+", line)
    assert found, "".join(said)
    return process, found[0]


def closed(process):
    process.terminate()
    process.wait(20)


@pytest.fixture
def visitor(tmp_path_factory):
    """A function that opens a browser with an empty profile."""
    from browser.visit import Visitor

    made = []

    def visit(address):
        made.append(Visitor(address, browser_path(), driver(), tmp_path_factory.mktemp("profile")))
        return made[-1]

    yield visit
    for one in made:
        one.close()
