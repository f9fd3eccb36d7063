"""Jobs run beside each other, show how far they are, stop when told to, and leave nothing behind."""

from __future__ import annotations

import os
import sys
import time

import pytest

from vergence.app.jobs import INPUTS, Job, Jobs
from vergence.app.limits import Limits
from vergence.core.errors import VergenceError

SHORT = "import sys"
LONG = "import time; time.sleep(600)"
EVENTS = """
import json, sys, time
def send(**event): print(json.dumps(event), file=sys.stderr, flush=True)
send(event="start", task=1, label="steps", total=10)
send(event="update", task=1, done=4, note="loss 0.5", total=None)
send(event="say", text="hello")
time.sleep(600)
"""


@pytest.fixture
def jobs(tmp_path):
    made = Jobs(tmp_path / "jobs", Limits(jobs=2, waiting=1))
    yield made
    made.close()


def ask(jobs, code, seconds=60.0, what="training", folder=None):
    return jobs.submit(Job("fake", what, [sys.executable, "-c", code], seconds, folder))


def until(what, seconds=20):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def gone(process):
    return process.poll() is not None


def test_two_jobs_run_at_once_a_third_waits_and_a_fourth_is_turned_away(jobs):
    one, two, three = (ask(jobs, LONG) for _ in range(3))
    assert [job.state for job in (one, two, three)] == ["running", "running", "waiting"]
    assert jobs.ahead(three) == 0
    with pytest.raises(VergenceError, match="1 jobs are waiting already"):
        ask(jobs, SHORT)
    jobs.cancel(one)
    until(lambda: three.state == "running")
    assert two.state == "running"


def test_a_job_that_is_cancelled_ends_with_all_its_processes(jobs):
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {LONG!r}])"
    job = ask(jobs, code)
    until(lambda: job.process is not None)
    time.sleep(0.3)
    group = job.process.pid
    jobs.cancel(job)
    assert job.state == "stopped"
    until(lambda: gone(job.process))

    def empty():
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        return False

    until(empty)


def test_a_job_that_waits_can_be_cancelled_too(jobs):
    ask(jobs, LONG), ask(jobs, LONG)
    waiting = ask(jobs, SHORT)
    jobs.cancel(waiting)
    assert waiting.state == "stopped"
    assert jobs.line == []


def test_progress_is_seen_while_it_runs(jobs):
    job = ask(jobs, EVENTS)
    until(lambda: job.progress.said == ["hello"])
    (piece,) = job.progress.pieces.values()
    assert (piece.label, piece.done, piece.total, piece.note) == ("steps", 4, 10, "loss 0.5")


def test_a_job_that_takes_too_long_is_ended_with_a_sentence(jobs):
    job = ask(jobs, LONG, seconds=0.3)
    until(lambda: job.over)
    assert (job.state, "took longer than the 0:00 that" in job.error) == ("failed", True)
    until(lambda: gone(job.process))


def test_a_failure_is_its_sentence_without_the_job_s_folder(jobs, tmp_path):
    folder = jobs.new_folder()
    code = f"import sys; print('vergence: {folder}/in/images/a.png is not a picture', file=sys.stderr); sys.exit(2)"
    job = ask(jobs, code, what="prediction", folder=folder)
    until(lambda: job.over)
    assert (job.state, job.error) == ("failed", "a.png is not a picture")


def test_a_crash_is_a_sentence_for_the_visitor_and_a_traceback_for_the_terminal(jobs, capsys):
    job = ask(jobs, "raise RuntimeError('secret')")
    until(lambda: job.over)
    assert "secret" not in job.error
    assert "see the terminal that runs the gallery" in job.error
    until(lambda: "RuntimeError: secret" in capsys.readouterr().err)


def test_what_was_uploaded_is_removed_when_the_job_has_ended(jobs):
    folder = jobs.new_folder()
    (folder / INPUTS / "a.png").touch()
    job = ask(jobs, "import sys; sys.exit(2)", what="prediction", folder=folder)
    until(lambda: job.over and not (folder / INPUTS).exists())
    jobs.forget(minutes=0)
    assert not folder.exists()
    assert jobs.find(job.token) is None


def test_a_training_is_shared_and_stops_when_nobody_wants_it(jobs, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", sys.executable)
    first = ask(jobs, LONG)
    first.system = "snl"
    second = jobs.train("snl", tmp_path)
    assert second is first
    jobs.cancel(first)
    assert first.state == "running"
    jobs.cancel(first)
    assert first.state == "stopped"


def test_closing_ends_everything(tmp_path):
    jobs = Jobs(tmp_path / "jobs", Limits(jobs=1))
    folder = jobs.new_folder()
    running, waiting = ask(jobs, LONG), ask(jobs, LONG)
    until(lambda: running.process is not None)
    jobs.close()
    assert (running.state, waiting.state) == ("stopped", "stopped")
    assert gone(running.process)
    assert not folder.exists()
    with pytest.raises(VergenceError, match="closing"):
        ask(jobs, SHORT)


def test_tokens_are_not_to_be_guessed():
    made = {Job("x", "training", [], 1).token for _ in range(100)}
    assert len(made) == 100
    assert min(map(len, made)) >= 20


@pytest.mark.parametrize(("name", "value"), [("jobs", 0), ("upload_mb", 0), ("waiting", -1)])
def test_limits_that_make_no_sense_are_refused(name, value):
    with pytest.raises(VergenceError, match=f"--{name.replace('_', '-')} is a number of at least"):
        Limits(**{name: value})
