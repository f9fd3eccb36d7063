"""FLOT's own: its model on odd clouds, the authors' weights, the floors, prediction in any axes."""

import json
import os
import struct

import numpy as np
import pytest
import torch

from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.contract.inputs import InMemory
from vergence.core.errors import VergenceError
from vergence.engine.weights import load_model_of
from vergence.points.flot import model as module
from vergence.points.flot.model import PUBLISHED, as_published, build, from_published
from vergence.points.flot.predict import _spread
from vergence.points.flot.settings import Inputs, ModelConfig
from vergence.points.flot.system import SYSTEM
from vergence.reference import scene_flow as plain

SMALL = ModelConfig(widths=(8, 8, 8), neighbours=6)


def clouds(n=40, m=30, kind=torch.float32, spread=6.0):
    source = torch.Generator().manual_seed(0)
    p, q = (spread * torch.rand(1, count, 3, generator=source) for count in (n, m))
    return p.to(kind), q.to(kind)


def network(model=SMALL, kind=torch.float32):
    torch.manual_seed(0)
    return build(model).to(kind).eval()


# Clouds of every kind ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", SYSTEM.variants)
def test_every_variant_takes_clouds_of_different_sizes(variant):
    config = SYSTEM.configure("tiny", variant)
    out = build(config.model)(*clouds(50, 30))
    assert {name: tuple(value.shape) for name, value in out.items()} == {"flow": (1, 50, 3), "before": (1, 50, 3)}
    out["flow"].sum().backward()


def test_points_out_of_reach_of_everything_stay_where_they_are():
    p, q = clouds()
    far = torch.cat([p, p.new_full((1, 1, 3), 1000.0)], 1)
    for model in (SMALL, ModelConfig(**{**vars(SMALL), "average": "guarded"})):
        for large in ({}, {"cpu": 0}):
            out = _with(large, lambda model=model: network(model)(far, q))
            assert (out["before"][0, -1] == 0).all()
            assert out["flow"].isfinite().all()
            assert (out["before"][0, :-1].abs() > 0).any()


def _with(large, run):
    before, module.LARGE = module.LARGE, large
    try:
        return run()
    finally:
        module.LARGE = before


def test_no_point_within_reach_at_all_gives_no_flow_and_finite_gradients():
    p, q = clouds()
    net = network()
    out = net(p, q + 500)
    assert (out["before"] == 0).all()
    out["flow"].sum().backward()
    assert all(w.grad is None or w.grad.isfinite().all() for w in net.parameters())


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 5), (5, 1), (2, 3)])
def test_clouds_of_a_point_or_two_have_a_flow(n, m):
    out = network()(*clouds(n, m))
    assert out["flow"].isfinite().all()
    if m == 1:
        p, q = clouds(n, m)
        torch.testing.assert_close(out["before"], q - p, atol=1e-5, rtol=1e-4)


def test_points_that_are_all_the_same_have_a_flow_and_a_gradient():
    net = network()
    p = torch.ones(1, 200, 3)
    out = net(p, p + 0.5)
    torch.testing.assert_close(out["before"], torch.full_like(p, 0.5))
    out["flow"].sum().backward()
    assert all(w.grad is None or w.grad.isfinite().all() for w in net.parameters())


@pytest.mark.parametrize(
    ("p", "q", "said"),
    [
        (torch.zeros(1, 0, 3), torch.zeros(1, 4, 3), r"N >= 1; got \(1, 0, 3\)"),
        (torch.zeros(1, 4, 3), torch.zeros(4, 3), r"got \(4, 3\)"),
        (torch.zeros(1, 4, 3), torch.zeros(1, 4, 2), r"got \(1, 4, 2\)"),
        (torch.zeros(1, 4, 3, dtype=torch.int64), torch.zeros(1, 4, 3), "of torch.int64"),
        (torch.zeros(2, 4, 3), torch.zeros(1, 4, 3), "one batch size and type; got 2"),
        (torch.zeros(1, 4, 3), torch.zeros(1, 4, 3).double(), "float64"),
    ],
)
def test_what_is_no_pair_of_clouds_is_refused(p, q, said):
    with pytest.raises(VergenceError, match=said):
        network()(p, q)


@pytest.mark.parametrize("cost", ["features", "distance"])
def test_blocks_within_reach_give_the_flow_of_all_pairs(cost):
    model = ModelConfig(widths=(8, 8, 8), neighbours=6, reach=3.0, iterations=2, cost=cost)
    net = network(model, torch.float64)
    p, q = clouds(300, 250, torch.float64, spread=20.0)
    results = []
    for large in ({}, {"cpu": 0}):
        flow = _with(large, lambda: net(p, q)["flow"])
        results.append((flow, *torch.autograd.grad(flow.square().sum(), list(net.parameters()))))
    for dense, blocks in zip(*results, strict=True):
        torch.testing.assert_close(blocks, dense)


def test_a_batch_is_its_scenes():
    net = network(kind=torch.float64)
    p, q = (torch.cat([c, c.flip(1) * 1.1]) for c in clouds(kind=torch.float64))
    together = net(p, q)["flow"]
    for i in range(2):
        torch.testing.assert_close(together[i : i + 1], net(p[i : i + 1], q[i : i + 1])["flow"])


def test_float32_is_near_float64():
    p, q = clouds(300, 300)
    low, high = network()(p, q)["flow"], network(kind=torch.float64)(p.double(), q.double())["flow"]
    assert (low - high).abs().max() < 1e-3


def test_the_nearest_and_the_still_are_what_their_names_say():
    p, q = clouds()
    nearest = network(ModelConfig(widths=(8,), matching="nearest"))(p, q)["before"]
    offsets = q[0][None] - p[0][:, None]
    expected = offsets[torch.arange(40), offsets.norm(dim=-1).argmin(1)]
    torch.testing.assert_close(nearest[0], expected)
    assert (network(ModelConfig(widths=(8,), matching="zero"))(p, q)["before"] == 0).all()


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"neighbours": 0}, "neighbours >= 1"), ({"reach": 0.0}, "reach > 0"), ({"widths": ()}, "one or more widths")],
)
def test_models_that_cannot_be_are_refused(changes, said):
    with pytest.raises(VergenceError, match=said):
        ModelConfig(**changes)


# The authors' weights ------------------------------------------------------------------------------------------------


def checkpoint(path, **changes):
    """As the authors saved theirs: names, shapes, and the number of iterations."""
    weights = {name: w.detach().clone() for name, w in as_published(build(ModelConfig())).items()}
    torch.save({"model": weights, "nb_iter": 1} | changes, path, _use_new_zipfile_serialization=False)
    return weights


def test_a_public_checkpoint_runs_as_its_authors_code_does(tmp_path):
    weights = checkpoint(tmp_path / "model.tar")
    ours, identity = load_model_of(SYSTEM, tmp_path / "model.tar")
    assert identity.config.model == ModelConfig(iterations=1, average="guarded")
    p, q = clouds(120, 100, torch.float64)
    expected = plain.flot(p, q, {name: w.double() for name, w in weights.items()})
    found = ours.double()(p, q)
    torch.testing.assert_close(found["flow"], expected["flow"])
    torch.testing.assert_close(found["before"], expected["before"])


@pytest.mark.parametrize(("name", "points"), [("model_8192", 8192), ("model_2048", 2048), ("my_1", 2048)])
def test_the_name_of_a_checkpoint_says_how_many_points_it_is_for(name, points, tmp_path):
    checkpoint(tmp_path / f"{name}.tar")
    assert SYSTEM.load_published(tmp_path / f"{name}.tar")[0].data.points == points


def test_the_names_of_a_checkpoint_are_all_there_are():
    with torch.device("meta"):
        own = build(ModelConfig()).state_dict()
    assert sorted(PUBLISHED.values()) == sorted(own)
    assert len(PUBLISHED) == 58


def test_published_names_and_back():
    net = build(ModelConfig())
    back = from_published(as_published(net))
    assert all((back[name] == w).all() for name, w in net.state_dict().items())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": {}}, "do not fit the model"),
        ({"nb_iter": None}, "expected 'model' and 'nb_iter'"),
        ({"model": {"gamma": 3}}, "is not tensors by name"),
        ({"model": {"gamma": torch.zeros(2)}}, "do not fit the model"),
    ],
)
def test_a_wrong_checkpoint_is_one_sentence(changes, said, tmp_path, capsys):
    checkpoint(tmp_path / "wrong.tar", **changes)
    assert main(["eval", "flot", "--weights", str(tmp_path / "wrong.tar"), "--quiet"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "wrong.tar" in error
    assert said in error


def test_a_file_that_would_run_code_is_refused(tmp_path, capsys):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    torch.save({"model": Evil(), "nb_iter": 1}, tmp_path / "evil.tar")
    (tmp_path / "text.tar").write_text("hello")
    for name in ("evil.tar", "text.tar"):
        assert main(["eval", "flot", "--weights", str(tmp_path / name), "--quiet"]) == 2
        assert name in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


def test_the_authors_own_file(tmp_path, capsys):
    path = os.environ.get("VERGENCE_FLOT_WEIGHTS", "")
    if not path:
        pytest.skip("VERGENCE_FLOT_WEIGHTS does not name the authors' model_2048.tar")
    net, _ = load_model_of(SYSTEM, type(tmp_path)(path))
    assert sum(p.numel() for p in net.parameters()) == 111_109
    torch.testing.assert_close(net.eps, torch.tensor([0.03]), atol=1e-4, rtol=0)  # Table 1: it ends at its floor
    torch.testing.assert_close(net.power, torch.tensor([0.50]), atol=0.01, rtol=0)  # and lambda here, for FT3D_o
    weights = {k: w.double() for k, w in torch.load(path, map_location="cpu", weights_only=True)["model"].items()}
    p, q = clouds(300, 280, torch.float64, spread=25.0)
    torch.testing.assert_close(net.double()(p, q)["flow"], plain.flot(p, q, weights)["flow"])


# Training and judging ------------------------------------------------------------------------------------------------


def test_points_whose_flow_is_unknown_count_for_nothing():
    ctx, net = Context(SYSTEM.configure("tiny"), None), network()
    p, q = clouds()
    mask = torch.arange(40).unsqueeze(0) % 2 == 0
    flow = torch.zeros_like(p)
    loss = SYSTEM.losses(ctx, net, {"p": p, "q": q, "flow": flow, "mask": mask})["l1"]
    error = (net(p, q)["flow"] - flow)[mask]
    torch.testing.assert_close(loss, error.abs().mean())
    flow[~mask] = 1e6
    assert SYSTEM.losses(ctx, net, {"p": p, "q": q, "flow": flow, "mask": mask})["l1"] == loss
    none = SYSTEM.losses(ctx, net, {"p": p, "q": q, "flow": flow, "mask": mask & False})["l1"]
    assert none == 0


class _Scenes:
    def __init__(self, scenes):
        self.scenes = scenes

    def __len__(self):
        return len(self.scenes)

    def __getitem__(self, index):
        return self.scenes[index]


def test_scores_are_means_over_scenes_not_points(tmp_path):
    net = network(ModelConfig(widths=(8,), matching="zero"))
    for w in net.last.parameters():
        torch.nn.init.zeros_(w)  # no flow before h and after it
    scenes = []
    for count, length, known in ((10, 1.0, True), (40, 2.0, True), (5, 9.0, False)):
        p, q = clouds(count, 7)
        flow = torch.tensor([length, 0, 0]).expand(count, 3)
        scenes.append({"p": p[0], "q": q[0], "flow": flow, "mask": torch.full((count,), known)})
    ctx = Context(SYSTEM.configure("tiny", "zero"), tmp_path)
    with torch.no_grad():
        found = SYSTEM.evaluate(ctx, net, _Scenes(scenes))
        assert found["epe"] == pytest.approx(1.5)
        assert found["epe_before"] == pytest.approx(1.5)
        assert (found["strict"], found["outliers"]) == (0, 100)
        assert "eps" not in found
        with pytest.raises(VergenceError, match="nothing to evaluate"):
            SYSTEM.evaluate(ctx, net, _Scenes(scenes[2:]))


def test_a_perfect_world_needs_rows_that_correspond(tmp_path, capsys):
    for split in ("train", "test"):
        (tmp_path / split).mkdir()
        np.savez(tmp_path / split / "a.npz", points1=np.ones((3, 3)), points2=np.ones((3, 3)), flow=np.ones((3, 3)))
    config = SYSTEM.configure("tiny", changes={"data.source": f"folder:{tmp_path}", "data.world": "perfect"})
    with pytest.raises(VergenceError, match="has no perfect world"):
        SYSTEM.data(Context(config, tmp_path), "train")


# Prediction ----------------------------------------------------------------------------------------------------------


def flow_of(ctx, net, p, q, axes, points):
    inputs = Inputs(InMemory("p.npy", p), InMemory("q.npy", q), axes, points)
    return SYSTEM.infer(ctx, net, inputs).flow


def test_several_pairs_in_one_call_give_what_they_give_alone(tmp_path):
    ctx, net = Context(SYSTEM.configure("tiny"), tmp_path), network()
    pairs = [tuple(cloud[0] + n for cloud in clouds(50 + 10 * (n == 3), 60)) for n in range(6)]
    inputs = [Inputs(InMemory("p.npy", p), InMemory("q.npy", q)) for p, q in pairs]
    together = SYSTEM.infer_many(ctx, net, inputs)
    for each, result in zip(inputs, together, strict=True):
        torch.testing.assert_close(result.flow, SYSTEM.infer(ctx, net, each).flow, atol=1e-5, rtol=1e-5)


def test_the_flow_is_in_the_axes_of_the_cloud(tmp_path):
    ctx, net = Context(SYSTEM.configure("tiny"), tmp_path), network()
    p, q = (cloud[0] for cloud in clouds(50, 60))
    camera = flow_of(ctx, net, p, q, "camera", 0)
    to_lidar = [2, 0, 1]  # forward, left, up
    lidar = flow_of(ctx, net, p[:, to_lidar].contiguous(), q[:, to_lidar].contiguous(), "lidar", 0)
    torch.testing.assert_close(lidar, camera[:, to_lidar])


def test_points_that_were_not_matched_take_the_flow_of_those_around_them(tmp_path):
    at = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [50, 50, 50]])
    values = torch.tensor([[1.0, 0, 0], [3, 0, 0], [3, 0, 0], [9, 9, 9]])
    spread = _spread(values, at, torch.tensor([[0.0, 0, 0], [0.5, 0.5, 0]]))
    torch.testing.assert_close(spread, torch.tensor([[1.0, 0, 0], [7 / 3, 0, 0]]), atol=1e-4, rtol=0)
    flow = flow_of(
        Context(SYSTEM.configure("tiny"), tmp_path), network(), *(c[0] for c in clouds(90, 80)), "camera", 30
    )
    assert flow.shape == (90, 3)
    assert flow.isfinite().all()


def test_by_default_as_many_points_are_matched_as_the_weights_were_trained_with(tmp_path):
    config = SYSTEM.configure("tiny", changes={"data.points": 30})
    net, (p, q) = network(), (c[0] for c in clouds(90, 80))
    default, named, other = (flow_of(Context(config, tmp_path), net, p, q, "camera", n) for n in (None, 30, 40))
    assert torch.equal(default, named)
    assert not torch.equal(default, other)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros((0, 3), np.float32), "without points"),
        (np.full((4, 3), np.nan, np.float32), "not finite"),
        (np.array([["a"] * 3]), "not numbers"),
        (np.zeros((4, 2), np.float32), "not (N, 3)"),
    ],
)
def test_a_bad_cloud_is_one_sentence_and_nothing_is_written(array, said, here, capsys):
    np.save("good.npy", np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32))
    np.save("bad.npy", array)
    checkpoint(here / "model.tar")
    args = ["predict", "flot", "good.npy", "bad.npy", "--weights", "model.tar", "-o", "out", "--quiet"]
    assert main(args) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "bad.npy" in error
    assert said in error
    assert not [p for p in (here / "out").rglob("*") if p.is_file()]


def test_prediction_gives_a_flow_for_every_point(here, capsys):
    np.save("one.npy", np.random.default_rng(0).normal(size=(30, 3)))  # float64
    (here / "two.ply").write_bytes(
        b"ply\nformat binary_little_endian 1.0\nelement vertex 2\nproperty float x\nproperty float y\n"
        b"property float z\nend_header\n" + struct.pack("<6f", *range(6))
    )
    checkpoint(here / "model.tar")
    assert (
        main(["predict", "flot", "one.npy", "two.ply", "--weights", "model.tar", "-o", "out", "--json", "--quiet"]) == 0
    )
    made = json.loads(capsys.readouterr().out)
    assert [artifact["kind"] for artifact in made["files"]] == ["table", "html", "image"]
    flow = np.load(made["files"][0]["path"])
    assert (flow.shape, flow.dtype) == ((30, 3), np.float32)
