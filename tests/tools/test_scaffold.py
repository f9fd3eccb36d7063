"""A new system passes the contract from its first minute."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vergence.core.errors import VergenceError
from vergence.tools.scaffold import lay_out

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    top = tmp_path_factory.mktemp("checkout")
    skipped = shutil.ignore_patterns(
        "__pycache__", "*.egg-info", "*.png", "*.mp4", "*.safetensors", "traces.json", "browser"
    )
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, top / name, ignore=skipped)
    shutil.copy(ROOT / "pyproject.toml", top)
    lay_out("newroom/novelty", top)
    return top


def environment(top):
    return os.environ | {"PYTHONPATH": str(top / "src"), "VERGENCE_SYSTEMS": "novelty", "OMP_NUM_THREADS": "1"}


def test_its_contract_and_own_tests_pass(checkout):
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "-k", "newroom or novelty"]
    done = subprocess.run(
        [*command, "tests/contract/test_contract.py", "tests/newroom", "tests/test_arrows.py"],
        cwd=checkout, env=environment(checkout), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]


def test_it_is_clean_to_ruff_and_mypy(checkout):
    system = checkout / "src" / "vergence" / "newroom"
    for tool in (["ruff", "check", "--no-cache"], ["ruff", "format", "--check", "--no-cache"]):
        done = subprocess.run(
            [sys.executable, "-m", *tool, str(system), str(checkout / "tests" / "newroom")],
            cwd=checkout, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("place", ["flot", "Points/new", "points/", "points/a-b", "../x/y", "points/flot"])
def test_what_cannot_be_a_new_system_is_refused(place, checkout):
    with pytest.raises(VergenceError):
        lay_out(place, checkout)


def test_outside_a_checkout_it_says_so(tmp_path):
    with pytest.raises(VergenceError, match="not a source checkout"):
        lay_out("newroom/other", tmp_path)
