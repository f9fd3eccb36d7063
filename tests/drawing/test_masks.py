"""Masks over pictures."""

import numpy as np
import torch
from PIL import Image

from vergence.drawing.masks import COLOUR, outlined, write_picture


def test_inside_stays_outside_is_dimmed_and_the_outline_is_around():
    picture = torch.full((3, 20, 30), 200, dtype=torch.uint8)
    mask = torch.zeros(20, 30, dtype=torch.bool)
    mask[5:10, 8:20] = True
    out = outlined(picture, mask)
    assert torch.equal(out[:, mask], picture[:, mask])
    assert tuple(out[:, 4, 10].tolist()) == COLOUR
    assert tuple(out[:, 0, 0].tolist()) == (90, 90, 90)


def test_an_empty_mask_has_no_outline():
    out = outlined(torch.full((3, 9, 9), 100, dtype=torch.uint8), torch.zeros(9, 9, dtype=torch.bool))
    assert (out == 45).all()


def test_pictures_with_alpha_are_written_as_they_are(tmp_path):
    pixels = torch.randint(0, 256, (4, 5, 6), dtype=torch.uint8)
    with Image.open(write_picture(tmp_path / "a.png", pixels)) as stored:
        assert stored.mode == "RGBA"
        np.testing.assert_array_equal(np.asarray(stored), pixels.permute(1, 2, 0).numpy())
