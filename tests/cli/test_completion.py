"""Completion: quick, true to the flags there are, and a script each shell can read."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from vergence import catalogue
from vergence.cli import completion
from vergence.cli.main import COMMANDS, main


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def words(*typed):
    return set(completion.complete(list(typed)))


def test_commands_and_names_come_first():
    assert words("") == set(COMMANDS)
    assert words("tr") == {"train"}
    assert words("train", "") == set(catalogue.names())
    assert words("show", "sn") == {"snl"}
    assert "snl" not in words("claims", "snl", "")
    assert words("train", "snl", "") == set()  # files, if anything
    assert words("data", "") == {"check"}
    assert words("completion", "") == {"bash", "zsh", "fish"}
    assert words("nonsense", "") == set()


def test_values_of_flags():
    system = catalogue.load("snl")
    assert words("train", "snl", "--preset", "") == set(system.settings.presets)
    assert words("train", "snl", "--variant", "no") == {"none"}
    assert words("run", "snl", "--variants", "") == set(system.variants)
    assert {"none", "nl", "ns", "snl"} <= words("train", "snl", "--model.block", "")
    assert words("export", "snl", "--to", "") == {"onnx", "torch"}
    assert words("eval", "snl", "--split", "t") == {"train", "test"}
    assert words("train", "snl", "--init", "") == set()
    assert {"cifar10:", "folder:"} <= words("data", "check", "")


@pytest.mark.parametrize(
    "args",
    [
        *(["train", name] for name in catalogue.names() if catalogue.load(name).trains),
        *(["eval", name] for name in catalogue.names()),
        *(["predict", name] for name in catalogue.names() if catalogue.load(name).offers("infer")),
        ["run", "snl"], ["claims"], ["bench"], ["list"], ["show", "snl"], ["cite", "snl"], ["export", "snl"],
        ["compare"], ["doctor"], ["data", "check"], ["completion"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_the_flags_are_those_of_the_help(args, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "4000")
    assert main([*args, "--help"]) == 0
    said = re.sub(r"(?s).*?\n\n.*?\n\n", "", capsys.readouterr().out, count=1)  # past usage and description
    said = re.sub(r"`[^`]*`", "", said)  # what a description names is not what there is
    helped = {flag for flag in re.findall(r"(?<![\w.-])--\w[\w.-]*", said)}
    assert helped
    # Where a preset has patterns of its own, the help shows a flag for each of them.
    helped = {re.sub(r"(\.(rates|decays))\..*", r"\1", flag) for flag in helped}
    assert words(*args, "--") == helped


def test_what_a_system_knows_is_asked_once(monkeypatch):
    expected = words("train", "snl", "--")
    monkeypatch.setattr(completion, "_asked", lambda *_: pytest.fail("asked again"))
    assert words("train", "snl", "--") == expected
    monkeypatch.setattr(completion, "_asked", lambda *_: {"--new": []})
    monkeypatch.setattr(completion, "_mark", lambda names: "another version")
    assert words("train", "snl", "--") == {"--new", "--help"}


def test_a_damaged_cache_is_asked_again(tmp_path):
    expected = words("train", "fake-byhand", "--")
    (kept,) = (tmp_path / "cache").rglob("*.json")
    for content in ("", "[]", '{"mark": 1}', "\0"):
        kept.write_text(content)
        assert words("train", "fake-byhand", "--") == expected


def test_commands_names_and_kept_flags_need_no_torch(tmp_path):
    words("train", "snl", "--preset", "")
    words("train", "snl", "--")
    code = """
import sys
from vergence.cli.main import main
for line in ("tr", "train,", "train,snl,--preset,", "train,snl,--mod", "list,--"):
    assert main(["completion", "words", *line.split(",")]) == 0
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {"train", "snl", "paper", "--model.block", "--task"} <= {
        line.split("\t")[0] for line in done.stdout.splitlines()
    }


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_a_script_is_printed_and_its_shell_can_read_it(shell, tmp_path, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "vergence completion words" in script
    assert main(["completion", shell, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"shell": shell, "script": script}
    if shutil.which(shell):
        path = tmp_path / "script"
        path.write_text(script)
        assert subprocess.run([shell, "-n", str(path)]).returncode == 0


def test_bash_completes_with_it(tmp_path):
    program = tmp_path / "vergence"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m vergence "$@"\n')
    program.chmod(0o755)
    (tmp_path / "script").write_text(completion.SCRIPTS["bash"])
    ask = f"""
source {tmp_path}/script
COMP_WORDS=(vergence show sn); COMP_CWORD=2; _vergence_complete; echo "${{COMPREPLY[@]}}"
COMP_WORDS=(vergence train snl --); COMP_CWORD=1; _vergence_complete; echo "${{COMPREPLY[@]}}"
complete -p vergence
"""
    path = f"{tmp_path}:/usr/bin:/bin"
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, env=os.environ | {"PATH": path})
    assert done.stdout.splitlines()[:2] == ["snl", "train"], done.stderr
    assert "_vergence_complete" in done.stdout


def test_another_shell_is_one_sentence(capsys):
    assert main(["completion", "zhs"]) == 2
    assert "no completion for 'zhs' (did you mean 'zsh'?)" in capsys.readouterr().err
