"""Videos and tracklets: short trainings, prediction on files, pictures, and answers to what does not fit."""

import csv
import dataclasses
import json
import shutil

import pytest
import torch

from helpers import short, start
from recognition.snl import fixtures
from reid import tracklet_layouts
from reid.picture_layouts import picture
from vergence import catalogue
from vergence.cli.main import main
from vergence.contract.identity import Identity
from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.core.progress import Progress
from vergence.engine.execute import execute
from vergence.engine.weights import metadata
from vergence.reading.weights import load_state
from vergence.recognition.settings import Tokens
from vergence.recognition.snl.model import attention, build, load_backbone
from vergence.recognition.snl.settings import Footage, ModelConfig, Tracklets
from vergence.recognition.snl.tasks import asked
from vergence.recognition.tokens import TokenSets
from vergence.runs.folder import Run
from vergence.studies.subject import Subject, draw
from video.ata import fixtures as videos

SMALL = {
    "tiny-video": {"data.count": 16, "train.batch": 8},
    "tiny-vtn": {"data.count": 16, "train.batch": 8},
    "tiny-reid": {"data.people": 4, "data.length": 5, "train.batch": 8},
    "tiny-sizes": {"data.count": 96, "train.batch": 8},
    "tiny-clean": {"data.count": 16, "train.batch": 8},
}


def trained(preset, root, steps=2, variant="snl", **changes):
    system = catalogue.load("snl")
    config = short(system, steps, SMALL[preset] | changes, preset, variant)
    run = start("snl", config, root, variant)
    execute(run, Progress())
    return run


@pytest.fixture
def weights(tmp_path):
    """An untrained network in a file, which is all that prediction asks for."""

    def make(preset, labels=(), variant="snl", **changes):
        system = catalogue.load("snl")
        config = system.configure(preset, variant, changes)
        facts = system.settings.facts(len(labels) or 4, labels)
        torch.manual_seed(0)
        path = tmp_path / f"{preset}.safetensors"
        identity = Identity("snl", preset, variant, config, facts)
        save_tensors(path, system.build(config, facts).state_dict(), metadata(identity, system))
        return path

    return make


def tracklet(folder, count, seed=0):
    for number in range(count):
        picture(folder / f"{number}.png", seed + number, (8, 16))


def refused(capsys, *args):
    capsys.readouterr()
    assert main([*map(str, args), "--quiet"]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return " ".join(said.replace("│", " ").split())


# Training, judging, drawing -----------------------------------------------------------------------------------------


CLASSIFIED = ("confusion.png", "examples.png")
LOSSES = {"tiny-reid": {"cross_entropy", "triplet"}, "tiny-clean": {"squared_error"}}


@pytest.mark.parametrize(
    ("preset", "metrics", "drawn"),
    [
        ("tiny-video", {"top1"}, {"attention-0.png", "attention-1.png", "spectrum.png", *CLASSIFIED}),
        ("tiny-reid", {"rank1", "rank5", "rank10", "map"}, {"matches.png", "attention.png", "spectrum.png"}),
        ("tiny-clean", {"mse"}, {"tokens.png", "spectrum.png"}),
        pytest.param(
            "tiny-sizes",
            {"top1", "large", "small"},
            {"attention.png", "spectrum.png", *CLASSIFIED},
            marks=pytest.mark.slow,  # a task that the contract's checks train too
        ),
    ],
)
def test_a_task_trains_is_judged_by_its_metrics_and_draws_its_pictures(preset, metrics, drawn, tmp_path):
    run = trained(preset, tmp_path)
    assert set(run.metrics) == metrics
    assert all(0 <= value <= 100 for value in run.metrics.values())
    losses = next(record["losses"] for record in run.records() if "losses" in record)
    assert set(losses) == LOSSES.get(preset, {"cross_entropy"})
    system = catalogue.load("snl")
    made = draw(Subject(system, preset, {"snl": [run], "none": [Run.open(run.folder)]}), tmp_path / "out", Progress())
    assert {artifact.path.name for artifact in made} == drawn
    assert all(artifact.path.stat().st_size > 0 for artifact in made)


@pytest.mark.parametrize("preset", ["tiny-video", "tiny-vtn", "tiny-reid", "tiny-sizes", "tiny-noise"])
def test_every_block_passes_gradients_on_in_every_task(preset):
    system = catalogue.load("snl")
    for variant in system.variants:
        config = system.configure(preset, variant)
        torch.manual_seed(0)
        model = system.build(config, system.settings.facts(3)).train()
        model(*system.example(config, system.settings.facts(3), batch=2)).square().sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters()), variant


def test_the_best_checkpoint_of_each_task_is_chosen_by_its_own_metric():
    system = catalogue.load("snl")
    judged = {preset: system.judged_by(config) for preset, config in system.settings.presets.items()}
    assert judged["tiny"] == judged["tiny-video"] == "top1"
    assert judged["tiny-reid"] == judged["paper-mars"] == "rank1"
    assert judged["tiny-clean"] == "mse"
    described = ("tiny", "tiny-sizes", "tiny-video", "tiny-reid", "tiny-clean", "tiny-noise")
    assert len({system.embedded(system.settings.presets[preset]) for preset in described}) == 6


def test_tokens_are_prototypes_with_noise_and_training_draws_new_ones():
    clean, noise = (TokenSets(Tokens(target, noise=0.5), 4, "test") for target in ("clean", "noise"))
    (noisy, wanted), (same, rest) = clean[1], noise[1]
    assert torch.equal(noisy, same)
    torch.testing.assert_close(wanted + rest, noisy)
    assert len(wanted.unique(dim=0)) == 4
    assert 0.45 < float(rest.std()) < 0.55
    assert not torch.equal(clean[0][0], noisy)
    drawn = [clean.draw(1, torch.Generator().manual_seed(seed))[0] for seed in (0, 1)]
    assert not torch.equal(*drawn)


def test_a_block_alone_adds_its_filter_to_tokens_and_without_one_each_token_is_by_itself():
    torch.manual_seed(0)
    x = torch.randn(2, 9, 6)
    network = build(ModelConfig("tokens", "snl", inner=6), 6)
    torch.testing.assert_close(network(x), x + network.block.operate(x))
    alone = build(ModelConfig("tokens", "none"), 6)
    torch.testing.assert_close(alone(x)[:, 3], x[:, 3] + x[:, 3] @ alone.alone.weight.mT)


# The networks -------------------------------------------------------------------------------------------------------


def test_attention_of_a_clip_is_that_of_the_cell_in_its_middle_frame():
    torch.manual_seed(0)
    network = build(ModelConfig("resnet-tp-tiny", "nl", at=("layer2.0",)), 3).eval()
    clip = torch.randn(1, 4, 3, 32, 32)
    _, maps, inputs = attention(network, clip, [(0.0, 0.99)])
    x = inputs["layer2.0"]
    assert maps["layer2.0"].shape == (1, 1, *x.shape[2:])
    frames, height, width = x.shape[2:]
    tokens, block = x.flatten(2).mT, network.inserted["layer2.0"]
    here = (frames // 2) * height * width + (height - 1) * width
    row = (block.theta(tokens)[0, here] @ block.phi(tokens)[0].mT).softmax(-1)
    torch.testing.assert_close(maps["layer2.0"][0, 0], row.reshape(frames, height, width))


def test_a_backbone_starts_from_image_weights_and_says_what_is_new(tmp_path):
    torch.manual_seed(0)
    picture = build(ModelConfig("resnet18", "none"), 1000)
    torch.save(picture.state_dict(), tmp_path / "resnet18.pth")
    network = build(ModelConfig("resnet18", "snl", at=("layer3.0",)), 7)
    said = load_backbone(network, load_state(tmp_path / "resnet18.pth"))
    assert "blocks and classifier are new" in said
    assert torch.equal(network.layer4[1].conv2.weight, picture.layer4[1].conv2.weight)
    assert network.fc.out_features == 7


def test_training_starts_from_the_weights_that_the_config_names(tmp_path):
    torch.manual_seed(0)
    torch.save(build(ModelConfig("resnet-tp-tiny", "none"), 400).state_dict(), tmp_path / "people.pth")

    class Heard(Progress):
        def say(self, text):
            heard.append(text)

    heard = []
    changes = SMALL["tiny-reid"] | {"pretrained": str(tmp_path / "people.pth")}
    run = start("snl", short(catalogue.load("snl"), 1, changes, "tiny-reid"), tmp_path / "runs")
    execute(run, Heard())
    (said,) = [text for text in heard if "starts from" in text]
    assert said.endswith(f"blocks and classifier are new ({tmp_path / 'people.pth'})")


def test_settings_of_another_task_are_refused_by_name():
    config = catalogue.load("snl").configure("tiny-video")
    assert asked(config, Footage) is config.data
    with pytest.raises(VergenceError, match="expected settings of Tracklets, got those of Footage"):
        asked(config, Tracklets)


def public_resnext(classes):
    """What a checkpoint of the public 3D ResNets holds for `resnext3d-tiny`, written out by hand: names as its parallel
    training leaves them, and no counts of batches, as old versions did not save any."""
    shapes = {"conv1.weight": (4, 3, 3, 3, 3), "fc.weight": (classes, 64), "fc.bias": (classes,)}
    norms, inputs = {"bn1": 4}, 4
    for stage, width in (("layer1.0", 8), ("layer2.0", 16), ("layer3.0", 32)):
        shapes |= {
            f"{stage}.conv1.weight": (width, inputs, 1, 1, 1), f"{stage}.conv2.weight": (width, width // 4, 3, 3, 3),
            f"{stage}.conv3.weight": (2 * width, width, 1, 1, 1),
            f"{stage}.downsample.0.weight": (2 * width, inputs, 1, 1, 1),
        }  # fmt: skip
        norms |= {f"{stage}.bn1": width, f"{stage}.bn2": width}
        norms |= {f"{stage}.bn3": 2 * width, f"{stage}.downsample.1": 2 * width}
        inputs = 2 * width
    for norm, width in norms.items():
        shapes |= {f"{norm}.{part}": (width,) for part in ("weight", "bias", "running_mean", "running_var")}
    drawn = torch.Generator().manual_seed(0)
    state = {f"module.{name}": torch.rand(shape, generator=drawn) for name, shape in shapes.items()}
    return {"epoch": 200, "arch": "resnext-101", "state_dict": state, "optimizer": {"param_groups": []}}


@pytest.mark.parametrize(("classes", "new"), [(400, "blocks and classifier are new"), (4, "blocks are new")])
def test_a_3d_resnext_starts_from_a_checkpoint_of_the_public_code(classes, new, tmp_path):
    public = public_resnext(classes)
    torch.save(public, tmp_path / "kinetics.pth")
    torch.manual_seed(0)
    network = build(ModelConfig("resnext3d-tiny", "snl", at=("layer2.0",), dropout=0.0), 4)
    assert load_backbone(network, load_state(tmp_path / "kinetics.pth")).endswith(new)  # and nothing else is
    given = {name.removeprefix("module."): value for name, value in public["state_dict"].items()}
    for name, value in network.state_dict().items():
        if ".after_" not in name and not name.endswith("num_batches_tracked"):
            assert torch.equal(value, given[name]) == (classes == 4 or not name.startswith("fc.")), name


@pytest.mark.parametrize("backbone", ["i3d-tiny", "resnext3d-tiny", "p3d-tiny"])
def test_a_block_in_a_network_for_clips_starts_as_the_identity_and_then_learns(backbone):
    torch.manual_seed(0)
    plain, network = (
        build(ModelConfig(backbone, block, at=("layer2.0",), dropout=0.0), 3) for block in ("none", "snl")
    )
    network.load_state_dict(plain.state_dict(), strict=False)
    clip = torch.randn(2, 4, 3, 24, 24)
    answer = network(clip)
    assert torch.equal(answer, plain(clip))
    answer.square().sum().backward()
    assert network.inserted["layer2.0"].norm.weight.grad.any()


@pytest.mark.parametrize(
    ("preset", "changes", "message"),
    [
        ("tiny", {"model.backbone": "p3d63"}, "p3d63 does not take pictures"),
        ("tiny-video", {"model.backbone": "resnet50"}, "resnet50 does not take clips"),
        ("tiny", {"model.backbone": "resnext3d101"}, "resnext3d101 does not take pictures"),
        ("tiny-reid", {"model.backbone": "vtn"}, "vtn does not take tracklets: expected resnet-tp-tiny"),
        ("tiny-reid", {"objective.margin": -1.0}, "margin at least 0"),
        ("tiny-reid", {"data.frames": 0}, "clips have 1 to 1024 frames"),
        ("tiny-sizes", {"data.size": 40, "data.resize": 40}, r"at least 22 \(41 for sizes\), got 40"),
    ],
)
def test_settings_that_do_not_fit_are_refused_in_a_sentence(preset, changes, message):
    settings = catalogue.settings("snl")
    with pytest.raises(VergenceError, match=message):
        settings.configure(preset, None, changes)


def test_weights_to_start_from_that_do_not_exist_are_refused(here, capsys):
    command = ("train", "snl", "--preset", "tiny-video", "--data.count", "16", "--pretrained", "nowhere.pth")
    assert "nowhere.pth does not exist" in refused(capsys, *command)


# Data that is not whole ---------------------------------------------------------------------------------------------


def test_a_split_that_names_missing_videos_is_refused_or_skipped_as_chosen(weights, here, capsys):
    videos.ucf101(here / "data")
    system = catalogue.load("snl")
    labels = tuple(system.layouts["ucf101"].read(here / "data", "test").classes)
    file = weights("tiny-video", labels)
    system.layouts["ucf101"].read(here / "data", "test").paths[0].unlink()
    said = refused(capsys, "eval", "snl", "--weights", file, "--data", "ucf101:data")
    assert "does not exist, but" in said
    assert "testlist01.txt lists it" in said
    args = ["eval", "snl", "--weights", str(file), "--data", "ucf101:data", "--data.damaged", "skip", "--json"]
    assert main([*args, "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["skipped"] == 1


def test_a_split_that_names_missing_tracklets_is_refused_or_skipped_as_chosen(weights, here, capsys):
    tracklet_layouts.ilids(here / "data")
    shutil.rmtree(here / "data/i-LIDS-VID/sequences/cam1/person003")
    file = weights("tiny-reid")
    said = refused(capsys, "eval", "snl", "--weights", file, "--data", "ilids-vid:data")
    assert "person003 does not exist, but" in said
    args = ["eval", "snl", "--weights", str(file), "--data", "ilids-vid:data", "--data.missing", "skip", "--json"]
    assert main([*args, "--quiet"]) == 0
    assert 0 <= json.loads(capsys.readouterr().out)["metrics"]["rank1"] <= 100


def test_a_split_that_names_missing_pictures_is_refused_or_skipped_as_chosen(weights, here, capsys):
    fixtures.cub(here / "data")
    file = weights("tiny", ("Albatross", "Auklet", "Wren"))
    shown = tuple(catalogue.load("snl").layouts["cub"].read(here / "data", "test").classes)
    file = weights("tiny", shown)
    next((here / "data").rglob("Wren_0002.jpg")).unlink()
    said = refused(capsys, "eval", "snl", "--weights", file, "--data", "cub:data")
    assert "Wren_0002.jpg does not exist, but" in said
    args = ["eval", "snl", "--weights", str(file), "--data", "cub:data", "--data.missing", "skip", "--json", "--quiet"]
    assert main(args) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["top1"] in (0, 50, 100)  # two are left


def test_a_class_folder_without_pictures_and_gaps_in_label_files_are_named(here, capsys):
    fixtures.class_folders(here / "data")
    (here / "data/train/empty").mkdir()
    assert "train/empty holds no pictures" in refused(capsys, "train", "snl", "--data", "data")
    fixtures.cub(here / "birds")
    labels = here / "birds/CUB_200_2011/image_class_labels.txt"
    labels.write_text("".join(labels.read_text().splitlines(keepends=True)[:-1]))
    assert "image_class_labels.txt" in refused(capsys, "train", "snl", "--data", "cub:birds")


def test_a_cifar_pickle_that_is_not_one_runs_nothing(here, capsys):
    import pickle

    class Trap:
        def __reduce__(self):
            return (open, (str(here / "trapped"), "w"))

    fixtures.cifar10_python(here / "data")
    (here / "data/cifar-10-batches-py/data_batch_3").write_bytes(pickle.dumps(Trap()))
    assert "data_batch_3" in refused(capsys, "train", "snl", "--data", "cifar10:data")
    assert not (here / "trapped").exists()


def test_tracklets_of_one_frame_and_videos_shorter_than_a_clip_are_repeated(weights, here, capsys):
    for name in ("query/anna_1_x", "gallery/anna_2_x", "gallery/bert_3_x"):
        tracklet(here / "data" / name, 1)
    file = weights("tiny-reid")
    assert main(["eval", "snl", "--weights", str(file), "--data", "data", "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["rank1"] in (0, 100)
    videos.frames(here / "short", count=2)
    args = ["predict", "snl", "--weights", str(weights("tiny-video")), "--videos", "short", "-o", "out", "--quiet"]
    assert main(args) == 0
    shutil.rmtree(here / "short")
    videos.frames(here / "short", count=1)
    assert "one frame only" in refused(capsys, *args[:-1])


# Use ----------------------------------------------------------------------------------------------------------------


def test_videos_get_labels_and_pictures_of_what_points_look_at(weights, here, capsys):
    videos.video(here / "a.mp4")
    file = weights("tiny-video", ("run", "jump", "sit", "walk"))
    args = ["predict", "snl", "--weights", str(file), "--videos", "a.mp4", "-o", "out", "--quiet"]
    assert main([*args, "--points", "30,20"]) == 0
    rows = list(csv.reader((here / "out" / "labels.csv").open()))
    assert rows[1][0] == "a.mp4"
    assert sorted(rows[1][1::2]) == ["jump", "run", "sit", "walk"]
    assert sum(map(float, rows[1][2::2])) == pytest.approx(1, abs=1e-3)
    assert (here / "out" / "a-attention.png").stat().st_size > 0
    assert "outside what the network sees of" in refused(capsys, *args[:-1], "--points", "3000,20")


def test_a_query_tracklet_is_ranked_against_a_folder_of_tracklets(weights, here, capsys):
    for number, name in enumerate(("query", "gallery/near", "gallery/far")):
        tracklet(here / name, 3, seed=0 if number < 2 else 50)
    file = weights("tiny-reid")
    args = ["predict", "snl", "--weights", str(file), "--query", "query", "--gallery", "gallery", "-o", "out"]
    assert main([*args, "--quiet"]) == 0
    rows = list(csv.reader((here / "out" / "matches.csv").open()))
    assert [row[2] for row in rows[1:]] == ["gallery/near", "gallery/far"]
    assert float(rows[1][3]) == pytest.approx(0, abs=1e-3)  # the same frames
    assert "gallery/far" in (here / "out" / "matches.html").read_text()
    assert "of its middle frame in all frames" in (here / "out" / "matches.html").read_text()


@pytest.mark.parametrize(
    ("preset", "args", "said"),
    [
        ("tiny-video", ["a.png"], "no video given to predict on"),
        ("tiny-video", ["--videos", "fine", "noise.mp4"], "noise.mp4 is not a readable video"),
        ("tiny-video", ["--videos", "empty"], "empty holds no frames"),
        ("tiny-reid", ["--query", "nowhere"], "there is no query: give --query DIR"),
        ("tiny-reid", ["--query", "one", "--gallery", "nowhere"], "nowhere is not a folder of tracklets"),
        ("tiny-reid", ["--query", "one", "--gallery", "one"], "one holds no tracklets"),
        ("tiny-reid", ["--query", "one", "--gallery", "empty"], "empty holds no tracklets"),
        ("tiny-reid", ["--query", "one", "--gallery", "hollow"], "hollow/nobody holds no pictures"),
        ("tiny-reid", ["--query", "one", "--gallery", "torn"], "torn/someone/0.png is not a readable picture"),
        ("tiny-reid", ["--query", "empty", "--gallery", "all"], "empty holds no pictures: expected a tracklet"),
        ("tiny-reid", ["--query", "one", "--gallery", "all", "--top", "0"], "at least one match"),
        ("tiny-reid", ["--query", "one", "--gallery", "all", "--points", "99,0"], "outside the frames"),
    ],
)
def test_what_a_task_cannot_predict_on_is_said(preset, args, said, weights, here, capsys):
    tracklet(here / "one", 1)
    tracklet(here / "all" / "someone", 1)
    tracklet(here / "torn" / "someone", 1)
    (here / "torn/someone/0.png").write_bytes(b"nonsense")
    videos.frames(here / "fine", count=4)
    (here / "noise.mp4").write_bytes(b"nonsense" * 100)
    (here / "empty").mkdir()
    (here / "hollow/nobody").mkdir(parents=True)
    assert said in refused(capsys, "predict", "snl", "--weights", weights(preset), *args, "-o", "out")
    assert not [path for path in (here / "out").rglob("*") if path.is_file()]  # not even of what came before it


def test_data_of_another_task_is_refused_by_name(weights, here, capsys):
    tracklet_layouts.mars(here / "data")
    said = refused(capsys, "eval", "snl", "--weights", weights("tiny-video"), "--data", "mars:data")
    assert "no layout 'mars' to read 'mars:data' with" in said


def test_configs_of_all_tasks_differ_only_where_their_data_does():
    presets = catalogue.load("snl").settings.presets
    kinds = {type(config.data).__name__ for config in presets.values()}
    assert kinds == {"Pictures", "Footage", "Tracklets", "Tokens"}
    assert {f.name for f in dataclasses.fields(presets["tiny"])} == {
        f.name for f in dataclasses.fields(presets["paper-mars"])
    }
