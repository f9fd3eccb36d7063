"""Pictures of the texts of cells have all of their letters and nothing else."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFilter

from vergence.documents.table_ink import owners, upright
from vergence.documents.table_letters import Pieces, cell_letters, letters_among
from vergence.rendering.documents.fonts import Face, opened

FACE = opened(Face("DejaVuSans", "sans"), 13)
WIDE, TALL, PLACE = 80, 20, 12
TEXTS = [["Qty, j", "12.50", ""], ["g-p", "no", "0.7"], ["Total", "99", "88;"]]


def table(line, ink=20, paper=250, texts=TEXTS):
    """Texts in a grid of lines of one brightness, and the boxes of the cells."""
    own = Image.new("L", (3 * WIDE + 2 * PLACE, 3 * TALL + 2 * PLACE), paper)
    pen = ImageDraw.Draw(own)
    boxes = []
    for row in range(3):
        for column in range(3):
            left, top = PLACE + column * WIDE, PLACE + row * TALL
            boxes.append((left, top, left + WIDE, top + TALL))
            pen.rectangle(boxes[-1], outline=line)
            wide = int(FACE.getlength(texts[row][column]))
            pen.text((left + WIDE - 6 - wide, top + 2), texts[row][column], ink, FACE)  # to the right, as numbers are
    return torch.from_numpy(np.array(own.convert("RGB"))).permute(2, 0, 1), np.array(boxes, float)


def alone(text, ink=20, paper=250):
    own = Image.new("L", (160, 40), paper)
    ImageDraw.Draw(own).text((40, 8), text, ink, FACE)
    return np.array(own)


def trimmed(values, paper):
    """The ink of a picture and nothing around it."""
    ink = np.abs(values.astype(int) - paper) > 60
    rows, columns = np.nonzero(ink.any(1))[0], np.nonzero(ink.any(0))[0]
    return values[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


@pytest.mark.parametrize(("line", "ink", "paper"), [(20, 20, 250), (205, 20, 250), (90, 230, 30)])
def test_every_cell_is_its_text_dark_on_light(line, ink, paper):
    picture, boxes = table(line, ink, paper)
    found = cell_letters(upright(picture, 0.0), boxes)
    for text, own in zip(sum(TEXTS, []), found, strict=True):
        if not text:
            assert own.numel() == 0
            continue
        expected, light = alone(text, ink, paper), max(paper, 255 - paper)
        expected = trimmed(expected if light == paper else 255 - expected, light)
        got = trimmed(own[0].numpy(), light)
        assert got.shape == expected.shape, text
        assert np.abs(got.astype(int) - expected).mean() < 12, text


@pytest.mark.parametrize(("line", "blur"), [(20, 0.7), (150, 0.9), (200, 1.2)])
def test_nothing_of_the_lines_of_a_bad_scan_is_taken_for_text(line, blur):
    picture, boxes = table(line)
    scan = Image.fromarray(picture[0].numpy())
    scan = scan.resize((scan.width * 2, scan.height * 2), Image.Resampling.BICUBIC).filter(
        ImageFilter.GaussianBlur(blur)
    )
    noisy = np.asarray(scan) * 0.8 + np.random.default_rng(0).normal(0, 7, (scan.height, scan.width))
    bad = torch.from_numpy(noisy.clip(0, 255).astype(np.uint8)).repeat(3, 1, 1)
    found = cell_letters(upright(bad, 0.0), 2 * boxes)
    for text, own in zip(sum(TEXTS, []), found, strict=True):
        assert (own.numel() > 0) == bool(text)
        if text:
            height, width = (2 * size for size in trimmed(alone(text), 250).shape)
            got = trimmed(own[0].numpy(), 200)
            assert abs(got.shape[1] - width) <= 7, text
            assert abs(got.shape[0] - height) <= 7, text


def test_a_letter_on_a_border_belongs_to_the_cell_that_has_most_of_it():
    picture, boxes = table(250)
    moved = boxes.copy()
    first = int(PLACE + WIDE - 6 - FACE.getlength("Total"))
    moved[[0, 3, 6], 2] = moved[[1, 4, 7], 0] = first + 3  # through the T
    found = cell_letters(upright(picture, 0.0), moved)
    assert found[6].numel() == 0
    assert trimmed(found[7][0].numpy(), 250).shape[1] >= FACE.getlength("Total") - 3


def test_owners_are_those_of_a_loop():
    source = np.random.default_rng(0)
    letters, boxes = (np.sort(source.uniform(0, 50, (n, 2, 2)), 1).reshape(n, 4) for n in (700, 9))
    owner, share = owners(letters, boxes)
    for number, letter in enumerate(letters):
        common = [
            max(min(letter[2], b[2]) - max(letter[0], b[0]), 0) * max(min(letter[3], b[3]) - max(letter[1], b[1]), 0)
            for b in boxes
        ]
        area = max((letter[2] - letter[0]) * (letter[3] - letter[1]), 1)
        assert share[number] == pytest.approx(max(common) / area)
        assert common[owner[number]] == max(common)


def test_a_table_without_ink_has_empty_cells():
    picture = torch.full((3, 40, 60), 240, dtype=torch.uint8)
    assert [
        own.numel() for own in cell_letters(upright(picture, 0.0), np.array([[0.0, 0, 30, 40], [30, 0, 60, 40]]))
    ] == [0, 0]


def test_pale_ink_among_dark_letters_is_no_letter():
    boxes = np.array([[40.0, 10, 50, 24], [52, 10, 62, 24], [64, 14, 74, 24], [76, 10, 80, 24], [81, 22, 83, 24]])
    pieces = Pieces(boxes, np.array([200.0, 190, 180, 60, 120]), np.zeros(5, bool))
    found = letters_among(pieces, np.array([0.0, 0, 120, 34]), 20.0, 190.0)
    assert found.tolist() == [True, True, True, False, True]  # the last one is a full stop, whose blur is paler
