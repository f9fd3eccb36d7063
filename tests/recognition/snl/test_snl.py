"""SNL as a system: attention that belongs to its points, and answers to what does not fit."""

import csv

import pytest
import torch
from PIL import Image

from vergence import catalogue
from vergence.cli.main import main
from vergence.contract.identity import Identity
from vergence.core.files import save_tensors
from vergence.engine.weights import metadata
from vergence.recognition.snl.model import attention, build
from vergence.recognition.snl.settings import ModelConfig


@pytest.fixture
def weights(tmp_path):
    """An untrained network in a file, which is all that prediction asks for."""

    def make(variant="snl"):
        system = catalogue.load("snl")
        config = system.configure("tiny", variant)
        facts = system.settings.facts(2, ("different", "same"))
        torch.manual_seed(0)
        path = tmp_path / f"{variant}.safetensors"
        identity = Identity("snl", "tiny", variant, config, facts)
        save_tensors(path, system.build(config, facts).state_dict(), metadata(identity, system))
        return path

    return make


def test_attention_is_that_of_the_cell_under_the_point():
    torch.manual_seed(0)
    network = build(ModelConfig("preresnet-tiny", "nl", at=("layer2.0", "layer3.0"), dropout=0.0), 2).eval()
    images = torch.randn(1, 3, 56, 56)
    logits, maps, inputs = attention(network, images, [(0.0, 0.0), (0.99, 0.5)])
    assert set(maps) == set(inputs) == {"layer2.0", "layer3.0"}
    assert maps["layer2.0"].shape == (1, 2, 28, 28)
    taken = {}
    network.inserted["layer3.0"].register_forward_pre_hook(lambda m, i: taken.update(x=i[0]))
    torch.testing.assert_close(network(images), logits)
    block, x = network.inserted["layer3.0"], taken["x"]
    assert torch.equal(x, inputs["layer3.0"])
    tokens = x.flatten(2).mT
    row = (block.theta(tokens)[0, 7 * 14 + 13] @ block.phi(tokens)[0].mT).softmax(-1)
    torch.testing.assert_close(maps["layer3.0"][0, 1], row.reshape(14, 14))


def test_a_network_without_a_block_gives_labels_and_no_maps(weights, here, capsys):
    Image.new("RGB", (60, 60), "red").save("a.png")
    assert main(["predict", "snl", "a.png", "--weights", str(weights("none")), "-o", "out", "--quiet"]) == 0
    assert sorted(p.name for p in (here / "out").iterdir()) == ["a-attention.png", "labels.csv"]  # the picture alone
    rows = list(csv.reader((here / "out" / "labels.csv").open()))
    assert rows[0] == ["file", "label 1", "probability 1", "label 2", "probability 2"]
    assert rows[1][0] == "a.png"
    assert float(rows[1][2]) + float(rows[1][4]) == pytest.approx(1, abs=2e-4)


def test_two_pictures_of_one_name_keep_both_drawings(weights, here):
    for folder in ("x", "y"):
        (here / folder).mkdir()
        Image.new("RGB", (60, 60), "red").save(here / folder / "a.png")
    assert main(["predict", "snl", "x/a.png", "y/a.png", "--weights", str(weights()), "-o", "out", "--quiet"]) == 0
    assert {p.name for p in (here / "out").glob("*.png")} == {"a-attention.png", "a-attention-2.png"}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["b.png"], "b.png does not exist"),
        (["a.png", "--points", "5,5"], "outside what the network sees: x from 20 to 80, y from 0 to 60"),
        (["a.png", "--points", "5"], "Error parsing --points"),
        (["a.png", "--weights", "w.safetensors"], "w.safetensors does not exist"),
        (["a.png", "--weights", "a.png"], "a.png is not a complete safetensors file"),
        ([], "no picture given"),
    ],
)
def test_what_does_not_fit_is_refused_with_exit_code_2(args, said, weights, here, capsys):
    Image.new("RGB", (100, 60)).save("a.png")
    given = args if "--weights" in args else [*args, "--weights", str(weights())]
    assert main(["predict", "snl", *given, "-o", "out", "--quiet"]) == 2
    assert said in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_nobody_has_trained_yet_is_said_with_what_to_do(here, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    (here / "frames").mkdir()
    Image.new("RGB", (60, 60)).save("frames/a.png")
    assert main(["predict", "snl", "--videos", "frames"]) == 2
    assert "vergence train snl" in capsys.readouterr().err


def test_labels_that_the_weights_do_not_know_are_refused(weights, here, capsys):
    from recognition.snl import fixtures

    fixtures.cifar10_python(here / "data")
    assert main(["eval", "snl", "--weights", str(weights()), "--data", "cifar10:data", "--quiet"]) == 2
    assert "the weights know the classes different, same, the data has class0" in capsys.readouterr().err
