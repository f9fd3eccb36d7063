"""The Python door."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import vergence
from helpers import start
from vergence import catalogue
from vergence.contract.result import Result
from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.core.progress import Progress
from vergence.engine.execute import execute
from vergence.reading.weights import load_tensors


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    config = catalogue.load("fake-byhand").configure("tiny")
    made = start("fake-byhand", config, tmp_path_factory.mktemp("runs"), variant="sign")
    execute(made, Progress())
    return made


# The door itself ------------------------------------------------------------------------------------------------------


def test_completion_lists_the_door_and_importing_it_is_quick():
    code = "import sys, vergence; print(sorted(set(vergence.__all__) - set(dir(vergence))), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[] False"
    assert all(getattr(vergence, name) is not None for name in vergence.__all__)
    with pytest.raises(AttributeError, match="no attribute 'predit'"):
        _ = vergence.predit


# Models ---------------------------------------------------------------------------------------------------------------


def test_create_builds_the_published_model():
    model = vergence.create("snl", variant="nl", classes=7)
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 7)
    assert vergence.describe(model).variant == "nl"


@pytest.mark.parametrize("name", [n for n in catalogue.names() if catalogue.load(n).offers("build")])
def test_create_needs_no_further_arguments(name):
    with torch.device("meta"):
        assert isinstance(vergence.create(name), nn.Module)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: vergence.create("snl", clases=3),
            r"create\('snl'\) has no argument 'clases' \(did you mean 'classes'",
        ),
        (lambda: vergence.create("snl", classes="three"), "classes expects whole number"),
        (lambda: vergence.create("snl", variant="xnl", classes=3), "no variant 'xnl'"),
        (lambda: vergence.create("snl", preset="papper", classes=3), "no preset 'papper'"),
        (lambda: vergence.create("fake-ruler"), "offers no model"),
        (lambda: vergence.describe(nn.Linear(1, 1)), "not made by vergence"),
        (lambda: vergence.load("flott"), r"no system and no file 'flott' \(did you mean 'flot'"),
        (lambda: vergence.load("nowhere.safetensors"), "nowhere.safetensors does not exist"),
        (lambda: vergence.load("fake-byhand"), "no weights of fake-byhand here"),
        (lambda: vergence.load("fake-rulers", "x.pt"), "no system 'fake-rulers'"),
    ],
)
def test_what_does_not_fit_is_one_sentence(call, said):
    with pytest.raises(VergenceError, match=said):
        call()


def test_load_needs_the_file_alone(run):
    model = vergence.load(run.weights)
    assert not model.module.training
    assert vergence.describe(run.weights) == vergence.describe(model) == model.identity
    x = torch.randn(3, 6)
    assert torch.equal(model(x), vergence.load(run)(x))
    assert torch.equal(model(x), vergence.load("fake-byhand", run.weights)(x))
    assert "fake-byhand" in repr(model)


def test_weights_with_nan_in_them_are_refused(run, tmp_path):
    tensors, metadata = load_tensors(run.weights)
    tensors["0.bias"][0] = float("nan")
    save_tensors(tmp_path / "nan.safetensors", tensors, metadata)
    with pytest.raises(VergenceError, match="'0.bias' holds values that are not finite"):
        vergence.load(tmp_path / "nan.safetensors")


def test_weights_of_another_system_are_refused(run):
    with pytest.raises(VergenceError, match="holds a model of 'fake-byhand', not of 'snl'"):
        vergence.load("snl", run.weights)


def test_the_authors_own_weights_are_read_under_our_names(run, tmp_path, capsys):
    from vergence.cli.main import main

    ours = vergence.load(run.weights)
    theirs = tmp_path / "theirs.pth"
    torch.save({"first": ours.module[0].state_dict(), "second": ours.module[2].state_dict()}, theirs)
    x = torch.randn(3, 6)
    assert torch.equal(vergence.load("fake-byhand", theirs)(x), ours(x))
    assert main(["eval", "fake-byhand", "--weights", str(theirs), "--quiet"]) == 0
    torch.save({"other": torch.zeros(1)}, theirs)
    capsys.readouterr()
    assert main(["eval", "fake-byhand", "--weights", str(theirs), "--quiet"]) == 2
    assert "not a checkpoint of the authors" in capsys.readouterr().err


def test_features_of_any_stage_of_any_model():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    x = torch.randn(4, 2)
    maps = vergence.features(model, ["1", "0"], x)
    assert list(maps) == ["1", "0"]
    assert torch.equal(maps["1"], model[0](x).relu())
    assert not model[0]._forward_hooks
    nested = nn.ModuleDict({"parts": nn.ModuleList([nn.Linear(2, 2)])})
    nested.forward = lambda x: nested["parts"][0](x)
    with pytest.raises(VergenceError, match="'parts' is not called as a whole"):
        vergence.features(nested, "parts", x)
    with pytest.raises(VergenceError, match="no module '9'"):
        vergence.features(model, "9", x)


def test_features_of_snl():
    model = vergence.create("snl", variant="none", classes=10)
    maps = vergence.features(model, ["layer1", "layer3.0"], torch.zeros(1, 3, 32, 32))
    assert {name: tuple(v.shape) for name, v in maps.items()} == {
        "layer1": (1, 64, 32, 32),
        "layer3.0": (1, 256, 8, 8),
    }


# Judging --------------------------------------------------------------------------------------------------------------


def test_evaluate_gives_what_the_run_got(run):
    assert vergence.evaluate(run.weights) == pytest.approx(run.metrics)
    assert vergence.load(run).evaluate(split="val") != vergence.evaluate(run.weights)
    assert vergence.evaluate("fake-ruler", changes={"scale": 3.0}) == {"distance": 1.5}


def test_a_split_that_is_none_is_refused(run):
    with pytest.raises(VergenceError, match=r"no split 'tset' \(did you mean 'test'"):
        vergence.evaluate(run.weights, split="tset")


def test_the_callers_threads_random_numbers_and_model_are_left_alone(run):
    model = vergence.load(run.weights)
    model.module.train()
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    torch.set_num_threads(1)
    vergence.evaluate(model)
    assert torch.equal(torch.rand(2), expected)
    assert torch.get_num_threads() == 1
    assert model.module.training


# Results in memory ----------------------------------------------------------------------------------------------------


@pytest.fixture
def rows(tmp_path):
    for name, text in (("a", "1 2\n3 4\n"), ("b", "1 5\n3 4\n")):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_system_without_a_model_is_used_by_name_and_its_result_is_in_memory(rows):
    result = vergence.predict("fake-ruler", truth=rows / "a", prediction=str(rows / "b"))
    assert isinstance(result, Result)
    assert result.distance == 1.5
    assert result.summary() == {"distance": 1.5} == result.to_json()
    (artifact,) = result.save(rows / "out")
    assert json.loads(artifact.path.read_text()) == 1.5
    assert result._repr_png_() is None
    with pytest.raises(VergenceError, match="no picture to show"):
        result.show()


def test_several_inputs_give_several_results_and_shared_ones_are_given_once(rows):
    results = vergence.load("fake-ruler").predict(truth=rows / "a", prediction=[rows / "a", rows / "b"])
    assert [r.distance for r in results] == [0.0, 1.5]
    with pytest.raises(VergenceError, match="lists of equal length, got 1 of 'truth' and 2 of 'prediction'"):
        vergence.predict("fake-ruler", truth=[rows / "a"], prediction=[rows / "a", rows / "b"])


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"truht": "a", "prediction": "b"}, r"have no 'truht' \(did you mean 'truth'"),
        ({"truth": "a"}, "needs 'prediction'"),
    ],
)
def test_inputs_that_do_not_fit_are_one_sentence(inputs, said):
    with pytest.raises(VergenceError, match=said):
        vergence.predict("fake-ruler", **inputs)


def test_a_model_that_does_not_predict_says_so(run):
    with pytest.raises(VergenceError, match="fake-byhand offers no prediction"):
        vergence.load(run).predict(x=1)


def test_pictures_are_taken_as_paths_arrays_tensors_and_pil_alike(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (50, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    model = vergence.create("snl", preset="tiny", variant="snl", classes=2)
    tensor = torch.from_numpy(pixels).permute(2, 0, 1)
    given = [tmp_path / "a.png", pixels, tensor, Image.fromarray(pixels), pixels / 255, tensor.float() / 255]
    result = vergence.predict(model, images=given, points=[[30, 25]])
    assert result.scores.shape == (6, 2)
    assert (result.scores - result.scores[0]).abs().max() < 1e-6  # a place in a batch may round differently
    saved = result.save(tmp_path / "out")
    assert {a.kind for a in saved} == {"table", "image"}
    assert result._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.zeros((4, 4, 7), np.uint8), r"images-1\.png has the shape \(4, 4, 7\)"),
        (np.full((4, 4, 3), 2.0), "floats that are not from 0 to 1"),
        (np.full((4, 4, 3), np.nan), "floats that are not from 0 to 1"),
        (np.zeros((4, 4, 3), np.int64), "a picture of int64"),
        (3, "is a int: expected a path, an array, a tensor or a PIL picture"),
        ("gone.png", "gone.png does not exist"),
    ],
)
def test_pictures_that_are_none_are_one_sentence(value, said):
    model = vergence.create("snl", preset="tiny", classes=2)
    with pytest.raises(VergenceError, match=said):
        vergence.predict(model, images=[value])


def test_clouds_are_taken_as_arrays_and_tensors():
    model = vergence.create("flot", preset="tiny")
    first = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    a = vergence.predict(model, first=first, second=first + 0.1)
    b = vergence.predict(model, first=torch.from_numpy(first), second=torch.from_numpy(first + 0.1))
    assert a.flow.shape == (40, 3)
    assert torch.equal(a.flow, b.flow)
    with pytest.raises(VergenceError, match=r"first\.npy"):
        vergence.predict(model, first=np.zeros((4, 2)), second=first)


def test_large_arrays_are_told_by_shape_and_range():
    from dataclasses import dataclass

    @dataclass(frozen=True, eq=False)
    class Big(Result):
        small: torch.Tensor
        large: np.ndarray
        nested: dict

    result = Big(torch.tensor([1.0, float("nan")]), np.arange(20_000), {"a": (1, np.float64(2.0))})
    assert result.to_json() == {
        "small": [1.0, None],
        "large": {"shape": [20_000], "type": "int64", "least": 0.0, "most": 19_999.0},
        "nested": {"a": [1, 2.0]},
    }
    with pytest.raises(VergenceError, match="was not made by a model's predict"):
        result.save("out")


# Work -----------------------------------------------------------------------------------------------------------------


def test_train_resume_and_compare(tmp_path):
    first = vergence.train("fake-byhand", variant="sign", changes={"train.steps": 4}, runs=tmp_path)
    assert first.result.steps == 4
    second = vergence.train("fake-byhand", seed=3, changes={"train.steps": 4}, runs=tmp_path)
    assert second.order.config.seed == 3
    assert vergence.train(resume=first).metrics == first.metrics
    changed = vergence.compare(first, second.folder)
    assert changed.config["seed"] == (0, 3)
    with pytest.raises(VergenceError, match="offers no training"):
        vergence.train("fake-ruler", runs=tmp_path)
    with pytest.raises(VergenceError, match="was started with train.steps=4"):
        vergence.train(resume=first.folder, changes={"train.steps": 5})


def test_a_papers_comparison_from_python(tmp_path):
    done = vergence.run("fake-ruler", runs=tmp_path, jobs=1)
    assert done.metrics == {"plain": {"distance": [0.5]}, "doubled": {"distance": [1.0]}}
    assert done.report.exists()
    assert [entry.claim.id for entry in done.claims] == ["zero"]
    with pytest.raises(VergenceError, match="has no variant 'plane'"):
        vergence.run("fake-ruler", variants=["plane"], runs=tmp_path)


def test_claims_are_those_that_were_asked_for(tmp_path):
    (entry,) = vergence.claims("fake-ruler", runs=tmp_path)
    assert (entry.claim.id, entry.judgement.verdict) == ("zero", "holds")
    assert vergence.claims("fake-ruler", kind="cost", runs=tmp_path) == []
    assert len(vergence.claims("fake-ruler", known=True, runs=tmp_path)) == 1
    with pytest.raises(VergenceError, match="no kind of claim 'exakt'"):
        vergence.claims("fake-ruler", kind="exakt")
    with pytest.raises(VergenceError, match="have no claim 'zeroo'"):
        vergence.claims("fake-ruler", only=["zeroo"])


def test_a_bench_from_python(monkeypatch):
    from vergence.contract.benchmark import Contest

    class Bench:
        @staticmethod
        def contests():
            yield Contest("sum", "a sum", lambda: sum(range(100)), {"same": lambda: sum(range(100))})

    monkeypatch.setattr(catalogue, "bench", lambda name: Bench)
    found = vergence.bench("fake-ruler", rounds=2, with_memory=False, busy=True)
    assert [(row["id"], row["rival"]) for row in found.contests] == [("sum", "same")]
    with pytest.raises(VergenceError, match="at least 2 rounds"):
        vergence.bench("fake-ruler", rounds=1)
