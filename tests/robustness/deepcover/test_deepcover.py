"""DeepCover as a tool: explanations of callables, ONNX files and weights; files; and answers to what does not fit."""

import csv
import json

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import vergence
from vergence import catalogue
from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.contract.identity import Identity
from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.engine.weights import metadata
from vergence.robustness.blackbox import OnnxClassifier, Subject
from vergence.robustness.deepcover.exact import patch_oracle
from vergence.robustness.deepcover.model import explain, generate_suite
from vergence.robustness.deepcover.settings import Explain

ALONE = ["--threads", "1", "--quiet"]
NAMES = ("bicycle", "car", "chair", "mug", "person", "tree", "nothing")


@pytest.fixture
def weights(tmp_path):
    """An untrained network in a file, which is all that prediction asks for."""
    system = catalogue.load("deepcover")
    config, facts = system.configure("tiny", "deepcover"), system.settings.facts(7, NAMES)
    torch.manual_seed(0)
    path = tmp_path / "network.safetensors"
    identity = Identity("deepcover", "tiny", "deepcover", config, facts)
    save_tensors(path, system.build(config, facts).state_dict(), metadata(identity, system))
    return str(path)


@pytest.fixture
def onnx(tmp_path):
    """A file whose answer is the brighter of the left and the right half of a picture of 16 x 16."""
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    from onnx import helper as h

    weight = np.zeros((768, 2), np.float32)
    weight.reshape(3, 16, 16, 2)[:, :, :8, 0] = 1
    weight.reshape(3, 16, 16, 2)[:, :, 8:, 1] = 1
    graph = h.make_graph(
        [h.make_node("Flatten", ["x"], ["flat"]), h.make_node("MatMul", ["flat", "w"], ["y"])], "halves",
        [h.make_tensor_value_info("x", 1, ["n", 3, 16, 16])], [h.make_tensor_value_info("y", 1, ["n", 2])],
        [h.make_tensor("w", 1, weight.shape, weight.flatten())],
    )  # fmt: skip
    path = tmp_path / "halves.onnx"
    path.write_bytes(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8).SerializeToString())
    assert onnx.load(path)
    return path


def written(here, name="a.png", size=(24, 20), bright=slice(2, 8)):
    pixels = np.random.default_rng(0).integers(0, 90, (*size[::-1], 3), dtype=np.uint8)
    pixels[:, bright] += 150
    Image.fromarray(pixels).save(here / name)
    return name


def refused(capsys, *args):
    capsys.readouterr()
    assert main(["predict", "deepcover", *args, "-o", "out", *ALONE]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    return message


# Explanations ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("masks", ["block", "grid", "pixel"])
def test_a_function_that_returns_labels_alone_is_explained(masks):
    found = explain(patch_oracle, torch.ones(3, 24, 24), Explain(queries=300, masks=masks))
    assert found.label == 1
    assert found.spectrum is not None
    assert patch_oracle(torch.where(found.mask, 1.0, 0.5).expand(1, 3, -1, -1)).item() == 1
    assert found.scores[5:11, 9:15].mean() > {"block": 1.6, "grid": 1.2, "pixel": 1.03}[masks] * found.scores.mean()


@pytest.mark.parametrize(("masks", "tolerance"), [("block", 0.0), ("pixel", 1.0), ("grid", 48.0)])
def test_a_mutant_hides_the_share_that_its_chain_asks_for(masks, tolerance):
    """The first mutant of a chain hides a fifth; a window is cut off at the border, cells are as large as they are."""
    subject = Subject.of(patch_oracle, torch.ones(3, 24, 24))
    suite = generate_suite(subject, Explain(queries=64, chains=64, masks=masks), torch.Generator().manual_seed(0))
    hidden = suite.masks().flatten(1).sum(1).float()
    if masks == "block":
        assert hidden.max() == (2 * round((576 / 5) ** 0.5 / 2)) ** 2  # one in the middle of the picture
        assert hidden.min() >= hidden.max() / 4  # one in a corner
    else:
        assert (hidden - 576 / 5).abs().max() <= tolerance


def test_shares_grow_after_passes_and_shrink_after_failures():
    asked = []

    def answers(images):  # passes while less than half is hidden
        hidden = (images[:, 0] < 0.9).flatten(1).double().mean(1)
        asked.extend(hidden.tolist())
        return (hidden < 0.5).long()

    settings = Explain(queries=12, chains=1, masks="pixel")
    generate_suite(Subject.of(answers, torch.ones(3, 30, 20)), settings, torch.Generator().manual_seed(0))
    share, expected = 1 / 5, []
    for _ in range(12):
        expected.append(round(share * 600) / 600)
        share = min(max(share + (1 / 6 if expected[-1] < 0.5 else -1 / 6), 0), 1)
    assert asked[2:] == pytest.approx(expected)


def test_the_same_seed_gives_the_same_explanation_and_another_one_another():
    first, again, other = (
        explain(patch_oracle, torch.ones(3, 24, 24), generator=torch.Generator().manual_seed(seed)).scores
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_what_there_is_to_know_is_said():
    always = explain(lambda x: torch.zeros(len(x), dtype=torch.long), torch.ones(3, 8, 8), Explain(queries=9))
    assert "no mutant of 9 changed the answer" in always.note
    fragile = explain(lambda x: (x.flatten(1).amin(1) > 0.9).long(), torch.ones(3, 8, 8),
                      Explain(queries=8, chains=8, masks="pixel"))  # fmt: skip
    assert "every mutant of 8 changed the answer" in fragile.note
    assert explain(patch_oracle, torch.ones(3, 24, 24)).note == ""


def test_a_network_on_float64_is_explained_too():
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 3)).double().eval()
    picture = torch.rand(3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for method in ("deepcover", "rise", "lime", "gradcam", "ig"):
        if method == "gradcam":
            with pytest.raises(VergenceError, match="no layer whose output is a map"):
                explain(network, picture, Explain(method, queries=20))
            continue
        assert explain(network, picture, Explain(method, queries=20)).scores.isfinite().all()


# Prediction -----------------------------------------------------------------------------------------------------------


def test_files_hold_what_the_result_says(weights, here, capsys):
    written(here)
    args = ["--method", "rise,deepcover", "--queries", "16", "--curves", "5", "--weights", weights]
    assert main(["predict", "deepcover", "a.png", *args, "-o", "out", "--json", *ALONE]) == 0
    told = json.loads(capsys.readouterr().out)["result"]
    rows = list(csv.DictReader((here / "out" / "explanations.csv").open()))
    assert [row["method"] for row in rows] == ["rise", "deepcover"]
    assert {row["answer"] for row in rows} <= set(NAMES)
    for row, size in zip(rows, told["sizes"][0], strict=True):
        scores = np.load(here / "out" / "maps" / f"a-{row['method']}.npy")
        assert scores.shape == (48, 48)
        with Image.open(here / "out" / "sets" / f"a-{row['method']}.png") as cut:
            visible = np.asarray(cut)[..., 3] > 0
        assert visible.mean() == pytest.approx(size)
        assert float(row["sufficient set, %"]) == pytest.approx(100 * size, abs=1e-3)
    assert sum(int(rows[1][f"mutants that {what}"]) for what in ("kept the answer", "changed it")) == 16
    curves = list(csv.DictReader((here / "out" / "curves.csv").open()))
    assert len(curves) == 2 * 6
    assert curves[5]["insertion"] == curves[0]["deletion"]  # the whole picture


def test_an_onnx_file_is_explained_without_gradients(onnx, here, capsys):
    name = written(here, bright=slice(0, 12))
    args = ["--classifier", str(onnx), "--queries", "24"]
    assert main(["predict", "deepcover", name, *args, "--method", "deepcover,occlusion", "-o", "out", *ALONE]) == 0
    capsys.readouterr()
    for method in ("gradcam", "ig", "extremal"):
        message = refused(capsys, name, *args, "--method", method)
        assert f"{method} needs gradients" in message
        assert "halves.onnx" in message
    (here / "names.txt").write_text("left\nright\n")
    result = vergence.load("deepcover").predict(
        images=[name], classifier=str(onnx), queries=40, names="names.txt", background="black"
    )
    assert result.answers == ("left",)
    assert result.scores[0].shape == (1, 16, 16)
    assert result.scores[0][0, :, :8].mean() > result.scores[0][0, :, 8:].mean()


def test_an_onnx_classifier_resizes_and_normalises(onnx):
    classifier = OnnxClassifier(onnx, (0.5,) * 3, (0.25,) * 3)
    picture = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    plain = ((picture - 0.5) / 0.25).view(2, 3, 16, 2, 8).sum((1, 2, 4))
    torch.testing.assert_close(classifier(picture), plain, rtol=1e-4, atol=1e-4)
    assert classifier(torch.rand(1, 3, 40, 30)).shape == (1, 2)


@pytest.mark.parametrize("content", [b"", b"\x08\x07", b"not a network at all" * 10])
def test_a_file_that_is_no_network_is_named(content, here, capsys):
    written(here)
    (here / "bad.onnx").write_bytes(content)
    assert "bad.onnx" in refused(capsys, "a.png", "--classifier", "bad.onnx")
    assert not (here / "out").exists()


def test_wrong_inputs_get_a_sentence(weights, here, capsys):
    written(here)
    Image.new("RGB", (30, 30), (9, 9, 9)).save(here / "plain.png")
    (here / "empty.txt").touch()
    given = ["--weights", weights]
    said = {
        ("plain.png", *given): "plain.png is all one colour",
        ("a.png", "--method", "raise", *given): "did you mean 'rise'",
        ("a.png", "--method", "rise,rise", *given): "different names",
        ("a.png", "--method", ",", *given): "one or more",
        ("a.png", "--queries", "0", *given): "1 to 10 million queries",
        ("a.png", "--side", "3", *given): "side is from 16 to 1024",
        ("a.png", "--curves", "-1", *given): "curves have 0",
        ("a.png", "--mean", "0.5", *given): "mean and std are given together",
        ("a.png", "--mean", "a", "--std", "b", *given): "expected numbers",
        ("a.png", "--classifier", "resnet"): "no classifier 'resnet'",
        ("a.png", "--classifier", "gone.onnx"): "gone.onnx",
        ("a.png", "--classifier", "gone.safetensors"): "gone.safetensors",
        ("a.png", "--names", "empty.txt", *given): "empty.txt has no class names",
        ("gone.png", *given): "gone.png",
    }
    for args, sentence in said.items():
        assert sentence in refused(capsys, *args)
    assert not (here / "out").exists()


def test_a_picture_of_one_colour_is_left_out_and_counted(weights, here):
    written(here)
    Image.new("RGB", (30, 30), (9, 9, 9)).save(here / "plain.png")
    result = vergence.load(weights).predict(images=["plain.png", "a.png"], queries=8)
    assert result.names == ("a",)
    assert result.left_out == ("plain.png is all one colour: there is nothing in it to explain",)
    assert "left out" in result.summary()


def test_pictures_with_one_name_keep_their_own_files(weights, here):
    for folder in ("one", "two"):
        (here / folder).mkdir()
        written(here / folder)
    result = vergence.load(weights).predict(images=["one/a.png", "two/a.png"], queries=8)
    assert result.names == ("a", "a-2")


def test_the_slice_that_traces_are_made_of_can_be_evaluated(tmp_path):
    system = catalogue.load("deepcover")
    changes = {"data.things": 1, "data.pictures": 7, "explain.queries": 8}
    config, facts = system.configure("tiny", "deepcover", changes), system.settings.facts(7, NAMES)
    ctx = Context(config, tmp_path, facts)
    some = system.slice(system.data(ctx, "test"))
    assert len(some) == 4
    assert "accuracy" in system.evaluate(ctx, system.build(config, facts).eval(), some)
