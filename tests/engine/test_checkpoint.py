"""Checkpoints: whole or not at all, checked when read, never executed."""

import json

import pytest
import torch

from vergence.contract.config import digest
from vergence.core.errors import VergenceError
from vergence.engine import checkpoint

WEIGHTS = {"w": torch.arange(100.0)}


def save(run, step=1):
    return checkpoint.save(run, WEIGHTS, {"k": "v"}, {"place": step, "nested": [{"t": torch.ones(2)}]})


def test_what_is_saved_comes_back(tmp_path):
    save(tmp_path, 7)
    found = checkpoint.latest(tmp_path, print)
    assert found.state["place"] == 7
    assert torch.equal(found.state["nested"][0]["t"], torch.ones(2))
    assert torch.equal(found.weights["w"], WEIGHTS["w"])
    assert found.metadata == {"k": "v"}
    assert (tmp_path / "last.safetensors").read_bytes() == (found.folder / "weights.safetensors").read_bytes()


@pytest.mark.parametrize("name", ["weights.safetensors", "state.pt", "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before_it(name, damage, tmp_path):
    save(tmp_path, 1)
    path = save(tmp_path, 2) / name
    content = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    else:
        content[len(content) // 2] ^= 1
        path.write_bytes(content if damage == "flip" else content[:-5])
    said = []
    assert checkpoint.latest(tmp_path, said.append).state["place"] == 1
    assert len(said) == 1
    assert "000002" in said[0]
    assert "using the one before it" in said[0]


def test_a_half_written_folder_is_not_a_checkpoint(tmp_path):
    save(tmp_path, 1)
    partial = tmp_path / "checkpoints" / ".000002.1.partial"
    partial.mkdir()
    (partial / "weights.safetensors").write_bytes(b"half")
    assert checkpoint.latest(tmp_path, print).state["place"] == 1


def test_no_checkpoint_is_none(tmp_path):
    assert checkpoint.latest(tmp_path, print) is None


def rewrite(folder, **changes):
    """A manifest with other contents, properly sealed."""
    manifest = json.loads((folder / "manifest.json").read_text()) | changes
    manifest.pop("seal")
    (folder / "manifest.json").write_text(json.dumps(manifest | {"seal": digest(manifest)}))


def test_a_checkpoint_of_another_format_is_not_taken_for_a_damaged_one(tmp_path):
    rewrite(save(tmp_path, 1), format=0, version="0.0.9")
    with pytest.raises(VergenceError, match=r"has format 0, written by Vergence 0.0.9; .*--init .* starts a new run"):
        checkpoint.latest(tmp_path, print)


def test_a_format_that_was_flipped_is_damage(tmp_path):
    save(tmp_path, 1)
    path = save(tmp_path, 2) / "manifest.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 3'))
    assert checkpoint.latest(tmp_path, lambda text: None).state["place"] == 1


def test_a_manifest_cannot_leave_a_file_out(tmp_path):
    folder = save(tmp_path, 1)
    rewrite(folder, files={"../../x": {}})
    with pytest.raises(VergenceError, match="weights.safetensors is not what was written"):
        checkpoint.read(folder)
