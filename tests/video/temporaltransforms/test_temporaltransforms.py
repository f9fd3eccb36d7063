"""The system: training without labels, transfer, prediction, and answers to what does not fit."""

import csv
import itertools
import json
import wave

import pytest
import torch

from vergence import catalogue
from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.contract.identity import Identity
from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.engine.weights import metadata
from vergence.video.temporaltransforms.model import TemporalNet
from vergence.video.temporaltransforms.predict import windows
from vergence.video.temporaltransforms.settings import Facts, ModelConfig, Pretext
from video.ata import fixtures

SYSTEM = catalogue.load("temporaltransforms")


@pytest.fixture
def weights(tmp_path):
    """An untrained network in a file, which is all that prediction asks for."""

    def make(variant="all", facts=None, changes=None):
        config, facts = SYSTEM.configure("tiny", variant, changes), facts or Facts(rate=25.0)
        torch.manual_seed(0)
        path = tmp_path / f"{variant}.safetensors"
        identity = Identity("temporaltransforms", "tiny", variant, config, facts)
        save_tensors(path, SYSTEM.build(config, facts).state_dict(), metadata(identity, SYSTEM))
        return path

    return make


def predict(*args):
    return main(["predict", "temporaltransforms", *map(str, args), "-o", "out", "--threads", "1", "--quiet"])


# The networks --------------------------------------------------------------------------------------------------------


def test_r2plus1d_has_as_many_parameters_as_the_public_one():
    """torchvision documents 31,505,325 parameters for its r2plus1d_18 with 400 classes."""
    with torch.device("meta"):
        model = TemporalNet(ModelConfig("r2plus1d18", (64, 128, 256, 512), 0), 16, 112, {"classes": 400})
    assert sum(p.numel() for p in model.parameters()) == 31_505_325


def test_the_small_c3d_counted_layer_by_layer():
    widths = (3, 64, 128, 256, 256, 256)
    convs = sum(27 * a * b + 2 * b for a, b in itertools.pairwise(widths))
    dense = 4096 * 2048 + 2 * 2048 + 2048 * 2048 + 2 * 2048 + 2048 * 8 + 8
    assert convs == 4_651_968
    assert convs + dense == 17_259_464


def test_frozen_transfer_trains_the_new_layers_only(tmp_path):
    config, facts = SYSTEM.configure("tiny", "none"), Facts(3, ("a", "b", "c"), 15.0)
    ctx = Context(config, tmp_path, facts, phase="transfer")
    model = SYSTEM.start(ctx, SYSTEM.build(config, facts)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    clips = torch.randn(4, 16, 3, 24, 24, generator=torch.Generator().manual_seed(0))
    SYSTEM.losses(ctx, model, (clips, torch.tensor([0, 1, 2, 0]), []))["cross_entropy"].backward()
    assert {name.split(".")[0] for name, p in model.named_parameters() if p.grad is not None} == {"classifier"}
    changed = [name for name, value in model.state_dict().items() if not torch.equal(value, before[name])]
    assert all(name.startswith("classifier.") for name in changed)


def test_weights_of_another_run_start_a_network(tmp_path):
    facts = Facts(3, ("a", "b", "c"), 15.0)
    one = SYSTEM.build(SYSTEM.configure("tiny", "all"), facts)
    config = SYSTEM.configure("tiny", "none")
    other = SYSTEM.build(config, facts)
    assert "tensors are loaded" in SYSTEM.load_pretrained(config, other, one.state_dict())
    assert torch.equal(other.trunk.convs[0][0].weight, one.trunk.convs[0][0].weight)
    with pytest.raises(VergenceError, match="'trunk.convs.0.0.weight' of shape"):
        SYSTEM.load_pretrained(config, other, {})


def test_pretext_tasks_that_ask_nothing_are_refused():
    with pytest.raises(VergenceError, match="speed alone without its loss"):
        Pretext(transforms=("speed",), speed_loss=False)
    with pytest.raises(VergenceError, match="speed and others"):
        Pretext(transforms=("random", "warp"))
    assert Pretext().outputs() == {"motion": 4, "speed": 4}
    assert Pretext(transforms=("speed",)).outputs() == {"speed": 4}


# Training on a user's videos -----------------------------------------------------------------------------------------


def test_a_folder_of_any_videos_trains_without_labels(here, capsys):
    for number in range(4):
        fixtures.video(here / "mine" / f"{number}.mp4", number, 20)
    fixtures.video(here / "mine" / "1-short.mp4", 9, 5)
    changes = ["--pretrain.steps", "2", "--pretrain.batch", "2", "--threads", "1", "--data", "mine", "--json"]
    assert main(["train", "temporaltransforms", *changes]) == 0
    told = capsys.readouterr()
    metrics = json.loads(told.out)["metrics"]
    assert metrics["top1"] is None
    assert 0 <= metrics["told"] <= 100


# Prediction ----------------------------------------------------------------------------------------------------------


def test_windows_cover_a_video_at_the_rate_of_training():
    places, step = windows(100, 30.0, 15.0, 16, 0.0)
    assert step == 2
    assert places[0] == list(range(0, 32, 2))
    assert places[1][0] == 16
    assert places[-1][-1] == 99
    places, step = windows(16, 30.0, 15.0, 16, 0.0)  # too short for the rate: every frame
    assert (places, step) == ([list(range(16))], 1)
    assert windows(40, 10.0, 15.0, 16, 0.0)[1] == 1  # a slower video: every frame


def test_how_videos_play_and_which_are_alike(weights, here):
    for number, name in enumerate(("a", "b", "c")):
        fixtures.video(here / f"{name}.mp4", number, 40)
    assert predict("a.mp4", "b.mp4", "c.mp4", "--weights", weights(), "--neighbours", 1) == 0
    rows = list(csv.DictReader((here / "out" / "windows.csv").open()))
    assert {row["file"] for row in rows} == {"a.mp4", "b.mp4", "c.mp4"}
    for row in rows:
        assert sum(float(row[name]) for name in ("plain", "shuffled", "back and forth", "warped")) == pytest.approx(
            1, abs=3e-4
        )
    told = json.loads((here / "out" / "playback.json").read_text())
    assert [len(video["neighbours"]) for video in told["videos"]] == [1, 1, 1]
    assert told["videos"][0]["neighbours"][0]["video"] in ("b.mp4", "c.mp4")
    page = (here / "out" / "playback.html").read_text()
    assert page.count("data:image/png;base64,") >= 3
    assert {p.name for p in (here / "out").glob("*.png")} == {"a.png", "b.png", "c.png"}


def test_nothing_tells_how_a_still_video_plays(weights, here, capsys):
    from PIL import Image

    (here / "still").mkdir()
    for number in range(20):
        Image.new("RGB", (40, 30), (90, 120, 60)).save(here / "still" / f"{number:03d}.png")
    assert main(["predict", "temporaltransforms", "still", "--weights", str(weights()), "-o", "out", "--json"]) == 0
    told = json.loads((here / "out" / "playback.json").read_text())
    assert [passage["verdict"] for passage in told["videos"][0]["passages"]] == ["still"]
    assert told["videos"][0]["playback_speed"] is None
    assert json.loads(capsys.readouterr().out)["result"]["videos"][0]["name"] == "still"


def test_fine_tuned_weights_give_labels_and_no_transformations(weights, here):
    fixtures.video(here / "a.mp4", 0, 40)
    fine = weights("all", Facts(2, ("run", "walk"), 25.0), {"transfer.mode": "finetune"})
    assert predict("a.mp4", "--weights", fine) == 0
    rows = list(csv.DictReader((here / "out" / "windows.csv").open()))
    assert {row["class"] for row in rows} <= {"run", "walk"}
    assert "shuffled" not in rows[0]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nowhere.mp4"], "nowhere.mp4 does not exist"),
        (["a.wav"], "a.wav has no pictures in it, only sound"),
        (["broken.mp4"], "broken.mp4 is not a readable video"),
        (["one"], "one has 1 frames: a clip needs 16"),
        (["short.mp4"], "short.mp4 has 9 frames: a clip needs 16"),
        (["a.mp4", "--hop", "-1"], "--hop is at least 0 seconds"),
        (["a.mp4", "--neighbours", "-2"], "--neighbours 0 to 100"),
        (["empty"], "empty holds no frames"),
        ([], "no video given"),
    ],
)
def test_what_does_not_fit_is_refused_with_exit_code_2(args, said, weights, here, capsys):
    fixtures.video(here / "a.mp4", 0, 20)
    fixtures.video(here / "short.mp4", 0, 9)
    (here / "broken.mp4").write_bytes((here / "a.mp4").read_bytes()[:200])
    with wave.open(str(here / "a.wav"), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(16000))
    fixtures.frames(here / "one", count=1)
    (here / "empty").mkdir()
    assert predict(*args, "--weights", weights()) == 2
    assert said in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert not (here / "out" / "windows.csv").exists()


def test_a_folder_without_videos_is_refused(here, capsys):
    (here / "texts").mkdir()
    (here / "texts" / "a.txt").write_text("a")
    assert main(["train", "temporaltransforms", "--data", "unlabelled:texts", "--quiet"]) == 2
    assert "texts holds no video" in capsys.readouterr().err
