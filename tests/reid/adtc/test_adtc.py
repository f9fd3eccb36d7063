"""ADTC as a system: rounds that resume, folders without identities, and answers to what does not fit."""

import csv
import dataclasses
import json
import math

import pytest
import torch
from PIL import Image

from helpers import short, start, stop_and_go_on
from vergence import catalogue
from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.contract.identity import Identity
from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.core.progress import Progress
from vergence.engine.execute import execute
from vergence.engine.weights import identify, load_model, metadata
from vergence.nn.resnet import load_imagenet
from vergence.reading.weights import load_tensors
from vergence.reid.adtc.model import build
from vergence.reid.adtc.pictures import cluster_rows, followed, shown_rounds
from vergence.reid.adtc.settings import Config, Facts, Labelling, ModelConfig, Pictures
from vergence.reid.pseudo import Pseudo

SYSTEM = catalogue.load("adtc")
SMALL = {
    "data.people": 3, "data.known": 3, "data.shots": 2, "data.height": 32, "data.width": 16, "labels.rounds": 2,
    "labels.clusters": 6, "labels.top": 3, "labels.k": 4, "pretrain.batch": 12, "adapt.batch": 16,
}  # fmt: skip


# Training -------------------------------------------------------------------------------------------------------------


def test_a_run_stopped_in_a_later_round_goes_on_to_the_same_bits_with_the_labels_of_all_rounds(tmp_path):
    config = short(SYSTEM, 2, SMALL)
    whole = start("adtc", config, tmp_path / "whole")
    execute(whole, Progress())
    parted = start("adtc", config, tmp_path / "parted")
    stop_and_go_on(parted, step=5)  # the first step of the second round
    assert (parted.folder / "last.safetensors").read_bytes() == (whole.folder / "last.safetensors").read_bytes()
    tensors = load_tensors(whole.weights)[0]
    assert int(tensors["trail.done"]) == 2
    assert tensors["trail.labels"].shape == (2, 24)
    assert identify(whole.weights).facts == Facts(0, 24)
    assert not any(name.startswith("classifier") for name in tensors)
    assert sorted(p.name for p in (whole.folder / "rounds").iterdir()) == ["01.csv", "02.csv"]
    logged = [r["phase"] for r in whole.records() if "kept" in r.get("losses", {})]
    assert logged == ["round-1", "round-2"]
    assert {"nmi", "kept", "clusters", "ice", "cce", "margin"} <= set(whole.metrics)


def test_direct_transfer_has_no_rounds_and_without_pretraining_there_is_no_classifier():
    facts = Facts(3, 24)
    assert list(SYSTEM.phases(SYSTEM.configure("tiny", "direct"), facts)) == ["pretrain"]
    alone = SYSTEM.phases(SYSTEM.configure("tiny", "without-da"), facts)
    assert list(alone) == [f"round-{n}" for n in range(1, 7)]
    with pytest.raises(VergenceError, match="there is nothing to train"):
        SYSTEM.configure("tiny", "direct", {"pretrain.epochs": 0})


def test_the_rate_of_a_published_round_is_constant_for_five_epochs_and_then_falls_to_a_thousandth():
    adapt = SYSTEM.configure("paper").adapt
    factors = [adapt.optimiser.schedule.factor(epoch, 10) for epoch in range(11)]
    assert factors[:6] == [1.0] * 6
    assert factors[8] == pytest.approx(0.001 ** (3 / 5))
    assert factors[10] == pytest.approx(0.001)
    assert (adapt.epochs, adapt.batch, adapt.optimiser.lr) == (10, 128, 1e-4)


def test_source_and_target_are_other_people_by_other_cameras():
    config = SYSTEM.configure("tiny", None, SMALL)
    source, target = (
        SYSTEM.data(Context(config, None, phase=phase), "train").data for phase in ("pretrain", "round-1")
    )
    assert set(source.cameras).isdisjoint(target.cameras)
    assert not torch.equal(source.pictures, target.pictures)
    assert source.identities == target.identities  # counted from 0 in both; nothing else in common


# Use ------------------------------------------------------------------------------------------------------------------


def crops(folder, count=16):
    """Two people in plain colours; names of no form."""
    for seed in range(count):
        colour = (200, 30 + seed, 30) if seed % 2 else (20, 40 + seed, 190)
        Image.new("RGB", (20, 44), colour).save(folder / f"IMG {seed}.png")


FOLDER = [
    "--preset", "tiny", "--pretrain.epochs", "0", "--labels.rounds", "1", "--labels.clusters", "4",
    "--adapt.steps", "1", "--adapt.batch", "8", "--data.height", "32", "--data.width", "16", "--labels.way", "kmeans",
]  # fmt: skip


def test_a_folder_without_any_labels_is_trained_on(here, capsys):
    (here / "crops").mkdir()
    crops(here / "crops")
    assert main(["train", "adtc", "--data", "crops", *FOLDER, "--json", "--quiet"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["metrics"]["map"] is None
    assert told["metrics"]["clusters"] >= 2
    (table,) = here.rglob("rounds/01.csv")
    rows = list(csv.reader(table.open()))
    assert len(rows) == 17
    assert rows[1][0].endswith(".png")


def test_identical_pictures_are_refused(here, capsys):
    (here / "same").mkdir()
    for number in range(8):
        Image.new("RGB", (20, 44), "gray").save(here / "same" / f"IMG {number}.png")
    arguments = [*FOLDER[:-1], "two-stage"]
    assert main(["train", "adtc", "--data", "same", *arguments, "--quiet"]) == 2
    assert "all pictures have the same descriptor" in " ".join(capsys.readouterr().err.split())


def test_pretraining_needs_identities(here, capsys):
    (here / "crops").mkdir()
    crops(here / "crops", 4)
    given = ["--data", "crops", "--data.labelled", "unlabelled:crops", "--quiet"]
    assert main(["train", "adtc", *given]) == 2
    assert "has no identities to pre-train on" in " ".join(capsys.readouterr().err.split())


@pytest.fixture
def weights(tmp_path):
    def make(variant="adtc"):
        config, facts = SYSTEM.configure("tiny", variant, {"data.height": 32, "data.width": 16}), Facts(0, 5)
        torch.manual_seed(0)
        path = tmp_path / f"{variant}.safetensors"
        identity = Identity("adtc", "tiny", variant, config, facts)
        save_tensors(path, SYSTEM.build(config, facts).state_dict(), metadata(identity, SYSTEM))
        return path

    return make


@pytest.mark.parametrize("variant", ["adtc", "no-attention"])
def test_a_gallery_is_ranked_and_attention_is_drawn_where_there_is_some(variant, weights, here):
    (here / "g").mkdir()
    for name, colour in {"red": "red", "blue": "blue", "reddish": (250, 10, 10)}.items():
        Image.new("RGB", (20, 48), colour).save(here / "g" / f"{name}.png")
    given = ["--query", "g/red.png", "--gallery", "g", "--weights", str(weights(variant)), "-o", "out", "--quiet"]
    assert main(["predict", "adtc", *given]) == 0
    rows = list(csv.reader((here / "out" / "matches.csv").open()))
    assert [row[2] for row in rows[1:]] == ["g/reddish.png", "g/blue.png"]
    assert (here / "out" / "red-attention.png").exists() == (variant == "adtc")
    network = load_model(weights(variant))[0]
    assert int(network.trail.done) == 0


# Model and pictures ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stride", [1, 2])
def test_the_descriptor_is_the_normalised_maximum_of_the_attended_map(stride):
    torch.manual_seed(0)
    network = build(ModelConfig("resnet-tiny", stride, inner=8), 4, 2, 10).eval()
    images = torch.randn(2, 3, 64, 32)
    f = network.maps(images)
    assert f.shape == (2, 128, 4 // stride, 2 // stride)
    wanted = network.norm(network.attention(f).flatten(2).max(2).values)
    torch.testing.assert_close(network(images), wanted)
    torch.testing.assert_close(network.places(f).sum((1, 2)), torch.ones(2))
    assert network.classifier.weight.shape == (4, 128)


def test_imagenet_weights_must_fit():
    network = build(ModelConfig("resnet-tiny"), 0, 0, 0)
    state = dict(build(ModelConfig("resnet-tiny"), 0, 0, 0).backbone.state_dict())
    assert "ImageNet" in load_imagenet(network.backbone, state)
    torch.testing.assert_close(network.backbone.conv1.weight, state["conv1.weight"])
    with pytest.raises(VergenceError, match="expected a ResNet"):
        load_imagenet(network.backbone, {})
    with pytest.raises(VergenceError, match="of shape"):
        load_imagenet(network.backbone, {**state, "conv1.weight": torch.zeros(1)})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ModelConfig(last_stride=3), "last_stride of 1 or 2"),
        (lambda: Labelling(clusters=1), "clusters from 2"),
        (lambda: Labelling(density=0), "density above 0"),
        (lambda: Pictures(each=1), "at least 2 pictures each"),
        (lambda: Facts(-1, 0), "cannot be trained on"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, said):
    with pytest.raises(VergenceError, match=said):
        make()


def test_the_picture_of_clusters_follows_one_that_is_kept_and_shows_what_is_dropped():
    trail = build(ModelConfig("resnet-tiny"), 0, 3, 6).trail
    for number, labels in enumerate([[0, 0, 1, 1, -1, -1], [0, 0, 1, 1, -1, -1], [0, 1, 0, 1, -1, -1]]):
        claims = torch.tensor([1, 1, 1, 1, 0, 2])
        found = Pseudo(torch.tensor(labels), claims)
        trail.note(number, found, found.quality())
    assert shown_rounds(3) == [0, 1, 2]
    people = SYSTEM.data(Context(SYSTEM.configure("tiny", None, SMALL), None), "train").data
    six = dataclasses.replace(people, pictures=people.pictures[:6], identities=(1, 2, 1, 2, 3, 3), cameras=(0,) * 6)
    rounds = [trail.round(n) for n in range(3)]
    assert followed(rounds, six.identities) in range(4)
    rows = cluster_rows(trail, six)
    titles = [[panel.title for panel in row if panel.title] for row in rows]
    assert titles == [[f"round {n + 1}", "same cluster", "claimed by 2", "unclaimed"] for n in range(3)]


def test_data_without_identities_reports_clusters_only(here):
    (here / "crops").mkdir()
    crops(here / "crops")
    changes = {"data.height": 32, "data.width": 16, "data.source": f"unlabelled:{here / 'crops'}"}
    config = SYSTEM.configure("tiny", "kmeans", changes)
    assert isinstance(config, Config)
    ctx = Context(config, here, Facts(0, 16))
    model = SYSTEM.build(config, ctx.facts).eval()
    with torch.no_grad():
        found = SYSTEM.evaluate(ctx, model, SYSTEM.data(ctx, "test"))
    assert math.isnan(found["map"])
    assert set(found) == {"map", "kept", "clusters"}
