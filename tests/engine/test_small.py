"""Trainings on small data of one's own: what is fitted, what stays as the user chose it, and what is refused."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
from PIL import Image

import vergence
from vergence.cli.main import main
from vergence.contract.training import Optimiser, Schedule, Training, one_length
from vergence.core.errors import VergenceError
from vergence.engine.small import extent, fitted
from vergence.runs.folder import runs

USUAL = Training(epochs=8, batch=48, optimiser=Optimiser(schedule=Schedule("cosine", warmup=80)))


def batches_of(samples):
    return lambda phase: max(samples // phase.batch, 1)


def fit(phase, samples, usual=USUAL, free=True):
    return fitted("train", phase, usual, samples, batches_of(samples), free)


def test_ninety_pictures_train_for_enough_steps_and_their_warm_up_ends():
    phase = fit(USUAL, 90)
    assert (phase.batch, phase.epochs, phase.optimiser.schedule.warmup) == (8, 19, 52)  # 11 steps per epoch, 209 in all
    assert str(extent(phase, 90, 11, USUAL)) == (
        "90 samples, 11 steps per epoch (batch 8), 209 steps in all; fitted to small data: batch 8 instead of 48, "
        "epochs 19 instead of 8, a warm-up of 52 steps instead of 80"
    )


def test_large_data_trains_as_declared():
    assert fit(USUAL, 4800) == USUAL


@pytest.mark.parametrize("samples", [1, 3, 9, 200])
def test_any_number_of_samples_can_be_trained_on(samples):
    phase = fit(USUAL, samples)
    assert 1 <= phase.batch <= samples
    assert phase.optimiser.schedule.warmup < phase.epochs * batches_of(samples)(phase)


def test_what_the_user_chose_stays():
    chosen = Training(steps=40, batch=30, optimiser=USUAL.optimiser)
    phase = fit(chosen, 90)
    assert (phase.steps, phase.epochs, phase.batch) == (40, 0, 30)
    assert phase.optimiser.schedule.warmup == 10
    longer = Training(steps=40, batch=30, optimiser=Optimiser(schedule=Schedule("cosine", warmup=60)))
    with pytest.raises(VergenceError, match="the warm-up of 60 steps does not end in 40 steps .*lower --train.optim"):
        fit(longer, 90)


def test_data_with_batches_of_its_own_keeps_their_size_and_milestones_their_length():
    assert fit(USUAL, 90, free=False).batch == 48
    stepped = Training(
        epochs=8, batch=48, optimiser=Optimiser(schedule=Schedule("multistep", "epoch", milestones=(5,)))
    )
    assert fit(stepped, 90, stepped).epochs == 8


def test_one_length_is_enough():
    @dataclass(frozen=True)
    class Config:
        train: Training = USUAL

    assert one_length(Config(), {"train.steps": 40}).train.epochs == 0
    assert one_length(Config(), {"train.steps": 0}).train.epochs == 8
    assert one_length(Config(Training(steps=5)), {"train.epochs": "3"}).train.steps == 0


def test_a_small_folder_is_learned_and_the_run_says_what_it_was_measured_on(here, capsys):
    dice = np.random.default_rng(0)
    for split, count in (("train", 30), ("val", 6)):
        for colour, name in enumerate(("red", "green", "blue")):
            (here / "mine" / split / name).mkdir(parents=True)
            for number in range(count):
                picture = dice.integers(0, 120, (24, 24, 3), dtype=np.uint8)
                picture[..., colour] += 100
                Image.fromarray(picture).save(here / "mine" / split / name / f"{number}.png")
    line = ["train", "snl", "--variant", "none", "--data", "mine", "--data.size", "24", "--data.resize", "24"]
    assert main([*line, "--train.steps", "24", "--no-report"]) == 0
    printed = capsys.readouterr()
    assert "90 samples, 11 steps per epoch (batch 8), 24 steps in all" in printed.err
    assert "val split of mine" in printed.out
    (run,) = runs("snl")
    assert run.metrics["top1"] > 80  # chance is 33
    assert run.result.split == "val"
    assert json.loads((run.folder / "training.json").read_text())["train"]["warmup"] == 6
    assert vergence.load(run).labels == ("blue", "green", "red")
