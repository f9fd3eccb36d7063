"""The front page is true: its commands exist, its snippet runs, its table is the catalogue."""

import re
from pathlib import Path

import saccade
from saccade import catalogue
from saccade.cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_it_opens_with_the_two_commands():
    first = README.split("## ")[0]
    assert "make run" in first
    assert "make test" in first
    assert "TORCH=cuda" in first


def test_every_make_target_it_or_contributing_names_is_there():
    makefile = (ROOT / "Makefile").read_text()
    for text in (README, (ROOT / "CONTRIBUTING.md").read_text()):
        for target in re.findall(r"^make ([\w-]+)", text, re.M):
            assert re.search(rf"^{target}:", makefile, re.M), target


def test_every_command_it_names_is_there():
    named = set(re.findall(r"^saccade (\w+)", README, re.M))
    assert named
    assert named <= set(COMMANDS)


def test_its_snippet_runs(here):
    snippet = re.search(r"```python\n(.*?)```", README, re.S).group(1)
    exec(compile(snippet, "README", "exec"), {"__name__": "readme"})


def test_its_table_is_the_catalogue():
    own = {name for name, module in catalogue.modules().items() if module.startswith("saccade.")}
    rows = dict(re.findall(r"^\| \[(\w+)\]\(([^)]*)\)", README, re.M))
    assert set(rows) == own
    assert all((ROOT / path).exists() for path in rows.values())


def test_the_version_is_said_once():
    assert f'version = "{saccade.__version__}"' in (ROOT / "pyproject.toml").read_text()
    assert saccade.__version__ in (ROOT / "CHANGELOG.md").read_text()
