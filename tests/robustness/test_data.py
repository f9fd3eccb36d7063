"""Digits and the NIPS 2017 set: the same pictures every time, and labels that count from the right class."""

import pytest
import torch
from PIL import Image

from robustness.patchwise import fixtures
from vergence.core.errors import VergenceError
from vergence.robustness.data import Squares, digits, read_labels, read_nips2017


def test_digits_are_all_there_once():
    from sklearn.datasets import load_digits

    parts = {split: digits(split, side=8) for split in ("train", "val", "test")}
    assert [len(part) for part in parts.values()] == [1200, 200, 397]
    pixels = torch.cat([part.images for part in parts.values()])[:, 0].double() / 255 * 16
    labels = torch.cat([part.labels for part in parts.values()])
    found = sorted(zip(map(tuple, pixels.round().int().flatten(1).tolist()), labels.tolist(), strict=True))
    whole = load_digits()
    assert found == sorted(zip(map(tuple, whole.data.astype(int).tolist()), whole.target.tolist(), strict=True))


def test_noise_is_drawn_for_training_alone_and_stays_in_range():
    data = Squares(digits("train"), 20, 1, noise=0.5)
    plain, drawn = data[0][0], data.draw(0, torch.Generator().manual_seed(0))[0]
    assert torch.equal(plain, data[0][0])
    assert not torch.equal(plain, drawn)
    assert drawn.min() >= 0
    assert drawn.max() <= 1


def test_labels_of_the_competition_count_the_background(tmp_path):
    fixtures.nips2017(tmp_path)
    data = read_nips2017(tmp_path, "test")
    assert data.labels == (0, 305, 999)
    assert [p.stem[0] for p in data.paths] == ["0", "1", "2"]
    assert len(data.classes) == 1000
    assert data[0][0].shape == (3, 32, 32)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("ImageId,Label\na,1\n", "expected the columns ImageId and TrueLabel"),
        ("ImageId,TrueLabel\n", "has no row of labels"),
        ("ImageId,TrueLabel\na,0\n", "row 2: TrueLabel is a number from 1 to 1000, got '0'"),
        ("ImageId,TrueLabel\na,1001\n", "got '1001'"),
        ("ImageId,TrueLabel\na,cat\n", "got 'cat'"),
        ("ImageId,TrueLabel\na,1\na,2\n", "row 3: 'a' has a label already"),
        ("ImageId,TrueLabel\na\n", "row 2: 1 values for 2 columns"),
    ],
)
def test_labels_that_make_no_sense_are_refused(rows, said, tmp_path):
    (tmp_path / "labels.csv").write_text(rows)
    with pytest.raises(VergenceError, match=said):
        read_labels(tmp_path / "labels.csv")


def test_pictures_and_rows_must_be_the_same(tmp_path):
    fixtures.nips2017(tmp_path)
    Image.new("RGB", (8, 8)).save(tmp_path / "more.png")
    with pytest.raises(VergenceError, match=r"dev_dataset.csv has no label for the picture more.png"):
        read_nips2017(tmp_path, "test")
    (tmp_path / "more.png").unlink()
    next((tmp_path / "images").iterdir()).unlink()
    with pytest.raises(VergenceError, match=r"dev_dataset.csv names .*, but there is no picture"):
        read_nips2017(tmp_path, "test")
