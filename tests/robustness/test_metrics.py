"""Success as the paper counts it."""

import pytest
import torch
from torch import nn

from vergence.robustness.classifiers import Zoo
from vergence.robustness.metrics import Transfer, fooled, success_rate, wrong


class Threshold(nn.Module):
    """Says 1 where a picture's mean is above a value."""

    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, x):
        return torch.stack([torch.zeros(len(x)), x.mean((1, 2, 3)) - self.value], 1)


def test_pictures_that_were_wrong_before_count_as_success():
    logits = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert success_rate(logits, torch.tensor([0, 1, 1, 0])) == 50.0


def test_the_table_by_hand():
    zoo = Zoo({"low": Threshold(0.3), "high": Threshold(0.6)}).eval()
    images = torch.tensor([0.1, 0.5, 0.7]).view(3, 1, 1, 1).expand(3, 1, 2, 2)
    labels = torch.tensor([0, 1, 1])

    def darken(classifier, x, y):  # just enough for the classifier at hand
        return x.clamp(max=classifier.value)

    before, groups = wrong(zoo, images, labels), [("low",), ("high",)]
    after = fooled(darken, zoo, groups, images, labels)
    assert before.tolist() == [[False, False], [False, True], [False, False]]
    assert after.shape == (3, 2, 2)
    found = Transfer.of(zoo, groups, before, after).summary()
    third = 100 / 3
    assert found == pytest.approx(
        {
            "low > low": 2 * third, "low > high": 2 * third, "high > low": 0.0, "high > high": 2 * third,
            "transfer": third, "whitebox": 2 * third, "induced": third / 2, "accuracy": 100 - third / 2,
        }
    )  # fmt: skip


def test_an_ensemble_that_leaves_one_out_has_no_white_box_for_it():
    zoo = Zoo({name: Threshold(0.5) for name in "abc"})
    groups = [("b", "c"), ("a", "c"), ("a", "b")]
    table = Transfer.of(zoo, groups, torch.zeros(2, 3), torch.eye(3).expand(2, 3, 3))
    assert table.summary()["transfer"] == 100
    assert table.summary()["whitebox"] == 0
    assert table.summary()["b+c > a"] == 100
