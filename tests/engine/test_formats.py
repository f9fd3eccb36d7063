"""What an older version wrote is read for ever, or it is said why not: one stored run for each format there was."""

import shutil
from pathlib import Path

import pytest

from vergence.contract.training import phases_of
from vergence.core.progress import Progress
from vergence.engine.execute import execute
from vergence.engine.weights import load_model
from vergence.runs.folder import Run

FORMATS = sorted(p for p in (Path(__file__).parent / "formats").iterdir() if p.is_dir())


@pytest.mark.parametrize("stored", FORMATS, ids=lambda p: p.name)
def test_a_stored_run_goes_on_from_where_it_was(stored, tmp_path):
    run = Run.open(Path(shutil.copytree(stored, tmp_path / "run")))
    said = []

    class Heard(Progress):
        def say(self, text):
            said.append(text)

    began = run.records()
    execute(run, Heard())
    assert said[0] == "run resumes from step 11"
    assert run.records()[: len(began)] == began
    errors = [line["metrics"]["error"] for line in run.records() if line.get("split") == "val"]
    assert errors == sorted(errors, reverse=True)
    assert run.records()[-1]["total"] == phases_of(run.order.config)["train"].steps


@pytest.mark.parametrize("stored", FORMATS, ids=lambda p: p.name)
def test_its_weights_are_read(stored):
    model, identity = load_model(stored / "checkpoints" / "000001" / "weights.safetensors")
    assert identity.system == "fake-byhand"
    assert sum(p.numel() for p in model.parameters()) == 33
