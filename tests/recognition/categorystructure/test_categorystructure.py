"""The pair of networks, its training in two phases, its protocol, and prediction."""

import csv
import json

import numpy as np
import pytest
import torch
from PIL import Image

import vergence
from helpers import short, start
from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.contract.inputs import InMemory
from vergence.core.errors import VergenceError
from vergence.core.progress import Progress
from vergence.engine.execute import execute
from vergence.recognition.categorystructure.model import MEMORY, Pair, SmallResNet, follow
from vergence.recognition.categorystructure.pictures import aligned, plane
from vergence.recognition.categorystructure.settings import SETTINGS, Inputs, Network, Objective, Pictures
from vergence.recognition.categorystructure.system import SYSTEM, Balanced, tightness
from vergence.recognition.data import Labelled, middle
from vergence.recognition.settings import Facts

QUICK = {"data.count": 32, "teacher.batch": 16, "train.batch": 16, "seed": 77}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A few steps of some variants, made when first asked for."""
    root, made = tmp_path_factory.mktemp("runs"), {}

    def run(variant, steps=2, **changes):
        key = (variant, steps, *changes.items())
        if key not in made:
            config = short(SYSTEM, steps, {**QUICK, **changes}, "tiny", variant)
            made[key] = start("categorystructure", config, root, variant)
            execute(made[key], Progress())
        return made[key]

    return run


def pair(variant="cskd", classes=5):
    torch.manual_seed(0)
    return Pair(SYSTEM.configure("tiny", variant), classes)


# The networks --------------------------------------------------------------------------------------------------------


def test_the_first_layers_keep_the_size_of_a_picture():
    told = SmallResNet(10, Network(10, 0.0625)).eval().told(torch.zeros(2, 3, 32, 32))
    assert told.features.shape == (2, 32, 4, 4)
    assert told.logits.shape == (2, 10)
    smaller = SmallResNet(10, Network(10, 0.0625, 2)).eval().told(torch.zeros(2, 3, 32, 32))
    assert smaller.features.shape == (2, 32, 2, 2)


def test_students_and_teachers_of_all_variants_begin_alike():
    one = pair("cskd").state_dict()
    for variant in SETTINGS.variants:
        other = pair(variant).state_dict()
        same = [name for name in other if name.startswith(("student.", "teacher."))]
        assert all(torch.equal(one[name], other[name]) for name in same)
        assert any(name.startswith("teacher.") for name in same) == (variant != "ce")


def test_one_phase_trains_the_teacher_and_the_next_the_student():
    model = pair()
    model.teach(True)
    model.train()
    assert {n.partition(".")[0] for n, p in model.named_parameters() if p.requires_grad} == {"teacher"}
    assert model.teacher.training
    model.teach(False)
    model.train()
    trained = {n.partition(".")[0] for n, p in model.named_parameters() if p.requires_grad}
    assert trained == {"student", "distillation"}
    assert not model.teacher.training


@pytest.mark.parametrize("variant", list(SETTINGS.variants))
def test_every_variant_has_finite_losses_and_leaves_the_teacher_alone(variant):
    model, labels = pair(variant).train(), torch.tensor([0, 0, 1, 1, 2, 2])
    losses = model.losses(torch.randn(6, 3, 32, 32), labels)
    torch.stack(list(losses.values())).sum().backward()
    assert all(loss.isfinite() for loss in losses.values())
    assert all(p.grad is None for n, p in model.named_parameters() if n.startswith("teacher."))
    assert all(p.grad is not None for n, p in model.named_parameters() if not n.startswith("teacher."))


def test_the_mean_of_squares_has_the_weights_of_the_public_code():
    mse = SYSTEM.configure("tiny", "mse").objective
    assert (mse.norm, mse.beta, mse.gamma) == ("mse", 0.002, 0.04)
    assert (Objective().norm, Objective().alpha, Objective().beta, Objective().gamma) == ("fro", 0.1, 0.01, 0.2)


def test_running_centres_begin_at_the_first_mean_and_follow_the_next():
    centres, features = torch.zeros(3, 2), torch.tensor([[1.0, 0], [3, 0], [0, 4]])[..., None, None]
    follow(centres, features, torch.tensor([0, 0, 2]))
    assert centres.tolist() == [[2, 0], [0, 0], [0, 4]]
    follow(centres, features[:1], torch.tensor([2]))
    torch.testing.assert_close(centres[2], torch.tensor([1 - MEMORY, 4 * MEMORY]))
    assert centres[0].tolist() == [2, 0]


# Training ------------------------------------------------------------------------------------------------------------


def test_a_teacher_is_trained_once_and_kept(runs):
    run = runs("cskd")
    phases = [record["phase"] for record in run.records() if "losses" in record]
    assert phases == ["teacher"] * 2 + ["train"] * 2
    reused = runs("kd", pretrained=str(run.weights))
    assert {record["phase"] for record in reused.records()} == {"train"}
    kept = vergence.load(run).module.teacher.state_dict()
    again = vergence.load(reused).module.teacher.state_dict()
    assert all(torch.equal(kept[name], again[name]) for name in kept)
    assert reused.metrics["teacher"] == run.metrics["teacher"]


def test_a_student_of_labels_needs_no_teacher(runs):
    run = runs("ce")
    assert {record["phase"] for record in run.records()} == {"train"}
    assert "teacher" not in run.metrics


def test_teachers_that_do_not_fit_are_refused():
    model = pair()
    own = {f"teacher.{name}": value for name, value in pair(classes=7).teacher.state_dict().items()}
    with pytest.raises(VergenceError, match="the teacher knows 7 classes, the data of the student has 5"):
        SYSTEM.load_pretrained(None, model, own)
    with pytest.raises(VergenceError, match="have no 'conv1.weight'"):
        SYSTEM.load_pretrained(None, model, {"other": torch.zeros(1)})
    with pytest.raises(VergenceError, match=r"'student.conv1.weight' of shape \(4, 3, 3, 3\), the teacher"):
        SYSTEM.load_pretrained(None, model, pair("ce").state_dict())
    with pytest.raises(VergenceError, match="labels alone has no teacher"):
        SYSTEM.load_pretrained(None, pair("ce"), {})


def test_plain_names_are_taken_for_the_teachers():
    model, other = pair(), SmallResNet(5, Network(10, 0.25, 2))
    assert "is loaded from" in SYSTEM.load_pretrained(None, model, other.state_dict())
    assert torch.equal(model.teacher.conv1.weight, other.conv1.weight)


def test_a_batch_smaller_than_the_classes_is_told_of(tmp_path):
    said = []
    ctx = Context(SYSTEM.configure("tiny", changes={"train.batch": 8}), tmp_path, Facts(16))
    ctx.phase, ctx.progress.say = "train", said.append
    SYSTEM.start(ctx, pair())
    assert "a batch of 8 has few classes with two of its samples" in said[0]


def test_balanced_batches_have_the_same_number_of_each_class():
    labels = torch.tensor([0] * 9 + [1] * 5 + [2])
    data = Balanced(Labelled(torch.zeros(15, 3, 8, 8, dtype=torch.uint8), labels, ("a", "b", "c")), Pictures(), 2)
    batches = list(data.batches(6, torch.Generator().manual_seed(0)))
    assert [len(batch) for batch in batches] == [6, 6]
    assert all(labels[batch].view(3, 2).diff().eq(0).all() for batch in batches)
    with pytest.raises(VergenceError, match="a batch of 5 cannot hold classes with 2 pictures each"):
        list(data.batches(5, torch.Generator()))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Objective(alpha=2.0), "alpha from 0 to 1"),
        (lambda: Objective(temperature=0.0), "temperature above 0"),
        (lambda: Objective(beta=-1.0), "beta is at least 0"),
        (lambda: Objective(gamma=float("nan")), "gamma is at least 0"),
        (lambda: Network(width=0.0), "width is from 1/64 to 8"),
        (lambda: Pictures(count=3), "16 to 1000000"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, said):
    with pytest.raises(VergenceError, match=said):
        make()


# Protocol ------------------------------------------------------------------------------------------------------------


def test_tightness_of_two_classes_worked_by_hand():
    """Samples are 1 from their centres, which are 10 apart."""
    features = torch.tensor([[-1.0, 0], [1, 0], [10, 1], [10, -1]])
    assert tightness(features, torch.tensor([0, 0, 4, 4])) == pytest.approx(0.1)
    assert tightness(3 * features + 5, torch.tensor([0, 0, 4, 4])) == pytest.approx(0.1)


def test_a_copy_of_the_teacher_has_its_structure_and_answers(tmp_path):
    config = SYSTEM.configure("tiny", changes={**QUICK, "model.student.width": 0.25})
    model = Pair(config, 16).eval()
    model.student.load_state_dict(model.teacher.state_dict())
    ctx = Context(config, tmp_path, Facts(16))
    with torch.no_grad():
        found = SYSTEM.evaluate(ctx, model, SYSTEM.data(ctx, "test"))
    assert (found["structure"], found["agreement"]) == (0, 100)
    assert found["top1"] == found["teacher"]


def test_data_of_other_classes_is_refused(runs, tmp_path, capsys):
    for split in ("train", "test"):
        for name in ("cat", "dog"):
            (tmp_path / split / name).mkdir(parents=True)
            Image.new("RGB", (40, 40), "red").save(tmp_path / split / name / "a.png")
    args = ["eval", "categorystructure", "--weights", str(runs("cskd").weights), "--data", str(tmp_path), "--quiet"]
    assert main(args) == 2
    assert (
        "the weights know the classes chair, table, sofa and 13 more, the data has cat, dog" in capsys.readouterr().err
    )


# Prediction ----------------------------------------------------------------------------------------------------------


def test_a_plane_keeps_the_distances_of_centres_that_lie_in_it():
    flat = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
    basis = torch.linalg.qr(torch.randn(9, 9, generator=torch.Generator().manual_seed(1))).Q[:2]
    centres = flat @ basis + 3
    torch.testing.assert_close(torch.cdist(plane(centres)(centres), plane(centres)(centres)), torch.cdist(flat, flat))
    assert plane(centres[:2])(centres[:2]).shape == (2, 2)


def test_planes_are_turned_mirrored_and_scaled_to_each_other():
    centres = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    target = plane(centres)(centres)
    mirrored = 4 * centres * torch.tensor([-1.0, 1, 1, 1, 1]) + 7
    torch.testing.assert_close(aligned(plane(mirrored), mirrored, target)(mirrored), target, atol=1e-4, rtol=1e-4)


def test_pictures_are_placed_among_the_centres(runs, here, capsys):
    for n in range(3):
        pixels = np.random.default_rng(n).integers(0, 256, (50, 60, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(f"p{n}.png")
    args = ["predict", "categorystructure", "p0.png", "p1.png", "p2.png", "-o", "out", "--json", "--quiet"]
    assert main([*args, "--weights", str(runs("cskd").weights)]) == 0
    result = json.loads(capsys.readouterr().out)["result"]
    assert np.shape(result["scores"]) == np.shape(result["cosines"]) == np.shape(result["teacher_scores"]) == (3, 16)
    assert np.shape(result["places"]) == np.shape(result["teacher_places"]) == (3, 2)
    rows = list(csv.DictReader((here / "out" / "labels.csv").open()))
    assert [row["label"] for row in rows] == result["labels"]
    assert [row["teacher"] for row in rows] == result["teacher_labels"]
    assert len(list(csv.DictReader((here / "out" / "centres.csv").open()))) == 16


def test_a_student_without_a_teacher_predicts_alone(runs):
    model = vergence.load(runs("ce"))
    result = model.predict(images=[torch.rand(3, 40, 40), torch.rand(3, 33, 64)])
    assert result.teacher_labels == ()
    assert result.agreement is None
    assert result.places.shape == (2, 2)


def test_no_picture_is_refused(tmp_path):
    with pytest.raises(VergenceError, match="no picture given"):
        SYSTEM.infer(Context(SYSTEM.configure("tiny"), tmp_path, Facts(5)), pair(), Inputs(()))


def test_a_picture_at_a_centre_is_nearest_to_it(tmp_path):
    model, ctx = pair().eval(), Context(SYSTEM.configure("tiny"), tmp_path, Facts(5))
    picture = torch.rand(3, 32, 32)
    with torch.no_grad():
        pooled = model.student.told(middle(ctx.config.data, (picture * 255).round().byte())[None]).features.mean((2, 3))
        model.centres.copy_(torch.rand(5, 32))
        model.centres[3] = pooled[0]
        result = SYSTEM.infer(ctx, model, Inputs((InMemory("a.png", picture),)))
    assert result.cosines[0].argmax() == 3
    assert result.cosines[0, 3] == pytest.approx(1, abs=1e-4)
    torch.testing.assert_close(result.places[0], result.centres[3], atol=1e-3, rtol=1e-3)
