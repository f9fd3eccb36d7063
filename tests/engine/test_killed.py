"""Killed anywhere: a real process that dies without warning leaves a run that goes on to the same bits."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers import start
from vergence import catalogue
from vergence.core.progress import Progress
from vergence.engine.execute import execute
from vergence.runs.folder import Run
from vergence.runs.machine import Runtime

FAKES = Path(__file__).parents[1] / "contract" / "fakes"
NAMES = ["fake-game", "fake-growing", "fake-mining", "fake-byhand"]
FILE_EVENTS = {"open", "os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree"}


def forked(work):
    """Run ``work`` in a process of its own; its process id."""
    child = os.fork()
    if child:
        return child
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        work()
        os._exit(0)
    finally:
        os._exit(1)


def outcome(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def saving_often(name, root):
    """A run that writes a checkpoint after every step, so that most of its time is spent writing."""
    return start(name, catalogue.load(name).configure("tiny"), root, save_every=0.0)


def same(run, whole):
    assert (run.folder / "last.safetensors").read_bytes() == (whole.folder / "last.safetensors").read_bytes()
    assert run.records() == whole.records()
    assert run.metrics == whole.metrics


def kill_at_random(name, root, kills, source):
    """Kill a run again and again, each time at another moment of its life, then let it be."""
    whole = saving_often(name, root)
    began = time.perf_counter()
    assert outcome(forked(lambda: execute(whole, Progress()))) == 0
    life = time.perf_counter() - began
    killed = 0
    while killed < kills:
        run = saving_often(name, root)
        while killed < kills:
            child = forked(lambda run=run: execute(run, Progress()))
            time.sleep(source.uniform(0, life / 2))
            os.kill(child, signal.SIGKILL)
            if outcome(child) == -signal.SIGKILL:
                killed += 1
            if run.result is not None:
                break
        execute(run, Progress())
        same(run, whole)
    return killed


@pytest.mark.parametrize("name", NAMES)
def test_killed_at_random_moments(name, tmp_path):
    assert kill_at_random(name, tmp_path, 5, random.Random(name)) == 5


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_killed_at_fifty_random_moments(name, tmp_path):
    assert kill_at_random(name, tmp_path, 50, random.Random(time.time_ns())) == 50


def test_killed_in_the_middle_of_a_checkpoint(tmp_path):
    """The process dies at its n-th look at the file system, for moments spread over two checkpoints."""
    killed_at_file_operations(tmp_path, range(40, 90, 4))


@pytest.mark.slow
def test_killed_at_every_file_operation(tmp_path):
    killed_at_file_operations(tmp_path, range(1, 500))


def killed_at_file_operations(root, moments):
    whole = saving_often("fake-byhand", root)
    execute(whole, Progress())
    for number in moments:
        run = saving_often("fake-byhand", root)
        assert outcome(forked(lambda run=run, number=number: die_at(number, run))) == -signal.SIGKILL
        execute(run, Progress())
        same(run, whole)


def die_at(number, run):
    left = [number]

    def hook(event, args):
        if event in FILE_EVENTS and run.folder.name in str(args):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    execute(run, Progress())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_command_answers_a_signal_saves_and_says_how_to_go_on(number, code, tmp_path):
    config = catalogue.load("fake-byhand").configure("tiny", changes={"train.steps": 100_000})
    run = start("fake-byhand", config, tmp_path)
    command = [sys.executable, "-m", "vergence", "train", "--resume", str(run.folder)]
    places = os.pathsep.join(filter(None, [str(FAKES), os.environ.get("PYTHONPATH")]))
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": places})
    while not (run.folder / "metrics.jsonl").exists():
        assert child.poll() is None
        time.sleep(0.02)
    child.send_signal(number)
    _, said = child.communicate(timeout=60)
    assert child.returncode == code
    last = said.strip().splitlines()[-1]
    assert last.startswith("vergence: stopped after step ")
    assert last.endswith(f"resume with: vergence train --resume {run.folder}")
    assert len([p for p in (run.folder / "checkpoints").iterdir() if p.name.isdigit()]) == 1


def test_a_second_signal_ends_the_process_at_once(tmp_path):
    config = catalogue.load("fake-byhand").configure("tiny", changes={"train.steps": 100_000})
    run = start("fake-byhand", config, tmp_path)

    class Deaf(Progress):
        """Never comes back to the loop, as a step that takes for ever would not."""

        def update(self, task, done, note="", total=None):
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        execute(run, Deaf())


# A disk that is full -------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte: a tmpfs where the test may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True)
    if done.returncode:
        pytest.skip("no right to mount a small disk here; the quota test below covers the same code")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_is_one_sentence_and_nothing_is_lost(small_disk):
    run = saving_often("fake-byhand", small_disk)
    whole = saving_often("fake-byhand", small_disk.parent)
    execute(whole, Progress())
    ballast = small_disk / "ballast"
    code, said = told_by_child(run, lambda step: step == 5 and fill(ballast))
    assert code == 1
    assert "cannot write" in said
    assert said.count("\n") == 1
    ballast.unlink()
    execute(run, Progress())
    same(run, whole)


def fill(path):
    with path.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(b"x" * 1024)


def test_a_quota_on_the_size_of_files_is_one_sentence_and_nothing_is_lost(tmp_path):
    import resource

    run, whole = (saving_often("fake-byhand", tmp_path) for _ in range(2))
    execute(whole, Progress())

    def quota(step):
        if step == 5:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))

    code, said = told_by_child(run, quota)
    assert code == 1
    assert "cannot write" in said
    execute(run, Progress())
    same(run, whole)


def told_by_child(run, at_step):
    """Carry a run on in a process of its own that does something at each step; exit code and what it says."""
    reader, writer = os.pipe()

    class Acts(Progress):
        def update(self, task, done, note="", total=None):
            if total is not None:
                at_step(done)

    def work():
        from vergence.core.errors import VergenceError

        try:
            execute(run, Acts())
        except VergenceError as error:
            os.write(writer, f"{error}\n".encode())
            raise

    child = forked(work)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    return outcome(child), said


# A process that reads data and dies ----------------------------------------------------------------------------------


def test_a_data_worker_that_dies_is_one_sentence_and_the_run_goes_on_without_it(tmp_path):
    config = catalogue.load("fake-byhand").configure("tiny", changes={"train.steps": 400})
    run, whole = (start("fake-byhand", config, tmp_path, workers=w, save_every=0.0) for w in (1, 0))
    execute(whole, Progress())

    def kill_worker(step):
        if step == 20:
            children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
            os.kill(int(children[0]), signal.SIGKILL)

    code, said = told_by_child(run, kill_worker)
    assert code == 1
    assert "a data worker died" in said
    execute(run, Progress(), Runtime(device="cpu"))
    same(Run.open(run.folder), whole)
