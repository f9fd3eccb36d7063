"""GASM as a system: teachers from files, finding files, judging by the protocol, and answers to what does not fit."""

import csv
import dataclasses

import numpy as np
import pytest
import torch
from PIL import Image

from helpers import short, start
from reid.gasm import fixtures
from reid.picture_layouts import picture
from vergence import catalogue, load
from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.contract.identity import Identity
from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.core.progress import Progress
from vergence.data.images import read_image
from vergence.engine.evaluate import run_evaluation
from vergence.engine.execute import execute
from vergence.engine.weights import metadata
from vergence.reid.crowds import Population
from vergence.reid.data import LAYOUTS, Viewed, whole
from vergence.reid.gasm.model import described, pair_distances
from vergence.reid.gasm.settings import compared_by
from vergence.reid.gasm.system import ranked_distances

SYSTEM = catalogue.load("gasm")
SMALL = {"data.height": 48, "data.width": 24}


@pytest.fixture
def weights(tmp_path):
    """An untrained network in a file, which is all that prediction asks for."""

    def make(variant="gasm", seed=0):
        config, facts = SYSTEM.configure("tiny", variant, SMALL), SYSTEM.settings.facts(5)
        torch.manual_seed(seed)
        path = tmp_path / f"{variant}-{seed}.safetensors"
        identity = Identity("gasm", "tiny", variant, config, facts)
        save_tensors(path, SYSTEM.build(config, facts).state_dict(), metadata(identity, SYSTEM))
        return path

    return make


def predict(*args):
    return main(["predict", "gasm", *map(str, args), "-o", "out", "--quiet"])


def gallery(folder, count=5):
    for seed in range(count):
        picture(folder / f"{seed}.png", seed)


# Training from files --------------------------------------------------------------------------------------------------


def crops(folder, teachers=None, **changes):
    """A plain data set with its teachers' files."""
    for part, cameras in (("train", (1, 2)), ("query", (1,)), ("gallery", (2,))):
        for number, who in enumerate("ab"):
            for camera in cameras:
                name = f"{who if part == 'train' else who * 2}_{camera}_x"
                picture(folder / part / f"{name}.png", number)
                if part == "train":
                    fixtures.teacher((teachers or folder / "taught") / f"{name}.npz", **changes)
    return {"data.source": f"folder:{folder}", "data.each": 2, "train.batch": 4, **SMALL}


def test_a_folder_of_crops_trains_with_the_files_of_its_teachers(tmp_path):
    changes = crops(tmp_path / "d") | {"data.teachers": str(tmp_path / "d" / "taught"), "data.erase": 0.5}
    run = start("gasm", short(SYSTEM, 2, changes), tmp_path / "runs", variant="gasm")
    assert execute(run, Progress())["map"] > 0
    losses = next(r["losses"] for r in run.records() if "losses" in r)
    assert set(losses) >= {"identity", "triplet", "mask", "pose"}


def test_without_teachers_the_folder_is_asked_for_and_self_attention_needs_none(tmp_path):
    changes = crops(tmp_path / "d")
    with pytest.raises(VergenceError, match=r"learned from teachers.*--data\.teachers.*self-attention"):
        execute(start("gasm", short(SYSTEM, 1, changes), tmp_path / "a"), Progress())
    run = start("gasm", short(SYSTEM, 1, changes, variant="self-attention"), tmp_path / "b", variant="self-attention")
    assert execute(run, Progress())["map"] > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mask": np.ones((5, 5))}, r"a_1_x\.npz needs a mask of shape \(64, 24\) for its picture, got \(5, 5\)"),
        ({"keypoints": np.full((17, 3), 90.0)}, r"17 key points outside its picture of 24 x 64 pixels"),
    ],
)
def test_teachers_that_do_not_fit_their_picture_are_refused(tmp_path, changes, message):
    asked = crops(tmp_path / "d", tmp_path / "t", **changes) | {"data.teachers": str(tmp_path / "t")}
    ctx = Context(SYSTEM.configure("tiny", changes=asked), tmp_path)
    data = SYSTEM.data(ctx, "train")
    with pytest.raises(VergenceError, match=message):
        data.draw(0, torch.Generator())


# Finding --------------------------------------------------------------------------------------------------------------


def test_a_gallery_is_ranked_by_the_whole_distance_and_parts_are_drawn(weights, here):
    gallery(here / "g")
    Image.open("g/2.png").save("query.png")
    assert predict("--query", "query.png", "--gallery", "g", "--weights", weights(), "--top", "3") == 0
    rows = list(csv.reader((here / "out" / "matches.csv").open()))[1:]
    assert len(rows) == 3
    assert rows[0][2] == "g/2.png"
    assert float(rows[0][3]) < 0.01 < float(rows[1][3]) <= float(rows[2][3])
    with Image.open(here / "out" / "query-parts.png") as drawn:
        assert min(drawn.size) > 200
        assert np.asarray(drawn.convert("RGB")).std() > 20
    assert "the parts that were compared" in (here / "out" / "matches.html").read_text()


def test_distances_of_a_search_are_those_of_the_network(weights, here):
    gallery(here / "g")
    picture(here / "query.png", 9)
    model = load(weights())
    found = model.predict(query=[here / "query.png"], gallery=here / "g")
    assert [len(found.matches[0]), found.searched, len(found.parts[0])] == [5, 5, 3]
    config = SYSTEM.configure("tiny", "gasm", SMALL)
    torch.manual_seed(0)
    network = SYSTEM.build(config, SYSTEM.settings.facts(5)).eval()
    names = ["query.png", *(f"g/{i}.png" for i in range(5))]
    with torch.no_grad():
        seen = described(network, torch.stack([whole(config.data, read_image(here / n)) for n in names]))
        far = pair_distances(config.matching, type(seen)(*(x[:1] for x in seen)), type(seen)(*(x[1:] for x in seen)))
    expected = {f"{i}.png": float(far[0, i]) for i in range(5)}
    assert {m.name.rpartition("/")[2]: m.distance for m in found.matches[0]} == pytest.approx(expected, abs=1e-5)
    assert [m.distance for m in found.matches[0]] == sorted(m.distance for m in found.matches[0])
    assert float(found.saliency[0].sum()) == pytest.approx(1, abs=1e-5)


def test_the_baseline_searches_by_its_pooled_features_and_draws_no_parts(weights, here):
    gallery(here / "g")
    assert predict("--query", "g/0.png", "--gallery", "g", "--weights", weights("baseline")) == 0
    assert not (here / "out" / "0-parts.png").exists()
    assert len(list(csv.reader((here / "out" / "matches.csv").open()))) == 5  # all but itself


def test_an_index_needs_the_pictures_whose_parts_are_compared(weights, here):
    gallery(here / "g")
    picture(here / "query.png", 9)
    model, given = load(weights()), {"query": ["query.png"], "index": "i.safetensors"}
    first = model.predict(**given, gallery="g")
    assert model.predict(**given).matches == first.matches
    (here / "g" / "3.png").unlink()
    with pytest.raises(VergenceError, match="the index names a picture whose parts cannot be compared"):
        model.predict(**given)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "there is no query"),
        (["--query", "a.png"], "there is no gallery"),
        (["--query", "b.png", "--gallery", "g"], "b.png does not exist"),
        (["--query", "a.png", "--gallery", "empty"], "empty holds no pictures"),
        (["--query", "a.png", "--gallery", "g", "--lines", "0"], "1 to 200 lines"),
        (["--query", "a.png", "--gallery", "g", "--top", "0"], "at least one match"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(args, said, weights, here, capsys):
    gallery(here / "g", 1)
    picture(here / "a.png")
    (here / "empty").mkdir()
    assert predict(*args, "--weights", weights()) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (here / "out").exists() or not list((here / "out").iterdir())


# Judging --------------------------------------------------------------------------------------------------------------


def people(folder, query, ranked):
    for part, names in (("train", ["x_1_a.jpg"]), ("query", query), ("gallery", ranked)):
        for seed, name in enumerate(names):
            picture(folder / part / name, seed)


def judge(folder, changes=None, variant="gasm"):
    config = SYSTEM.configure("tiny", variant, {**SMALL, **(changes or {})})
    torch.manual_seed(0)
    model = SYSTEM.build(config, SYSTEM.settings.facts(3)).eval()
    ctx = Context(config, folder, SYSTEM.settings.facts(3))
    return run_evaluation(SYSTEM, ctx, model, Viewed(LAYOUTS["folder"].read(folder, "test"), config.data))


def test_a_single_camera_cannot_be_judged_nor_can_queries_without_a_match(tmp_path):
    people(tmp_path / "one", ["a_1_x.jpg"], ["a_1_y.jpg", "b_1_x.jpg"])
    with pytest.raises(VergenceError, match="no query has a match from another camera.*all pictures are from camera 1"):
        judge(tmp_path / "one")
    people(tmp_path / "none", ["a_1_x.jpg"], ["c_2_y.jpg", "b_1_x.jpg"])
    with pytest.raises(VergenceError, match="no query has a match.*no identity is in two cameras"):
        judge(tmp_path / "none")


def test_one_network_is_judged_by_every_way_of_comparing(tmp_path):
    names = [f"{who}_{camera}_{shot}.jpg" for who in "abcd" for camera in (1, 2) for shot in range(2)]
    people(tmp_path, names[::2], names[1::2])
    found = judge(tmp_path)
    for variant in ("global", "unweighted", "local", "dsr"):
        alone = judge(tmp_path, {"matching.compare": False}, variant)
        assert alone["map"] == pytest.approx(found[f"map_{variant}"])
        assert alone["rank1"] == pytest.approx(found[f"rank1_{variant}"])
        assert f"map_{variant}" not in alone
    assert "map_little" not in found  # nothing is known about what hides these


def test_large_galleries_compare_their_nearest_pictures_in_several_passes(tmp_path, monkeypatch):
    names = [f"{who}_{camera}_{shot}.jpg" for who in "abcd" for camera in (1, 2) for shot in range(2)]
    people(tmp_path, names[::2], names[1::2])
    config = SYSTEM.configure("tiny", "gasm", {**SMALL, "matching.full": 3, "matching.top": 3})
    torch.manual_seed(0)
    network = SYSTEM.build(config, SYSTEM.settings.facts(3)).eval()
    data = Viewed(LAYOUTS["folder"].read(tmp_path, "test"), config.data)
    ctx = Context(config, tmp_path, SYSTEM.settings.facts(3))
    every = dataclasses.replace(config, matching=dataclasses.replace(config.matching, full=100))
    with torch.no_grad():
        full = ranked_distances(Context(every, tmp_path), network, data, {"": every.matching})[""]
        monkeypatch.setattr("vergence.reid.gasm.system.HELD", 4 * 6 * 3 * 96 * 3)  # three queries at a time
        some = ranked_distances(ctx, network, data, {"": config.matching})[""]
        pooled = ranked_distances(ctx, network, data, {"": compared_by("global", config.matching)})[""]
    near = pooled.argsort(1)[:, :3]
    assert torch.allclose(some.gather(1, near), full.gather(1, near), atol=1e-3)  # a root of rounding
    assert torch.equal(some.argsort(1)[:, :3].sort(1).values, near.sort(1).values)
    assert torch.equal(some.argsort(1)[:, 3:], pooled.argsort(1)[:, 3:])


def test_reranking_is_for_pooled_features_only(tmp_path):
    with pytest.raises(VergenceError, match=r"--matching\.local none"):
        SYSTEM.configure("tiny", "gasm", {"protocol.rerank": True})
    names = [f"{who}_{camera}_{shot}.jpg" for who in "abcd" for camera in (1, 2) for shot in range(2)]
    people(tmp_path, names[::2], names[1::2])
    assert judge(tmp_path, {"protocol.rerank": True, "protocol.k1": 4, "protocol.k2": 2}, "global")["map"] > 0


def test_pictures_show_parts_maps_and_lists(tmp_path):
    config, facts, count = SYSTEM.configure("tiny", "gasm", SMALL), SYSTEM.settings.facts(3), 16
    source = torch.Generator().manual_seed(0)
    people = Population(
        torch.randint(256, (count, 3, 48, 24), generator=source).byte(),
        tuple(i % 4 + 1 for i in range(count)),
        tuple(i // 4 for i in range(count)),
        torch.ones(count, 48, 24, dtype=torch.bool),
        torch.randint(2, (count, 17, 3), generator=source).float(),
        queries=4,
    )
    models = {v: SYSTEM.build(SYSTEM.configure("tiny", v), facts).eval() for v in ("gasm", "baseline")}
    with torch.no_grad():
        drawn = SYSTEM.pictures(Context(config, tmp_path, facts), models, Viewed(people, config.data))
    assert [artifact.path.name for artifact in drawn] == ["parts.png", "saliency.png", "matches.png"]
    with Image.open(drawn[0].path) as picture:
        assert picture.size == (960, 640)
        quarters = np.asarray(picture.convert("L"), float).reshape(2, 320, 2, 480).std((1, 3))
    assert quarters.min() > 10  # a comparison in each
