"""The loop: what it computes, what it keeps, and how it ends."""

import json
import math
from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from helpers import short, start, stop_and_go_on
from vergence import catalogue
from vergence.contract.about import About
from vergence.contract.settings import Metric, Settings, Variant
from vergence.contract.system import System
from vergence.contract.training import Optimiser, Phase, Schedule, Training
from vergence.core.errors import Diverged, VergenceError
from vergence.core.progress import Progress
from vergence.engine.execute import execute
from vergence.engine.fit import Place
from vergence.engine.optimisers import build_optimiser, load_state_by_name, set_rate, state_by_name
from vergence.engine.weights import identify, load_model
from vergence.reading.weights import load_tensors
from vergence.runs.folder import Run
from vergence.runs.machine import Runtime
from vergence.runs.order import Order


@dataclass(frozen=True)
class Config:
    poison: int = -1
    train: Training = Training(steps=6, batch=4, log_every=1, optimiser=Optimiser(lr=0.1, momentum=0.9))
    seed: int = 0


class Line(System):
    """Fits a line; a step can be poisoned with a loss that is not finite."""

    settings = Settings(
        About("line", "Line", (), "Nowhere 2020", (), "", "line"),
        Config,
        {"tiny": Config()},
        {"line": Variant("line")},
        {"error": Metric("error", higher_is_better=False)},
    )

    def data(self, ctx, split):
        x = torch.linspace(-1, 1, 16)[:, None]
        return [(row, 3 * row + 1) for row in x]

    def build(self, config, facts):
        return nn.Linear(1, 1)

    def losses(self, ctx, model, batch):
        x, y = batch
        loss = ((model(x) - y) ** 2).mean()
        return {"fit": loss, "poison": loss * (math.nan if ctx.step == ctx.config.poison else 0)}

    def evaluate(self, ctx, model, data):
        return {"error": torch.stack([(model(x) - y).abs().mean() for x, y in ctx.batches(data, 8)]).mean()}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Make a run of the line system with changes of its config."""
    system = Line()
    load, settings = catalogue.load, catalogue.settings
    monkeypatch.setattr(catalogue, "load", lambda name: system if name == "line" else load(name))
    monkeypatch.setattr(catalogue, "settings", lambda name: system.settings if name == "line" else settings(name))
    monkeypatch.setattr(catalogue, "code", lambda name: [])

    def make(config, **runtime):
        return Run.create(Order("line", "tiny", "line", config, Runtime(device="cpu", **runtime)), tmp_path)

    return make


def weights(run):
    return load_model(run.weights)[0].state_dict()


def plain_loop(config, pieces=1):
    """The same training as a bare loop, on the batches that the run saw."""
    from vergence.contract.loader import BatchPlan
    from vergence.core.seeding import derive

    torch.manual_seed(derive(config.seed, "build"))
    model = nn.Linear(1, 1)
    spec = config.train.optimiser
    optimiser = torch.optim.SGD(model.parameters(), lr=spec.lr, momentum=spec.momentum)
    stream = BatchPlan(Line().data(None, "train"), config.train.batch, (config.seed, "train")).stream(0, 0)
    for step in range(config.train.steps):
        x, y = next(stream)
        for group in optimiser.param_groups:
            group["lr"] = spec.lr * spec.schedule.factor(step, config.train.steps)
        optimiser.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        if spec.clip:
            nn.utils.clip_grad_norm_(model.parameters(), spec.clip)
        optimiser.step()
    return model.state_dict()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"accumulate": 2},
        {"optimiser": Optimiser(lr=0.2, clip=0.05)},
        {"optimiser": Optimiser(lr=0.2, schedule=Schedule("cosine", warmup=2))},
    ],
    ids=["plain", "accumulated", "clipped", "scheduled"],
)
def test_it_trains_as_a_bare_loop_does(run, changes):
    config = replace(Config(), train=replace(Config().train, **changes))
    trained = run(config)
    execute(trained, Progress())
    for name, expected in plain_loop(config).items():
        torch.testing.assert_close(weights(trained)[name], expected)


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_last_good_checkpoint(run):
    poisoned = run(replace(Config(), poison=3), save_every=0.0)
    with pytest.raises(Diverged, match=r"'poison' is nan at step 4 of phase 'train'; .*checkpoints/000003"):
        execute(poisoned, Progress())
    assert all(v.isfinite().all() for v in weights(poisoned).values())
    assert poisoned.result is None


def test_weights_that_are_not_finite_never_replace_a_good_checkpoint(run, monkeypatch):
    def losses(self, ctx, model, batch):
        loss = ((model(batch[0]) - batch[1]) ** 2).mean()
        if ctx.step == 2:  # a finite loss whose gradient is not: the root of zero
            loss = loss + (0 * model.weight).abs().sqrt().sum()
        return {"fit": loss}

    monkeypatch.setattr(Line, "losses", losses)
    spoilt = run(Config(), save_every=0.0)
    with pytest.raises(Diverged, match=r"'weight' is not finite after step 3.*checkpoints/000002"):
        execute(spoilt, Progress())
    assert all(v.isfinite().all() for v in weights(spoilt).values())


def test_a_first_evaluation_that_is_no_number_is_not_the_best(run, monkeypatch):
    values = iter([math.nan, 3.0, 2.0, 2.5, 0.0])
    monkeypatch.setattr(Line, "evaluate", lambda self, ctx, model, data: {"error": next(values)})
    config = replace(Config(), train=replace(Config().train, steps=0, epochs=4, keep="best"))
    made = run(config)
    execute(made, Progress())
    assert identify(made.folder / "best.safetensors")
    assert (made.folder / "last.safetensors").read_bytes() == (made.folder / "best.safetensors").read_bytes()
    assert [r["metrics"]["error"] for r in made.records() if "metrics" in r] == [None, 3.0, 2.0, 2.5]


@pytest.mark.parametrize("pieces", [2, 4])
def test_uneven_pieces_make_the_same_step(run, pieces):
    train = replace(Config().train, batch=12, drop_last=False, epochs=2, steps=0)  # 16 samples: 12 and 4
    whole, cut = (run(replace(Config(), train=replace(train, accumulate=n))) for n in (1, pieces))
    execute(whole, Progress())
    execute(cut, Progress())
    torch.testing.assert_close(weights(cut)["weight"], weights(whole)["weight"])


def test_double_precision_is_double_and_goes_on_to_the_same_bits(run):
    whole, parted = (run(Config(), precision="64-true") for _ in range(2))
    execute(whole, Progress())
    stop_and_go_on(parted, 3)
    found, again = (load_tensors(r.weights)[0] for r in (whole, parted))
    assert found["weight"].dtype == torch.float64
    assert torch.equal(found["weight"], again["weight"])


def test_autocast_reaches_whatever_part_of_the_model_is_called(run, monkeypatch):
    seen = []

    def losses(self, ctx, model, batch):
        part = nn.functional.linear(batch[0], model.weight)
        seen.append(part.dtype)
        return {"fit": ((part.float() - batch[1]) ** 2).mean()}

    monkeypatch.setattr(Line, "losses", losses)
    execute(run(Config(), precision="bf16-mixed"), Progress())
    assert set(seen) == {torch.bfloat16}


def test_a_phase_that_carries_on_refuses_another_kind_of_optimiser(tmp_path):
    system = catalogue.load("fake-mining")
    config = system.configure("tiny", changes={"polish.optimiser.kind": "adam"})
    with pytest.raises(
        VergenceError, match="'polish' cannot keep the state of 'optimiser': it changes from sgd to adam"
    ):
        execute(start("fake-mining", config, tmp_path), Progress())


def test_a_phase_that_carries_on_has_its_own_rates_and_decays(tmp_path):
    from vergence.engine import checkpoint

    system = catalogue.load("fake-mining")
    changes = {"train.optimiser.weight_decay": 0.5, "polish.optimiser.weight_decay": 0.0, "polish.optimiser.lr": 0.0}
    made = start("fake-mining", system.configure("tiny", changes=changes), tmp_path)
    execute(made, Progress())
    before, after = (checkpoint.read(p).weights for p in sorted(made.folder.glob("checkpoints/0*")))
    assert torch.equal(before["weight"], after["weight"])  # a rate of 0, and no decay brought along


def test_numpy_and_random_are_seeded_too(run, monkeypatch):
    import random

    import numpy as np

    def losses(self, ctx, model, batch):
        return {"fit": ((model(batch[0]) - batch[1] * random.random() * np.random.rand()) ** 2).mean()}

    monkeypatch.setattr(Line, "losses", losses)
    one, two = (run(Config()) for _ in range(2))
    execute(one, Progress())
    stop_and_go_on(two, 2)
    assert torch.equal(weights(one)["weight"], weights(two)["weight"])


def test_a_run_is_carried_on_by_one_process_at_a_time(run):
    import threading

    made, said = run(Config()), []
    with made.locked(said.append):
        thread = threading.Thread(target=lambda: execute(made, Said(said)))
        thread.start()
        while not said and thread.is_alive():
            thread.join(0.01)
        assert "is in use by another process" in said[0]
        assert made.result is None
    thread.join()
    assert made.result is not None


class Said(Progress):
    def __init__(self, lines):
        self.lines = lines

    def say(self, text):
        self.lines.append(text)


def test_no_whole_checkpoint_left_is_said(run):
    made, said = run(Config()), []
    execute(made, Progress())
    (made.folder / "result.json").unlink()
    for path in made.folder.glob("checkpoints/0*/state.pt"):
        path.write_bytes(b"")
    execute(made, Said(said))
    assert any("no other is left: starting over" in line for line in said)


def test_a_pattern_that_no_parameter_has_is_refused():
    with pytest.raises(VergenceError, match=r"no parameter name matches the pattern 'bakbone\.\*'"):
        build_optimiser(Optimiser(rates={"bakbone.*": 0.1}), nn.Linear(1, 1))


def test_the_run_folder_says_everything(run):
    done = run(Config())
    execute(done, Progress())
    names = {p.name for p in done.folder.iterdir()}
    assert names >= {"config.json", "environment.json", "facts.json", "metrics.jsonl", "result.json", "checkpoints",
                     "best.safetensors", "last.safetensors", "tensorboard"}  # fmt: skip
    assert done.order.config == Config()
    records = done.records()
    assert [r["total"] for r in records if "losses" in r] == [1, 2, 3, 4, 5, 6]
    assert set(records[0]["losses"]) == {"fit", "poison"}
    assert records[0]["rates"] == {"optimiser": 0.1}
    assert done.environment().packages["torch"] == torch.__version__
    assert json.loads((done.folder / "config.json").read_text())["system"] == "line"


def test_the_same_seed_gives_the_same_bits_and_another_does_not(run):
    files = []
    for seed in (0, 0, 1):
        made = run(replace(Config(), seed=seed))
        execute(made, Progress())
        files.append(weights(made)["weight"])
    assert torch.equal(files[0], files[1])
    assert not torch.equal(files[0], files[2])


def test_a_finished_run_is_not_run_again(run):
    done = run(Config())
    first = execute(done, Progress())
    stamp = (done.folder / "last.safetensors").stat().st_mtime_ns
    assert execute(done, Progress()) == first
    assert (done.folder / "last.safetensors").stat().st_mtime_ns == stamp


def test_weights_to_start_from_are_used_where_they_fit(run, tmp_path):
    first = run(Config())
    execute(first, Progress())
    still = replace(Config(), train=replace(Config().train, optimiser=Optimiser(lr=0.0)))
    order = replace(run(still).order, init=str(first.weights))
    second = Run.create(order, tmp_path)
    execute(second, Progress())
    assert torch.equal(weights(first)["weight"], weights(second)["weight"])


def test_weights_that_do_not_fit_at_all_are_refused(run, tmp_path):
    from vergence.core.files import save_tensors

    save_tensors(tmp_path / "other.safetensors", {"x": torch.zeros(3)})
    bad = Run.create(replace(run(Config()).order, init=str(tmp_path / "other.safetensors")), tmp_path)
    with pytest.raises(VergenceError, match="nothing in .*other.safetensors fits"):
        execute(bad, Progress())


def test_bfloat16_autocast_trains(run):
    low = run(Config(), precision="bf16-mixed")
    assert execute(low, Progress())["error"] < 3


@pytest.mark.parametrize("every", [0.0, 60.0])
def test_checkpoints_between_steps_change_nothing(run, every):
    parted = run(Config(), save_every=every)
    stop_and_go_on(parted, 3)
    whole = run(Config())
    execute(whole, Progress())
    assert torch.equal(weights(parted)["weight"], weights(whole)["weight"])
    assert parted.records() == whole.records()


def test_only_the_newest_two_checkpoints_are_kept(run):
    kept = run(Config(), save_every=0.0)
    execute(kept, Progress())
    assert len([p for p in (kept.folder / "checkpoints").iterdir() if p.name.isdigit()]) == 2


def test_the_rhythm_of_two_optimisers(tmp_path):
    system = catalogue.load("fake-game")
    made = start("fake-game", short(system, 12), tmp_path)
    execute(made, Progress())
    generator = [r["total"] for r in made.records() if "generator" in r.get("losses", {})]
    critic = [r["total"] for r in made.records() if "critic" in r.get("losses", {})]
    assert generator == [3, 6, 9, 12]
    assert critic == list(range(1, 13))


def test_a_head_a_phase(tmp_path):
    system = catalogue.load("fake-growing")
    made = start("fake-growing", short(system, 3), tmp_path)
    execute(made, Progress())
    assert identify(made.weights).facts.heads == 3
    assert {r["phase"] for r in made.records()} == {"task-0", "task-1", "task-2"}


def test_rebuilt_data_is_what_the_epochs_after_it_see(tmp_path):
    from vergence.engine.checkpoint import read

    system = catalogue.load("fake-mining")
    config = system.configure("tiny")
    config = replace(config, train=replace(config.train, epochs=1), polish=replace(config.polish, steps=0, epochs=0))
    made = start("fake-mining", config, tmp_path)
    execute(made, Progress())
    hard = read(made.folder / "checkpoints" / "000001").state["rebuilt"]["hard"]
    assert len(hard) == 32
    assert [r["total"] for r in made.records() if "losses" in r][-1] == 4  # 32 of 64 samples in batches of 8


def test_the_best_weights_end_a_phase_that_keeps_them(tmp_path):
    system = catalogue.load("fake-mining")
    config = system.configure("tiny", changes={"polish.steps": 0, "train.optimiser.lr": 0.9})
    made = start("fake-mining", config, tmp_path)
    execute(made, Progress())
    seen = [r["metrics"]["error"] for r in made.records() if r.get("split") == "val"]
    assert seen[-1] != min(seen)  # a rate this high ends worse than it was
    assert (made.folder / "last.safetensors").read_bytes() == (made.folder / "best.safetensors").read_bytes()


def test_groups_have_their_own_rates_and_decays():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    spec = Optimiser(lr=0.1, weight_decay=0.01, rates={"0.*": 0.5}, decays={"*.bias": 0.0})
    optimiser = build_optimiser(spec, model)
    set_rate(optimiser, 0.2)
    found = {(len(g["params"]), g["lr"], g["weight_decay"]) for g in optimiser.param_groups}
    assert found == {(1, 0.1, 0.01), (1, 0.1, 0.0), (1, 0.2, 0.01), (1, 0.2, 0.0)}


def test_an_optimiser_gets_its_memory_back_by_name_and_new_parameters_start_fresh():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 2))
    first = build_optimiser(Optimiser("adam"), model)
    model(torch.ones(1, 2)).sum().backward()
    first.step()
    memory = state_by_name(first, model)
    model.insert(0, nn.Linear(2, 2))  # what was "0" is now "1"
    memory = {name.replace("0.", "1."): value for name, value in memory.items()}
    second = build_optimiser(Optimiser("adam"), model)
    load_state_by_name(second, model, memory)
    assert torch.equal(second.state[model[1].weight]["exp_avg"], first.state[model[1].weight]["exp_avg"])
    assert model[0].weight not in second.state


@pytest.mark.parametrize("step", [1, 8, 9, 10, 11, 12, 14, 26, 29])
def test_a_model_that_grew_and_froze_goes_on_wherever_it_was_stopped(step, tmp_path):
    system = catalogue.load("fake-growing")
    config = system.configure("tiny")  # three phases of two epochs of five steps
    whole, parted = (start("fake-growing", config, tmp_path) for _ in range(2))
    execute(whole, Progress())
    stop_and_go_on(parted, step)
    assert (parted.folder / "last.safetensors").read_bytes() == (whole.folder / "last.safetensors").read_bytes()
    assert parted.records() == whole.records()


def test_nothing_to_train_is_refused():
    frozen = nn.Linear(2, 2).requires_grad_(False)
    with pytest.raises(VergenceError, match="nothing to train"):
        build_optimiser(Optimiser(), frozen)


def test_a_phase_without_an_optimiser_is_refused(run, monkeypatch):
    @dataclass(frozen=True)
    class Bare:
        train: Phase = Phase(steps=1)
        seed: int = 0

    monkeypatch.setattr(Line, "settings", replace(Line.settings, config=Bare))
    with pytest.raises(VergenceError, match="'train' has no optimiser"):
        execute(run(Bare()), Progress())


def test_a_system_without_training_says_so_in_one_line(capsys):
    from vergence.cli.main import main

    assert main(["train", "fake-ruler"]) == 2
    assert capsys.readouterr().err == "vergence: fake-ruler offers no training: its method has no use for it\n"


def test_a_new_phase_starts_counting_again_but_for_the_total():
    place = Place(phase=1, epoch=2, batch=3, step=4, total=5, best=0.5, sums={"a": 1.0})
    place.next_phase()
    assert (place.phase, place.epoch, place.batch, place.step, place.total, place.best) == (2, 0, 0, 0, 5, None)
