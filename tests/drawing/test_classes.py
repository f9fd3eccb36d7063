"""Confusion matrices, and the best and worst samples of classifiers."""

import torch
from PIL import Image

from vergence.contract.data import Spread
from vergence.drawing.classes import CLASSES, _hardest, classified, confusion


def test_a_confusion_matrix_has_per_cents_of_each_true_class():
    labels, answers = torch.tensor([0, 0, 0, 0, 2]), torch.tensor([0, 1, 1, 1, 0])
    assert confusion(answers, labels, 3).tolist() == [[25, 75, 0], [0, 0, 0], [100, 0, 0]]


def test_of_many_classes_those_least_often_right_are_shown_and_none_without_samples():
    count = CLASSES + 5
    matrix = torch.diag(torch.full((count,), 50.0))
    matrix[3, 3], matrix[7, 7], matrix[9, 9] = 100, 100, 0
    labels = torch.tensor([k for k in range(count) if k not in (0, 1, 2)])
    shown = _hardest([matrix], labels, count)
    assert len(shown) == CLASSES
    assert 9 in shown
    assert not {0, 1, 2, 3, 7} & set(shown)


def test_the_best_and_worst_samples_are_looked_up_by_the_probability_of_the_truth(tmp_path):
    scores = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.5, 0.5]])
    asked = []

    def picture(number):
        asked.append(number)
        return torch.rand(3, 8, 8)

    made = classified(tmp_path, {"a": scores}, torch.tensor([0, 0, 1, 1]), str, picture)
    assert asked == [0, 3, 2, 1]  # 0.9, 0.5 and 0.4, 0.2
    for artifact in made:
        with Image.open(artifact.path) as drawn:
            assert min(drawn.size) > 50


def test_without_classifiers_there_are_no_pictures(tmp_path):
    assert classified(tmp_path, {}, torch.empty(0), str, lambda n: torch.zeros(3, 2, 2)) == []


def test_spread_samples_come_from_the_whole_data():
    assert list(map(Spread(range(10), 5).__getitem__, range(5))) == [0, 2, 4, 6, 8]
    assert len(Spread(range(3), 5)) == 3
