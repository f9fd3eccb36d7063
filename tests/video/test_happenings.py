"""Things move as physics says, and only while they are said to."""

import itertools
import math

import pytest
import torch

from vergence.video.happenings import FPS, MOTIONS, G, _bounced, _hop, actor, clip, timeline


def test_a_dropped_ball_falls_with_gravity_and_loses_height_at_each_bounce():
    assert math.isclose(_bounced(0.2, 1.2), 1.2 - G * 0.2**2 / 2)
    heights = [_bounced(t / 100, 1.2) for t in range(400)]
    tops = [b for a, b, c in zip(heights, heights[1:], heights[2:], strict=False) if a < b >= c]
    assert all(later < 0.7 * earlier for earlier, later in itertools.pairwise(tops))
    assert min(heights) >= 0
    assert heights[-1] < 0.05


def test_a_hop_reaches_its_height_and_comes_down():
    heights = [_hop(t / 1000, 0.3)[0] for t in range(1000)]
    assert max(heights) == pytest.approx(0.3, abs=1e-3)
    assert heights[0] == 0
    assert heights[-1] == 0


@pytest.mark.parametrize("motion", MOTIONS)
def test_an_actor_is_still_before_and_after_and_moves_between(motion):
    who = actor(motion, torch.Generator().manual_seed(1))

    def state(t):
        numbers = []
        for thing in who.at(motion, t, 1.6):
            lean = [] if thing.lean is None else thing.lean.flatten().tolist()
            numbers += [*thing.at, thing.yaw, *lean, *(v for part in thing.parts for v in part.centre)]
        return torch.tensor(numbers)

    before, earlier = state(-0.5), state(-0.2)
    torch.testing.assert_close(before, earlier)
    moving = [state(t) for t in (0.2, 0.5, 0.8)]
    assert all(float((a - b).abs().max()) > 0.02 for a, b in itertools.pairwise(moving))
    torch.testing.assert_close(state(3.2), state(3.6))


def test_clips_of_a_motion_change_from_frame_to_frame():
    film = clip("walk", 6, 24, 32, torch.Generator().manual_seed(0))
    assert film.frames.shape == (6, 3, 24, 32)
    assert film.spans == ((0, 6, "walk"),)
    again = clip("walk", 6, 24, 32, torch.Generator().manual_seed(0))
    assert torch.equal(film.frames, again.frames)


def test_a_timeline_has_its_motions_in_order_with_stillness_between():
    film = timeline(("wave", "bounce"), 40, 24, 32, torch.Generator().manual_seed(0), bystanders=0.0)
    (a, b, _), (c, d, _) = film.spans
    assert 0 < a < b < c < d < 40
    assert [span.motion for span in film.spans] == ["wave", "bounce"]
    assert FPS == 15
