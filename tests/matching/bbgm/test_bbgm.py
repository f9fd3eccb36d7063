"""bbgm: losses of every variant, the protocol, prediction on files, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.contract.inputs import InMemory, Point
from vergence.core.errors import VergenceError
from vergence.matching.bbgm.bench import kept, made
from vergence.matching.bbgm.model import Costs, Graphs, build
from vergence.matching.bbgm.settings import SETTINGS, Inputs, ModelConfig
from vergence.matching.bbgm.system import SYSTEM, agreement, matched, plan_of
from vergence.matching.keypoints import Marked, Pool, Sets
from vergence.ops.graph_matching import match_graphs

SIDE = 32


def pool(count=6):
    source = np.random.default_rng(0)
    pictures = []
    for _ in range(count):
        places = {str(n): tuple(source.uniform(0.1, 0.9, 2)) for n in source.permutation(7)[:5]}
        pixels = torch.from_numpy(source.integers(0, 255, (3, SIDE, SIDE), dtype=np.uint8))
        pictures.append(Marked("thing", pixels, places))
    return Pool(tuple(pictures))


def config(variant="bbgm"):
    return SETTINGS.configure("tiny", variant, {"data.side": SIDE})


def network(settings):
    torch.manual_seed(0)
    return build(settings.model)


@pytest.mark.parametrize("variant", SETTINGS.variants)
def test_every_variant_learns_from_a_batch_and_is_scored(variant, tmp_path):
    settings = config(variant)
    ctx, model = Context(settings, tmp_path), network(settings)
    sets = Sets(pool(), 4, SIDE)
    batch = sets.collate([sets[index] for index in range(4)])
    before = {name: own.detach().clone() for name, own in model.named_parameters()}
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(2):
        loss = SYSTEM.losses(ctx, model, batch)["hamming"]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    changed = {name for name, own in model.named_parameters() if not torch.equal(own, before[name])}
    assert {name.split(".")[0] for name in changed} >= {"trunk"}
    assert ("splines.0.weight" in changed) == (variant != "no-spline")
    assert ("edge_affinity.gate.weight" in changed) == (variant not in ("unary", "sinkhorn", "no-attention"))
    views = settings.data.views
    with torch.no_grad():
        scores = SYSTEM.evaluate(ctx, model.eval(), Sets(pool(), 3, SIDE, views))
    assert set(scores) == set(SETTINGS.metrics)
    assert all(0 <= value <= 100 for value in scores.values())


def test_the_loss_counts_wrong_and_missed_matches_of_the_solver(tmp_path):
    settings = replace(config(), loss=replace(config().loss, margin=0.0))
    ctx, model = Context(settings, tmp_path), network(settings).eval()
    sets = Sets(pool(), 4, SIDE)
    batch = sets.collate([sets[index] for index in range(4)])
    with torch.no_grad():
        loss = float(SYSTEM.losses(ctx, model, batch)["hamming"])
        partners = [partner for partner, _ in matched(settings, model, batch)]
    total = 0
    for partner, sample in zip(partners, (sets[index] for index in range(4)), strict=True):
        true = {(i, j) for i, a in enumerate(sample["labels"][0].tolist()) for j, b in
                enumerate(sample["labels"][1].tolist()) if a == b}  # fmt: skip
        total += len(true ^ {(i, j) for i, j in enumerate(partner.tolist()) if j >= 0})
    assert loss == pytest.approx(total / 4)


def test_forced_matches_are_as_many_as_possible_and_cost_what_they_cost():
    settings = ModelConfig(maximum=True)
    one = made(5, 1)[0]
    costs = Costs(one.nodes.unsqueeze(0).abs() + 0.1, one.edges.unsqueeze(0) * 0)
    edges = torch.full((1, 2, max(len(one.left), len(one.right)), 2), -1)
    edges[0, 0, : len(one.left)], edges[0, 1, : len(one.right)] = one.left, one.right
    found = Graphs.of(edges, torch.tensor([[5, 5]]), settings).matchings(costs)[0]
    assert (found.partner >= 0).all()
    assert found.cost == pytest.approx(float(costs.nodes[0, torch.arange(5), found.partner].sum()))
    assert found.optimal


def test_a_plan_has_all_mass_and_its_agreement_is_the_expected_one():
    settings, cost = config("sinkhorn"), torch.randn(1, 4, 5, generator=torch.Generator().manual_seed(0))
    plan = plan_of(replace(settings, loss=replace(settings.loss, iterations=500)), cost[0], (4, 5))
    assert torch.allclose(plan[:4].sum(1), torch.ones(4), atol=1e-3)
    assert torch.allclose(plan[:, :5].sum(0), torch.ones(5), atol=1e-3)
    own, plan = agreement(settings, cost, torch.tensor([[4, 5]]))[0], plan_of(settings, cost[0], (4, 5))
    assert float(own[1, 2]) == pytest.approx(float(plan[1, 5] + plan[4, 2] - plan[1, 2]), abs=1e-6)


def test_costs_that_are_not_numbers_are_one_sentence():
    graphs = Graphs.of(torch.full((1, 2, 1, 2), -1), torch.tensor([[2, 2]]), ModelConfig())
    with pytest.raises(VergenceError, match="4 node costs are not finite"):
        graphs.matchings(Costs(torch.full((1, 2, 2), torch.nan), torch.zeros(1, 1, 1)))


def test_dual_ascent_is_near_the_kept_optima():
    problems, optima = zip(*kept(), strict=True)
    gaps = [(one.cost - best) / abs(best) for one, best in zip(match_graphs(problems, "dual"), optima, strict=True)]
    assert len(gaps) == 10
    assert min(gaps) > -1e-6
    assert sum(gaps) / len(gaps) < 0.005


def test_vgg_weights_start_the_trunk_and_others_are_refused():
    settings = config()
    model = network(settings)
    theirs = {name: torch.full_like(own, 0.5) for name, own in model.trunk.state_dict().items()}
    told = SYSTEM.load_pretrained(settings, model, theirs | {"classifier.0.weight": torch.zeros(3, 3)})
    assert told.startswith(f"{len(theirs)} of ")
    assert float(model.trunk.features[0].weight.detach().mean()) == 0.5
    with pytest.raises(VergenceError, match="no convolutions for the trunk"):
        SYSTEM.load_pretrained(settings, model, {"fc.weight": torch.zeros(2, 2)})


@pytest.mark.parametrize(
    "changes",
    [{"model.taps": (3, 3)}, {"model.seconds": 0.0}, {"data.outliers": 1.0}, {"data.side": 8}, {"loss.strength": 0.0}],
)
def test_settings_that_cannot_be_are_refused(changes):
    with pytest.raises(VergenceError):
        SETTINGS.configure("tiny", "bbgm", changes)


# Prediction -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def ctx(tmp_path):
    return Context(config(), tmp_path)


def given(a, b, **others):
    source = np.random.default_rng(3)
    first, second = (InMemory(name, source.integers(0, 255, (40, 60, 3), dtype=np.uint8)) for name in ("a", "b"))
    points = [tuple(Point(*place) for place in own) for own in (a, b)]
    return Inputs(first, second, places_a=points[0], places_b=points[1], **others)


SOME = [(5, 6), (50, 8), (30, 35), (12, 30)]


@pytest.mark.parametrize(
    ("a", "b"),
    [(SOME, SOME[:2]), (SOME[:1], SOME[:1]), ([(1, 1), (2, 2), (3, 3), (9, 9)], SOME), (SOME[:2], SOME)],
)
def test_few_and_collinear_keypoints_are_matched(a, b, ctx):
    model = network(ctx.config).eval()
    for solver in ("auto", "milp", "dual"):
        with torch.no_grad():
            result = SYSTEM.infer(ctx, model, given(a, b, solver=solver))
        (partner,) = result.partners
        used = [j for j in partner.tolist() if j >= 0]
        assert len(partner) == len(a)
        assert len(set(used)) == len(used) <= min(len(a), len(b))
        if solver != "dual":
            assert result.optimal
            assert result.summary()["proven optimal"] == "yes"


def test_little_time_gives_the_best_so_far_and_says_so(ctx):
    many = [(7 * n % 59, 11 * n % 39) for n in range(20)]
    with torch.no_grad():
        result = SYSTEM.infer(ctx, network(ctx.config).eval(), given(many, many, solver="milp", seconds=0.001))
    assert not result.optimal
    assert result.bound < result.cost < 0
    assert "above the least possible" in result.summary()["proven optimal"]


def test_three_pictures_are_matched_consistently(ctx, tmp_path):
    more = tmp_path / "c.png"
    Image.fromarray(np.random.default_rng(5).integers(0, 255, (30, 30, 3), dtype=np.uint8)).save(more)
    (tmp_path / "c.csv").write_text("x,y\n3,4\n20,9\n15,25\n")
    with torch.no_grad():
        result = SYSTEM.infer(ctx, network(ctx.config).eval(), given(SOME, SOME, more=(more,)))
    assert result.pairs == ((0, 1), (0, 2), (1, 2))
    one, other, last = result.partners
    for i, j in enumerate(one.tolist()):
        if j >= 0 and last[j] >= 0:
            assert other[i] == last[j]
    with pytest.raises(VergenceError, match=r"d\.png has no keypoints: expected d\.csv"):
        (tmp_path / "d.png").write_bytes(more.read_bytes())
        SYSTEM.infer(ctx, network(ctx.config), given(SOME, SOME, more=(tmp_path / "d.png",)))


@pytest.mark.parametrize(
    ("a", "said"),
    [
        ([], "a has no keypoints"),
        ([(5, 6), (5, 6)], "two keypoints at 5, 6: '1' and '2'"),
        ([(70, 6)], "at 70, 6 is outside of a, which has 60 x 40"),
        ([(n % 59, n // 59) for n in range(101)], "101 keypoints, at most 100"),
    ],
)
def test_keypoints_that_cannot_be_matched_are_one_sentence(a, said, ctx):
    with pytest.raises(VergenceError, match=said):
        SYSTEM.infer(ctx, network(ctx.config), given(a, SOME))
    with pytest.raises(VergenceError, match="enumerate is for up to 6"):
        SYSTEM.infer(ctx, network(ctx.config), given(SOME * 1, [(n, n * n % 30) for n in range(7)], solver="enumerate"))


def test_files_of_a_prediction_hold_the_matches(ctx, tmp_path):
    inputs = given(SOME, SOME)
    with torch.no_grad():
        result = SYSTEM.infer(ctx, network(ctx.config).eval(), inputs)
    files = {artifact.path.name: artifact.path for artifact in SYSTEM.render(ctx, inputs, result)}
    told = json.loads(files["matches.json"].read_text())
    assert told["optimal"] is True
    assert len(told["matches"]) == int((result.partners[0] >= 0).sum())
    rows = files["matches.csv"].read_text().splitlines()
    assert rows[0] == "first,second,a,b,x_a,y_a,x_b,y_b,cost"
    assert len(rows) == 1 + len(told["matches"])
    assert files["matches.png"].stat().st_size > 1000


def test_points_from_a_file_and_from_places_at_once_are_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (20, 20)).save("a.png")
    Path("a.csv").write_text("x,y\n1,2\n")
    args = [
        "predict",
        "bbgm",
        "a.png",
        "a.png",
        "--points-a",
        "a.csv",
        "--places-a",
        "1,2",
        "--points-b",
        "a.csv",
        "--quiet",
    ]
    code = main(args)
    assert code == 2
    assert capsys.readouterr().err.count("\n") == 1
