"""What the pages say can be done can be done: snippets run, commands are understood, links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
import tyro

from vergence import catalogue
from vergence.cli import train as training
from vergence.cli import use
from vergence.cli.main import COMMANDS, main
from vergence.contract.identity import Identity
from vergence.engine.choose import Chosen
from vergence.runs.order import Order

ROOT = Path(__file__).parents[2]
SYSTEMS = {name: catalogue.folder(name) / "README.md" for name, m in catalogue.modules().items() if "vergence." in m}
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md")), *sorted((ROOT / "docs/pages").glob("*.md"))]
PAGES += list(SYSTEMS.values())
PLACEHOLDERS = {"NAME": "snl", "COMMAND": "run", "SHELL": "bash", "FILES": "a.png", "COUNT": "2"}
"""Words in capitals that stand for one of a few; any other one stands for a file or a folder."""


def name_of(page: Path) -> str:
    return page.parent.name if page in SYSTEMS.values() else page.stem


def snippets():
    """Every Python block; the first of a system's README is run by the contract."""
    for page in PAGES:
        found = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)
        for number, text in enumerate(found):
            if number or page not in SYSTEMS.values():
                yield pytest.param(text, id=f"{name_of(page)}-{number}")


def lines_of_commands(text: str) -> list[str]:
    """Lines of blocks without a language and inline code that call ``vergence``, without what explains them."""
    text = text.replace("\\\n", " ")
    found = []
    for block in re.findall(r"^```(?:bash|sh)?\n(.*?)^```", text, re.S | re.M):
        for line in block.splitlines():
            if call := re.search(r"(?:^|<\(|-m )(vergence [^)|]*)", line):
                found.append(re.split(r"\s{2,}\S|\s+#", call[1].strip())[0])
    outside = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    found += [" ".join(call.split()) for call in re.findall(r"`(vergence [a-z][^`]*)`", outside)]
    return found


def commands():
    seen = {}
    for page in PAGES:
        for line in lines_of_commands(page.read_text(encoding="utf-8")):
            seen.setdefault(line, name_of(page))
    return [pytest.param(line, id=f"{page}: {line}") for line, page in seen.items()]


class Understood(Exception):
    """The options were read; what follows would be the work itself."""


@pytest.fixture
def only_read(monkeypatch):
    """Commands stop where they have read their options. What they would look up before is made up."""
    import vergence.cli.export  # noqa: F401  # it imports what is replaced below, and would keep it

    parse = tyro.cli

    def stop(*args, **kwargs):
        parse(*args, **kwargs)
        raise Understood

    def weights(system, given, root, needed=True):
        return Chosen(None, Identity(system.about.name, "tiny", "", system.configure("tiny"), None))

    class Old:
        folder = Path("RUN")
        order = Order("snl", "tiny", "snl", catalogue.load("snl").configure("tiny", "snl"))

    monkeypatch.setattr(tyro, "cli", stop)
    monkeypatch.setattr(use, "choose_or_train", weights)
    monkeypatch.setattr(training, "_old_run", lambda args: Old if {"--resume", "--from-run"} & {*args} else None)


def spelled(line: str) -> list[str]:
    """A command line as it would be typed: optional parts taken, placeholders filled in."""
    line = line.replace("[", "").replace("]", "").replace(" ...", "")
    return [PLACEHOLDERS.get(word, word) for word in shlex.split(line)][1:]


@pytest.mark.parametrize("snippet", list(snippets()))
def test_a_snippet_runs(snippet, here):
    exec(compile(snippet, "a page", "exec"), {"__name__": "page"})


@pytest.mark.parametrize("line", commands())
def test_a_command_is_understood(line, only_read, here, capsys):
    args = spelled(line)
    if "--help" in args:
        assert main(args) == 0
        return
    if args[0] in COMMANDS and set(args[1:]) <= {"check"}:  # a mention, not a call
        return
    with pytest.raises(Understood):
        code = main(args)
        raise AssertionError(f"vergence {shlex.join(args)} ended with {code}: {capsys.readouterr().err}")


@pytest.mark.parametrize(
    "line", ["vergence run snl --sedes 3", "vergence train snl --train.bach 3", "vergence runn snl"]
)
def test_the_check_of_commands_can_fail(line, only_read, here, capsys):
    assert main(spelled(line)) == 2


@pytest.mark.parametrize("args", [["list"], ["list", "--task", "tracking"], ["show", "patchwise"], ["cite", "snl"]])
def test_what_only_tells_is_executed_as_it_stands(args, here, capsys):
    assert main(args) == 0
    assert len(capsys.readouterr().out) > 100


def test_make_targets_that_pages_name_are_there():
    makefile = (ROOT / "Makefile").read_text()
    named = {t for page in PAGES for t in re.findall(r"^make ([\w-]+)", page.read_text(encoding="utf-8"), re.M)}
    assert {"run", "test"} <= named
    assert [target for target in named if not re.search(rf"^{target}:", makefile, re.M)] == []


def test_scripts_and_modules_that_pages_run_are_there():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    scripts = set(re.findall(r"python ((?:docs|examples)/[\w.]+)", text))
    modules = set(re.findall(r"python -m ([\w.]+)", text))
    assert scripts
    assert [script for script in scripts if not (ROOT / script).is_file()] == []
    assert [module for module in modules if find_spec(module) is None] == []


def test_extras_that_pages_name_are_there():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {e for page in PAGES for e in re.findall(r"(?:vergence|\.)\[(\w+)\]'", page.read_text(encoding="utf-8"))}
    assert "export" in named
    assert named <= set(extras)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_a_page_links_to_are_there(page):
    made = {f"systems/{name}.md" for name in SYSTEMS} | {f"systems/{name}.png" for name in SYSTEMS}
    made |= {"systems/index.md", "claims.md", "contributing.md", "changelog.md", "examples.md", "reference/ops.md"}
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)|<img src=\"([^\":]+)\"", text)
    for link in (one or other for one, other in links):
        assert (page.parent / link).exists() or (page.parent.name == "pages" and link in made), link


def test_measured_things_are_rendered_by_the_tool_and_up_to_date():
    import importlib.util

    spec = importlib.util.spec_from_file_location("render", ROOT / "docs" / "render.py")
    render = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(render)
    how = "is out of date: python docs/render.py"
    assert render.LEDGER.read_text(encoding="utf-8") == render.ledger(), f"docs/claims.md {how}"
    readme = render.README.read_text(encoding="utf-8")
    assert readme == render.with_systems(readme), f"the table of README.md {how}"


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_stored_picture_is_small_and_says_how_it_was_made(name):
    from PIL import Image

    from vergence.studies import results

    path = catalogue.picture(name)
    if path is None:
        pytest.skip(f"{name} has no picture yet")
    with Image.open(path) as image:
        assert image.format == "PNG"
        assert min(image.size) >= 200
    assert path.stat().st_size <= results.LARGEST
    known = results.picture(name)
    assert known is not None
    assert known.caption
    assert known.command.startswith(("vergence ", "python "))
    assert known.environment.date


def test_modules_that_the_design_names_exist():
    text = (ROOT / "docs/pages/design.md").read_text(encoding="utf-8")
    named = sorted(set(re.findall(r"`(vergence(?:\.\w+)+)`", text)))
    assert len(named) > 20
    for name in named:
        assert importlib.util.find_spec(name) is not None, name
    layers = set(re.findall(r"^([a-z]+(?:  ?[a-z]+)*?)  ", text.split("```text")[1].split("```")[0], re.M))
    for layer in {word for line in layers for word in line.split()} - {"rooms", "with", "their", "systems"}:
        assert importlib.util.find_spec(f"vergence.{layer}") is not None, layer
