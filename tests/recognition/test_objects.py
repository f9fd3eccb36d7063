"""Rendered things: balanced, reproducible, and visible."""

import torch

from vergence.core.seeding import generator
from vergence.recognition.objects import CLASSES, GROUPS, objects, picture


def test_classes_are_balanced_and_splits_differ():
    train, test = (objects(32, 16, split) for split in ("train", "test"))
    assert train.labels.bincount().tolist() == [2] * 16
    assert train.classes == CLASSES
    assert train.images.shape == (32, 3, 16, 16)
    assert train.images.dtype == torch.uint8
    assert not torch.equal(train.images, test.images)


def test_a_picture_is_a_function_of_its_generator():
    one, again, other = (picture("car", 16, "train", generator("t", n)) for n in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_every_class_has_one_group():
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(CLASSES)
    assert len(set(CLASSES)) == 16
