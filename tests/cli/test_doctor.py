"""``vergence doctor``: sound set-ups are sound, and what is wrong with others is said."""

import json
import os
import stat

import pytest

from helpers import short, start
from vergence import catalogue
from vergence.cli.main import main
from vergence.core.progress import Progress
from vergence.engine.execute import execute
from vergence.tools import doctor

WORKS = {"torch": {"done": True, "build": "2", "devices": ["cpu"]}, "kernels": {"done": True}}


@pytest.fixture
def quick(monkeypatch):
    """PyTorch is not tried again for every test."""
    monkeypatch.setattr(doctor, "_ask", lambda *words: WORKS[words[0]])


def examined(capsys, *args):
    capsys.readouterr()
    code = main(["doctor", "--json", "--quiet", *args])
    found = json.loads(capsys.readouterr().out)
    return code, {(f["what"], f["state"]): f["said"] for f in found["findings"]}, found


def test_this_set_up_is_sound(here, capsys):
    code, found, whole = examined(capsys)
    assert code == 0, whole
    assert whole["sound"]
    assert found["torch on cpu", "sound"] == "forward and backward agree with float64"
    assert "can be written to" in found["runs folder", "sound"]
    assert list(here.iterdir()) == []


def test_people_get_a_table(here, quick, capsys):
    assert main(["doctor", "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "this installation is sound" in said


def dies(tmp_path, monkeypatch, line):
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\n{line}\n")
    script.chmod(script.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setattr(doctor.sys, "executable", str(script))


def test_a_kernel_that_kills_its_process_is_named(here, tmp_path_factory, monkeypatch, capsys):
    fine = json.dumps(WORKS["torch"])
    line = f"""[ "$3" = torch ] && echo '{fine}' && exit 0; echo '{{"step": "a convolution"}}'; kill -SEGV $$"""
    dies(tmp_path_factory.mktemp("bin"), monkeypatch, line)
    code, found, _ = examined(capsys)
    assert code == 1
    assert found["torch on cpu", "unsound"] == "the process was killed by SIGSEGV in a convolution"


def test_a_torch_that_does_not_open_is_named_and_never_imported_here(here, tmp_path_factory, monkeypatch, capsys):
    dies(tmp_path_factory.mktemp("bin"), monkeypatch, "echo 'ImportError: libc10.so is gone' >&2; exit 1")
    monkeypatch.setattr(doctor, "_systems", lambda: pytest.fail("it opened systems"))
    code, found, _ = examined(capsys)
    assert code == 1
    assert found["torch build", "unsound"] == "ImportError: libc10.so is gone"
    assert ("systems", "note") in found


def test_a_wrong_kernel_is_found():
    import torch

    def skewed(a, b):
        return a @ b * (1 + 0.01 * (a.dtype == torch.float32))

    assert doctor._apart(skewed, [(5, 6), (6, 7)], torch.device("cpu")) > 1e-3
    assert doctor._apart(torch.matmul, [(5, 6), (6, 7)], torch.device("cpu")) < 1e-5


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_runs_folder_that_cannot_be_written_to_is_unsound(here, quick, capsys):
    (here / "runs").mkdir(mode=0o500)
    code, found, _ = examined(capsys)
    assert code == 1
    assert "cannot be written to" in found["runs folder", "unsound"]


def test_a_full_disk_is_unsound_and_a_nearly_full_one_a_note(here, quick, monkeypatch, capsys):
    for free, state, code in ((10, "unsound", 1), (doctor.LITTLE - 1, "note", 0)):
        monkeypatch.setattr(doctor.shutil, "disk_usage", lambda place, free=free: type("U", (), {"free": free})())
        got, found, _ = examined(capsys)
        assert got == code
        assert ("runs folder", state) in found


@pytest.mark.parametrize(("threads", "state"), [("2", "sound"), ("100000", "note"), ("many", "unsound")])
def test_threads(threads, state, here, quick, monkeypatch, capsys):
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    monkeypatch.setattr(doctor.os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    _, found, _ = examined(capsys)
    assert ("threads", state) in found


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("config.json", lambda content: b"{"),
        ("result.json", lambda content: b'{"metrics": 3}'),
        ("metrics.jsonl", lambda content: content[:-9]),
        ("last.safetensors", lambda content: content[:40]),
        ("checkpoints/000001/weights.safetensors", lambda content: content[:-1] + bytes([content[-1] ^ 1])),
        ("checkpoints/000001/state.pt", lambda content: content[:100]),
    ],
)
def test_a_damaged_run_is_named(name, spoil, here, quick, capsys):
    run = start("fake-byhand", short(catalogue.load("fake-byhand"), 2), here / "runs")
    execute(run, Progress())
    code, found, _ = examined(capsys)
    assert code == 0
    assert found["runs", "sound"] == "1 whole"
    path = run.folder / name
    content = path.read_bytes()
    path.unlink()  # the weights have two names
    path.write_bytes(spoil(content))
    code, found, _ = examined(capsys)
    assert code == 1
    assert str(run.folder.relative_to(here)) in found["run", "unsound"]


def test_half_a_line_of_a_run_that_was_killed_is_no_damage(here, quick, capsys):
    run = start("fake-byhand", short(catalogue.load("fake-byhand"), 2), here / "runs")
    (run.folder / "metrics.jsonl").write_text('{"total": 1}\n{"tot')
    (run.folder / ".last.safetensors.77.partial").write_bytes(b"half")
    code, found, _ = examined(capsys)
    assert code == 0
    assert "1 half-written" in found["run", "note"]


def test_a_guest_that_does_not_open_is_a_note(here, quick, monkeypatch, capsys):
    load = catalogue.load

    def broken(name):
        if name == "fake-game":
            raise ImportError("no module named 'game'")
        return load(name)

    monkeypatch.setattr(catalogue, "load", broken)
    code, found, _ = examined(capsys)
    assert code == 0
    assert "no module named 'game'" in found["system fake-game", "note"]
