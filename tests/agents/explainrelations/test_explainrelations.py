"""The system itself: what it learns, what it predicts, and what it says about bad input."""

import csv
import json

import numpy as np
import pytest
import torch

import vergence
from vergence import catalogue
from vergence.agents.explaining import relevance
from vergence.agents.explainrelations import exact
from vergence.agents.explainrelations.bench import public, public_relevance
from vergence.agents.explainrelations.model import PredicateCNN, RelationNetwork, build
from vergence.agents.explainrelations.settings import SETTINGS, Facts, Inputs, ModelConfig
from vergence.agents.explainrelations.system import candidates
from vergence.agents.graphs import Wiring
from vergence.agents.pool import Pool
from vergence.cli.main import main
from vergence.contract.inputs import Box
from vergence.core.errors import VergenceError

BOXES = [Box(30, 20, 12, 14), Box(10, 30, 65, 28), Box(40, 2, 30, 55)]


@pytest.fixture(scope="module")
def model():
    """The starter weights."""
    return vergence.load("explainrelations")


@pytest.fixture
def picture():
    return np.random.default_rng(0).integers(0, 255, (60, 80, 3), np.uint8)


def _predict(model, picture, **changes):
    given = {"boxes": BOXES, "classes": "cup, table, person"} | changes
    return model.predict(image=picture, **given)


def test_the_public_algorithm_of_the_bench_computes_the_same():
    network = exact.network()
    graphs = exact.batch([exact.objects(4, "public"), exact.objects(3, "code")]).graphs
    torch.testing.assert_close(public(network, graphs), network(*graphs))
    found = relevance(network, graphs, 2)
    y = found.logits.gather(1, found.chosen).sigmoid().mT
    slope = y * (1 - y)
    nodes, edges = public_relevance(network, graphs, 2)
    torch.testing.assert_close(edges, found.edges * slope[:, graphs.owner])
    torch.testing.assert_close(nodes, found.nodes * slope.repeat_interleave(graphs.counts, 1))


def test_parts_of_a_relevance_add_up_to_it():
    graphs = exact.batch([exact.objects(5, "parts")]).graphs
    found = relevance(exact.network(), graphs, 3)
    torch.testing.assert_close(found.node_parts.sum(2), found.nodes)
    torch.testing.assert_close(found.edge_parts.sum(2), found.edges)
    assert bool((found.node_parts > 0).any(1).all())


def test_relevance_works_where_gradients_are_off_and_leaves_none_behind():
    network = exact.network()
    graphs = exact.batch([exact.objects(3, "off")]).graphs
    with torch.no_grad():
        found = relevance(network, graphs, 2)
    assert bool((found.edges > 0).any())
    assert all(parameter.grad is None for parameter in network.parameters())
    assert not found.logits.requires_grad


@pytest.mark.parametrize("variant", list(SETTINGS.variants))
def test_every_variant_trains_a_step_and_ranks_triplets(variant):
    system = catalogue.load("explainrelations")
    config = SETTINGS.configure("tiny", variant)
    data = Pool("train", 4, Wiring(config.model.edges, 0 if config.data.graph == "human" else -1))
    facts = Facts(data.classes, data.predicates, data.channels)
    torch.manual_seed(7)
    network = build(config.model, facts)
    batch = data.collate([data[i] for i in range(4)])
    from vergence.contract.context import Context

    loss = system.losses(Context(config, None, facts), network, batch)["bce"]
    loss.backward()
    used = [p.grad is not None and bool(p.grad.any()) for p in network.parameters()]
    assert sum(used) > len(used) / 2
    _, found = candidates(network.eval(), batch, config)
    best = found["own"]
    assert len(best.score)
    assert bool(best.score.isfinite().all())


def test_gradcam_heats_what_raises_the_logit():
    torch.manual_seed(0)
    network = PredicateCNN("small", Facts(("a",), ("p", "q"), 3)).eval()
    images = torch.rand(2, 3, 48, 64)
    logits, heat = network.heat(images)
    torch.testing.assert_close(logits, network(images))
    maps = network.body(images).detach().requires_grad_()
    slope = torch.autograd.grad(network.head(maps)[1, 1], maps)[0][1].mean((1, 2))
    torch.testing.assert_close(heat[1, 1], torch.einsum("c,chw->hw", slope, maps[1].detach()).clamp(min=0))


def test_supervised_logits_of_a_picture_are_the_best_of_its_pairs():
    network = exact.filled(RelationNetwork(ModelConfig("supervised", width=16), exact.FACTS))
    graphs = exact.batch([exact.objects(4, "full"), exact.objects(1, "alone")]).graphs
    logits = network(*graphs)
    torch.testing.assert_close(logits[0], network.edge_logits(*graphs[:4]).amax(0))
    torch.testing.assert_close(logits[1], network.predicate.bias)


# Prediction -----------------------------------------------------------------------------------------------------------


def test_the_example_finds_the_cup_on_the_table(model):
    example = catalogue.folder("explainrelations") / "example"
    result = model.predict(image=example / "coffee.jpg", detections=str(example / "coffee.json"))
    assert result.predicates[int(result.chances.argmax())] == "on"
    assert result.sentences()[0] in ("cup on dining table", "plate on dining table", "cup on plate")


def test_a_result_says_what_it_rests_on_in_memory_and_in_files(model, picture, tmp_path):
    result = _predict(model, picture, triplets=6)
    assert len(result.triplets) == 6
    assert result.scores.tolist() == sorted(result.scores.tolist(), reverse=True)
    subject, pair, other = result.relevances.unbind(1)
    torch.testing.assert_close(result.rests[:, :3].sum(1), subject)
    torch.testing.assert_close(result.rests[:, 3:6].sum(1), other)
    torch.testing.assert_close(result.rests[:, 6:].sum(1), pair)
    result.save(tmp_path / "out")
    document = json.loads(next((tmp_path / "out").glob("*.json")).read_text())
    assert [row["triplet"] for row in document["triplets"]] == result.sentences()
    assert sum(document["triplets"][0]["rests on"].values()) == pytest.approx(1, abs=0.01)
    with next((tmp_path / "out").glob("*.csv")).open() as file:
        assert len(list(csv.DictReader(file))) == 6


def test_scores_follow_the_mode_and_the_prior(model, picture):
    by_mode = {m: _predict(model, picture, mode=m, prior="uniform") for m in ("paper", "normalised", "logit")}
    first = by_mode["logit"]
    y = first.chances[first.triplets[:, 1]]
    product = first.relevances.prod(1)
    torch.testing.assert_close(first.scores, y * product, rtol=1e-4, atol=1e-9)
    printed = by_mode["paper"]
    y = printed.chances[printed.triplets[:, 1]]
    slopes = (y * (1 - y)) ** 3
    torch.testing.assert_close(printed.scores, y * slopes * printed.relevances.prod(1), rtol=1e-4, atol=1e-12)
    known = _predict(model, picture, prior="frequency")
    assert known.scores.tolist() != by_mode["normalised"].scores.tolist()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"boxes": [], "classes": ""}, "objects come from --detections FILE or from --boxes"),
        ({"boxes": BOXES[:1], "classes": "cup"}, "only one object .* a relation needs two"),
        ({"classes": "cup, table"}, "got 3 boxes and 2 classes"),
        ({"classes": "cup, table, zebra"}, "'zebra' is not a class that the weights know"),
        ({"boxes": [*BOXES[:2], Box(500, 2, 30, 55)]}, "box 3 .* has no area inside the picture of 80 x 60"),
        ({"detections": "nowhere.json"}, "give one of them"),
        ({"boxes": (), "classes": "", "detections": "nowhere.json"}, "nowhere.json does not exist"),
        ({"score": 2.0}, "score is from 0 to 1"),
    ],
)
def test_bad_objects_are_refused_in_a_sentence(changes, said, model, picture):
    with pytest.raises(VergenceError, match=said) as refusal:
        _predict(model, picture, **changes)
    assert "\n" not in str(refusal.value)


def test_nothing_above_the_score_is_refused_by_the_command(model, picture, tmp_path, capsys):
    from PIL import Image

    Image.fromarray(picture).save(tmp_path / "photo.png")
    rows = [{"category": name, "bbox": [5, 5, 30, 30], "score": 0.2} for name in ("cup", "person")]
    (tmp_path / "d.json").write_text(json.dumps(rows))
    args = ["predict", "explainrelations", str(tmp_path / "photo.png"), "--detections", str(tmp_path / "d.json")]
    assert main([*args, "-o", str(tmp_path / "out"), "--quiet"]) == 2
    message = capsys.readouterr().err
    assert "photo.png has no object with a score of at least 0.3: a relation needs two" in message
    assert message.count("\n") == 1
    (tmp_path / "d.json").write_text("{")
    assert main([*args, "-o", str(tmp_path / "out"), "--quiet"]) == 2
    assert "d.json is not detections" in capsys.readouterr().err


def test_unknown_classes_may_be_skipped(model, picture):
    result = _predict(model, picture, classes="cup, table, zebra", unknown="skip")
    assert result.names == ("cup", "dining table")


def test_inputs_need_no_file_for_boxes():
    assert Inputs(None, boxes=(BOXES[0],), classes="a").names() == ["a"]
