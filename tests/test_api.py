"""The Python door."""

import pytest
import torch
from torch import nn

import vergence
from helpers import start
from vergence import catalogue
from vergence.core.errors import VergenceError
from vergence.core.progress import Progress
from vergence.engine.execute import execute


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    config = catalogue.load("fake-byhand").configure("tiny")
    made = start("fake-byhand", config, tmp_path_factory.mktemp("runs"), variant="sign")
    execute(made, Progress())
    return made


def test_create_builds_the_published_model():
    model = vergence.create("snl", variant="nl", classes=7)
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 7)
    assert vergence.describe(model).variant == "nl"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: vergence.create("snl"), "snl's facts needs 'classes', a whole number"),
        (lambda: vergence.create("snl", clases=3), "has no field 'clases'"),
        (lambda: vergence.create("snl", variant="xnl", classes=3), "no variant 'xnl'"),
        (lambda: vergence.create("snl", preset="papper", classes=3), "no preset 'papper'"),
        (lambda: vergence.create("fake-ruler"), "offers no model"),
        (lambda: vergence.describe(nn.Linear(1, 1)), "not made by vergence"),
    ],
)
def test_what_does_not_fit_is_one_sentence(call, said):
    with pytest.raises(VergenceError, match=said):
        call()


def test_load_needs_the_file_alone(run):
    model = vergence.load(run.weights)
    assert not model.training
    assert vergence.describe(run.weights) == vergence.describe(model)
    same = vergence.create("fake-byhand", weights=run.weights)
    x = torch.randn(3, 6)
    assert torch.equal(model(x), same(x))


def test_create_checks_what_is_given_against_the_file(run):
    assert vergence.create("fake-byhand", variant="sign", weights=run.weights)
    with pytest.raises(VergenceError, match="holds the variant 'sign', not 'still'"):
        vergence.create("fake-byhand", variant="still", weights=run.weights)
    with pytest.raises(VergenceError, match="was trained with classes=None, not 3"):
        vergence.create("fake-byhand", weights=run.weights, classes=3)


def test_the_callers_threads_random_numbers_and_model_are_left_alone(run):
    model = vergence.load(run.weights).train()
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    torch.set_num_threads(1)
    vergence.evaluate(model)
    assert torch.equal(torch.rand(2), expected)
    assert torch.get_num_threads() == 1
    assert model.training


def test_weights_with_nan_in_them_are_refused(run, tmp_path):
    from vergence.core.files import load_tensors, save_tensors

    tensors, metadata = load_tensors(run.weights)
    tensors["0.bias"][0] = float("nan")
    save_tensors(tmp_path / "nan.safetensors", tensors, metadata)
    with pytest.raises(VergenceError, match="'0.bias' holds values that are not numbers"):
        vergence.load(tmp_path / "nan.safetensors")


def test_a_split_that_is_none_is_refused(run):
    with pytest.raises(VergenceError, match=r"no split 'tset' \(did you mean 'test'"):
        vergence.evaluate(run.weights, split="tset")


def test_weights_of_another_system_are_refused(run):
    with pytest.raises(VergenceError, match="holds a model of 'fake-byhand', not of 'snl'"):
        vergence.create("snl", weights=run.weights)


def test_the_authors_own_weights_are_read_under_our_names(run, tmp_path, capsys):
    from vergence.cli.main import main

    ours = vergence.load(run.weights)
    theirs = tmp_path / "theirs.pth"
    torch.save({"first": ours[0].state_dict(), "second": ours[2].state_dict()}, theirs)
    x = torch.randn(3, 6)
    assert torch.equal(vergence.create("fake-byhand", weights=theirs)(x), ours(x))
    assert main(["eval", "fake-byhand", "--weights", str(theirs), "--quiet"]) == 0
    torch.save({"other": torch.zeros(1)}, theirs)
    capsys.readouterr()
    assert main(["eval", "fake-byhand", "--weights", str(theirs), "--quiet"]) == 2
    assert "not a checkpoint of the authors" in capsys.readouterr().err


def test_a_system_without_a_model_is_used_by_name(tmp_path):
    assert vergence.evaluate("fake-ruler", changes={"scale": 3.0}) == {"distance": 1.5}
    for name in ("a", "b"):
        (tmp_path / name).write_text("1 2\n3 4\n")
    (made,) = vergence.predict(
        "fake-ruler", tmp_path / "out", truth=str(tmp_path / "a"), prediction=str(tmp_path / "b")
    )
    assert made.path.read_text().strip() == "0.0"


def test_evaluate_gives_what_the_run_got(run):
    assert vergence.evaluate(run.weights) == pytest.approx(run.metrics_found)
    assert vergence.evaluate(vergence.load(run.weights), split="val") != vergence.evaluate(run.weights)


def test_features_of_any_stage_of_any_model():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    x = torch.randn(4, 2)
    found = vergence.features(model, ["1", "0"], x)
    assert list(found) == ["1", "0"]
    assert torch.equal(found["1"], model[0](x).relu())
    assert not model[0]._forward_hooks
    nested = nn.ModuleDict({"parts": nn.ModuleList([nn.Linear(2, 2)])})
    nested.forward = lambda x: nested["parts"][0](x)
    with pytest.raises(VergenceError, match="'parts' is not called as a whole"):
        vergence.features(nested, "parts", x)
    with pytest.raises(VergenceError, match="no module '9'"):
        vergence.features(model, "9", x)


def test_features_of_snl():
    model = vergence.create("snl", variant="none", classes=10)
    found = vergence.features(model, ["layer1", "layer3.0"], torch.zeros(1, 3, 32, 32))
    assert {name: tuple(v.shape) for name, v in found.items()} == {
        "layer1": (1, 64, 32, 32),
        "layer3.0": (1, 256, 8, 8),
    }


def test_predict_writes_into_its_folder(tmp_path):
    from recognition.snl import fixtures

    fixtures.prediction(tmp_path)
    model = vergence.create("snl", preset="tiny", variant="snl", classes=2)
    made = vergence.predict(model, tmp_path / "out", images=[str(tmp_path / "a.png")], points=[[45, 35]])
    assert {a.path.parent for a in made} == {tmp_path / "out"}
    assert {a.kind for a in made} == {"table", "image"}
