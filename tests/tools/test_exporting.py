"""Exports: the file computes what the model does, says what it is, and what cannot be exported is named."""

import json
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import vergence
from helpers import short, start
from vergence import catalogue
from vergence.cli.main import main
from vergence.contract.identity import Identity
from vergence.contract.settings import NoFacts
from vergence.contract.system import System
from vergence.core.errors import VergenceError
from vergence.core.progress import Progress
from vergence.engine.execute import execute
from vergence.tools import exporting
from vergence.tools.exporting import CannotExport, export


@pytest.fixture
def weights(here):
    run = start("fake-byhand", short(catalogue.load("fake-byhand"), 2), here / "runs", variant="sign")
    execute(run, Progress())
    return run.weights


def test_a_torch_program_runs_without_its_class_and_says_what_it_is(weights, here, capsys):
    assert main(["export", "fake-byhand", "--to", "torch", "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["path"] == "fake-byhand-sign.pt2"
    assert found["inputs"] == {"input": ["batch", 6]}
    assert found["outputs"] == [["batch", 1]]
    extra = {"vergence.json": ""}
    program = torch.export.load("fake-byhand-sign.pt2", extra_files=extra).module()
    given = torch.randn(5, 6)
    torch.testing.assert_close(program(given), vergence.load(weights)(given))
    note = json.loads(extra["vergence.json"])
    assert (note["system"], note["variant"], note["facts"]) == ("fake-byhand", "sign", {})
    assert note["config"]["sign_step"] == 0.01
    assert "preprocessing" in note


def test_an_onnx_file_runs_in_another_program_and_says_what_it_is(weights, here, capsys):
    onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    assert main(["export", "fake-byhand", "--to", "onnx", "-o", "out/a.onnx", "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["difference"] <= 1e-5
    assert found["checked_with"].startswith("onnxruntime")
    model = onnx.load("out/a.onnx")
    onnx.checker.check_model(model, full_check=True)
    note = json.loads({p.key: p.value for p in model.metadata_props}["vergence"])
    assert note["system"] == "fake-byhand"
    session = onnxruntime.InferenceSession("out/a.onnx", providers=["CPUExecutionProvider"])
    given = torch.randn(5, 6)
    (out,) = session.run(None, {"input": given.numpy()})
    torch.testing.assert_close(torch.from_numpy(out), vergence.load(weights)(given).detach())
    assert [p.name for p in (here / "out").iterdir()] == ["a.onnx"]


def test_people_are_told_what_was_written(weights, here, capsys):
    assert main(["export", "fake-byhand", "--to", "torch", "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "file: fake-byhand-sign.pt2" in said
    assert "input input: batch x 6" in said
    assert "differs by at most" in said


@dataclass(frozen=True)
class Config:
    seed: int = 0


class Shell(System):
    """A system around any module."""

    about, config_type = catalogue.about("fake-byhand"), Config

    def __init__(self, shape=(4, 4), fixed=False):
        self.shape, self.fixed = shape, fixed

    def build(self, config, facts):
        return nn.Identity()

    def example(self, config, facts, batch=1):
        return (torch.zeros(1 if self.fixed else batch, *self.shape),)


def written(module, path, target="torch", **shell):
    identity = Identity("fake-byhand", "tiny", "", Config(), NoFacts())
    return export(Shell(**shell), nn.Sequential(nn.Linear(4, 4), nn.Sequential(module)), identity, target, path)


class Undecided(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


class Eigenvalues(nn.Module):
    def forward(self, x):
        return torch.linalg.eigvalsh(x @ x.mT)


class Leaves(nn.Module):
    def forward(self, x):
        return x + torch.from_numpy(x.detach().numpy())


class Rows(nn.Module):
    """Of one sample alone."""

    def forward(self, x):
        return x.reshape(4, 4)


def test_code_that_depends_on_values_is_named_with_its_module(tmp_path, capfd):
    with pytest.raises(CannotExport, match=r"\(Undecided at '1.0'\): its control flow depends on computed values"):
        written(Undecided(), tmp_path / "a.pt2")
    with pytest.raises(CannotExport, match=r"\(Leaves at '1.0'\): .*numpy"):
        written(Leaves(), tmp_path / "a.pt2")
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_an_operator_that_onnx_has_not_is_named_with_its_module(tmp_path, capfd):
    pytest.importorskip("onnxscript")
    with pytest.raises(CannotExport, match=r"no operator for aten::_linalg_eigh \(in '1.0'\)") as refusal:
        written(Eigenvalues(), tmp_path / "a.onnx", "onnx")
    assert "\n" not in str(refusal.value)
    assert refusal.value.exit_code == 1
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")
    assert written(Eigenvalues(), tmp_path / "a.pt2").difference <= 1e-5  # torch.export has it


def test_a_model_of_one_sample_is_exported_with_its_own_batch(tmp_path):
    assert written(Rows(), tmp_path / "a.pt2").inputs == {"input": [1, 4, 4]}
    assert written(nn.ReLU(), tmp_path / "b.pt2", fixed=True).inputs == {"input": [1, 4, 4]}


def test_several_outputs_in_any_container_are_compared(tmp_path):
    class Several(nn.Module):
        def forward(self, x):
            return {"a": x, "b": [x.mean(), x.argmax(-1)]}

    found = written(Several(), tmp_path / "a.pt2")
    assert found.outputs == [["batch", 4, 4], [], ["batch", 4]]


def test_a_file_that_computes_something_else_is_not_kept(tmp_path, monkeypatch):
    real = exporting._torch_runner

    def skewed(path):
        run, what = real(path)
        return lambda *x: run(*x) * 1.01, what

    monkeypatch.setattr(exporting, "_torch_runner", skewed)
    with pytest.raises(CannotExport, match="does not compute what the model does"):
        written(nn.ReLU(), tmp_path / "a.pt2")
    assert list(tmp_path.iterdir()) == []


def test_onnx_is_checked_by_its_own_evaluator_without_its_runtime(tmp_path, monkeypatch):
    pytest.importorskip("onnxscript")
    there = exporting.find_spec
    monkeypatch.setattr(exporting, "find_spec", lambda name: None if name == "onnxruntime" else there(name))
    found = written(nn.ReLU(), tmp_path / "a.onnx", "onnx")
    assert found.checked_with.startswith("onnx 1")
    assert found.difference <= 1e-5


def test_a_missing_extra_is_one_sentence(weights, monkeypatch, capsys):
    monkeypatch.setattr(exporting, "find_spec", lambda name: None)
    assert main(["export", "fake-byhand", "--quiet"]) == 2
    err = capsys.readouterr().err
    assert "needs onnx and onnxscript: pip install 'vergence[export]'" in err
    assert err.count("\n") == 1


def test_the_model_is_left_as_it_was(tmp_path):
    model = vergence.create("fake-byhand").double().train()
    found = vergence.export(model, tmp_path / "a.pt2")
    assert found.target == "torch"
    assert model.training
    assert next(model.parameters()).dtype == torch.float64
    with pytest.raises(VergenceError, match=r"no format for .*a\.bin"):
        vergence.export(model, tmp_path / "a.bin")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["fake-ruler"], "fake-ruler offers no model to export"),
        (["fake-byhand"], "no weights of fake-byhand here"),
        (["fake-byhand", "--weights", "nowhere"], "nowhere does not exist"),
        ([], "needs the name of a system first"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence(args, said, here, capsys):
    assert main(["export", *args, "--quiet"] if args else ["export"]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_place_that_cannot_be_written_is_one_sentence(weights, here, capsys):
    (here / "file").write_text("")
    assert main(["export", "fake-byhand", "--to", "torch", "-o", "file/a.pt2", "--quiet"]) == 2
    err = capsys.readouterr().err
    assert "cannot write file/a.pt2" in err
    assert err.count("\n") == 1
