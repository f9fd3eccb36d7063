"""Tables from files and from the renderer, what can be seen of them without a network, and who reads their cells."""

import stat

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from documents.tabstruct import fixtures
from vergence.core.errors import VergenceError
from vergence.data.images import read_image
from vergence.documents import table_text
from vergence.documents.table_annotations import html_spans
from vergence.documents.table_ink import content_box, enclosed, letter_size, parted, uncovered, upright
from vergence.documents.table_layouts import LAYOUTS
from vergence.documents.table_text import read_cells, texts_of
from vergence.documents.tables import Fitted, Recipe, RenderedTables, as_ink, mirrored, render
from vergence.ops.table_relations import alignment_loss
from vergence.rendering.documents.fonts import Face, opened

SPANS = [list(span) for _, span, _ in fixtures.cells()]
CELLS = torch.tensor([box for _, _, box in fixtures.cells()], dtype=torch.float32)
INK = torch.tensor([fixtures.ink(text, box) for text, _, box in fixtures.cells()])


def overlap(a, b):
    low, high = torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:])
    both = (high - low).clamp(min=0).prod(1)
    return both / ((a[:, 2:] - a[:, :2]).prod(1) + (b[:, 2:] - b[:, :2]).prod(1) - both)


@pytest.mark.parametrize("name", ["folder", "scitsr", "icdar13", "ctdar", "unlv", "pubtabnet", "tabstruct"])
def test_readers_put_cells_and_texts_where_they_are(name, tmp_path):
    fixtures.layouts[name](tmp_path / "data")
    sample = LAYOUTS[name].read(tmp_path / "data", "test")[0]
    assert sample.spans[:9].tolist() == SPANS
    cut = sample.picture.shape[-2:] != (96, 220)
    assert cut == (name in ("icdar13", "ctdar", "unlv")), "tables of pages are cut out"
    shift = (sample.content[0, :2] - INK[0, :2]).repeat(2) if cut else 0.0
    assert float(overlap(sample.content[:9] - shift, INK).min()) > 0.4
    given = name in ("folder", "ctdar", "unlv", "tabstruct")
    assert float(overlap(sample.cells[:9] - shift, CELLS).min()) > (0.75 if given else 0.3)
    assert float(alignment_loss(sample.cells, sample.spans)) == pytest.approx(0, abs=1e-3)


def test_empty_cells_are_known_as_such(tmp_path):
    fixtures.layouts["scitsr"](tmp_path)
    sample = LAYOUTS["scitsr"].read(tmp_path, "train")[0]
    assert sample.filled.tolist() == [True] * 9 + [False]
    assert sample.texts[-1] == ""


def test_the_size_of_a_page_comes_from_its_pdf(tmp_path):
    fixtures.layouts["icdar13"](tmp_path / "data")
    folder = tmp_path / "data"
    for path in folder.glob("*.png"):
        Image.open(path).save(path, dpi=(72, 72))  # would be wrong
        (folder / path.name.replace("-1.png", ".pdf")).write_bytes(b"%PDF-1.4\n<< /MediaBox [0 0 150 100] >>\n")
    sample = LAYOUTS["icdar13"].read(folder, "test")[0]
    assert float(overlap(sample.content - (sample.content[0, :2] - INK[0, :2]).repeat(2), INK).min()) > 0.4
    for path in folder.glob("*.pdf"):
        path.unlink()
    for path in folder.glob("*.png"):
        picture = Image.open(path)
        picture.info.pop("dpi")
        Image.fromarray(np.asarray(picture)).save(path)
    with pytest.raises(VergenceError, match="does not say its resolution"):
        _ = [LAYOUTS["icdar13"].read(folder, "test")[k] for k in range(5)]


def test_spans_of_html_go_around_each_other(tmp_path):
    tokens = ["<tr>", "<td", ' rowspan="2"', ">", "</td>", "<td", ' colspan="2"', ">", "</td>", "</tr>", "<tr>", "<td>",
              "</td>", "<td>", "</td>", "</tr>"]  # fmt: skip
    assert html_spans(tokens, tmp_path) == [(0, 1, 0, 0), (0, 0, 1, 2), (1, 1, 1, 1), (1, 1, 2, 2)]
    with pytest.raises(VergenceError, match="before the first row"):
        html_spans(["<td>"], tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [('"start_row": 2, "end_row": 1', "ends before it begins"), ('"start_row": "x", "end_row": 1', "start_row is not"),
     ('"start_row": 0, "end_row": 100000', "end_row is not"), ('"start_row": 0', "end_row is not")],
)  # fmt: skip
def test_wrong_annotations_are_named(change, words, tmp_path):
    (tmp_path / "test").mkdir()
    row = f'{{"cells": [{{"box": [0, 0, 5, 5], {change}, "start_col": 0, "end_col": 0}}]}}'
    (tmp_path / "test" / "bad.json").write_text(row)
    fixtures.picture(tmp_path / "test" / "bad.png")
    with pytest.raises(VergenceError, match=rf"bad\.json .*{words}"):
        LAYOUTS["folder"].read(tmp_path, "test")


# Rendered tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_rendered_tables_are_aligned_and_hold_their_texts(seed):
    sample = render(
        Recipe((3, 6), (2, 5), 0.5, 400, (9, 16)), torch.Generator().manual_seed(seed), "train", "x", (4, 3)
    )
    assert max(sample.picture.shape[-2:]) <= 400
    assert sample.em <= 16
    assert float(alignment_loss(sample.cells, sample.spans)) == pytest.approx(0, abs=1e-6)
    own, content = sample.cells[sample.filled], sample.content[sample.filled]
    assert bool((own[:, :2] <= content[:, :2] + 2).all())
    assert bool((own[:, 2:] >= content[:, 2:] - 2).all())


def test_fresh_tables_differ_and_others_do_not():
    recipe = Recipe((3, 3), (2, 2), 0.2, 64)
    kept, fresh = RenderedTables(recipe, "train", 3), RenderedTables(recipe, "train", 3, True)
    draws = [torch.Generator().manual_seed(n) for n in range(2)]
    assert torch.equal(kept.draw(1, draws[0]).picture, kept[1].picture)
    assert torch.equal(fresh[1].picture, kept[1].picture)
    assert not torch.equal(fresh.draw(1, draws[0]).picture, fresh.draw(1, draws[1]).picture)


def test_a_mirror_swaps_first_and_last_columns():
    sample = render(Recipe((3, 3), (3, 3), 0.0, 200), torch.Generator().manual_seed(3), "train", "x", (3, 3))
    seen = mirrored(sample)
    assert seen.spans[:, 2:].tolist() == [[2 - b, 2 - a] for a, b in sample.spans[:, 2:].tolist()]
    again = mirrored(seen)
    torch.testing.assert_close(again.cells, sample.cells)
    assert torch.equal(again.spans, sample.spans)


def test_fonts_are_resized_to_one_size_and_never_beyond_the_longer_side():
    sample = render(Recipe((3, 3), (2, 2), 0.0, 300), torch.Generator().manual_seed(1), "train", "x", (3, 2))
    fitted = Fitted([sample, sample._replace(em=0.0)], "ink", 300, 5.0)
    assert fitted[0].picture.shape[-1] == round(sample.picture.shape[-1] * 5 / sample.em)
    assert fitted[1].picture.shape[-1] == pytest.approx(fitted[0].picture.shape[-1], rel=0.25)  # measured
    assert max(Fitted([sample], "ink", 64, 10.0)[0].picture.shape[-2:]) == 64


def test_ink_is_one_and_paper_zero_whatever_their_colours():
    page = torch.full((3, 40, 60), 230, dtype=torch.uint8)
    page[:, 10:14, 5:50] = 20
    for picture in (page, 255 - page):
        values = as_ink(picture)
        assert float(values[0, 12, 20]) == pytest.approx(1, abs=0.1)
        assert float(values[0, 30, 30]) == pytest.approx(0, abs=0.01)


# Without a network ----------------------------------------------------------------------------------------------------


def test_letters_tell_their_size_and_lines_are_no_letters(tmp_path):
    fixtures.picture(tmp_path / "t.png")
    sheet = upright(read_image(tmp_path / "t.png"), 0.0)
    assert sheet.em == pytest.approx(13, rel=0.35)
    assert sheet.rules[40:50, 10].all()
    assert not sheet.letters[40:50, 10].any()
    assert letter_size(np.zeros((20, 20), bool)) == 0


def ruled(rows=3, columns=3, wide=120, tall=26, font=18):
    """A ruled table of numbers, and lines that letters nearly touch."""
    own = Image.new("RGB", (columns * wide + 21, rows * tall + 21), "white")
    draw = ImageDraw.Draw(own)
    for row in range(rows + 1):
        draw.line((10, 10 + row * tall, 10 + columns * wide, 10 + row * tall), "black", 2)
    for column in range(columns + 1):
        draw.line((10 + column * wide, 10, 10 + column * wide, 10 + rows * tall), "black", 2)
    face = opened(Face("DejaVuSans", "sans"), font)
    for row in range(rows):
        for column in range(columns):
            draw.text((10 + column * wide + 70, 13 + row * tall), f"{row}{column}i", "black", face, "lt")
    return torch.from_numpy(np.array(own)).permute(2, 0, 1)


def test_letters_beside_a_line_stay_whole():
    sheet = upright(ruled(), 0.0)
    found = content_box(sheet.letters, np.array([40.0, 12.0, 125.0, 34.0]))
    assert found is not None
    assert found[1] <= 14, "the dot of the i is the highest"
    assert found[3] - found[1] >= 12


def test_lines_that_cross_a_cell_part_it_and_those_around_it_bound_it():
    sheet = upright(ruled(), 0.0)
    parts, numbers = parted(sheet, np.array([[14.0, 14, 126, 84], [75.0, 40, 120, 60]]))
    assert numbers.tolist() == [0, 0, 0, 1]
    np.testing.assert_allclose(parts[:3, 1], [14, 37, 63], atol=1.5)
    large = enclosed(sheet, np.array([[74.0, 13, 114, 33], [150.0, 38, 240, 60]]))
    np.testing.assert_allclose(large, [[11, 11, 131, 37], [131, 37, 251, 63]], atol=1.5)


def test_without_lines_all_around_cells_stay_as_they_are():
    picture = ruled()
    picture[:, :, 8:14] = 255  # the first line down
    box = np.array([[74.0, 13, 114, 33]])
    np.testing.assert_array_equal(enclosed(upright(picture, 0.0), box), box)


def test_text_that_no_cell_covers_is_found_within_the_table(tmp_path):
    fixtures.picture(tmp_path / "t.png")
    picture = Image.open(tmp_path / "t.png")
    ImageDraw.Draw(picture).text((2, 88), "below", 10)
    picture.save(tmp_path / "t.png")
    sheet = upright(read_image(tmp_path / "t.png"), 0.0)
    found = uncovered(sheet, np.delete(CELLS.numpy(), 4, 0))
    assert len(found) == 1
    left, top, right, bottom = INK[4].tolist()
    assert found[0, 0] < left < right < found[0, 2]
    assert found[0, 1] < top < bottom < found[0, 3] < CELLS[7, 3]


# Readers of cells -----------------------------------------------------------------------------------------------------

TSV = (
    "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n"
    "4\t1\t1\t1\t1\t0\t5\t5\t60\t10\t-1\t\n"
    "5\t1\t1\t1\t1\t1\t10\t11\t20\t10\t80.0\tfirst\n"
    "5\t1\t1\t1\t1\t2\t40\t10\t20\t10\t50.0\tsecond\n"
    "5\t2\t1\t1\t1\t1\t10\t30\t20\t10\t90.0\tother\n"
    "5\tx\t1\t1\t1\t9\tnonsense\n"
)
PICTURE = torch.full((3, 20, 30), 255, dtype=torch.uint8)


def test_pages_of_tesseract_are_cells():
    read = texts_of(TSV)
    assert {page: own.text for page, own in read.items()} == {0: "first second", 1: "other"}
    assert read[0].confidence == pytest.approx(0.4)


def program(folder, script):
    path = folder / "tesseract"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return str(path)


def test_tesseract_gets_cells_as_pages_and_its_failures_are_sentences(tmp_path, monkeypatch):
    (tmp_path / "said.tsv").write_text(TSV)
    own = program(tmp_path, f"cat >{tmp_path}/in$4.tif; cat {tmp_path}/said.tsv")
    monkeypatch.setattr(table_text.shutil, "which", lambda name: own)
    tall = PICTURE.repeat(1, 4, 1)
    given = (None, [[PICTURE, PICTURE[:, :0, :0], PICTURE, tall]], [10.0], "tesseract")
    texts, note = read_cells(*given)
    assert ([read.text for read in texts[0]], note) == (["first second", "", "other", "first second"], "")
    assert Image.open(tmp_path / "in7.tif").n_frames == 2
    assert Image.open(tmp_path / "in6.tif").n_frames == 1
    program(tmp_path, "cat >/dev/null; echo broken >&2; exit 3")
    with pytest.raises(VergenceError, match="tesseract failed: broken"):
        read_cells(*given)
    program(tmp_path, "exec sleep 5")
    monkeypatch.setattr(table_text, "PATIENCE", 0.05)
    with pytest.raises(VergenceError, match="took more than"):
        read_cells(*given)
    monkeypatch.setattr(table_text.shutil, "which", lambda name: None)
    with pytest.raises(VergenceError, match="not installed"):
        read_cells(*given)


def test_without_readers_cells_stay_empty_and_it_is_said(monkeypatch):
    monkeypatch.setattr(table_text.shutil, "which", lambda name: None)
    monkeypatch.setattr(table_text, "PRINT", type("Asset", (), {"find": lambda self: None})())
    texts, note = read_cells(None, [[PICTURE]], [10.0], "auto")
    assert texts[0][0].text == ""
    assert "neither" in note
    assert read_cells(None, [[PICTURE]], [10.0], "none")[1] == ""
