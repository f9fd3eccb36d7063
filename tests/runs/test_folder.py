"""Run folders: what is in them stays in them, whatever was put there."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from helpers import StopAt, short, start
from vergence import catalogue
from vergence.cli.main import main
from vergence.core.errors import Interrupted, VergenceError
from vergence.core.files import ABANDONED, lock, write_json
from vergence.core.progress import Progress
from vergence.engine import checkpoint
from vergence.engine.choose import newest_weights
from vergence.engine.eventfile import EventFile
from vergence.engine.execute import execute
from vergence.runs.folder import index, runs
from vergence.tools import doctor


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


# Records --------------------------------------------------------------------------------------------------------------

WHOLE = '{"total": 1}\n{"total": 2}\n'


@pytest.mark.parametrize("torn", ["{", '{"total": 3, "losses": {"a": 1}', "\udcff", "3"])
def test_a_record_is_not_glued_to_half_a_line(torn, run):
    path = run.folder / "metrics.jsonl"
    path.write_bytes(os.fsencode(WHOLE + torn))
    assert run.records() == [{"total": 1}, {"total": 2}]
    run.record({"total": 3})
    assert path.read_text() == WHOLE + '{"total": 3}\n'


def test_a_last_record_that_lacks_only_the_end_of_its_line_is_kept(run):
    (run.folder / "metrics.jsonl").write_text(WHOLE + '{"total": 3}')
    assert [record["total"] for record in run.records()] == [1, 2, 3]
    run.record({"total": 4})
    assert [record["total"] for record in run.records()] == [1, 2, 3, 4]


@pytest.mark.parametrize(("records", "kept"), [(0, 0), (1, 1), (2, 2), (3, 2), (9, 2)])
def test_rewinding_keeps_whole_lines(records, kept, run):
    path = run.folder / "metrics.jsonl"
    path.write_text(WHOLE + '{"tot')
    assert run.rewind(records) == kept
    assert path.read_text() == "".join(WHOLE.splitlines(keepends=True)[:kept])


def test_no_records_are_none(run):
    assert run.rewind(3) == 0
    assert run.records() == []


@pytest.mark.parametrize("content", ['{"tot\n{"total": 2}\n', '{"total": 1}\n\n{"total": 2}\n', '{"total": 1}\n{"to\n'])
def test_damage_that_is_not_half_a_last_line_is_said(content, run):
    (run.folder / "metrics.jsonl").write_text(content)
    with pytest.raises(VergenceError, match=r"line \d of .*metrics\.jsonl is not readable JSON"):
        run.records()


def test_half_a_line_of_a_finished_run_is_damage(run):
    (run.folder / "metrics.jsonl").write_text(WHOLE + '{"tot')
    (run.folder / "result.json").write_text("{}")
    with pytest.raises(VergenceError, match="line 3 of"):
        run.records()


def test_records_that_the_disk_lost_are_not_counted(run, tmp_path):
    """A machine that loses power may keep a checkpoint and lose the records before it."""
    whole = start("fake-byhand", run.order.config, tmp_path / "whole")
    execute(whole, Progress())
    with pytest.raises(Interrupted):
        execute(run, StopAt(2))
    path = run.folder / "metrics.jsonl"
    path.write_text(path.read_text().splitlines(keepends=True)[0] + '{"tot')
    with pytest.raises(Interrupted):
        execute(run, StopAt(1))
    assert checkpoint.latest(run.folder, print).state["place"]["records"] == len(run.records())
    execute(run, Progress())
    assert run.records() == [whole.records()[0], *whole.records()[2:]]


# Odd entries ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def among_odd_entries(run):
    """A finished run, whose neighbours are no runs."""
    execute(run, Progress())
    system = run.folder.parent
    (system / "99-file").write_text("")
    (system / "99-loop").symlink_to("99-loop")
    (system / "99-loop-in").mkdir()
    (system / "99-loop-in" / "config.json").symlink_to("config.json")
    (system / "99-folder-in" / "config.json").mkdir(parents=True)
    (system / "99-odd").mkdir()
    shutil.copy(run.folder / "config.json", system / "99-odd")
    for name in ("result.json", "metrics.jsonl", "last.safetensors", "checkpoints"):
        (system / "99-odd" / name).symlink_to(name)
    (system / "99-odd" / "environment.json").mkdir()
    os.mkfifo(system / "99-odd" / "facts.json")
    (system.parent / "loop").symlink_to("loop")
    (system.parent / "file").write_text("")
    return run


def test_odd_entries_are_not_listed(among_odd_entries):
    run = among_odd_entries
    root = run.folder.parent.parent
    assert [found.folder.name for found in runs("fake-byhand", root)] == ["99-odd", run.folder.name]
    assert newest_weights("fake-byhand", root) == run.weights
    assert list(index("fake-byhand", root).values()) == [run]
    assert not [*runs("loop", root), *runs("file", root), *runs("nothing", root)]


def test_weights_that_are_a_folder_are_none(run):
    (run.folder / "last.safetensors").mkdir()
    assert run.weights is None


def test_doctor_names_odd_entries(among_odd_entries):
    root = among_odd_entries.folder.parent.parent
    said = [finding.said for finding in doctor._runs(root, Progress())]
    assert {Path(text.split(" ")[0]).parent.name for text in said} == {"99-loop-in", "99-folder-in", "99-odd"}


def test_doctor_goes_on_after_a_folder_that_cannot_be_read(among_odd_entries, monkeypatch):
    run = among_odd_entries
    root = run.folder.parent.parent
    (root / "closed").mkdir()
    listed = Path.iterdir

    def closed(path):
        if path.name in ("closed", "checkpoints"):
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", closed)
    said = [finding.said for finding in doctor._runs(root, Progress())]
    assert f"{run.folder / 'checkpoints'} cannot be read: Permission denied" in said


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, names are text")
def test_a_run_whose_name_is_not_text_is_a_run(run, capsys, monkeypatch):
    root = run.folder.parent.parent
    other = start("fake-byhand", run.order.config, root / os.fsdecode(b"\xff"))
    for each in (run, other):
        execute(each, Progress())
    assert (other.folder / "last.safetensors").read_bytes() == run.weights.read_bytes()
    assert checkpoint.latest(other.folder, pytest.fail).folder.parent.parent == other.folder
    assert [finding.said for finding in doctor._runs(root / os.fsdecode(b"\xff"), Progress())] == ["1 whole"]
    (other.folder / os.fsdecode(b"\xfe.safetensors")).write_text("")
    (other.folder / "result.json").write_text("{")
    monkeypatch.setattr("vergence.cli.doctor.examine", lambda place, progress: list(doctor._runs(place, progress)))
    for flags in ([], ["--json"]):
        assert main(["doctor", "--quiet", "--runs", str(root / os.fsdecode(b"\xff")), *flags]) == 1
        assert "result.json" in "".join(capsys.readouterr().out.split())
