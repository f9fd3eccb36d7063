"""Distillation of networks that are not ours, and the inputs that it refuses."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vergence.core.errors import VergenceError
from vergence.nn.distiller import DistillationLoss, Distiller, Told


def network(width, classes=5, stride=2):
    return nn.Sequential(
        nn.Conv2d(3, width, 3, stride, 1), nn.BatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(width, classes),
    )  # fmt: skip


def batch(count=10, classes=5):
    source = torch.Generator().manual_seed(0)
    return torch.randn(count, 3, 8, 8, generator=source), torch.arange(count) % classes


def made(**weights):
    torch.manual_seed(0)
    return Distiller(network(4), network(6), ("2", "2"), batch()[0][:2], **weights)


def test_a_student_comes_nearer_to_its_teacher():
    distiller, (x, labels) = made(alpha=0.0), batch()
    optimiser = torch.optim.SGD(distiller.trained(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(60):
        loss = distiller.loss(x, labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]


def test_the_teacher_neither_learns_nor_drifts():
    distiller, (x, labels) = made(), batch()
    before = {name: value.clone() for name, value in distiller.teacher.state_dict().items()}
    distiller.train()
    assert not distiller.teacher.training
    assert distiller.student.training
    distiller.loss(x, labels).backward()
    assert all(torch.equal(value, before[name]) for name, value in distiller.teacher.state_dict().items())
    assert all(p.grad is None for p in distiller.teacher.parameters())
    assert all(p.grad is not None for p in distiller.trained())
    assert len(distiller.trained()) == len(list(distiller.student.parameters())) + 1  # and the projector


def test_making_it_leaves_the_student_as_it_was():
    student = network(4).train()
    before = {name: value.clone() for name, value in student.state_dict().items()}
    Distiller(student, network(6), ("2", "2"), batch()[0][:2])
    assert student.training
    assert all(torch.equal(value, before[name]) for name, value in student.state_dict().items())


def test_losses_are_weighted_and_what_weighs_nothing_is_left_out():
    (x, labels), distiller = batch(), made()
    assert list(distiller.losses(x, labels)) == ["labels", "answers", "intra", "inter"]
    everything = {"hint": 1.0, "congruence": 1.0, "distance": 1.0, "angle": 1.0}
    some = made(alpha=0.0, answers="hinton", beta=0.0, gamma=0.0, **everything)
    assert list(some.losses(x, labels)) == ["answers", *everything]
    twice = made(alpha=0.0, answers="hinton", beta=0.0, gamma=0.0, **{name: 2.0 for name in everything})
    with torch.no_grad():
        for name in everything:
            torch.testing.assert_close(twice.losses(x, labels)[name], 2 * some.losses(x, labels)[name])
    assert made(beta=0.0).distillation.projector is None


@pytest.mark.parametrize("at", [("4", "4"), ("2", "4"), ("4", "2")])
def test_vectors_and_maps_of_other_sizes_are_compared_too(at):
    x, labels = batch()
    distiller = Distiller(network(4), network(6, stride=1), at, x[:2], hint=1.0)
    assert distiller.loss(x, labels).isfinite()


def test_maps_of_another_size_are_averaged_to_the_students():
    logits, labels = torch.zeros(4, 2), torch.tensor([0, 0, 1, 1])
    loss = DistillationLoss((3, 3), alpha=0.0, beta=0.0, gamma=0.0, hint=1.0)
    small, large = torch.randn(4, 3, 2, 2), torch.randn(4, 3, 4, 4)
    found = loss(Told(logits, small), Told(logits, large), labels)["hint"]
    torch.testing.assert_close(found, F.mse_loss(loss.projector(small), F.avg_pool2d(large, 2)))


def test_a_batch_without_two_samples_of_a_class_is_told_of_once():
    distiller, (x, labels) = made(), batch(count=5)
    with pytest.warns(UserWarning, match="no class has two samples"):
        found = distiller.losses(x, labels)
    assert found["intra"] == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        distiller.losses(x, labels)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (torch.tensor([0, 1, 5]), "label 5 is outside 0 to 4"),
        (torch.tensor([0, -1, 2]), "label -1 is outside 0 to 4"),
        (torch.tensor([0, 1]), "3 needs as many labels"),
        (torch.tensor([0.0, 1.0, 2.0]), "whole numbers, got torch.float32"),
        (torch.eye(3), r"got the shape \(3, 3\)"),
    ],
)
def test_wrong_labels_are_refused(labels, said):
    with pytest.raises(VergenceError, match=said):
        made().loss(batch()[0][:3], labels)


def test_networks_of_different_classes_are_refused():
    x, labels = batch()
    distiller = Distiller(network(4), network(6, classes=7), ("2", "2"), x[:2])
    with pytest.raises(VergenceError, match=r"differ in their classes.*\(10, 5\) and \(10, 7\)"):
        distiller.loss(x, labels)


def test_modules_that_give_no_features_are_refused():
    x, _ = batch()
    with pytest.raises(VergenceError, match="no module 'layer4'"):
        Distiller(network(4), network(6), ("2", "layer4"), x[:2])
    tokens = nn.Sequential(nn.Flatten(2), nn.Flatten(), nn.Linear(192, 5))
    with pytest.raises(VergenceError, match=r"'0' gives \(2, 3, 64\): expected"):
        Distiller(tokens, network(6), ("0", "2"), x[:2])
