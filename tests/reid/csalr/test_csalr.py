"""CSALR as a system: finding files, judging by the protocol, and answers to what does not fit."""

import csv
import dataclasses

import pytest
import torch
from PIL import Image

from helpers import short, start
from reid.picture_layouts import picture
from vergence import catalogue
from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.contract.identity import Identity
from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.core.progress import Progress
from vergence.engine.evaluate import run_evaluation
from vergence.engine.execute import execute
from vergence.engine.weights import identify, load_model, metadata
from vergence.reid.data import LAYOUTS, Viewed

SYSTEM = catalogue.load("csalr")
FEW = {"data.people": 4, "data.width": 32, "data.cameras": 2, "data.shots": 2}
"""Embedded people that are rendered in a second."""


@pytest.fixture
def weights(tmp_path):
    """An untrained network in a file, which is all that prediction asks for."""

    def make(variant="csalr", seed=0):
        config, facts = SYSTEM.configure("tiny", variant, {"data.width": 32}), SYSTEM.settings.facts(5)
        torch.manual_seed(seed)
        path = tmp_path / f"{variant}-{seed}.safetensors"
        identity = Identity("csalr", "tiny", variant, config, facts)
        save_tensors(path, SYSTEM.build(config, facts).state_dict(), metadata(identity, SYSTEM))
        return path

    return make


def predict(*args):
    return main(["predict", "csalr", *map(str, args), "-o", "out", "--quiet"])


def gallery(folder, colours):
    folder.mkdir()
    for name, colour in colours.items():
        Image.new("RGB", (20, 48), colour).save(folder / f"{name}.png")


def test_a_gallery_is_ranked_by_distance_and_the_query_does_not_find_itself(weights, here):
    gallery(here / "g", {"red": "red", "blue": "blue", "reddish": (250, 10, 10)})
    assert predict("--query", "g/red.png", "--gallery", "g", "--weights", weights()) == 0
    rows = list(csv.reader((here / "out" / "matches.csv").open()))
    assert rows[0] == ["query", "rank", "match", "distance"]
    assert [row[2] for row in rows[1:]] == ["g/reddish.png", "g/blue.png"]
    assert float(rows[1][3]) < float(rows[2][3])
    page = (here / "out" / "matches.html").read_text()
    assert "g/reddish.png" in page
    assert page.count("<img") == 4  # the query, two matches, one picture of attention


def test_an_index_gives_what_its_gallery_gave(weights, here):
    gallery(here / "g", {"red": "red", "blue": "blue", "green": "green"})
    Image.new("RGB", (30, 60), "navy").save("query.png")
    given = ("--query", "query.png", "--weights", weights("none"))
    assert predict(*given, "--gallery", "g", "--index", "kept/g.safetensors") == 0
    first = (here / "out" / "matches.csv").read_text()
    (here / "g" / "red.png").unlink()  # the index remembers it; the page shows a blank
    assert predict(*given, "--index", "kept/g.safetensors") == 0
    assert (here / "out" / "matches.csv").read_text() == first


def test_an_index_of_other_weights_is_refused(weights, here, capsys):
    gallery(here / "g", {"red": "red"})
    assert predict("--query", "g/red.png", "--gallery", "g", "--index", "i", "--weights", weights("none")) == 0
    assert predict("--query", "g/red.png", "--index", "i", "--weights", weights("none", seed=1)) == 2
    assert "made with other weights" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "there is no query"),
        (["--query", "a.png"], "there is no gallery"),
        (["--query", "b.png", "--gallery", "g"], "b.png does not exist"),
        (["--query", "a.png", "--gallery", "nowhere"], "nowhere is not a folder"),
        (["--query", "a.png", "--gallery", "empty"], "empty holds no pictures"),
        (["--query", "a.png", "--gallery", "spoilt"], "x.jpg is not a readable picture"),
        (["--query", "a.png", "--index", "a.png"], "a.png is not a complete safetensors file"),
        (
            ["--query", "a.png", "--gallery", "g", "--points", "50,5"],
            "50,5 is outside a.png, which is 20 x 48",
        ),
        (["--query", "a.png", "--gallery", "g", "--top", "0"], "at least one match"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(args, said, weights, here, capsys):
    gallery(here / "g", {"red": "red"})
    Image.new("RGB", (20, 48)).save("a.png")
    (here / "empty").mkdir()
    (here / "spoilt").mkdir()
    (here / "spoilt" / "x.jpg").touch()
    assert predict(*args, "--weights", weights()) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (here / "out").exists() or not list((here / "out").iterdir())


def judge(folder, changes=None):
    config = SYSTEM.configure("tiny", "none", {"data.width": 32, **(changes or {})})
    model = SYSTEM.build(config, SYSTEM.settings.facts(3)).eval()
    ctx = Context(config, folder, SYSTEM.settings.facts(3))
    said = []
    ctx.progress.say = said.append
    found = run_evaluation(SYSTEM, ctx, model, Viewed(LAYOUTS["folder"].read(folder, "test"), config.data))
    return found, said


def people(folder, query, ranked):
    for part, names in (("train", ["x_1_a.jpg"]), ("query", query), ("gallery", ranked)):
        for seed, name in enumerate(names):
            picture(folder / part / name, seed)


def test_a_query_nobody_in_the_gallery_matches_is_counted_and_left_out(tmp_path):
    people(tmp_path, ["a_1_x.jpg", "b_1_x.jpg"], ["a_2_x.jpg", "c_1_x.jpg"])
    found, said = judge(tmp_path)
    assert found["unmatched"] == 1
    assert said == ["1 of 2 queries have no match and are not evaluated"]
    assert found["rank5"] == 100


def test_one_camera_only_cannot_be_judged(tmp_path):
    people(tmp_path, ["a_1_x.jpg"], ["a_1_y.jpg", "b_1_x.jpg"])
    with pytest.raises(VergenceError, match="no query has a match from another camera.*all pictures are from camera 1"):
        judge(tmp_path)


def test_reranking_and_trapezoids_are_a_matter_of_the_protocol(tmp_path):
    names = [f"{who}_{camera}_{shot}.jpg" for who in "abcd" for camera in (1, 2) for shot in range(3)]
    people(tmp_path, [n for n in names if n.endswith("0.jpg")], [n for n in names if not n.endswith("0.jpg")])
    plain = judge(tmp_path)[0]
    trapezoid = judge(tmp_path, {"protocol.area": "trapezoid"})[0]
    assert trapezoid["map"] != plain["map"]
    assert trapezoid["rank1"] == plain["rank1"]
    again = judge(tmp_path, {"protocol.rerank": True, "protocol.k1": 4, "protocol.k2": 2})[0]
    assert again.keys() == plain.keys()


def test_refined_parts_are_trained_in_two_phases_and_kept_in_the_file(tmp_path):
    changes = {**FEW, "stripes.batch": 16, "refine.batch": 16}
    run = start("csalr", short(SYSTEM, 2, changes, variant="rpp-none"), tmp_path, variant="rpp-none")
    execute(run, Progress())
    assert [r["phase"] for r in run.records() if "losses" in r] == ["stripes", "stripes", "refine", "refine"]
    assert identify(run.weights).facts.refined is True
    assert "pool.classify.weight" in load_model(run.weights)[0].state_dict()


def test_a_missing_imagenet_file_is_said_with_what_to_do(tmp_path):
    config = short(SYSTEM, 2, {**FEW, "pretrained": "nowhere.pth"}, variant="none")
    with pytest.raises(VergenceError, match="nowhere.pth does not exist.*--pretrained ''"):
        execute(start("csalr", config, tmp_path), Progress())


def test_imagenet_weights_start_a_run_and_are_said_with_their_path(tmp_path):
    config = short(SYSTEM, 1, FEW, variant="none")
    backbone = SYSTEM.build(config, SYSTEM.settings.facts(4)).backbone
    path = tmp_path / "tiny.safetensors"
    save_tensors(path, backbone.state_dict())
    said = []
    progress = Progress()
    progress.say = said.append
    execute(start("csalr", dataclasses.replace(config, pretrained=str(path)), tmp_path / "runs"), progress)
    assert f"the backbone starts from ImageNet weights, the rest is new ({path})" in said
    assert SYSTEM.configure("paper").pretrained in SYSTEM.settings.assets


def test_balanced_batches_train_too(tmp_path):
    changes = {**FEW, "data.sampler": "balanced", "train.batch": 16, "data.erase": 0.5}
    run = start("csalr", short(SYSTEM, 2, changes, variant="none"), tmp_path, variant="none")
    assert execute(run, Progress())["map"] > 0


def test_pictures_show_lists_and_both_kinds_of_maps(tmp_path):
    config = SYSTEM.configure("tiny", "csalr", FEW)
    facts = SYSTEM.settings.facts(3)
    models = {v: SYSTEM.build(SYSTEM.configure("tiny", v), facts).eval() for v in ("none", "csalr")}
    ctx = Context(config, tmp_path, facts)
    with torch.no_grad():
        made = SYSTEM.pictures(ctx, models, SYSTEM.data(ctx, "test"))
    assert [artifact.path.name for artifact in made] == ["matches.png", "attention.png", "landmarks.png"]
    for artifact in made:
        with Image.open(artifact.path) as picture:
            assert min(picture.size) > 200
