"""Birds: as many of every kind, parts where they are said to be, and nothing but the kind tells the kind."""

import torch

from vergence.recognition.birds import KINDS, birds


def test_every_kind_is_as_frequent_and_named():
    data = birds(160, 48, 1.0, "own", "train")
    assert torch.bincount(data.labels).tolist() == [10] * KINDS
    assert len(set(data.classes)) == KINDS
    assert data.classes[5] == "capped head, barred wing"
    assert birds(16, 48, 1.0, "shared", "train").classes[5] == "barred head, barred wing"
    assert data.images.shape == (160, 3, 48, 48)


def test_the_same_birds_are_drawn_again_and_others_for_test():
    first, again, test = (birds(32, 48, 1.0, "own", split) for split in ("train", "train", "test"))
    assert torch.equal(first.images, again.images)
    assert not torch.equal(first.images, test.images)


def test_without_pose_all_stand_at_one_place_and_with_it_they_do_not():
    still, moving = (birds(64, 48, pose, "own", "train").places for pose in (0.0, 1.0))
    assert (still == still[:1]).all()
    assert (moving.std(0) > 1.5).all()
    apart = (moving[:, 0] - moving[:, 1]) - (still[:, 0] - still[:, 1])
    assert (apart.std(0) > 1.5).all(), "head and wing move independently"


def test_sizes_scale_everything():
    small, large = (birds(16, size, 0.0, "own", "train") for size in (48, 96))
    torch.testing.assert_close(large.places, 2 * small.places)
    torch.testing.assert_close(large.boxes, 2 * small.boxes, atol=2.1, rtol=0)


def test_boxes_hold_heads_and_wings():
    data = birds(64, 64, 1.0, "own", "test")
    left, top, width, height = data.boxes.unbind(1)
    for x, y in data.places.unbind(1)[0].unbind(1), data.places.unbind(1)[1].unbind(1):
        inside = (x >= left) & (x <= left + width) & (y >= top) & (y <= top + height)
        assert inside.double().mean() > 0.98  # few middles lie outside of the picture
    assert (width * height > 64 * 64 / 30).all()


def test_patterns_are_where_the_kind_says():
    """Of birds in one pose, plumages vary along the wing if barred or spotted, and not if plain."""
    data = birds(320, 48, 0.0, "own", "train")
    x, y = data.places[0, 1].round().int().tolist()
    wing = data.images[:, :, y - 3 : y + 4, x - 6 : x + 7].float().mean(1)
    varied = wing.std((1, 2))
    plain = data.labels % 4 == 0
    assert varied[plain].median() < 0.5 * varied[~plain].median()


def test_some_kinds_can_be_taken_alone():
    data = birds(64, 48, 1.0, "own", "train").of_kinds(torch.tensor([3, 7]))
    assert set(data.labels.tolist()) == {3, 7}
    assert len(data.images) == len(data.places) == len(data.boxes) == 8
