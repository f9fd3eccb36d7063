"""Progress: plain lines, JSON lines, and bars."""

import io
import json

from vergence.core.progress import Bars, Events, Lines, Progress, about_minutes, clock


def test_lines_say_how_far_and_how_long(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = io.StringIO()
    lines = Lines(stream, seconds=10)
    task = lines.start("train", 100)
    for step in range(1, 53):
        now[0] += 1
        lines.update(task, step, f"loss {step}")
    lines.finish(task)
    shown = stream.getvalue().splitlines()
    assert shown[0] == "train: 10/100 in 0:10, 1:30 left  loss 10"
    assert len(shown) == 6
    assert shown[-1].startswith("train: 52/100 in 0:52")


def test_lines_show_the_end_of_a_task_once(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = io.StringIO()
    lines = Lines(stream, seconds=10)
    for _ in lines.track(range(8), "runs"):
        now[0] += 30
    assert [line.split()[1] for line in stream.getvalue().splitlines()] == [f"{done}/8" for done in range(1, 9)]


def test_a_task_that_counts_nothing_ends_without_a_line(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = io.StringIO()
    lines = Lines(stream, seconds=10)
    task = lines.start("report", None)
    now[0] += 5
    lines.finish(task)
    assert stream.getvalue() == ""


def test_rough_times_are_grammatical():
    assert [about_minutes(m) for m in (0.5, 1, 1.5, 12)] == [
        "about 30 seconds",
        "about 1 minute",
        "about 1.5 minutes",
        "about 12 minutes",
    ]


def test_a_piece_of_work_that_takes_no_time_needs_no_line():
    stream = io.StringIO()
    lines = Lines(stream)
    assert list(lines.track([1, 2], "quick")) == [1, 2]
    assert stream.getvalue() == ""


def test_events_tell_a_parent_everything():
    stream = io.StringIO()
    events = Events(stream)
    task = events.start("train", None)
    events.update(task, 1, "loss 2", 10)
    events.say("hello")
    events.finish(task)
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [e["event"] for e in found] == ["start", "update", "say", "finish"]
    assert found[1] == {"event": "update", "task": 1, "done": 1, "note": "loss 2", "total": 10}


def test_bars_and_nothing_take_the_same_calls():
    for progress in (Bars(), Progress()):
        with progress:
            task = progress.start("train", None)
            progress.update(task, 1, "[loss] 2", 10)
            progress.say("[not markup]")
            progress.finish(task)


def test_clock():
    assert [clock(s) for s in (0, 59.6, 75, 3700)] == ["0:00", "1:00", "1:15", "1:01:40"]
