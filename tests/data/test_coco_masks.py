"""Masks of COCO: against pycocotools, the definition, and files that lie."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.data.coco_masks import from_polygon, from_runs, mask_of, unpacked


def test_packed_run_lengths_are_those_of_pycocotools():
    coco = pytest.importorskip("pycocotools.mask")
    random = np.random.default_rng(0)
    for _ in range(60):
        height, width = (int(side) for side in random.integers(1, 90, 2))
        mask = (random.random((height, width)) < random.random()).astype(np.uint8)
        text = coco.encode(np.asfortranarray(mask))["counts"].decode()
        packed = mask_of({"size": [height, width], "counts": text}, height, width, "x")
        plain = mask_of({"size": [height, width], "counts": unpacked(text, "x")}, height, width, "x")
        assert np.array_equal(packed.numpy(), mask > 0)
        assert torch.equal(packed, plain)


def test_polygons_are_those_of_pycocotools_but_for_the_outline():
    coco = pytest.importorskip("pycocotools.mask")
    random = np.random.default_rng(1)
    for _ in range(20):
        angles = np.sort(random.random(9)) * 2 * np.pi
        points = np.stack([80 + 60 * np.cos(angles), 60 + 45 * np.sin(angles)], 1).ravel().tolist()
        ours = mask_of([points], 120, 160, "x").numpy()
        theirs = coco.decode(coco.merge(coco.frPyObjects([points], 120, 160))) > 0
        perimeter = sum(abs(np.diff(theirs.astype(int), axis=axis)).sum() for axis in (0, 1))
        assert (ours != theirs).sum() <= 0.5 * perimeter


def test_a_pixel_is_inside_if_its_centre_is():
    triangle = from_polygon([0, 0, 4, 0, 0, 4], 4, 4, "x")
    assert triangle.int().tolist() == [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    crossed = from_polygon([0, 0, 4, 4, 4, 0, 0, 4], 4, 4, "x")  # a bow tie: the middle of the top is outside
    assert not crossed[0, 1:3].any()
    assert from_polygon([-5, -5, 50, -5, 50, 50, -5, 50], 3, 4, "x").all()


def test_several_polygons_are_one_mask():
    whole = mask_of([[0, 0, 2, 0, 2, 2, 0, 2], [1, 1, 3, 1, 3, 3, 1, 3]], 4, 4, "x")
    assert whole.sum() == 7


def test_runs_go_down_the_columns_and_begin_outside():
    assert from_runs([1, 2, 3], 3, 2, "x").int().tolist() == [[0, 0], [1, 0], [1, 0]]


@pytest.mark.parametrize(
    "segmentation",
    [
        {"size": [4, 4], "counts": [3, 4]},
        {"size": [4, 4], "counts": [-3, 19]},
        {"size": [4, 4], "counts": [3.5, 12.5]},
        {"size": [4, 4], "counts": "oo"},
        {"size": [4, 4], "counts": "\x01"},
        {"size": [5, 4], "counts": [20]},
        {"counts": [16]},
        [[0, 0, 1, 1]],
        [[0, 0, 1, 1, 2]],
        [[0, 0, 1, 1, float("nan"), 2]],
        "polygon",
        None,
    ],
)
def test_what_is_no_segmentation_is_refused_in_a_sentence(segmentation):
    with pytest.raises(VergenceError, match="annotation 7") as refusal:
        mask_of(segmentation, 4, 4, "annotation 7")
    assert "\n" not in str(refusal.value)
