"""The front page opens with what to do, and its table is the catalogue (its snippets and commands: tests/docs)."""

import importlib.metadata
import json
import re
from pathlib import Path

import pytest

import vergence
from vergence import catalogue
from vergence.tools.tour import command_line

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_it_opens_with_the_two_commands():
    first = README.split("## ")[0]
    assert "make run" in first
    assert "make test" in first
    assert "TORCH=cuda" in first


def test_its_commands_are_those_of_examples_that_the_tour_leaves():
    commands = re.findall(r"^vergence predict (\w+) (tour/.*) -o \S+$", README, re.M)
    assert len(commands) >= 4
    for name, words in commands:
        folder = str(catalogue.folder(name) / "example")
        example = json.loads(json.dumps(catalogue.example(name)).replace(folder, f"tour/{name}/input"))
        assert command_line(name, example) == ["vergence", "predict", name, *words.split()]


def test_its_table_is_the_catalogue():
    own = {name for name, module in catalogue.modules().items() if module.startswith("vergence.")}
    section = README.split("## Systems")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| \[(\w+)\]\(([^)]*)\)", section, re.M))
    assert set(rows) == own
    assert all((ROOT / path).exists() for path in rows.values())


def test_the_version_is_said_once():
    assert importlib.metadata.version("vergence") == vergence.__version__
    assert vergence.__version__ not in (ROOT / "pyproject.toml").read_text()
    assert vergence.__version__ in (ROOT / "CHANGELOG.md").read_text()


def test_it_can_be_cited():
    yaml = pytest.importorskip("yaml")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(cited)
    assert str(cited["version"]) == vergence.__version__
    assert "CITATION.cff" in README
