"""Tests of orderlydisorder only."""

import torch

from vergence.points.orderlydisorder.system import lit


def test_embedded_pictures_are_brighter_where_their_label_says():
    pictures = lit(40, 32, "test")
    left, right = pictures.images.float().tensor_split(2, dim=-1)
    brighter = (left.mean((1, 2, 3)) < right.mean((1, 2, 3))).long()
    assert torch.equal(brighter, pictures.labels)
