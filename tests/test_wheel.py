"""What is handed out is enough: the wheel built from the tree, in an environment without the tree."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The ``vergence`` command of an environment that has the wheel, and what it needs from the one tests run in."""
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(folder), str(tree)]
    subprocess.run(build, check=True, capture_output=True, env=clean())
    (wheel,) = folder.glob("vergence-*.whl")
    shutil.rmtree(tree)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], check=True)
    python = folder / "env" / "bin" / "python"
    subprocess.run(
        [*pip, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)],
        check=True,
        capture_output=True,
        env=clean(),
    )
    # A path in a .pth file is searched, but the .pth files in it (such as that of an editable install) are not read.
    site = next((folder / "env" / "lib").glob("python*")) / "site-packages"
    (site / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "env" / "bin" / "vergence"


def clean():
    """Without a tree that Python was told of: pip would take it for installed."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}


def call(command, *args, cwd):
    return subprocess.run([str(command), *args], cwd=cwd, env=clean(), capture_output=True, text=True)


def test_it_has_nothing_of_the_source_tree(installed, tmp_path):
    python = installed.with_name("python")
    code = "import vergence, sys; print(vergence.__file__); print(*sys.path, sep='\\n')"
    found = call(python, "-c", code, cwd=tmp_path).stdout.splitlines()
    assert str(installed.parents[1]) in found[0]
    assert not any(str(ROOT / "src") in line for line in found)


def test_it_trains_judges_and_reports(installed, tmp_path):
    assert "recognition" in call(installed, "list", cwd=tmp_path).stdout
    assert "graph filters" in call(installed, "show", "snl", "--full", cwd=tmp_path).stdout  # its README
    few = ["--data.count", "24", "--train.epochs", "0", "--train.steps", "2", "--train.batch", "12"]
    done = call(installed, "train", "snl", *few, "--json", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / json.loads(done.stdout)["run"] / "report.html").stat().st_size > 10_000


@pytest.mark.slow
def test_it_runs_the_first_system(installed, tmp_path):
    done = call(installed, "run", "snl", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / json.loads(done.stdout)["report"]).stat().st_size > 10_000
