"""Readers of shapes: labels from names and folders, and generated views as classes of their own."""

import pytest
import torch
from PIL import Image

from vergence.core.errors import VergenceError
from vergence.metrics.classes import NONE
from vergence.retrieval.masks import Cameras
from vergence.retrieval.shapes import LAYOUTS, Drawn, Some, Views


def block(path, size=(20, 24)):
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.new("L", size)
    picture.paste(255, (4, 5, 15, 14))
    picture.save(path)


def read(layout, path):
    return LAYOUTS[layout].read(path, "test")


def test_names_of_mpeg7_are_classes_also_with_dashes_and_in_folders(tmp_path):
    for name in ("apple-1.gif", "apple-20.gif", "sea-snake-3.gif"):
        block(tmp_path / "original" / name)
    data = read("mpeg7", tmp_path)
    assert data.classes == ("apple", "sea-snake")
    assert data.labels == (0, 0, 1)
    assert data[0].mask.sum() == 11 * 9
    assert data[2].name == "sea-snake-3"


def test_an_inverted_mask_is_read_as_its_shape(tmp_path):
    """One file of the published set is black on white."""
    block(tmp_path / "rat-1.png")
    picture = Image.open(tmp_path / "rat-1.png")
    Image.eval(picture, lambda v: 255 - v).save(tmp_path / "rat-2.png")
    data = read("mpeg7", tmp_path)
    assert torch.equal(data[0].mask, data[1].mask)


def test_a_file_of_another_name_is_named(tmp_path):
    block(tmp_path / "apple-1.png")
    block(tmp_path / "logo.png")
    with pytest.raises(VergenceError, match=r"logo\.png is not named as in MPEG-7"):
        read("mpeg7", tmp_path)


def test_pictures_beside_class_folders_have_no_class(tmp_path):
    for name in ("b/1.png", "b/deep/2.png", "a/1.png", "other.png"):
        block(tmp_path / name)
    data = read("folder", tmp_path)
    assert data.classes == ("a", "b")
    assert sorted(data.labels) == [NONE, 0, 1, 1]
    block(tmp_path / "test" / "c" / "1.png")
    assert read("folder", tmp_path).classes == ("c",)


def test_folders_without_classes_are_refused(tmp_path):
    block(tmp_path / "1.png")
    with pytest.raises(VergenceError, match="has no class folders"):
        read("folder", tmp_path)
    assert len(LAYOUTS["folder"].about) < 200


def test_views_are_a_class_for_each_shape_and_the_same_for_a_seed():
    shapes = Drawn(3, 2, "test")
    views = Views(shapes, 4, Cameras(side=48), seed=1)
    assert len(views) == 24
    assert [views[i].label for i in (0, 3, 4, 23)] == [0, 0, 1, 5]
    assert torch.equal(views[5].mask, Views(shapes, 4, Cameras(side=48), seed=1)[5].mask)
    assert not torch.equal(views[5].mask, Views(shapes, 4, Cameras(side=48), seed=2)[5].mask)
    assert len(views.classes) == 6
    some = Some(shapes, 3)
    assert [some[i].label for i in range(len(some))] == [0, 1, 2]
    with pytest.raises(IndexError):
        views[24]
