"""Prediction without trained weights."""

import csv

import pytest
import torch
from PIL import Image

from vergence.cli.main import main
from vergence.nn.efficientnet_lite import EfficientNetLite
from vergence.recognition.snl.tasks import photographs, pictures


@pytest.fixture
def network(monkeypatch):
    """The network without its weights, on a small input."""
    torch.manual_seed(0)
    made = EfficientNetLite("lite0").eval()
    monkeypatch.setattr(photographs, "LONGEST", 96)
    monkeypatch.setattr(photographs, "SIDE", 64)
    monkeypatch.setattr(pictures, "ready_network", lambda: made)
    return made


@torch.no_grad()
def test_attention_is_the_softmax_of_scaled_cosines_over_the_whole_picture(network):
    picture = torch.randint(0, 256, (3, 60, 90), dtype=torch.uint8)
    logits, maps = photographs.looked(network, picture, [(0.1, 0.2), (0.99, 0.99)])
    assert logits.shape == (1000,)
    assert maps.shape == (2, 4, 6)  # 64 x 96 pixels at a sixteenth
    taken = {}
    network.blocks[10].register_forward_hook(lambda m, i, out: taken.update(x=out))  # the third block of 112 channels
    network(photographs._input(picture, 64, 96))
    tokens = taken["x"][0].flatten(1).T
    tokens = tokens - tokens.mean(0)
    cosines = torch.cosine_similarity(tokens[:, None], tokens[None], dim=-1)
    weights = (photographs.SHARPNESS * cosines[[0, 23]]).exp()
    torch.testing.assert_close(maps.flatten(1), weights / weights.sum(1, keepdim=True), rtol=1e-4, atol=1e-6)


def test_points_anywhere_in_a_photograph_are_seen_and_labels_are_words(network, here):
    Image.radial_gradient("L").resize((451, 300)).save("a.png")
    assert main(["predict", "snl", "a.png", "--points", "20,30", "450,299", "-o", "out", "--quiet"]) == 0
    assert (here / "out" / "a-attention.png").exists()
    row = list(csv.reader((here / "out" / "labels.csv").open()))[1]
    assert row[0] == "a.png"
    assert not row[1].isdigit()


def test_a_point_outside_a_photograph_is_refused_with_its_size(network, here, capsys):
    Image.new("RGB", (451, 300)).save("a.png")
    assert main(["predict", "snl", "a.png", "--points", "20,300", "-o", "out", "--quiet"]) == 2
    assert "the point 20,300 is outside the picture of 451 x 300 pixels" in capsys.readouterr().err
