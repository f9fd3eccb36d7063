"""Rendered data is kept once it was dear, read again, and never read by other code."""

import pytest
import torch

from vergence.data import rendered as module
from vergence.data.rendered import rendered


@pytest.fixture
def calls(monkeypatch, tmp_path):
    monkeypatch.setenv("VERGENCE_HOME", str(tmp_path))
    monkeypatch.setattr(module, "WORTH", -1.0)
    return []


def ask(calls, seed=0, code=("vergence.rendering",)):
    def render():
        calls.append(seed)
        return {"pictures": torch.full((4,), seed)}

    return rendered("test", {"seed": seed}, code, render)


def test_the_same_question_is_rendered_once(calls):
    first, again, other = ask(calls), ask(calls), ask(calls, 1)
    assert torch.equal(first["pictures"], again["pictures"])
    assert other["pictures"].tolist() == [1] * 4
    assert calls == [0, 1]


def test_other_code_renders_again(calls):
    ask(calls)
    ask(calls, code=("vergence.rendering", "vergence.data.images"))
    assert calls == [0, 0]


def test_what_is_cheap_is_not_kept(calls, monkeypatch):
    monkeypatch.setattr(module, "WORTH", 60.0)
    ask(calls)
    ask(calls)
    assert calls == [0, 0]


def test_a_damaged_file_is_rendered_again(calls, tmp_path):
    ask(calls)
    (path,) = (tmp_path / "rendered").iterdir()
    path.write_bytes(b"half")
    assert ask(calls)["pictures"].tolist() == [0] * 4
    assert calls == [0, 0]


def test_the_oldest_go_when_there_is_no_room(calls, tmp_path, monkeypatch):
    ask(calls, 0)
    (first,) = (tmp_path / "rendered").iterdir()
    monkeypatch.setattr(module, "MOST", first.stat().st_size + 1)
    ask(calls, 1)
    assert len(list((tmp_path / "rendered").glob("*.safetensors"))) == 1
    assert not first.exists()
