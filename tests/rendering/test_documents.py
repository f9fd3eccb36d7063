"""Rendered lines and tables: what they say is where they say it is."""

import numpy as np
import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.rendering.documents import text
from vergence.rendering.documents.fonts import COMPUTER_MODERN, HELD_OUT, TRAINING, Face, covers, in_folder, opened
from vergence.rendering.documents.paper import Wear, turned, turned_size, worn
from vergence.rendering.documents.random_tables import random_cells, random_table
from vergence.rendering.documents.tables import Cell, Look, typeset
from vergence.rendering.documents.typeset import Style, line, random_style, starts


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def ink(image, box, paper=255):
    """Whether anything is printed inside a box, and outside of it."""
    left, top, right, bottom = (round(v) for v in box)
    dark = (image < paper - 60).any(-1)
    inside = dark[max(top, 0) : bottom, max(left, 0) : right].sum()
    return int(inside), int(dark.sum() - inside)


PLAIN = Style(TRAINING[0], 24)


@pytest.mark.parametrize("face", [*TRAINING, *HELD_OUT], ids=lambda face: face.file)
def test_every_face_prints_letters_that_differ(face):
    letters = "".join(sorted(COMPUTER_MODERN - {" "}))
    pictures = {line(letter, Style(face, 32)).image.tobytes() for letter in letters}
    assert len(pictures) > 0.95 * len(letters)  # an l and an I may be alike
    assert all(ink(line(letter, Style(face, 32)).image, (0, 0, 99, 99))[0] > 0 for letter in letters)


def test_faces_that_are_tested_are_not_trained_on():
    assert not {face.file for face in TRAINING} & {face.file for face in HELD_OUT}
    for seed in range(30):
        assert random_style(seeded(seed), "Ab 1", held_out=True).face in HELD_OUT
        assert random_style(seeded(seed), "5 €").face in TRAINING
        assert covers(random_style(seeded(seed), "5 €").face, "5 €")


@pytest.mark.parametrize("spacing", [0.0, 3.0])
def test_the_ink_of_a_line_is_inside_its_characters(spacing):
    shown = line("To be, or 12.5!", Style(TRAINING[0], 30, spacing=spacing))
    assert len(shown.characters) == len(shown.text)
    assert [word for word, _ in shown.words] == ["To", "be,", "or", "12.5!"]
    for word, box in shown.words:
        wide = (box[0] - 2, box[1] - 1, box[2] + 2, box[3] + 1)
        assert ink(shown.image, wide)[0] > 10, word
    every = (
        shown.characters[0][0] - 2,
        shown.characters[0][1] - 1,
        shown.characters[-1][2] + 2,
        shown.characters[0][3] + 1,
    )
    assert ink(shown.image, every)[1] == 0
    gap = (shown.characters[2][0] + 2, 0, shown.characters[2][2] - 2, 99)
    assert ink(shown.image, gap)[0] == 0


def test_kerning_is_the_fonts_own():
    style = Style(Face("DejaVuSerif", "serif"), 64)
    font = opened(style.face, 64)
    assert starts("AV", style)[-1] == font.getlength("AV") < font.getlength("A") + font.getlength("V")


def test_an_empty_line_has_no_characters():
    shown = line("", PLAIN)
    assert shown.characters == shown.words == ()
    assert line("  ", PLAIN).words == ()


def test_texts_repeat_with_their_generator_and_use_what_fonts_have():
    assert text.phrase(seeded(4), 3, 9) == text.phrase(seeded(4), 3, 9)
    makers = (text.word, text.integer, text.decimal, text.amount, text.date, text.measure, text.code, text.phrase)
    for maker in makers:
        drawn = {maker(seeded(seed)) for seed in range(40)}
        assert len(drawn) > 15, maker
        assert all(each and each == each.strip() for each in drawn)
    assert len(text.words()) == len(set(text.words())) > 800


# Wear -----------------------------------------------------------------------------------------------------------------


def test_a_page_without_wear_is_itself():
    page = line("As it is", PLAIN).image
    assert np.array_equal(worn(page, Wear(), seeded()), page)
    assert Wear.drawn(seeded(), 0.0) == Wear() or Wear.drawn(seeded(), 0.0).quality == 100


@pytest.mark.parametrize("degrees", [5.0, -30.0, 90.0])
def test_points_of_a_turned_page_are_where_it_shows_them(degrees):
    page = np.full((60, 100, 3), 255, np.uint8)
    page[18:23, 68:73] = 0  # around (70.5, 20.5)
    shown = worn(page, Wear(skew=degrees), seeded())
    assert shown.shape[:2] == turned_size(degrees, 60, 100)
    rows, columns = np.nonzero(shown[..., 0] < 128)
    expected = turned(np.array([[70.5, 20.5]]), degrees, 60, 100)[0]
    assert columns.mean() + 0.5 == pytest.approx(expected[0], abs=0.3)
    assert rows.mean() + 0.5 == pytest.approx(expected[1], abs=0.3)


@pytest.mark.parametrize(
    "change", [{"blur": 1.0}, {"noise": 8.0}, {"texture": 8.0}, {"light": 0.3}, {"ink": 0.1}, {"quality": 20}]
)
def test_wear_changes_a_page_and_leaves_it_legible(change):
    page = line("Legible 123", Style(TRAINING[0], 32)).image
    shown = worn(page, Wear(**change), seeded())
    assert shown.shape == page.shape
    assert not np.array_equal(shown, page)
    assert np.corrcoef(shown.ravel(), page.ravel())[0, 1] > 0.8
    assert np.array_equal(shown, worn(page, Wear(**change), seeded()))


# Tables ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_cells_cover_a_table_once_and_hold_their_ink(seed):
    table = random_table(seeded(seed), held_out=bool(seed % 2))
    taken = np.zeros((table.rows, table.columns), int)
    height, width = table.image.shape[:2]
    for cell in table.cells:
        taken[cell.start_row : cell.end_row + 1, cell.start_column : cell.end_column + 1] += 1
        left, top, right, bottom = cell.box
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
        assert (cell.ink is None) == (not cell.text.strip())
        if cell.ink is not None:
            assert cell.ink[0] >= left - 1
            assert cell.ink[1] >= top - 1
            assert cell.ink[2] <= right + 1
            assert cell.ink[3] <= bottom + 1
            assert ink(table.image, cell.ink, 200)[0] > 0
    assert (taken == 1).all()


def test_random_tables_have_spans_lines_and_empty_cells():
    every = [cell for seed in range(40) for cell in random_table(seeded(seed)).cells]
    assert any(cell.end_row > cell.start_row and not cell.header for cell in every)
    assert any(cell.end_column > cell.start_column and cell.header for cell in every)
    assert any(cell.end_column > cell.start_column and not cell.header for cell in every)
    assert any(len(cell.lines) == 2 for cell in every)
    assert any(not cell.lines for cell in every)


def test_boxes_of_cells_that_touch_share_their_border():
    look = Look(TRAINING[0], TRAINING[1], rules="none")
    cells = [Cell(("a",), 0, 0, 0, 1), Cell(("bbbbbbbbb",), 1, 1, 0, 0), Cell(("c",), 1, 1, 1, 1)]
    table = typeset(cells, look)
    top, left, right = (cell.box for cell in table.cells)
    assert top[3] == left[1] == right[1]
    assert left[2] == right[0]
    assert (top[0], top[2]) == (left[0], right[2])
    outside = table.image.copy()
    for cell in table.cells:
        a, b, c, d = (round(v) for v in cell.ink)
        outside[b - 1 : d + 1, a - 1 : c + 1] = 255
    assert (outside == 255).all()  # without rules, nothing else is printed


@pytest.mark.parametrize("rules", ["all", "rows", "book"])
def test_rules_run_along_the_borders_of_cells(rules):
    look = Look(TRAINING[0], TRAINING[1], rules=rules)
    cells = [Cell((" ",), r, r, c, c, header=r == 0) for r in range(3) for c in range(2)]
    table = typeset(cells, look)
    dark = (table.image < 128).all(-1)
    bottom = round(table.cells[-1].box[3])
    assert dark[bottom - 3 : bottom + 3].any(0).mean() > 0.5
    sides = [dark[:, round(cell.box[2]) - 2 : round(cell.box[2]) + 2].any(1).mean() for cell in table.cells[:1]]
    assert (sides[0] > 0.5) == (rules == "all")


def test_wrong_tables_and_fonts_are_named(tmp_path):
    look = Look(TRAINING[0], TRAINING[1])
    with pytest.raises(VergenceError, match="row 0, column 0 of a table belongs to 2 cells"):
        typeset([Cell(("a",), 0, 0, 0, 0), Cell(("b",), 0, 0, 0, 0)], look)
    with pytest.raises(VergenceError, match="row 0, column 1 of a table belongs to 0 cells"):
        typeset([Cell(("a",), 0, 0, 0, 0), Cell(("b",), 1, 1, 0, 1)], look)
    with pytest.raises(VergenceError, match="2 rows and 2 columns"):
        random_cells(seeded(), 1, 4)
    with pytest.raises(VergenceError, match="no fonts"):
        in_folder(tmp_path)
    (tmp_path / "bad.ttf").write_bytes(b"no font")
    with pytest.raises(VergenceError, match=r"bad.ttf is not a font"):
        in_folder(tmp_path)
    with pytest.raises(VergenceError, match="1 to 512 pixels"):
        opened(TRAINING[0], 0)


def test_a_folder_of_fonts_gives_their_styles(tmp_path):
    for face in (TRAINING[1], TRAINING[6], TRAINING[7]):
        (tmp_path / f"{face.file}.ttf").write_bytes(face.path.read_bytes())
    found = {face.path.stem: face[1:] for face in in_folder(tmp_path)}
    assert found == {face.file: face[1:] for face in (TRAINING[1], TRAINING[6], TRAINING[7])}
