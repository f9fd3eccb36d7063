"""Several processes: what one would compute, written by one, and ended together."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers import start
from vergence import catalogue
from vergence.reading.weights import load_tensors
from vergence.runs.folder import Run, runs

pytestmark = pytest.mark.xdist_group(
    "processes"
)  # one group of processes at a time: they meet at ports of this machine
FAKES = Path(__file__).parents[1] / "contract" / "fakes"
PLACES = os.pathsep.join(filter(None, [str(FAKES), os.environ.get("PYTHONPATH")]))
ENVIRONMENT = os.environ | {"PYTHONPATH": PLACES, "OMP_NUM_THREADS": "1"}


def vergence(*args):
    return [sys.executable, "-m", "vergence", *map(str, args)]


def train(root, *args):
    done = subprocess.run(
        vergence("train", *args, "--runs", root, "--json", "--quiet"), capture_output=True, text=True, env=ENVIRONMENT
    )
    assert done.returncode == 0, done.stderr
    return Run.open(Path(json.loads(done.stdout)["run"]))


def numbers(run):
    """Every loss and metric of a run, in order."""
    return [v for line in run.records() for part in ("losses", "metrics") for v in line.get(part, {}).values()]


def started(root, *args):
    """A run of several processes that has taken its first steps, and the process that started it."""
    child = subprocess.Popen(
        vergence("train", *args, "--runs", root),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    while not any(root.glob("*/*/metrics.jsonl")):
        assert child.poll() is None, child.communicate()
        time.sleep(0.05)
    return next(runs(args[0], root)), child


def ranks_below(process):
    """The processes that train, below the one that was started."""
    found, todo = [], [process]
    while todo:
        below = [
            int(p) for thread in Path(f"/proc/{todo[0]}/task").glob("*/children") for p in thread.read_text().split()
        ]
        todo = todo[1:] + below
        found += [p for p in below if b"vergence" in Path(f"/proc/{p}/cmdline").read_bytes().split(b"\0")[2]]
    return found


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        pytest.param("fake-mining", [], marks=pytest.mark.slow),
        ("fake-byhand", ["--train.batch", 7]),  # shares of four and three
    ],
)
def test_two_processes_learn_what_one_does(name, flags, tmp_path):
    one, two = (train(tmp_path / str(count), name, "--devices", count, *flags) for count in (1, 2))
    assert numbers(two) == pytest.approx(numbers(one), rel=1e-5)
    assert two.metrics == pytest.approx(one.metrics, rel=1e-5)  # every sample once: the counts are odd
    for tensors in zip(*(load_tensors(run.weights)[0].values() for run in (one, two)), strict=True):
        assert (tensors[0] - tensors[1]).abs().max() < 1e-5
    assert len(list((two.folder / "tensorboard").iterdir())) == 1  # one process wrote
    assert not [p for p in two.folder.rglob("*") if p.name.endswith(".partial")]


def test_a_process_that_dies_ends_the_run_with_a_sentence(tmp_path):
    run, child = started(tmp_path, "fake-byhand", "--devices", 2, "--train.steps", 1_000_000, "--save-every", 0)
    os.kill(ranks_below(child.pid)[-1], signal.SIGKILL)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 1
    assert (
        said.strip().splitlines()[-1] == "vergence: one of the 2 processes died (SIGKILL), and the others were stopped"
    )
    assert "Traceback" not in said
    assert any((run.folder / "checkpoints").iterdir())


def lives(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("between", [False, True])
def test_nothing_goes_on_when_what_started_it_is_killed(between, tmp_path):
    run, child = started(tmp_path, "fake-byhand", "--devices", 2, "--train.steps", 1_000_000, "--save-every", 0)
    ranks = ranks_below(child.pid)
    assert len(ranks) == 2
    torchrun = int(Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()[0])
    os.kill(torchrun if between else child.pid, signal.SIGKILL)
    child.communicate(timeout=30)
    deadline = time.monotonic() + 15
    while any(map(lives, [*ranks, torchrun])):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert any((run.folder / "checkpoints").iterdir())


@pytest.mark.slow
def test_runs_of_several_processes_end_with_the_one_that_started_them(tmp_path):
    code = (
        "import sys; from pathlib import Path; from vergence.core.progress import Progress; "
        "from vergence.engine.jobs import run_all; from vergence.runs.folder import Run; "
        "run_all([Run.open(Path(p)) for p in sys.argv[1:]], 2, Progress())"
    )
    config = catalogue.load("fake-byhand").configure("tiny", changes={"train.steps": 1_000_000})
    both = [start("fake-byhand", config, tmp_path) for _ in range(2)]
    parent = subprocess.Popen([sys.executable, "-c", code, *(str(run.folder) for run in both)], env=ENVIRONMENT)
    while not all((run.folder / "metrics.jsonl").exists() for run in both):
        assert parent.poll() is None
        time.sleep(0.05)
    children = ranks_below(parent.pid)
    parent.kill()
    parent.wait()
    assert len(children) == 2
    deadline = time.monotonic() + 15
    while any(map(lives, children)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert all(any((run.folder / "checkpoints").iterdir()) for run in both)  # they had the time to save


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_all_processes_answer_a_signal_and_the_run_goes_on_with_any_number(number, code, tmp_path):
    run, child = started(tmp_path, "fake-byhand", "--devices", 2, "--train.steps", 3000, "--seed", 3)
    child.send_signal(number)
    _, said = child.communicate(timeout=60)
    assert child.returncode == code
    assert re.search(r"^vergence: stopped after step \d+; resume with: ", said, re.MULTILINE)
    args = ["train", "--resume", run.folder, "--devices", 1, "--json", "--quiet"]
    assert subprocess.run(vergence(*args), env=ENVIRONMENT, capture_output=True).returncode == 0
    whole = train(tmp_path / "whole", "fake-byhand", "--train.steps", 3000, "--seed", 3)
    assert run.metrics == pytest.approx(whole.metrics, rel=1e-4)


@pytest.mark.slow
def test_what_is_wrong_with_the_run_keeps_its_exit_code(tmp_path):
    args = ["train", "fake-byhand", "--devices", 2, "--runs", tmp_path, "--train.optimiser.lr", "1e30"]
    done = subprocess.run(vergence(*args), env=ENVIRONMENT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1
    assert re.fullmatch(
        r"vergence: the loss 'fit' is (inf|nan) at step \d+ of .*", done.stderr.strip().splitlines()[-1]
    )


def test_several_machines_are_answered_with_the_line_to_start_on_each(capsys):
    from vergence.cli.main import main

    assert main(["train", "fake-byhand", "--devices", "2", "--nodes", "2"]) == 2
    said = capsys.readouterr().err
    assert "torchrun --nnodes 2 --nproc-per-node 2 --node-rank RANK" in said
    assert said.strip().endswith("-m vergence train fake-byhand --devices 2 --nodes 2")


@pytest.mark.slow
def test_the_line_for_several_machines_works_with_two_groups_on_this_one(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = "--nnodes 2 --nproc-per-node 1 --master-addr 127.0.0.1 --master-port"
    command = [sys.executable, "-m", "torch.distributed.run", *line.split(), str(port)]
    args = [
        "-m",
        "vergence",
        "train",
        "fake-mining",
        "--devices",
        "1",
        "--nodes",
        "2",
        "--runs",
        str(tmp_path),
        "--json",
    ]
    groups = [
        subprocess.Popen(
            [*command, "--node-rank", str(rank), *args], stdout=subprocess.PIPE, env=ENVIRONMENT, text=True
        )
        for rank in (0, 1)
    ]
    printed = [group.communicate(timeout=200)[0] for group in groups]
    assert [group.returncode for group in groups] == [0, 0]
    assert printed[1] == ""  # the first process speaks for all
    run = Run.open(Path(json.loads(printed[0])["run"]))
    one = train(tmp_path / "one", "fake-mining")
    assert numbers(run) == pytest.approx(numbers(one), rel=1e-5)
