"""Checkpoints: whole or not at all, checked when read, never executed."""

import json
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.parametrize("name", ["²", "٣", "+7", "1_0", "7 ", "notes", ".hidden"])
def test_a_folder_with_another_name_is_not_a_checkpoint(name, tmp_path):
    save(tmp_path, 1)
    (tmp_path / "checkpoints" / name).mkdir()
    said = []
    assert checkpoint.latest(tmp_path, said.append).state["place"] == 1
    assert save(tmp_path, 2).name == "000002"
    assert not said


def test_a_file_or_a_loop_of_links_with_the_name_of_a_checkpoint_is_in_nobodys_way(tmp_path):
    save(tmp_path, 1)
    (tmp_path / "checkpoints" / "000002").write_text("a note")
    (tmp_path / "checkpoints" / "000003").symlink_to("000003")
    said = []
    assert checkpoint.latest(tmp_path, said.append).state["place"] == 1
    assert [save(tmp_path, n).name for n in (2, 3, 4)] == ["000004", "000005", "000006"]
    assert checkpoint.latest(tmp_path, said.append).state["place"] == 4
    assert not said
    assert not (tmp_path / "checkpoints" / "000001").exists()


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


LIMITED = """
import resource, signal, sys, torch
from pathlib import Path
from vergence.core.errors import VergenceError
from vergence.engine import checkpoint

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
weights, state = (torch.ones(int(size)) for size in sys.argv[2:])
try:
    checkpoint.save(Path(sys.argv[1]), {"w": weights}, {}, {"state": state})
except VergenceError as error:
    print(error)
"""


@pytest.mark.parametrize(("sizes", "name"), [((10, 100_000), "000001"), ((100_000, 10), "weights.safetensors")])
def test_what_the_system_says_of_a_failed_write_is_told(sizes, name, tmp_path):
    command = [sys.executable, "-c", LIMITED, str(tmp_path), *map(str, sizes)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.startswith("cannot write ")
    assert said.endswith(f"{name}: File too large\n")
    assert not any((tmp_path / "checkpoints").iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a system without /dev/full")
@pytest.mark.parametrize("size", [1, 100_000])
def test_a_full_disk_is_called_that(size, tmp_path, monkeypatch):
    opened = Path.open

    def full(path, *args, **options):
        return opened(Path("/dev/full") if path.name == "state.pt" else path, *args, **options)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(VergenceError, match=r"^cannot write the checkpoint .*/000001: No space left on device$"):
        checkpoint.save(tmp_path, WEIGHTS, {}, {"state": torch.ones(size)})
    assert not any((tmp_path / "checkpoints").iterdir())
