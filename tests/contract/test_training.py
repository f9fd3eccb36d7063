"""Schedules equal PyTorch's; phases refuse what makes no sense."""

import pytest
import torch

from vergence.contract.training import Optimiser, Phase, Schedule, Training
from vergence.core.errors import VergenceError


def theirs(make, steps):
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = make(optimiser)
    rates = []
    for _ in range(steps):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    return rates


LR = torch.optim.lr_scheduler


@pytest.mark.parametrize(
    ("schedule", "make"),
    [
        (Schedule(), lambda o: LR.ConstantLR(o, 1.0)),
        (Schedule("step", period=7, gamma=0.5), lambda o: LR.StepLR(o, 7, 0.5)),
        (Schedule("multistep", milestones=(5, 12), gamma=0.1), lambda o: LR.MultiStepLR(o, [5, 12], 0.1)),
        (Schedule("exponential", gamma=0.9), lambda o: LR.ExponentialLR(o, 0.9)),
        (Schedule("cosine"), lambda o: LR.CosineAnnealingLR(o, 30)),
        (Schedule("cosine", floor=0.2), lambda o: LR.CosineAnnealingLR(o, 30, eta_min=0.2)),
        (Schedule("polynomial", power=0.9), lambda o: LR.PolynomialLR(o, 30, 0.9)),
        (
            Schedule("cosine", warmup=6, warmup_from=0.25),
            lambda o: LR.SequentialLR(o, [LR.LinearLR(o, 0.25, 1.0, 6), LR.CosineAnnealingLR(o, 24)], [6]),
        ),
    ],
)
def test_a_schedule_equals_pytorchs(schedule, make):
    ours = [schedule.factor(step, 30) for step in range(30)]
    assert ours == pytest.approx(theirs(make, 30))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"epochs": 2, "steps": 3}, "epochs or steps, not both"),
        ({"batch": 0}, "batch is at least 1, got 0"),
        ({"batch": 8, "accumulate": 3}, "batch of 8 cannot be cut into 3"),
        ({"epochs": -1}, "epochs is at least 0"),
    ],
)
def test_a_phase_that_makes_no_sense_is_refused(fields, said):
    with pytest.raises(VergenceError, match=said):
        Phase(**fields)


def test_an_optimiser_that_makes_no_sense_is_refused():
    with pytest.raises(VergenceError, match="every=0"):
        Optimiser(every=0)
    with pytest.raises(VergenceError, match="lr is at least 0, got nan"):
        Optimiser(lr=float("nan"))


def test_a_phase_finds_its_optimisers():
    assert list(Training().optimisers()) == ["optimiser"]
    assert Phase().optimisers() == {}
