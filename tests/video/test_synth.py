"""Embedded clips: the class is in how objects turn, and nowhere else."""

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.video.settings import Scene
from vergence.video.synth import TURNS, turning

PLAIN = Scene(noise=0.0, clutter=0.0)


def shaded(data):
    """By clip, frame and object how much lighter its right and its lower half are, measured in the pixels."""
    side, clips = 8, data.clips.float()
    found = torch.empty(*data.quarters.shape, 2)
    for n, t, k in torch.cartesian_prod(*map(torch.arange, data.quarters.shape)).tolist():
        y, x = data.corners[n, t, k].tolist()
        cut = clips[n, t, :, y : y + side, x : x + side].mean(0)
        ramp = torch.linspace(-1, 1, side)
        found[n, t, k] = torch.stack([(cut * ramp).sum(), (cut * ramp[:, None]).sum()])
    return found


def test_every_class_comes_equally_often_and_the_seed_decides():
    data = turning(40, 4, 40, Scene(), "a")
    assert data.labels.bincount().tolist() == [10] * 4
    assert (data.clips.shape, data.clips.dtype) == ((40, 4, 3, 40, 40), torch.uint8)
    assert torch.equal(data.clips, turning(40, 4, 40, Scene(), "a").clips)
    assert not torch.equal(data.clips, turning(40, 4, 40, Scene(), "b").clips)
    assert data.classes == TURNS


def test_the_light_side_turns_half_way_by_the_class():
    data = turning(12, 4, 40, PLAIN, "light")
    light = shaded(data)
    angle = torch.atan2(light[..., 1], light[..., 0])  # clockwise from the right, for y goes down
    quarters = (angle / (torch.pi / 2)).round().long() % 4
    assert torch.equal(quarters, data.quarters)
    turned = (quarters[:, 2] - quarters[:, 1]) % 4
    assert torch.equal(turned, data.labels[:, None].expand_as(turned))
    assert torch.equal(quarters[:, 0], quarters[:, 1])
    assert torch.equal(quarters[:, 2], quarters[:, 3])


def test_an_object_keeps_its_texture_and_hides_no_other():
    data = turning(8, 4, 40, Scene(noise=0, clutter=0, shade=0), "texture")
    for n in range(8):
        cells = data.corners[n, :, :, 0] * 40 + data.corners[n, :, :, 1]
        assert all(len(frame.unique()) == 16 for frame in cells)
        for k in range(16):
            looks = [
                data.clips[n, t, :, y : y + 8, x : x + 8] for t, (y, x) in enumerate(data.corners[n, :, k].tolist())
            ]
            assert all(torch.equal(look, looks[0]) for look in looks)


def test_objects_move_by_a_side_as_often_as_asked_for():
    data = turning(400, 4, 40, Scene(), "moves")
    step = (data.corners[:, 1:] - data.corners[:, :-1] + 20) % 40 - 20
    assert set(step.unique().tolist()) <= {-8, 0, 8}
    assert (step[:, :, :1] == step).all()  # all together
    moved = (step[:, :, 0] != 0).any(-1).double().mean()
    assert moved == pytest.approx(0.6, abs=0.04)
    still = turning(8, 4, 40, Scene(moving=0), "still")
    assert (still.corners == still.corners[:, :1]).all()


def test_single_frames_say_nothing():
    """Of every frame, the mean and spread of pixels, and the direction objects look in, are those of all classes."""
    data = turning(1600, 4, 40, Scene(), "frames")
    for frame in (0, 3):
        looks = torch.stack([data.quarters[data.labels == c, frame].flatten().bincount(minlength=4) for c in range(4)])
        expected = looks.sum(0) / 4
        assert ((looks - expected).abs() / expected).max() < 0.06  # four deviations of a count of 1600
        means = torch.stack([data.clips[data.labels == c, frame].float().mean((0, 2, 3)) for c in range(4)])
        assert (means - means.mean(0)).abs().max() < 1.0


@pytest.mark.parametrize(("frames", "size", "scene"), [(1, 40, Scene()), (4, 41, Scene()), (4, 24, Scene())])
def test_what_does_not_fit_is_refused(frames, size, scene):
    with pytest.raises(VergenceError, match="embedded clips have at least 2 frames"):
        turning(8, frames, size, scene, "x")


@pytest.mark.parametrize("settings", [{"side": 2}, {"objects": 0}, {"moving": 1.5}, {"noise": -1}])
def test_scenes_that_cannot_be_are_refused(settings):
    with pytest.raises(VergenceError, match="a scene"):
        Scene(**settings)
