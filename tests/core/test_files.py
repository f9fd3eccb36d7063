"""Files are whole or not there."""

import json
import os

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.core.files import replacing, save_tensors, write_json
from vergence.reading.tables import read_json
from vergence.reading.weights import load_archive, load_tensors, read_metadata


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, 1)
    with pytest.raises(RuntimeError), replacing(path) as partial:
        partial.write_text("half")
        raise RuntimeError("the power went")
    assert read_json(path) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_tensors_come_back_with_their_metadata_even_when_they_share_memory(tmp_path):
    path = tmp_path / "w.safetensors"
    a = torch.randn(3, 4)
    save_tensors(path, {"a": a, "tied": a, "column": a[:, :1], "b": torch.ones(2, dtype=torch.bfloat16)}, {"k": "v"})
    found, metadata = load_tensors(path)
    assert metadata == {"k": "v"} == read_metadata(path)
    for name, expected in {"a": a, "tied": a, "column": a[:, :1], "b": torch.ones(2, dtype=torch.bfloat16)}.items():
        assert torch.equal(found[name], expected)


def test_weights_can_be_read_by_whoever_may_read_other_files(tmp_path):
    (tmp_path / "other").touch()
    save_tensors(tmp_path / "w.safetensors", {"a": torch.ones(2)})
    assert (tmp_path / "w.safetensors").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_equal_tensors_are_equal_files(tmp_path):
    for name in ("one", "two"):
        save_tensors(tmp_path / name, {"b": torch.ones(3), "a": torch.zeros(2)}, {"vergence": "x"})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("cut", [0, 4, 9, -1])
def test_a_cut_weights_file_is_refused_by_name(cut, tmp_path):
    path = tmp_path / "w.safetensors"
    save_tensors(path, {"a": torch.zeros(50)})
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(VergenceError, match=r"w\.safetensors is not a"):
        load_tensors(path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe"])
def test_broken_json_is_refused_by_name(content, tmp_path):
    path = tmp_path / "c.json"
    path.write_bytes(content)
    with pytest.raises(VergenceError, match=r"c\.json is not readable JSON"):
        read_json(path)
    with pytest.raises(VergenceError, match="does not exist"):
        read_json(tmp_path / "nowhere.json")


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(VergenceError, match="cannot write"):
        write_json(tmp_path / "file" / "a.json", json.dumps(1))


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_an_archive_that_would_run_code_is_refused_and_runs_nothing(tmp_path):
    mark = tmp_path / "mark"
    torch.save({"place": Evil(mark)}, tmp_path / "state.pt")
    with pytest.raises(VergenceError, match=r"state\.pt is not a torch archive of plain data"):
        load_archive(tmp_path / "state.pt")
    assert not mark.exists()
