"""The scripts in examples/ run as they are: with short settings here, as published in the slow tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[1]


def example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_block_goes_into_a_network_and_trains_with_it(here, capsys):
    found = example("own_network").main(["--steps", "3"])
    assert list(found) == ["as it is", "with snl"]
    assert all(0 <= value <= 100 for value in found.values())


@pytest.mark.slow
def test_the_block_lets_the_network_see_what_it_could_not(here):
    found = example("own_network").main([])
    assert found["with snl"] > found["as it is"] + 10


def test_a_student_is_distilled_from_a_teacher(here):
    found = example("distil_network").main(["--epochs", "2"])
    assert list(found) == ["teacher", "student alone", "student distilled"]
    assert all(0 <= value <= 100 for value in found.values())


@pytest.mark.slow
def test_the_distilled_student_is_better_than_the_one_alone(here):
    found = example("distil_network").main([])
    assert found["student distilled"] > found["student alone"] + 3


def test_a_video_is_made_and_tracked_in_with_starter_weights(here):
    shown = example("track_video").main(["--frames", "6"])
    with Image.open(shown) as strip:
        assert strip.width > strip.height
    assert (here / "tracked" / "tracked.mp4").stat().st_size > 1000


def test_photographs_are_found_by_a_part_of_them(here, monkeypatch):
    searching = example("search_photographs")
    monkeypatch.setattr(searching, "PHOTOGRAPHS", ("chelsea", "coffee"))
    page = searching.main(["--backbone", "resnet18", "--parts", "2"])
    assert page.is_file()
    assert "chelsea" in page.read_text(encoding="utf-8")


def test_a_video_without_a_box_and_a_folder_without_a_query_are_refused(here, capsys):
    for name, args, missing in (("track_video", ["a.mp4"], "--box"), ("search_photographs", ["folder"], "QUERY")):
        with pytest.raises(SystemExit) as left:
            example(name).main(args)
        assert left.value.code == 2
        assert missing in capsys.readouterr().err
