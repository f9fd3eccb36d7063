"""``vergence gallery`` from the command line."""

from __future__ import annotations

import importlib.util

import pytest

from vergence.cli.main import main


def test_without_gradio_it_says_how_to_get_it(monkeypatch, capsys):
    known = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "gradio" else known(name, *rest)
    )
    assert main(["gallery"]) == 2
    assert capsys.readouterr().err == (
        "vergence: the gallery needs Gradio, which is not installed: pip install 'vergence[app]'\n"
    )


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--port", "99999"], "--port is a number from 0 to 65535, got 99999"),
        (["--jobs", "0"], "--jobs is a number of at least 1, got 0"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(flags, sentence, capsys):
    assert main(["gallery", *flags]) == 2
    assert sentence in capsys.readouterr().err


def test_help_names_every_limit(capsys):
    assert main(["gallery", "--help"]) == 0
    told = capsys.readouterr().out
    for flag in (
        "--host",
        "--port",
        "--runs",
        "--no-open",
        "--upload-mb",
        "--video-seconds",
        "--job-seconds",
        "--jobs",
    ):
        assert flag in told
