"""Commands in-process: what they print, what they leave, and their exit codes."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vergence import catalogue
from vergence.cli.main import main
from vergence.contract.claims import above
from vergence.runs.folder import Run, runs

FAKES = Path(__file__).parents[1] / "contract" / "fakes"


def test_no_arguments_greet_with_the_four_things_one_would_do_first(capsys):
    assert main([]) == 0
    said = capsys.readouterr().out
    assert all(f"vergence {command}" in said for command in ("list", "show", "run", "predict"))


@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["-h"],
        ["train", "--help"],
        ["run", "snl", "--help"],
        ["claims", "--help"],
        ["eval", "snl", "--help"],
        ["predict", "snl", "--help"],
        ["train", "snl", "--help"],
    ],
)
def test_help_is_for_everyone(args, capsys):
    assert main(args) == 0
    assert "usage" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["trane"], "no command 'trane' (did you mean 'train'"),
        (["train"], "needs the name of a system first"),
        (["train", "sln"], "no system 'sln' (did you mean 'snl'"),
        (["train", "snl", "--preset", "pape"], "no preset 'pape'"),
        (["train", "snl", "--variant", "nll"], "no variant 'nll'"),
        (["train", "snl", "--resume", "nowhere"], "nowhere is not a run"),
        (["train", "snl", "--resume", "last"], "no unfinished run of snl"),
        (["train", "snl", "--resume", "a", "--from-run", "b"], "give only one of them"),
        (["train", "snl", "--data", "cifar10:nowhere"], "nowhere does not exist"),
        (["train", "snl", "--train.batch", "0"], "batch is at least 1"),
        (["train", "snl", "--precision", "16-mixed", "--device", "cpu"], "16-mixed needs an accelerator"),
        (["run", "snl", "--variants", "nope"], "no variant 'nope'"),
        (["run", "snl", "--seeds", "0"], "at least one seed"),
        (["claims", "snl", "--kind", "exat"], "no kind of claim 'exat' (did you mean 'exact'?)"),
        (["claims", "snl", "--only", "snl-filtr"], "no claim 'snl-filtr'"),
        (["claims", "nope"], "no system 'nope'"),
        (["list", "--room", "trackin"], "no room 'trackin' (did you mean 'tracking'"),
        (["bench", "fake-ruler"], "fake-ruler has no bench"),
        (["train", "snl", "--threads", "1000000"], "threads is a number from 0 to 1024"),
        (["train", "snl", "--model.dropout", "2"], "dropout is from 0"),
        (["train", "snl", "--data.count", "-5"], "count >= 24"),
        (["train", "snl", "--data.size", "5"], "8 <= size <= resize"),
        (["train", "snl", "--data.areas", "-1", "-1"], "areas are two shares above 0"),
        (["train", "snl", "--train.optimiser.clip", "-1"], "clip is at least 0"),
        (["train", "snl", "--train.optimiser.betas", "2", "2"], "betas are from 0 to below 1"),
        (["train", "snl", "--train.optimiser.schedule.warmup", "-3"], "warmup is at least 0"),
        (["train", "snl", "--train.optimiser.rates", "nope", "2"], "no parameter name matches the pattern 'nope'"),
        (["train", "snl", "--model.at", "layer9.0"], "no residual block 'layer9.0'"),
        (["eval", "snl", "--weights", "nowhere"], "nowhere does not exist"),
        (["predict", "fake-game", "x"], "fake-game offers no prediction"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_exit_code_2(args, said, here, capsys):
    assert main([*args, "--quiet"] if args[0] in ("train", "run") else args) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["train", "snl", "--train.stps", "3"], "--train.steps"),
        (["train", "snl", "--train.steps", "three"], "--train.steps"),
        (["train", "snl", "--model.block", "cgln"], "--model.block"),
        (["list", "--jsn"], "--json"),
    ],
)
def test_a_wrong_flag_is_answered_with_the_right_one(args, said, here, capsys):
    assert main(args) == 2
    assert said in capsys.readouterr().err


def test_list_shows_every_system_and_filters_by_task(capsys):
    assert main(["list", "--json"]) == 0
    pages = json.loads(capsys.readouterr().out)
    assert {"snl", "fake-game"} <= {page["name"] for page in pages}
    assert main(["list", "--task", "image classification", "--json"]) == 0
    names = [page["name"] for page in json.loads(capsys.readouterr().out)]
    assert names == ["categorystructure", "snl", "vtn"]


def test_list_is_one_line_per_system_below_its_room(here, capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    at = lines.index("tracking")
    assert lines[at + 1].split()[0] == "sesiam"
    assert lines[at + 1].split()[-4] == "yes"  # starter weights
    stored = json.loads((catalogue.folder("sesiam") / "results" / "claims.json").read_text())
    verdicts = [item["judgement"]["verdict"] for item in stored if item["kind"] != "check"]
    held, failed = verdicts.count("holds"), verdicts.count("does not hold")
    assert lines[at + 1].split()[-3:] == [str(held), str(failed), str(len(verdicts) - held - failed)]


@pytest.mark.parametrize(
    ("args", "names"),
    [
        (["optimal", "TRANSPORT"], {"flot"}),
        (["--room", "maps"], {"roadmetrics"}),
        (["--room", "maps", "--task", "tracking"], set()),
        (["no-such-word"], set()),
    ],
)
def test_list_finds_words_tasks_and_rooms(args, names, here, capsys):
    assert main(["list", *args, "--json"]) == 0
    assert {page["name"] for page in json.loads(capsys.readouterr().out)} == names
    assert main(["list", *args]) == 0
    assert ("no system matches" in capsys.readouterr().out) == (not names)


@pytest.mark.parametrize("name", ["snl", "flot", "roadmetrics", "fake-game"])
def test_show_says_what_a_system_is_in_ten_lines(name, here, capsys):
    assert main(["show", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 11
    assert max(map(len, lines)) <= 80
    labels = ["does", "variants", "presets", "metrics", "inputs", "weights", "claims"]
    assert [line.split()[0] for line in lines[-9:-2]] == labels
    if name == "snl":
        assert "paper (969,076 parameters)" in lines[3]


def test_show_full_leaves_code_as_it_is_written(here, capsys):
    assert main(["show", "snl", "--full"]) == 0
    printed = [line.strip() for line in capsys.readouterr().out.splitlines()]
    code = catalogue.snippet("snl").splitlines()
    assert any(len(line) > 80 for line in code)
    assert all(line.strip() in printed for line in code)


def test_train_prints_one_json_document_and_leaves_a_whole_run(here, capsys):
    assert main(["train", "fake-byhand", "--train.steps", "4", "--json"]) == 0
    out = capsys.readouterr().out
    found = json.loads(out)
    run = Run.open(here / found["run"])
    assert found["metrics"] == run.metrics
    assert run.order.config.train.steps == 4
    assert (run.folder / "report.html").exists()


def test_from_run_repeats_a_run_to_the_bit(here, capsys):
    assert main(["train", "fake-mining", "--seed", "3", "--quiet", "--no-report"]) == 0
    (first,) = runs("fake-mining")
    assert main(["train", "--from-run", str(first.folder), "--quiet", "--no-report"]) == 0
    again = next(r for r in runs("fake-mining") if r != first)
    assert (again.folder / "last.safetensors").read_bytes() == (first.folder / "last.safetensors").read_bytes()


def test_resume_refuses_another_config(here, capsys):
    assert main(["train", "fake-byhand", "--train.steps", "2", "--quiet", "--no-report"]) == 0
    (run,) = runs("fake-byhand")
    capsys.readouterr()
    assert main(["train", "--resume", str(run.folder), "--train.steps", "9"]) == 2
    assert "was started with train.steps=2, not 9" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--precision", "bf16-mixed"], "was started with precision='32-true', not 'bf16-mixed'"),
        (["--init", "w.safetensors"], "was started with init='', not 'w.safetensors'"),
        (["--variant", "still"], "--variant does not go with an old run"),
    ],
)
def test_an_old_run_keeps_what_decides_its_result(flags, said, here, capsys):
    assert main(["train", "fake-byhand", "--train.steps", "2", "--quiet", "--no-report"]) == 0
    (run,) = runs("fake-byhand")
    capsys.readouterr()
    assert main(["train", "--resume", str(run.folder), *flags]) == 2
    assert said in capsys.readouterr().err
    assert main(["train", "--resume", str(run.folder), "--workers", "1", "--quiet", "--no-report"]) == 0


def test_underscores_are_hyphens(here, capsys):
    assert main(["train", "fake-byhand", "--train.steps", "2", "--quiet", "--no-report"]) == 0
    (first,) = runs("fake-byhand")
    assert main(["train", "--from_run", str(first.folder), "--quiet", "--no-report"]) == 0
    assert {r.order.config.train.steps for r in runs("fake-byhand")} == {2}


def test_a_training_that_never_began_leaves_no_folder(here, capsys):
    assert main(["train", "snl", "--data", "cifar10:nowhere", "--quiet"]) == 2
    assert not [p for p in (here / "runs").rglob("*") if p.is_file()]


def test_predictions_appear_together_or_not_at_all(here, capsys):
    (here / "a").write_text("1 2\n3 4\n")
    (here / "b").write_text("1 2 3\n4 5 6\n")
    (here / "bad").write_text("1 x\n")
    assert main(["predict", "fake-ruler", "a", "bad", "-o", "out", "--quiet"]) == 2
    assert not (here / "out").exists()
    assert main(["predict", "fake-ruler", "a", "a", "-o", "out", "--quiet"]) == 0
    assert [p.name for p in (here / "out").iterdir()] == ["distance.json"]


def test_a_reader_that_has_gone_is_no_error(tmp_path):
    command = f"{sys.executable} -m vergence show snl | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "0"
    assert done.stderr == ""


def test_resume_of_a_finished_run_gives_its_result(here, capsys):
    assert main(["train", "fake-byhand", "--train.steps", "2", "--quiet", "--no-report"]) == 0
    (run,) = runs("fake-byhand")
    capsys.readouterr()
    assert main(["train", "--resume", str(run.folder), "--json", "--quiet", "--no-report"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"] == run.metrics


def test_init_starts_from_weights(here, capsys):
    assert main(["train", "fake-byhand", "--train.steps", "2", "--quiet", "--no-report"]) == 0
    (run,) = runs("fake-byhand")
    args = ["train", "fake-byhand", "--init", str(run.weights), "--train.steps", "1", "--no-report"]
    assert main(args) == 0
    assert f"4 of 4 tensors start from {run.weights}" in capsys.readouterr().err


def test_eval_takes_the_newest_weights_and_says_which(here, capsys):
    assert main(["train", "fake-byhand", "--train.steps", "2", "--quiet", "--no-report"]) == 0
    (run,) = runs("fake-byhand")
    capsys.readouterr()
    assert main(["eval", "fake-byhand", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["metrics"] == pytest.approx(run.metrics)
    assert f"weights: {run.weights.relative_to(here) if run.weights.is_absolute() else run.weights}" in printed.err


def test_run_trains_the_headline_variants_judges_and_reports(here, capsys):
    assert main(["run", "fake-byhand", "--jobs", "1", "--seeds", "2", "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["metrics"]) == {"sign", "still"}
    assert all(len(folders) == 2 for folders in found["runs"].values())
    page = (here / found["report"]).read_text()
    assert "By hand" in page
    assert main(["run", "fake-byhand", "--jobs", "1", "--seeds", "2"]) == 0  # nothing is trained again
    assert len(list(runs("fake-byhand"))) == 4


def test_run_takes_the_seeds_that_claims_name_if_asked(here, capsys, monkeypatch):
    claim = above("x", "Signs are better.", "here", better="sign", worse="sign", metric="error", seeds=3)
    monkeypatch.setattr(catalogue.load("fake-byhand"), "claims", (claim,))
    assert main(["run", "fake-byhand", "--jobs", "1", "--claimed", "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)["runs"]
    assert {variant: len(folders) for variant, folders in found.items()} == {"sign": 3, "still": 1}
    assert main(["run", "fake-byhand", "--jobs", "1", "--claimed"]) == 0
    assert "means of 1 to 3 seeds" in " ".join(capsys.readouterr().out.split())


def test_run_leaves_ablations_out_unless_asked(here, capsys):
    assert main(["run", "fake-game", "--jobs", "1", "--json", "--quiet"]) == 0
    assert list(json.loads(capsys.readouterr().out)["metrics"]) == ["game"]
    assert main(["run", "fake-game", "--jobs", "1", "--all", "--json", "--quiet"]) == 0
    assert list(json.loads(capsys.readouterr().out)["metrics"]) == ["game", "free"]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_run_of_a_system_without_training_judges_it(jobs, here, capsys, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(FAKES))
    assert main(["run", "fake-ruler", "--jobs", jobs, "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["metrics"] == {"plain": {"distance": 0.5}, "doubled": {"distance": 1.0}}
    assert found["claims"][0]["judgement"]["verdict"] == "holds"


def test_run_compares_on_other_data_if_asked(here, capsys):
    (here / "rows.txt").write_text("1 2\n1 6\n")
    assert main(["run", "fake-ruler", "--data", "rows.txt", "--jobs", "1", "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["metrics"] == {"plain": {"distance": 2.0}, "doubled": {"distance": 4.0}}


def test_claims_measures_stores_and_shows(here, capsys):
    assert main(["claims", "fake-ruler", "--runs", "runs", "--json", "--quiet"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["judgement"]["verdict"] == "holds"
    assert entry["command"] == "vergence claims fake-ruler --json --quiet"  # and not where runs were kept
    assert (here / "runs" / "fake-ruler" / "claims.json").exists()
    assert main(["claims", "fake-ruler", "--known"]) == 0
    assert "holds" in capsys.readouterr().out


def test_claims_shows_the_kind_that_was_asked_for(here, capsys):
    for args in (["--known", "--kind", "empirical"], ["--known", "--kind", "exact,cost"]):
        assert main(["claims", "flot", *args, "--json"]) == 0
        asked = set(args[-1].split(","))
        assert {entry["kind"] for entry in json.loads(capsys.readouterr().out)} <= asked
    assert main(["claims", "flot", "--known", "--json"]) == 0
    assert {"exact", "empirical"} <= {entry["kind"] for entry in json.loads(capsys.readouterr().out)}


def test_claims_go_on_in_the_background_if_asked(here, capsys, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(FAKES))
    assert main(["claims", "fake-ruler", "--background"]) == 0
    assert "kill" in capsys.readouterr().out
    end = time.monotonic() + 60
    while not (here / "runs" / "fake-ruler" / "claims.json").exists():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture
def one_contest(monkeypatch):
    from vergence import catalogue
    from vergence.contract.benchmark import Contest

    class Bench:
        @staticmethod
        def contests():
            yield Contest("sum", "sum", lambda: sum(range(100)), {"same": lambda: sum(range(100))})

    monkeypatch.setattr(catalogue, "bench", lambda name: Bench)


def test_bench_prints_ratios_and_what_the_engine_adds(here, capsys, one_contest):
    flags = ["--rounds", "3", "--no-memory", "--busy", "--quiet"]
    assert main(["bench", "fake-mining", *flags, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (result,) = found["contests"]
    assert (result["system"], result["contest"], result["rival"]) == ("fake-mining", "sum", "same")
    assert result["ratio"] > 0
    assert found["steps"][0]["allowed"] >= 0.3e-3
    assert main(["bench", "fake-mining", *flags]) == 0
    assert "bare loop" in capsys.readouterr().out


def test_bench_refuses_a_machine_that_is_too_busy_to_tell(here, capsys, one_contest, monkeypatch):
    monkeypatch.setattr("vergence.api.work.core_share", lambda seconds=0: 0.5)
    assert main(["bench", "snl", "--quiet"]) == 1
    assert "too busy to compare" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (["predict", "flot", "--help"], 0),
        (["predict", "flot", "a.npy"], 2),
        (["train", "snl", "--train.stps", "3"], 2),
        (["eval", "snl", "--help"], 0),
        (["weights", "--help"], 0),
        (["list"], 0),
        (["show", "snl"], 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_help_and_wrong_arguments_are_answered_without_pytorch(line, code, here):
    """It takes seconds to import."""
    script = (
        f"import sys; from vergence.cli.main import main; code = main({line!r}); print(code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == f"{code} False"
