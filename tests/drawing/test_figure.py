"""Figures are written whole, and pages keep what they are given apart from what they are."""

from functools import partial

import numpy as np
import torch
from PIL import Image

from vergence.drawing.figure import PALETTE, Growth, colours, figure, growth, saved
from vergence.drawing.grid import Panel, grid
from vergence.drawing.page import write_page


def test_a_figure_is_a_png_of_the_size_that_was_asked_for(tmp_path):
    drawn = figure(2, 1)
    drawn.subplots().plot([0, 1], [0, 1], color=PALETTE[0])
    with Image.open(saved(drawn, tmp_path / "a.png")) as picture:
        assert picture.size == (220, 110)
        assert np.asarray(picture.convert("L")).min() < 200
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]
    assert saved(drawn, tmp_path / "a.svg").read_text().startswith("<?xml")


def test_colours_repeat_after_six():
    assert colours(8)[:6] == list(PALETTE)
    assert colours(8)[6] == PALETTE[0]


def test_growth_times_what_there_is_at_each_size_in_turns(tmp_path):
    called, given = [], []
    ours, theirs = ([partial(called.append, (name, n)) for n in (1, 2, 4)] for name in ("ours", "theirs"))
    panel = Growth("n", (1, 2, 4), {"ours": ours, "theirs": [*theirs[:2], None]}, lambda t: given.append(t) or "title")
    growth(tmp_path / "g.png", [panel], "seconds", rounds=2)
    in_turns = [("ours", "theirs"), ("ours", "theirs"), ("ours",)]
    assert called == [(name, n) for n, some in zip((1, 2, 4), in_turns, strict=True) for name in 3 * some]
    assert (tmp_path / "g.png").stat().st_size > 1000
    assert [[n for n, _ in given[0][name]] for name in ("ours", "theirs")] == [[1, 2, 4], [1, 2]]


def test_a_grid_takes_floats_outside_the_unit_range_without_a_warning(tmp_path, caplog):
    picture = torch.linspace(-0.2, 1.2, 3 * 4 * 4).reshape(3, 4, 4)  # as after bicubic resizing
    assert grid(tmp_path / "g.png", [[Panel(picture, "overshoot")]]).exists()
    assert caplog.text == ""


def test_a_page_escapes_what_it_is_given_and_keeps_its_style(tmp_path):
    body, style = "<p>{{ said }}</p>", "p > b { color: red }"
    text = write_page(tmp_path / "p.html", "<T>", "a & b", body, style, said="<i>").read_text()
    assert "&lt;T&gt;" in text
    assert "a &amp; b" in text
    assert "<p>&lt;i&gt;</p>" in text
    assert "p > b { color: red }" in text
    assert "http" not in text
