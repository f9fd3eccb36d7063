"""The drawn tracklets: splits that do not meet, frames that show a part each, people who are told apart by several."""

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.metrics.ranking import rank_descriptors
from vergence.reid.data import judged
from vergence.reid.figures import CAMERAS
from vergence.reid.settings import PersonView
from vergence.reid.tracklets import Clips
from vergence.reid.walks import BANDS, walks


@pytest.fixture(scope="module")
def people():
    return {split: walks(20, 6, 64, 32, split) for split in ("train", "test")}


def test_everyone_walks_past_every_camera_once(people):
    train = people["train"]
    assert train.clips.shape == (20 * CAMERAS, 6, 3, 64, 32)
    assert sorted(zip(train.identities, train.cameras, strict=True)) == [
        (p, c) for p in range(20) for c in range(CAMERAS)
    ]


def test_queries_and_gallery_are_of_different_cameras_and_strangers_are_in_the_gallery(people):
    queries, gallery = judged(people["test"])
    assert (len(queries), len(gallery)) == (40, 48)
    assert not set(queries.cameras.tolist()) & set(gallery.cameras.tolist())
    assert (gallery.identities == 0).sum() == 8
    assert set(queries.identities.tolist()) == set(range(1, 21))


def test_it_is_the_same_every_time_and_another_with_every_seed_and_split(people):
    walks.cache_clear()
    assert torch.equal(walks(20, 6, 64, 32, "test").clips, people["test"].clips)
    assert not torch.equal(walks(20, 6, 64, 32, "test", seed=1).clips, people["test"].clips)
    assert not torch.equal(walks(20, 6, 64, 32, "val").clips, people["test"].clips)


def test_any_three_frames_in_a_row_show_everything_and_one_a_third(people):
    shown = people["train"].shown
    assert all(set(row.tolist()) == set(range(len(BANDS))) for row in shown.unfold(1, 3, 1).flatten(0, 1))


def hits(data, places):
    """How often the nearest of another camera, by mean colours of bands in these frames where they show, is right."""
    clips = data.clips[:, places].float() / 255
    clips = clips / clips.mean((1, 3, 4), keepdim=True)  # take the light out, roughly
    bands = torch.nn.functional.adaptive_avg_pool2d(clips[..., 8:56, 12:20].flatten(0, 1), (3, 1)).flatten(2)
    bands = bands.unflatten(0, clips.shape[:2])  # (N, T, 3, bands)
    seen = torch.nn.functional.one_hot(data.shown[:, places], len(BANDS)).unsqueeze(2)
    features = ((bands * seen).sum(1) / seen.sum(1).clamp(min=1)).flatten(1)
    queries, gallery = judged(data)
    found = rank_descriptors(features[: data.queries], features[data.queries :], queries, gallery)
    return found.precision.mean().item()


def test_three_frames_tell_more_than_one(people):
    """Even to mean colours at fixed places: neither nothing nor everything, and more with everything seen."""
    one, three = hits(people["test"], [0]), hits(people["test"], [0, 1, 2])
    assert one < three < 0.9
    assert three > 0.12  # by chance about 0.06


def test_cameras_differ_in_light(people):
    data = people["train"]
    camera = torch.tensor(data.cameras)
    means = torch.stack([data.clips[camera == c].float().mean((0, 1, 3, 4)) for c in range(CAMERAS)])
    assert torch.pdist(means).min() > 5


def test_no_frame_is_flat_and_neighbours_in_time_are_nearer_than_strangers(people):
    clips = people["train"].clips.float()
    assert clips.flatten(2).std(2).min() > 8
    # What is not board: the ground at the sides.
    sides = clips[..., [0, 1, -2, -1]].flatten(2)
    near = (sides[:, 1:] - sides[:, :-1]).abs().mean()
    far = (sides - sides.roll(7, 0)).abs().mean()
    assert near < 0.8 * far


def test_tracklets_go_through_clips_as_files_do(people):
    clips = Clips(people["test"], PersonView(64, 32), frames=4)
    assert clips[0].clip.shape == (2, 4, 3, 64, 32)
    assert clips.draw(3, torch.Generator().manual_seed(0)).clip.shape == (4, 3, 64, 32)
    assert people["test"][0].clip.dtype == torch.uint8


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(VergenceError, match="embedded tracklets have at least 2 people"):
        walks(1, 6, 64, 32, "train")
