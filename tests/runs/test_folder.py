"""Run folders: what is in them stays in them, whatever was put there."""

import os
import subprocess
import sys
import time

import pytest
import torch

from helpers import short, start
from vergence import catalogue
from vergence.core.errors import VergenceError
from vergence.core.files import ABANDONED, lock, write_json
from vergence.core.progress import Progress
from vergence.engine import checkpoint
from vergence.engine.eventfile import EventFile
from vergence.engine.execute import execute


@pytest.fixture
def run(tmp_path):
    return start("fake-byhand", short(catalogue.load("fake-byhand"), 3), tmp_path / "runs")


@pytest.fixture
def precious(tmp_path):
    """A file outside of the run."""
    path = tmp_path / "precious.txt"
    path.write_text("precious\n")
    yield path
    assert path.read_text() == "precious\n"


# Links ----------------------------------------------------------------------------------------------------------------


def test_a_lock_that_is_a_link_is_refused(run, precious):
    (run.folder / ".lock").symlink_to(precious)
    with pytest.raises(VergenceError, match=r"\.lock is a symbolic link: expected a regular file"):
        execute(run, Progress())


def test_a_lock_keeps_what_is_in_its_file(tmp_path):
    (tmp_path / ".lock").write_text("kept")
    with lock(tmp_path / ".lock", "", print):
        assert (tmp_path / ".lock").read_text() == "kept"


def test_a_lock_that_is_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / ".lock")
    with pytest.raises(VergenceError, match="is not a regular file"), lock(tmp_path / ".lock", "", print):
        pass


def test_metrics_are_not_appended_through_a_link(run, precious):
    (run.folder / "metrics.jsonl").symlink_to(precious)
    for change in (lambda: run.record({"total": 1}), lambda: run.rewind(0), lambda: execute(run, Progress())):
        with pytest.raises(VergenceError, match=r"metrics\.jsonl is a symbolic link"):
            change()


@pytest.mark.parametrize("name", ["checkpoints", "tensorboard", "prepared"])
def test_a_folder_that_leads_elsewhere_is_refused(name, run, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (run.folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(VergenceError, match=f"{name} is a symbolic link: expected a folder"):
        execute(run, Progress())
    assert not any((tmp_path / "elsewhere").iterdir())


def test_a_checkpoint_is_not_written_through_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "checkpoints").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(VergenceError, match="checkpoints is a symbolic link"):
        checkpoint.save(tmp_path, {"w": torch.ones(2)}, {}, {})


def test_an_event_file_is_not_appended_through_a_link(tmp_path, precious, monkeypatch):
    monkeypatch.setattr("vergence.engine.eventfile.time.time", lambda: 7)
    path = EventFile(tmp_path / "tensorboard").path
    path.unlink()
    path.symlink_to(precious)
    with pytest.raises(VergenceError, match="is a symbolic link"):
        EventFile(tmp_path / "tensorboard")


@pytest.mark.parametrize("name", ["result.json", "facts.json", "last.safetensors", "best.safetensors"])
def test_a_link_in_the_place_of_a_file_is_replaced(name, run, precious):
    (run.folder / name).symlink_to(precious)
    if name == "result.json":
        with pytest.raises(VergenceError, match=r"result\.json is not readable JSON"):
            execute(run, Progress())
    else:
        execute(run, Progress())


def test_a_link_in_the_place_of_a_half_written_file_is_not_followed(tmp_path, precious):
    (tmp_path / f".a.json.{os.getpid()}.partial").symlink_to(precious)
    write_json(tmp_path / "a.json", 1)
    assert not (tmp_path / "a.json").is_symlink()


# Half-written files ---------------------------------------------------------------------------------------------------


@pytest.fixture
def alive():
    """The id of another process that lives."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield child.pid
    child.communicate(b"\n")


@pytest.fixture
def gone():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def half_written(run, process):
    """What a process that was killed leaves behind."""
    files = [run.folder / f".result.json.{process}.partial", run.folder / f"checkpoints/.best-0.x.{process}.partial"]
    folder = run.folder / f"checkpoints/.000002.{process}.partial"
    folder.mkdir(parents=True)
    for path in (*files, folder / "state.pt"):
        path.write_bytes(b"half")
    return [*files, folder]


def test_what_a_killed_process_left_is_removed(run, gone):
    left = half_written(run, gone) + half_written(run, os.getpid())  # in a container, ids are the same every time
    with run.locked(print):
        assert not any(path.exists() for path in left)


def test_what_another_process_writes_stays(run, alive):
    left = half_written(run, alive)
    with run.locked(print):
        assert all(path.exists() for path in left)


def test_an_old_file_is_not_of_the_process_that_has_its_number_now(run, alive):
    left = half_written(run, alive)
    for path in left:
        os.utime(path, (time.time() - ABANDONED - 9,) * 2)
    with run.locked(print):
        assert not any(path.exists() for path in left)


def test_other_files_stay_and_links_are_removed_alone(run, gone, precious, tmp_path):
    other = run.folder / ".mine.partial"
    other.write_text("mine")
    links = [run.folder / f".a.{gone}.partial", run.folder / f".b.{gone}.partial"]
    for link, target in zip(links, (precious, tmp_path), strict=True):
        link.symlink_to(target)
        os.utime(link, (1, 1), follow_symlinks=False)
    with run.locked(print):
        assert other.exists()
        assert not any(link.is_symlink() for link in links)
