"""Lines of a page are found where they were set, also if the page is turned, dark or in columns."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from vergence.documents.ink import even_light, inked
from vergence.documents.page import LineBox, find_lines, find_skew, reading_order
from vergence.rendering.documents.fonts import Face, opened

FONT = opened(Face("DejaVuSerif", "serif"), 18)


def page(texts, places, size=(420, 300), turn=0.0, ink=20, paper=235):
    own = Image.new("L", size, paper)
    for text, place in zip(texts, places, strict=True):
        ImageDraw.Draw(own).text(place, text, ink, FONT)
    own = own.rotate(turn, Image.Resampling.BICUBIC, fillcolor=paper).convert("RGB")
    return torch.from_numpy(np.array(own)).permute(2, 0, 1).contiguous()


TEXTS = ["Letters of the first line", "and of the second, longer one", "a third, with a full stop."]
PLACES = [(30, 40), (30, 90), (30, 140)]


@pytest.mark.parametrize(("ink", "paper"), [(20, 235), (240, 30), (150, 190)])
def test_lines_are_found_in_order_with_any_colours(ink, paper):
    found = find_lines(page(TEXTS, PLACES, ink=ink, paper=paper))
    assert len(found.lines) == 3
    for box, (x, y), text in zip(found.lines, PLACES, TEXTS, strict=True):
        assert box.left <= x + 2
        assert abs(box.right - (x + FONT.getlength(text))) < 8
        assert y - 6 < box.top < box.bottom < y + 34


def test_a_title_is_one_line_however_small_the_text_below_it():
    own = Image.new("L", (700, 260), 235)
    ImageDraw.Draw(own).text((20, 10), "Signs of gravity", 20, opened(Face("DejaVuSerif", "serif"), 64))
    for number in range(5):
        text = "and some of what there is to say of it, in letters of the usual size"
        ImageDraw.Draw(own).text((20, 110 + 26 * number), text, 20, opened(Face("DejaVuSerif", "serif"), 14))
    found = find_lines(torch.from_numpy(np.array(own.convert("RGB"))).permute(2, 0, 1).contiguous())
    assert len(found.lines) == 6
    assert found.lines[0].left < 30
    assert found.lines[0].right > 530
    assert found.lines[0].bottom - found.lines[0].top > 55


def test_light_letters_in_a_filled_box_are_ink_as_dark_ones_beside_it_are():
    own = Image.new("L", (420, 120), 235)
    pen = ImageDraw.Draw(own)
    pen.rectangle((20, 10, 400, 50), fill=110)
    pen.text((40, 20), "Totals by year", 250, FONT)
    pen.text((40, 75), "Totals by year", 20, FONT)
    ink = inked(torch.from_numpy(np.array(own)).repeat(3, 1, 1))
    rows, columns = ink[70:105].any(1).nonzero()[0], ink[70:105].any(0).nonzero()[0]
    assert (ink[15:50, 30:390].any(1).nonzero()[0] == rows).all()
    share = (ink[15:50] & ink[70:105]).sum() / (ink[15:50] | ink[70:105])[:, columns[0] : columns[-1] + 1].sum()
    assert share > 0.9
    dark = Image.new("L", (420, 120), 235)
    ImageDraw.Draw(dark).rectangle((20, 10, 400, 50), fill=150)
    ImageDraw.Draw(dark).text((40, 20), "Totals by year", 10, FONT)
    kept = inked(torch.from_numpy(np.array(dark)).repeat(3, 1, 1))
    assert kept[20:45, columns[0] : columns[-1] + 1].any(0).mean() > 0.7


def test_paper_in_light_that_falls_off_is_even():
    lit = page(TEXTS, PLACES).float()
    light = torch.linspace(0.25, 1.0, lit.shape[-1]) * torch.linspace(0.7, 1.0, lit.shape[-2])[:, None]
    even = even_light((lit * light).byte(), 45)[0].float()
    paper = lit[0] > 230
    off = (even - even[paper].median()).abs().where(paper, 0)
    assert off[30:-30, 30:-30].max() < 12
    assert off.max() < 40  # at the edges, the paper beyond is not known
    assert even[lit[0] < 40].median() < 60


@pytest.mark.parametrize("turn", [-3.0, 2.0])
def test_a_turned_page_is_turned_back(turn):
    found = find_lines(page(TEXTS, PLACES, turn=turn))
    assert found.skew == pytest.approx(-turn, abs=0.3)
    assert len(found.lines) == 3


def test_a_level_page_is_left_alone():
    picture = page(TEXTS, PLACES)
    assert find_lines(picture).skew == 0
    assert find_skew(inked(picture), 5.0) == 0


@pytest.mark.parametrize("size", [14, 24, 40, 64])
def test_commas_and_what_follows_them_stay_in_their_line(size):
    font, texts = opened(Face("DejaVuSans", "sans"), size), ["pay, quoting, Q/7;", "Ms Whitfield,", "a, b, j, q."]
    own = Image.new("RGB", (int(font.getlength(texts[0])) + 60, 6 * size), "white")
    for k, text in enumerate(texts):
        ImageDraw.Draw(own).text((20, size * (0.7 + 1.6 * k)), text, (20, 20, 20), font)
    found = find_lines(torch.from_numpy(np.array(own)).permute(2, 0, 1))
    assert len(found.lines) == 3
    for box, text in zip(found.lines, texts, strict=True):
        assert abs(box.right - (20 + font.getlength(text))) < 0.4 * size


def test_columns_are_read_one_after_the_other():
    places = [(10, y) for y in (20, 60, 100)] + [(260, y) for y in (22, 62, 102)]
    found = find_lines(page([f"text {k} here" for k in range(6)], places))
    assert [box.left > 200 for box in found.lines] == [False] * 3 + [True] * 3


@pytest.mark.parametrize("size", [(1, 1), (3, 200), (200, 200)])
def test_pictures_without_ink_have_no_lines(size):
    assert find_lines(torch.full((3, *size), 200).byte()).lines == ()
    noise = (200 + torch.randn(3, *size, generator=torch.Generator().manual_seed(0))).byte()
    assert find_lines(noise).lines == ()


def test_a_bent_line_is_made_level():
    ramp = np.zeros((60, 100))
    box = LineBox(0, 20, 100, 30, tilt=6.0)
    rows = np.clip(np.round(25 + box.lower(np.arange(100) + 0.5)).astype(int), 0, 59)
    ramp[rows, np.arange(100)] = 1.0
    cut = box.cut(ramp)
    assert cut.shape == (10, 100)
    assert (cut[4:7].sum(0) > 0.9).all()
    assert box.outer(60) == (0, 14, 100, 36)


def test_reading_order_of_rows_and_none():
    assert reading_order([]) == []
    rows = [LineBox(0, 50, 90, 60), LineBox(0, 0, 90, 10), LineBox(0, 25, 90, 35)]
    assert [b.top for b in reading_order(rows)] == [0, 25, 50]
