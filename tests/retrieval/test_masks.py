"""Masks: Otsu's threshold is scikit-image's, shapes keep their parts, degenerate ones are named, views are maps."""

import math

import numpy as np
import pytest
import torch
from skimage.filters import threshold_otsu

from vergence.core.errors import VergenceError
from vergence.retrieval.masks import (
    Cameras,
    binarised,
    homography,
    otsu,
    prepared,
    read_shape,
    refuse_thin,
    seen,
    without_specks,
)
from vergence.retrieval.silhouettes import KINDS, silhouette


def picture(grey):
    return grey.to(torch.uint8).expand(3, *grey.shape)


def block():
    mask = torch.zeros(40, 50, dtype=torch.bool)
    mask[6:30, 10:34] = True
    mask[12:18, 14:22] = False
    return mask


@pytest.mark.parametrize("seed", range(4))
def test_the_threshold_is_scikit_images(seed):
    random = np.random.default_rng(seed)
    grey = np.where(random.random((40, 50)) < 0.3, random.normal(70, 20, (40, 50)), random.normal(170, 25, (40, 50)))
    grey = grey.clip(0, 255).astype(np.uint8)
    ours = otsu(torch.from_numpy(grey).long())
    theirs = threshold_otsu(grey)
    assert ((grey > ours) == (grey > theirs)).all()


@pytest.mark.parametrize("light", [True, False])
def test_the_shape_is_what_holds_less_of_the_border_in_a_mask_and_in_a_photograph(light):
    mask = block()
    shown = mask if light else ~mask
    assert torch.equal(binarised(picture(255 * shown), "it").mask, mask)
    noisy = 60 + 120 * shown + torch.randint(0, 30, mask.shape, generator=torch.Generator().manual_seed(0))
    found = binarised(picture(noisy), "it")
    assert found.photograph
    assert torch.equal(found.mask, mask)
    assert torch.equal(binarised(picture(255 * shown), "it", "dark").mask, ~shown)


def test_a_shape_at_the_border_stays_whole():
    mask = torch.zeros(20, 30, dtype=torch.bool)
    mask[:12, :16] = True
    assert torch.equal(binarised(picture(255 * mask), "it").mask, mask)


def test_specks_and_pinholes_go_and_parts_and_holes_stay():
    mask = block()
    mask[34:38, 2:6] = True  # a second part
    noisy = mask.clone()
    noisy[2, 2] = True
    noisy[25, 25] = False
    assert torch.equal(without_specks(noisy), mask)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.zeros(9, 9), "it holds no shape: its mask is empty"),
        (torch.ones(9, 9), "it holds no shape: its mask covers all pixels"),
        (torch.eye(9), "it holds a line: a shape is at least 2 pixels wide"),
        (torch.nn.functional.pad(torch.ones(1, 6), (1, 1, 3, 3)), "it holds a line"),
        (torch.nn.functional.pad(torch.ones(1, 1), (1, 1, 3, 3)), "it holds a point"),
    ],
)
def test_what_has_no_area_is_named(mask, message):
    with pytest.raises(VergenceError, match=message):
        refuse_thin(mask.bool(), "it")


def test_one_value_is_refused_and_two_pixels_are_wide_enough(tmp_path):
    with pytest.raises(VergenceError, match="it holds no shape: all its pixels have the grey value 7"):
        binarised(torch.full((3, 5, 5), 7, dtype=torch.uint8), "it")
    refuse_thin(torch.nn.functional.pad(torch.ones(2, 6), (1, 1, 3, 3)).bool(), "it")
    with pytest.raises(VergenceError, match="does not exist"):
        read_shape(tmp_path / "nowhere.png")


def test_a_prepared_shape_has_its_size_its_proportions_and_an_empty_border():
    image = prepared(torch.nn.functional.pad(torch.ones(30, 10), (50, 3, 7, 0)), 120)
    inside = (image >= 0.5).nonzero()
    height, width = (inside.amax(0) - inside.amin(0) + 1).tolist()
    assert abs(height - 120) <= 2
    assert abs(width - 40) <= 2
    assert not image[0].any()
    assert not image[:, -1].any()


def test_a_view_maps_the_shape_and_fits_its_frame():
    """The centroid and the second moments of a shape follow an affine view, up to the scale that fits the frame."""
    mask = silhouette("hand", 1) >= 0.5
    view = torch.eye(3, dtype=torch.float64)
    view[:2, :2] = torch.tensor([[1.3, 0.6], [0.2, -0.7]])
    moved = seen(mask, view, 200)

    def moments(shape):
        points = shape.nonzero().double().flip(1)
        return torch.cov((points - points.mean(0)).T)

    expected = view[:2, :2] @ moments(mask) @ view[:2, :2].T
    ours = moments(moved)
    scale = torch.linalg.det(ours).sqrt() / torch.linalg.det(expected).sqrt()
    assert torch.allclose(ours / scale, expected, rtol=0.02, atol=0.02 * float(expected.abs().max()))
    rows, columns = moved.any(1).nonzero(), moved.any(0).nonzero()
    assert 190 <= max(int(rows[-1] - rows[0]), int(columns[-1] - columns[0])) + 1 <= 198


def test_views_are_within_their_limits_and_half_of_them_are_mirrored():
    cameras = Cameras(stretch=3, tilt=0.2)
    source = torch.Generator().manual_seed(0)
    views = [homography(cameras, source) for _ in range(200)]
    ratios = [float(torch.linalg.cond(v[:2, :2])) for v in views]
    assert 1 <= min(ratios) < 1.1
    assert 2.8 < max(ratios) <= 3 + 1e-9
    assert max(math.hypot(*v[2, :2].tolist()) for v in views) <= 0.2
    assert 70 < sum(float(torch.linalg.det(v[:2, :2])) < 0 for v in views) < 130
    with pytest.raises(VergenceError, match="views have a stretch of 1 to 20"):
        Cameras(stretch=0.5)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_fits_its_canvas_is_the_same_for_a_seed_and_differs_between_individuals(kind):
    image = silhouette(kind, 1, 64)
    assert 0.02 < float(image.mean()) < 0.5
    edge = torch.cat([image[0], image[-1], image[:, 0], image[:, -1]])
    assert not edge.any()
    silhouette.cache_clear()
    assert torch.equal(silhouette(kind, 1, 64), image)
    assert not torch.equal(silhouette(kind, 2, 64), image)
