"""What is this system's own: curriculum, masks, variants, protocols, and search on a user's files."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from retrieval_fixtures import class_folders, picture, revisited_matlab, units

from vergence import catalogue, create
from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.contract.identity import Identity
from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.engine.weights import metadata
from vergence.metrics.ranking import distances
from vergence.nn.descriptor import descriptor_network
from vergence.retrieval.data import Tuples
from vergence.retrieval.evaluator import Evaluator
from vergence.retrieval.lattqe.bench import near, trial, vectors
from vergence.retrieval.lattqe.model import LAttQE, Learned, contrastive, method_of, relevance_loss
from vergence.retrieval.lattqe.settings import Facts, ModelConfig
from vergence.retrieval.metrics import average_precision
from vergence.retrieval.synth import world
from vergence.search import Index
from vergence.search.expansion import expanded

SYSTEM = catalogue.load("lattqe")
SMALL = ModelConfig(layers=1, heads=2, width=8, ranks=5, dropout=0.0)


def batch(padded=True):
    torch.manual_seed(0)
    padding = torch.zeros(4, 6, dtype=torch.bool)
    padding[1:, 4:] = padded
    made = [torch.nn.functional.normalize(torch.randn(*s, 8), dim=-1) for s in ((4,), (4, 6), (4,), (4, 3))]
    return Tuples(made[0], made[1], padding, torch.rand(4, 6) > 0.5, made[2], made[3])


def context(phase="train", **changes):
    config = SYSTEM.configure("tiny", None, changes)
    return Context(config, Path("."), Facts(8), phase=phase)


# Losses and training --------------------------------------------------------------------------------------------------


def test_the_contrastive_loss_is_its_formula():
    made = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    positive, negatives = torch.tensor([[3.0, 4.0], [1.0, 0.0]]), torch.tensor([[[0.0, 0.04]], [[1.0, 0.5]]])
    assert float(contrastive(made, positive, negatives, 0.1)) == pytest.approx((25 + 0.06**2 + 0 + 0) / 2, rel=1e-5)


def test_a_negative_in_the_same_place_has_a_finite_gradient():
    made = torch.zeros(1, 3, requires_grad=True)
    contrastive(made, torch.ones(1, 3), torch.zeros(1, 1, 3), 0.1).backward()
    assert made.grad.isfinite().all()


def test_relevance_is_judged_only_where_there_are_neighbours():
    logits, relevant = torch.tensor([[0.0, 50.0]]), torch.tensor([[True, False]])
    assert float(relevance_loss(logits, relevant, torch.tensor([[False, True]]))) == pytest.approx(np.log(2))
    assert float(relevance_loss(logits, relevant, torch.tensor([[True, True]]))) == 0


def test_the_second_phase_moves_the_temperature_alone_and_keeps_the_weights():
    ctx, model = context("temper"), LAttQE(SMALL, 8)
    before = {name: p.clone() for name, p in model.named_parameters()}
    model = SYSTEM.start(ctx, model)
    assert ctx.facts.tempered
    losses = SYSTEM.losses(ctx, model, batch())
    sum(losses.values()).backward()
    assert set(losses) == {"contrastive"}
    assert [name for name, p in model.named_parameters() if p.requires_grad] == ["log_temperature"]
    assert model.log_temperature.grad.isfinite()
    assert float(model.log_temperature.grad) != 0
    assert all(torch.equal(dict(model.named_parameters())[name], p) for name, p in before.items())


def test_gradients_reach_every_weight_and_no_descriptor_is_moved():
    model, data = LAttQE(SMALL, 8), batch()
    for descriptor in (data.positive, data.negatives):
        descriptor.requires_grad_(False)
    sum(SYSTEM.losses(context(), model, data).values()).backward()
    used = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
    assert used == {name for name, _ in model.named_parameters()}


@pytest.mark.parametrize(
    ("changes", "missing"),
    [({"position": "none"}, "ranks"), ({"auxiliary": 0.0}, "classifier"), ({"mixing": "dense"}, "self_attn")],
)
def test_an_ablation_leaves_its_part_out(changes, missing):
    names = [name for name, _ in LAttQE(replace(SMALL, **changes), 8).named_parameters()]
    assert not any(missing in name for name in names)
    assert any(missing in name for name, _ in LAttQE(SMALL, 8).named_parameters())


def test_without_content_every_query_gets_the_same_weights():
    data = batch(padded=False)
    weights = LAttQE(replace(SMALL, content="none"), 8).eval().weights(data.query, data.neighbours)
    torch.testing.assert_close(weights, weights[:1].expand_as(weights))
    other = LAttQE(SMALL, 8).eval().weights(data.query, data.neighbours)
    assert (other - other[:1]).abs().max() > 1e-3


def test_clamped_weights_are_never_negative():
    torch.manual_seed(3)
    data, model = batch(), LAttQE(SMALL, 8).eval()
    assert (model.weights(data.query, data.neighbours) < 0).any()
    model.settings = replace(SMALL, negative="clamp")
    assert (model.weights(data.query, data.neighbours) >= 0).all()


def test_ranks_beyond_the_last_share_it():
    torch.manual_seed(0)
    model = LAttQE(SMALL, 8).eval()
    query, same = torch.randn(1, 8), torch.randn(1, 1, 8).expand(1, 9, 8)
    weights = model.weights(query, same)
    torch.testing.assert_close(weights[0, 5:], weights[0, 5].expand(5))
    assert float((weights[0, 4] - weights[0, 5]).detach().abs()) > 1e-5


def test_heads_that_do_not_divide_the_descriptor_are_refused():
    with pytest.raises(VergenceError, match="2 heads cannot share descriptors of 31 numbers"):
        create("lattqe", preset="tiny", dimension=31)
    with pytest.raises(VergenceError, match="has no input"):
        ModelConfig(position="none", content="none")


# Judging --------------------------------------------------------------------------------------------------------------


def test_a_learned_method_searches_in_batches_as_one_query_at_a_time(tmp_path):
    judged = world(6, "test").judged()
    torch.manual_seed(0)
    model = create("lattqe", preset="tiny", dimension=64).eval()
    index = Index(judged.gallery, tuple(map(str, range(len(judged.gallery)))), "w")
    with torch.no_grad():
        many = expanded(index, judged.queries, Learned(model, batch=3), 20, judged.own)[0]
        for row in (0, 4):
            own = judged.own[row : row + 1]
            one = expanded(index, judged.queries[row : row + 1], Learned(model), 20, own)[0]
            torch.testing.assert_close(many[row], one[0], rtol=1e-4, atol=1e-5)


def test_a_model_of_any_float_type_searches():
    judged = world(6, "test").judged()
    index = Index(judged.gallery, tuple(map(str, range(len(judged.gallery)))), "w")
    torch.manual_seed(0)
    model = create("lattqe", preset="tiny", dimension=64).eval()
    with torch.no_grad():
        single = expanded(index, judged.queries, Learned(model), 9, judged.own)[0]
        double = expanded(index, judged.queries, Learned(model.double()), 9, judged.own)[0]
    torch.testing.assert_close(single, double, rtol=1e-4, atol=1e-5)


def test_evaluation_gives_the_precision_of_plain_search(tmp_path):
    judged = world(6, "test").judged()
    ctx = Context(SYSTEM.configure("tiny", "none"), tmp_path, Facts(64))
    model = create("lattqe", variant="none", preset="tiny", dimension=64)
    found = Evaluator(ctx, judged, batch=4).precisions(method_of(model), 0)[""]
    far = distances(judged.queries, judged.gallery)
    torch.testing.assert_close(found, average_precision(far, judged.truths[""], range(len(judged))))


def test_revisited_sets_are_judged_by_every_protocol(tmp_path):
    revisited_matlab("roxford5k")(tmp_path / "data")
    ctx = Context(SYSTEM.configure("tiny", "alpha", {"data.source": f"roxford5k:{tmp_path / 'data'}"}), tmp_path)
    ctx.facts, ctx.stage = Facts(64), "test"
    data = SYSTEM.prepare(ctx, SYSTEM.data(ctx, "test"))
    found = SYSTEM.evaluate(ctx, create("lattqe", variant="alpha", preset="tiny", dimension=64), data)
    assert {"map", "easy", "medium", "hard", "dba", "dba_medium", "dba_hard", "map_2"} <= set(found)
    assert found["map"] == pytest.approx((found["medium"] + found["hard"]) / 2)
    with pytest.raises(VergenceError, match="nothing to train on"):
        SYSTEM.prepare(ctx, SYSTEM.data(ctx, "train"))


def test_between_epochs_only_what_the_phase_changes_is_judged(tmp_path):
    model, data = create("lattqe", preset="tiny", dimension=64), world(6, "test").judged()
    ctx = Context(SYSTEM.configure("tiny"), tmp_path, Facts(64), stage="validate")
    for phase, names in (("train", {"map"}), ("temper", {"map", "dba"})):
        ctx.phase = phase
        with torch.no_grad():
            assert set(SYSTEM.evaluate(ctx, model, data)) == names


def test_descriptors_of_another_length_than_the_model_was_trained_on_are_refused(tmp_path):
    ctx = Context(SYSTEM.configure("tiny"), tmp_path, Facts(32))
    with pytest.raises(VergenceError, match="trained on descriptors of 32 numbers, these have 64"):
        SYSTEM.evaluate(ctx, create("lattqe", preset="tiny", dimension=32), world(6, "test").judged())


# Searching a user's files ---------------------------------------------------------------------------------------------


@pytest.fixture
def weights(here):
    """An untrained LAttQE for what resnet18 gives, in a file."""
    torch.manual_seed(0)
    config, facts = SYSTEM.configure("tiny"), Facts(512)
    identity = Identity("lattqe", "tiny", "lattqe", config, facts)
    model = LAttQE(replace(config.model, layers=1), 512)
    config = replace(config, model=replace(config.model, layers=1))
    identity = replace(identity, config=config)
    save_tensors(here / "w.safetensors", model.state_dict(), metadata(identity, SYSTEM))
    return ["--weights", "w.safetensors", "-o", "out", "--quiet", "--threads", "1"]


def gallery(here, count=6):
    for seed in range(count):
        picture(here / "gallery" / f"{seed}.jpg", seed)
    picture(here / "query.png", 2)


def refused(capsys, args, *words):
    capsys.readouterr()
    assert main(["predict", "lattqe", *args]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    for word in words:
        assert word in said, said


def test_a_broken_picture_among_good_ones_is_named_skipped_and_counted(here, weights, capsys):
    gallery(here)
    (here / "gallery" / "3.jpg").write_bytes(b"not a picture")
    args = ["--gallery", "gallery", "--query", "query.png", "--neighbours", "3"]
    assert main(["predict", "lattqe", *args, *weights]) == 0
    found = json.loads((here / "out" / "summary.json").read_text())
    assert (found["gallery"], found["skipped"]) == (5, 1)
    assert "3.jpg" in found["skipped_files"][0]
    page = (here / "out" / "results.html").read_text()
    assert "1 files were skipped" in page
    assert page.count("data:image/jpeg") == 1 + 5 + 5
    rows = (here / "out" / "results.csv").read_text().splitlines()
    assert len(rows) == 6


def test_a_query_that_is_in_the_gallery_does_not_find_itself(here, weights):
    gallery(here)
    args = ["--gallery", "gallery", "--query", "gallery/0.jpg", "--method", "alpha", "--neighbours", "2"]
    assert main(["predict", "lattqe", *args, *weights]) == 0
    rows = [line.split(",") for line in (here / "out" / "results.csv").read_text().splitlines()[1:]]
    assert len(rows) == 5
    assert not any(row[2].endswith("gallery/0.jpg") for row in rows)


def test_a_method_that_learns_nothing_asks_for_no_weights(here, capsys):
    np.savez(here / "some.npz", gallery=units(9, 33), queries=units(2, 33, seed=1))
    asked = ["--descriptors", "some.npz", "-o", "out", "--quiet", "--threads", "1", "--runs", "no-runs"]
    assert main(["predict", "lattqe", *asked, "--method", "alpha"]) == 0
    ranked = (here / "out" / "results.csv").read_text()
    assert len(ranked.splitlines()) == 1 + 2 * 9
    assert main(["predict", "lattqe", *asked]) == 0  # the first try works: alpha
    assert (here / "out" / "results.csv").read_text() == ranked
    refused(capsys, [*asked, "--method", "weights"], "no weights of lattqe")


def test_a_kept_gallery_answers_without_its_pictures_and_not_to_another_network(here, weights, capsys):
    gallery(here)
    kept = ["--index", "kept.safetensors", "--query", "query.png", "--neighbours", "2"]
    assert main(["predict", "lattqe", "--gallery", "gallery", *kept, *weights]) == 0
    first = (here / "out" / "results.csv").read_text()
    assert main(["predict", "lattqe", *kept, *weights]) == 0
    assert (here / "out" / "results.csv").read_text() == first
    torch.manual_seed(1)
    save_tensors(here / "other.safetensors", descriptor_network("resnet18").state_dict())
    other = ["--backbone-weights", "other.safetensors"]
    refused(capsys, [*kept, *other, *weights], "kept.safetensors was made with other weights")


def test_a_gallery_kept_as_a_folder_of_files_answers_the_same(here, weights):
    gallery(here)
    ask = ["--query", "query.png", "--neighbours", "2", "--method", "alpha"]
    found = []
    for args in (["--gallery", "gallery"], ["--gallery", "gallery", "--index", "kept/"], ["--index", "kept/"]):
        assert main(["predict", "lattqe", *args, *ask, *weights]) == 0
        found.append((here / "out" / "results.csv").read_text())
    assert found[0] == found[1] == found[2]


def test_what_cannot_be_searched_is_one_sentence(here, weights, capsys):
    gallery(here)
    (here / "empty").mkdir()
    ask = ["--query", "query.png"]
    refused(capsys, [*ask, "--gallery", "empty", *weights], "empty holds no pictures")
    refused(capsys, [*ask, "--gallery", "nowhere", *weights], "nowhere is not a folder")
    refused(capsys, [*ask, *weights], "there is no gallery")
    refused(capsys, ["--gallery", "gallery", *weights], "there is no query")
    refused(capsys, ["--gallery", "gallery", "--query", "gone.png", *weights], "gone.png does not exist")
    np.savez(here / "mixed.npz", gallery=units(9, 512), queries=units(2, 64))
    refused(capsys, ["--descriptors", "mixed.npz", *weights], "mixes dimensions", "512", "64")
    np.savez(here / "zero.npz", gallery=np.zeros((3, 512), np.float32), queries=units(2, 512))
    refused(capsys, ["--descriptors", "zero.npz", *weights], "zero.npz", "no direction")
    np.savez(here / "other.npz", gallery=units(9, 64), queries=units(2, 64))
    refused(capsys, ["--descriptors", "other.npz", *weights], "for descriptors of 512 numbers", "64", "--method alpha")
    assert not (here / "out").exists() or not list((here / "out").glob("results*"))


def test_more_neighbours_than_the_gallery_has_means_all_of_them(here, weights):
    np.savez(here / "mine.npz", gallery=units(9, 512), queries=units(2, 512, seed=1))
    assert main(["predict", "lattqe", "--descriptors", "mine.npz", *weights]) == 0
    assert json.loads((here / "out" / "summary.json").read_text())["neighbours"] == 9


def test_the_authors_checkpoint_may_hold_arrays_and_nothing_that_runs(here):
    from vergence.retrieval.describe import _state

    state = {"features.0.weight": torch.ones(2)}
    torch.save({"meta": {"Lw": {"m": np.ones((2, 2))}}, "state_dict": state}, here / "theirs.pth")
    assert torch.equal(_state(here / "theirs.pth")["features.0.weight"], torch.ones(2))

    class Runs:
        def __reduce__(self):
            return print, ("ran",)

    (here / "bad.pth").write_bytes(pickle.dumps(Runs(), protocol=2))
    with pytest.raises(VergenceError, match=r"bad\.pth"):
        _state(here / "bad.pth")


def test_training_on_a_folder_of_pictures_describes_them_once(tmp_path):
    class_folders(tmp_path / "data")
    changes = {"data.source": f"pictures:{tmp_path / 'data'}", "data.negatives": 2}
    ctx = Context(SYSTEM.configure("tiny", None, changes), tmp_path / "run", phase="train")
    data = SYSTEM.prepare(ctx, SYSTEM.data(ctx, "train"))
    assert data.data.descriptors.shape == (6, 512)
    assert SYSTEM.facts(ctx, data).dimension == 512
    kept = sorted(p.stat().st_mtime_ns for p in (tmp_path / "run" / "prepared").glob("descriptors-*"))
    again = SYSTEM.prepare(ctx, SYSTEM.data(ctx, "train"))
    assert torch.equal(again.data.descriptors, data.data.descriptors)
    assert kept == sorted(p.stat().st_mtime_ns for p in (tmp_path / "run" / "prepared").glob("descriptors-*"))


# The bench ------------------------------------------------------------------------------------------------------------


def test_the_trial_of_indices_counts_recall_against_exact_search():
    rows = trial("flat", 1000, (1,), queries=20) + trial("ivf", 1000, (1, 31), queries=20)
    assert rows[0]["recall"] == 1
    assert rows[1]["recall"] < rows[2]["recall"] == 1
    assert rows[0]["bytes_per_vector"] == 4 * 512


def test_bench_vectors_are_the_same_every_time_and_queries_lie_near_them():
    made = vectors(500, 16, "x", rows=200)
    assert torch.equal(made, vectors(500, 16, "x", rows=200))
    torch.testing.assert_close(made.norm(dim=1), torch.ones(500))
    nearest = torch.cdist(near(made, 10, "q"), made).min(1).values
    assert (nearest < torch.cdist(made[:10], made).mean()).all()
