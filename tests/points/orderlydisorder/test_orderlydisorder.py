"""Tests of orderlydisorder only."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from vergence import catalogue
from vergence.contract.context import Context
from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.points.orderlydisorder import predict
from vergence.points.orderlydisorder.model import build, decompose, mapping_deviation
from vergence.points.orderlydisorder.settings import Config, Inputs, Loss, ModelConfig
from vergence.points.shapes import Objects, ShapeFacts

PARTS = ShapeFacts(2, ("mug", "table"), (2, 2), ("mug body", "mug handle", "table top", "table leg"))
CPU = torch.device("cpu")


def context(tmp_path, facts, model=ModelConfig(width=8, neighbours=6), **data):
    config = Config(model, Objects(points=128, **data))
    return Context(config, tmp_path, facts, generator=torch.Generator().manual_seed(0), stage="predict")


def network(ctx):
    torch.manual_seed(0)
    return build(ctx.config.model, ctx.facts).eval().requires_grad_(False)


def test_a_cloud_with_fewer_points_than_clones_is_refused():
    with pytest.raises(VergenceError, match="3 points cannot be split into 4 clones"):
        decompose(1, 3, 4, generator(0), CPU)


def test_points_that_do_not_fill_the_clones_are_left_over():
    assert decompose(2, 19, 4, generator(0), CPU).shape == (2, 4, 4)


def test_the_control_sees_one_clone_only():
    model = ModelConfig(width=8, neighbours=6, alone=True)
    net = build(model, ShapeFacts(3)).eval()
    points = torch.randn(2, 64, 3)
    out = predict.decomposed(net, points, torch.zeros(2, dtype=torch.long), generator("same"))
    assert out["clones"].shape == (2, 32, 1)
    seen = decompose(2, 64, 4, generator("same"), CPU)[:, 0]
    moved = torch.full_like(points, 9.0).scatter(
        1, seen[..., None].expand(-1, -1, 3), points.gather(1, seen[..., None].expand(-1, -1, 3))
    )
    again = predict.decomposed(net, moved, torch.zeros(2, dtype=torch.long), generator("same"))
    torch.testing.assert_close(again["logits"], out["logits"])


def test_a_category_changes_the_parts_only_where_it_is_used(tmp_path):
    points, split = torch.randn(1, 64, 3), decompose(1, 64, 4, generator(0), CPU)
    for used in (True, False):
        ctx = context(tmp_path, PARTS, ModelConfig(width=8, neighbours=6, category=used))
        net = network(ctx)
        one, other = (net(points, split, torch.tensor([label]))["logits"] for label in (0, 1))
        assert one.shape == (1, 64, 4)
        assert torch.equal(one, other) != used


def test_part_logits_follow_their_points_for_all_networks(tmp_path):
    points, order = torch.randn(1, 48, 3), torch.randperm(48, generator=generator(3))
    for kind in ("pattern", "dgcnn", "pointnet"):
        net = network(context(tmp_path, PARTS, ModelConfig(kind, width=8, neighbours=6, clones=1)))
        split, label = torch.arange(48).view(1, 1, -1), torch.zeros(1, dtype=torch.long)
        ours, moved = net(points, split, label)["logits"], net(points[:, order], split, label)["logits"]
        torch.testing.assert_close(moved, ours[:, order], atol=1e-5, rtol=1e-4)


def test_the_mapping_loss_falls_when_it_is_minimised():
    psi = torch.randn(8, 32, 4, generator=generator(0)).requires_grad_()
    phi = torch.randn(8, 32, generator=generator(1)).requires_grad_()
    optimiser = torch.optim.Adam([psi, phi], 0.05)
    before = mapping_deviation(psi, phi).mean()
    for _ in range(60):
        optimiser.zero_grad()
        mapping_deviation(psi, phi).mean().backward()
        optimiser.step()
    assert float(mapping_deviation(psi, phi).mean().detach()) < 0.1 * float(before.detach())


def test_descriptors_of_zeros_have_a_finite_mapping_loss():
    psi = torch.zeros(2, 16, 4, requires_grad=True)
    loss = mapping_deviation(psi, torch.zeros(2, 16))
    (gradient,) = torch.autograd.grad(loss.sum(), psi)
    assert float(loss.detach().sum()) == 0
    assert gradient.isfinite().all()


def test_parts_of_a_cloud_are_named_and_written(tmp_path):
    ctx = context(tmp_path, PARTS, task="parts")
    np.save(tmp_path / "thing.npy", np.random.default_rng(0).normal(size=(300, 3)))
    inputs = Inputs(tmp_path / "thing.npy", category="Table", votes=3)
    result = predict.recognise(ctx, network(ctx), inputs)
    assert result.label == "table"
    assert result.part_names == ("table top", "table leg")
    assert result.parts.shape == (300,)
    assert sum(result.scores.values()) == pytest.approx(1)
    artifacts = predict.render(ctx, inputs, result)
    assert {artifact.path.suffix for artifact in artifacts} == {".json", ".csv", ".ply", ".html", ".png"}
    assert json.loads((tmp_path / "thing.json").read_text())["label"] == "table"


def test_without_a_category_one_of_those_known_is_chosen(tmp_path):
    ctx = context(tmp_path, PARTS, task="parts")
    np.save(tmp_path / "thing.npy", np.random.default_rng(0).normal(size=(200, 3)))
    assert predict.recognise(ctx, network(ctx), Inputs(tmp_path / "thing.npy")).label in PARTS.labels


@pytest.mark.parametrize(
    ("points", "given", "sentence"),
    [
        (np.zeros((100, 3)), {}, "all of its 100 points in one place"),
        (np.random.default_rng(0).normal(size=(5, 3)), {}, "has 5 points: expected at least 16"),
        (np.random.default_rng(0).normal(size=(90, 3)), {"category": "mugg"}, "know no category 'mugg'.*mug"),
    ],
)
def test_clouds_of_no_object_are_refused(points, given, sentence, tmp_path):
    ctx = context(tmp_path, PARTS, task="parts")
    np.save(tmp_path / "thing.npy", points)
    with pytest.raises(VergenceError, match=sentence):
        predict.recognise(ctx, network(ctx), Inputs(tmp_path / "thing.npy", **given))


def test_a_category_is_refused_by_a_classifier(tmp_path):
    ctx = context(tmp_path, ShapeFacts(2, ("mug", "table")))
    np.save(tmp_path / "thing.npy", np.random.default_rng(0).normal(size=(90, 3)))
    with pytest.raises(VergenceError, match="--category is for weights that segment parts"):
        predict.recognise(ctx, network(ctx), Inputs(tmp_path / "thing.npy", category="mug"))


def test_parts_need_data_that_has_some(tmp_path):
    system = catalogue.load("orderlydisorder")
    for split in ("train", "test"):
        (tmp_path / split / "mug").mkdir(parents=True)
        np.save(tmp_path / split / "mug" / "a.npy", np.random.default_rng(0).normal(size=(40, 3)))
    config = dataclasses.replace(Config(), data=Objects(str(tmp_path), task="parts"))
    with pytest.raises(VergenceError, match="has no parts"):
        system.data(Context(config, tmp_path), "train")


SENSELESS = {
    "clones": lambda: ModelConfig(clones=0),
    "dropout": lambda: ModelConfig(dropout=1.0),
    "mapping": lambda: Loss(mapping=-1),
    "scale": lambda: Objects(scale=(1.0, 0.5)),
    "points": lambda: Objects(points=0),
    "facts": lambda: ShapeFacts(2, ("a",)),
}


@pytest.mark.parametrize("make", SENSELESS.values(), ids=list(SENSELESS))
def test_settings_without_sense_are_refused(make):
    with pytest.raises(VergenceError, match="got|are not the facts"):
        make()


def test_disturbed_data_is_evaluated_in_the_final_test_only(tmp_path):
    system = catalogue.load("orderlydisorder")
    config = system.configure(
        "tiny", changes={"data.objects": 64, "data.points": 64, "data.pool": 64, "model.width": 8}
    )
    ctx = Context(config, tmp_path, generator=torch.Generator().manual_seed(0))
    data = system.data(ctx, "test")
    ctx.facts = system.facts(ctx, data)
    net = network(ctx)
    for stage, names in (("validate", {"accuracy"}), ("test", {"noise_10", "missing", "density", "turned"})):
        ctx.stage = stage
        scores = system.evaluate(ctx, net, data)
        assert names <= set(scores)
        assert ("noise_10" in scores) == (stage == "test")


@pytest.mark.parametrize(("preset", "files"), [("tiny", {"robustness", "disturbed"}), ("tiny-parts", {"parts"})])
def test_trained_networks_are_drawn_side_by_side(preset, files, tmp_path, monkeypatch):
    monkeypatch.setattr("vergence.points.orderlydisorder.pictures.SHAPES", 2)
    system = catalogue.load("orderlydisorder")
    changes = {"data.objects": 54, "data.points": 48, "data.pool": 48, "model.width": 4, "model.neighbours": 4}
    ctx = Context(system.configure(preset, changes=changes), tmp_path, generator=torch.Generator().manual_seed(0))
    data = system.data(ctx, "test")
    ctx.facts = system.facts(ctx, data)
    models = {v: build(system.configure(preset, v, changes).model, ctx.facts).eval() for v in ("pattern", "pointnet")}
    with torch.no_grad():
        artifacts = system.pictures(ctx, models, data)
    assert {artifact.path.stem for artifact in artifacts} == files
    assert all(artifact.path.stat().st_size > 5000 for artifact in artifacts)
