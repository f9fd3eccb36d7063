"""Digits are scikit-learn's, read without it."""

import numpy as np
from sklearn.datasets import load_digits

from vergence.data import digits


def test_digits_are_those_of_scikit_learn_wherever_it_keeps_them(tmp_path, monkeypatch):
    whole = load_digits()
    for folder in (digits.data_folder(), tmp_path):
        monkeypatch.setattr(digits, "data_folder", lambda folder=folder: folder)
        images, labels = digits.handwritten.__wrapped__()
        np.testing.assert_array_equal(images.numpy(), whole.images / 16)
        np.testing.assert_array_equal(labels.numpy(), whole.target)


def test_its_photographs_are_there():
    assert sorted(path.name for path in (digits.data_folder() / "images").glob("*.jpg")) == ["china.jpg", "flower.jpg"]
