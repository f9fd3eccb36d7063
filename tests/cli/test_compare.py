"""``vergence compare``: what differs is shown, what is the same is not."""

import json
from pathlib import Path

import pytest

from helpers import short, start
from vergence import catalogue
from vergence.cli.main import main
from vergence.contract.config import override
from vergence.core.files import write_json
from vergence.core.progress import Progress
from vergence.engine.execute import execute
from vergence.reading.tables import read_json


@pytest.fixture
def three(here):
    """A run, the same again, and one with another rate."""
    system = catalogue.load("fake-mining")
    config = short(system, 3)
    other = override(config, {"train.optimiser.lr": 0.05})
    made = [start("fake-mining", c, here / "runs") for c in (config, config, other)]
    for run in made:
        execute(run, Progress())
    return [str(run.folder) for run in made]


def compared(capsys, *folders):
    capsys.readouterr()
    assert main(["compare", *folders, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_equal_runs_have_no_difference(three, capsys):
    found = compared(capsys, three[0], three[1])
    assert found["config"] == {}
    assert found["environment"] == {}
    assert found["differences"] == {"error": [0.0, 0.0]}
    assert found["parted"] == [None, None]
    assert found["shared"][1] > 3


def test_what_differs_is_named_as_the_flag_is(three, capsys):
    found = compared(capsys, three[0], three[2])
    assert found["config"] == {"train.optimiser.lr": [0.1, 0.05]}
    first, other = found["metrics"]["error"]
    assert found["differences"]["error"][1] == pytest.approx(other - first)
    assert found["metrics"]["error"] == [read_json_of(folder) for folder in (three[0], three[2])]


def read_json_of(folder):
    with open(f"{folder}/result.json") as file:
        return json.load(file)["metrics"]["error"]


def test_curves_part_at_the_first_step_that_differs(three, capsys):
    found = compared(capsys, *three)
    lines = [[json.loads(line) for line in Path(folder, "metrics.jsonl").read_text().splitlines()] for folder in three]
    losses = [
        {r["total"]: r["losses"] for r in records if "losses" in r and r["phase"] == "train"} for records in lines
    ]
    first = min(step for step in losses[0] if losses[0][step] != losses[2][step])
    assert found["parted"] == [None, None, first]
    curve = found["curves"]["train error"][0]
    values = [loss["error"] for loss in losses[0].values()]
    assert (curve["first"], curve["last"], curve["least"], curve["most"]) == (
        values[0], values[-1], min(values), max(values),
    )  # fmt: skip


def test_runs_of_other_versions_and_unfinished_ones_compare_too(three, here, capsys):
    order = read_json(Path(three[1]) / "config.json")
    order["config"]["gone"] = {"since": 1}
    order["system"] = "fake-mining-of-old"
    write_json(Path(three[1]) / "config.json", order)
    (Path(three[1]) / "environment.json").unlink()
    (Path(three[1]) / "result.json").unlink()
    found = compared(capsys, three[0], three[1])
    assert found["config"]["gone.since"] == [None, 1]
    assert found["runs"][1]["finished"] is False
    assert found["metrics"]["error"][1] is None
    assert found["environment"]["python"][1] is None
    assert main(["compare", three[0], three[1]]) == 0


def test_people_get_tables(three, capsys):
    assert main(["compare", *three]) == 0
    said = capsys.readouterr().out
    for word in ("train.optimiser.lr", "B − A", "C − A", "squared error", "the curves of A and C diverge at step"):
        assert word in said
    assert "the curves of A and B are equal in all" in said


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "config.json").unlink(), "is not a run"),
        (lambda folder: (folder / "config.json").write_text("[1]"), "config.json is damaged"),
        (lambda folder: (folder / "environment.json").write_text("{"), "environment.json is not readable JSON"),
        (lambda folder: (folder / "metrics.jsonl").write_text('{"total": 1'), "line 1 of"),
        (lambda folder: (folder / "result.json").write_text("{}"), "needs 'metrics'"),
    ],
)
def test_a_damaged_run_is_one_sentence(spoil, said, three, capsys):
    spoil(Path(three[1]))
    assert main(["compare", three[0], three[1]]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_one_run_is_not_a_comparison(three, capsys):
    assert main(["compare", three[0]]) == 2
    assert "at least two runs, got 1" in capsys.readouterr().err
