"""Frames become tracks, and tracks that agree with the poses; surfaces give the planes behind pixels."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter

from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.matching.cameras import pair_of
from vergence.matching.frames import Features, detect, match
from vergence.matching.surfaces import from_cloud, from_depth
from vergence.matching.synth import Film, places, shots, sphere
from vergence.matching.tracks import counted, join, read_tracks, settle
from vergence.ops.epipolar import homogeneous


def features(points):
    points = torch.tensor(points, dtype=torch.float64)
    return Features(points, torch.eye(2).double().expand(len(points), 2, 2), torch.zeros(len(points), 128))


def linked(*pairs):
    return torch.tensor(pairs), torch.linspace(0.9, 0.5, len(pairs))


def test_matches_of_pairs_become_tracks_over_pictures():
    found = [features([[0, 0], [50, 0]]), features([[1, 0], [51, 0]]), features([[2, 0], [90, 9]])]
    tracks = join(found, {(0, 1): linked((0, 0), (1, 1)), (1, 2): linked((0, 0))}, most=5)
    assert sorted(map(tuple, tracks.picture.tolist())) == [(0, 1, -1), (0, 1, 2)]
    long = (tracks.picture >= 0).all(1)
    assert tracks.point[long].tolist() == [[[0, 0], [1, 0], [2, 0]]]
    assert join(found, {(0, 1): linked((0, 0)), (1, 2): linked((0, 0))}, most=2).picture.tolist() == [[0, 1]]


def test_of_two_matches_in_one_picture_the_more_similar_one_counts():
    found = [features([[0, 0]]), features([[1, 0], [70, 0]]), features([[2, 0]])]
    weak, strong = torch.tensor([0.3]), torch.tensor([0.8])
    pairs = {(0, 1): (torch.tensor([[0, 1]]), weak), (0, 2): (torch.tensor([[0, 0]]), strong),
             (1, 2): (torch.tensor([[0, 0]]), strong)}  # fmt: skip
    assert join(found, pairs, most=5).point[0, :, 0].tolist() == [0, 1, 2]


def test_no_matches_are_no_tracks():
    assert len(join([features([[0, 0]]), features([[1, 0]])], {}, most=5)) == 0


def test_tracks_are_settled_on_the_images_of_their_points():
    tracks = sphere(200, 4, generator("settle")).tracks
    K = torch.diag(torch.tensor([500.0, 500.0, 1.0])).double()
    tracks = replace(tracks, K1=K.expand(200, 3, 3), K=K.expand(200, 3, 3, 3))
    noise = torch.randn(tracks.y.shape, generator=generator("noise"), dtype=torch.float64)
    settled = settle(replace(tracks, y=tracks.y + 0.2 / 500 * noise))
    own = settled.tracks
    X = homogeneous(own.x) / own.inverse_depth[:, None]
    images = (own.R @ X[:, None, :, None]).squeeze(-1) + own.t
    torch.testing.assert_close(images[..., :2] / images[..., 2:], own.y)
    near = (own.inverse_depth / tracks.inverse_depth[settled.kept] - 1).abs()
    assert near.median() < 1e-3


def test_bad_tracks_are_left_out_and_counted_and_touch_no_other():
    tracks = sphere(50, 3, generator("settle")).tracks
    whole = settle(tracks)
    y, A, t = tracks.y.clone(), tracks.A.clone(), tracks.t.clone()
    y[3, 0, 0], A[4, 1, 0, 0] = torch.nan, torch.inf
    t[5] = 0
    found = settle(replace(tracks, y=y, A=A, t=t, weight=tracks.weight * (t.norm(dim=-1) > 0)))
    assert found.left_out["not finite"] == 2
    assert found.left_out["no baseline"] == whole.left_out["no baseline"] + 1
    assert "2 not finite" in counted(found.left_out)
    kept = torch.isin(whole.kept, found.kept)
    assert int((~kept).sum()) == 3
    torch.testing.assert_close(found.tracks.y, whole.tracks.y[kept], atol=0, rtol=0)


def test_a_view_that_is_wrong_is_dropped_and_the_others_stay():
    tracks = sphere(20, 8, generator("settle")).tracks
    y = tracks.y.clone()
    y[:, 2] += 0.05
    found = settle(replace(tracks, y=y), away=0.01)
    assert (found.tracks.weight[:, 2] == 0).all()
    assert (found.tracks.weight.sum(1) == 6).all()
    torch.testing.assert_close(found.tracks.inverse_depth, tracks.inverse_depth[found.kept], rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("track,image,x\n", "y"),
        ("track,image,x,y,a11,a12,a21,a22\n0,c.png,1,2,1,0,0,1\n", "'c.png'"),
        ("track,image,x,y,a11,a12,a21,a22\n0,a.png,1,zwei,1,0,0,1\n", "row 2"),
        ("track,image,x,y,a11,a12,a21,a22\n0,a.png,1,2,1,0,0,1\n", "two pictures"),
    ],
)
def test_wrong_tables_are_named(tmp_path, text, said):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(VergenceError, match=said):
        read_tracks(tmp_path / "t.csv", ["a.png", "b.png"])


# Local frames ---------------------------------------------------------------------------------------------------------


def texture():
    values = gaussian_filter(np.random.default_rng(0).normal(size=(120, 160)), 2.0)
    return torch.from_numpy((values - values.min()) / np.ptp(values))


@pytest.mark.parametrize("simulate", [False, True])
def test_frames_of_a_shifted_picture_match_along_its_rows(simulate):
    first = texture()
    second = torch.roll(first, 7, 1)
    a, b = (detect(picture, simulate, 400) for picture in (first, second))
    F = torch.tensor([[0.0, 0, 0], [0, 0, -1], [0, 1, 0]]).double()
    index, similar = match(a, b, F)
    shift = b.points[index[:, 1]] - a.points[index[:, 0]]
    assert len(index) > 20
    assert similar.median() > 0.9
    assert ((shift - torch.tensor([7.0, 0.0])).norm(dim=1) < 1).double().mean() > 0.9


def test_nothing_matches_nothing():
    none = Features(torch.zeros(0, 2), torch.zeros(0, 2, 2), torch.zeros(0, 128))
    index, _ = match(none, none, torch.eye(3).double())
    assert index.shape == (0, 2)


# Surfaces -------------------------------------------------------------------------------------------------------------

PLANE = np.array([0.1, -0.2, 0.5])


def lens():
    return pair_of(["a", "b"], "100,40,30", "-1,0,0")[0]


def depths():
    rows, columns = np.mgrid[:60, :80]
    rays = homogeneous(lens().normalised(torch.from_numpy(np.stack([columns, rows], -1)).double())).numpy()
    return 1 / (rays @ PLANE)


def test_planes_are_fitted_to_depth_and_not_across_edges():
    depth = depths()
    depth[:, 50:] *= 1.5
    depth[:20, :30] = 0
    places_ = torch.tensor([[30.0, 40.0], [50.0, 30.0], [5.0, 5.0]], dtype=torch.float64)
    found = from_depth(lens(), depth).planes(places_)
    np.testing.assert_allclose(found[0], PLANE, rtol=1e-9)
    assert found[1:].isnan().all()


def test_planes_are_fitted_to_the_points_in_front():
    far = depths()
    rows, columns = np.mgrid[:60, :80]
    rays = homogeneous(lens().normalised(torch.from_numpy(np.stack([columns, rows], -1)).double()))
    front = (rays * torch.from_numpy(far)[..., None]).reshape(-1, 3)
    cloud = torch.cat([front, 2 * front, -front])  # hidden ones, and some behind the camera
    found = from_cloud(lens(), cloud, (60, 80)).planes(torch.tensor([[40.0, 30.0]]).double())
    np.testing.assert_allclose(found[0], PLANE, rtol=1e-5)


def test_rendered_places_have_the_planes_of_their_surface():
    shot = shots(1, Film(2, size=(60, 80)), ("test",))[0]
    exact = places(shot, 20, generator("places"), radius=5)
    assert len(exact.plane) > 5
    x, y = exact.tracks.pixels()[0].round().long().unbind(1)
    torch.testing.assert_close(1 / exact.tracks.inverse_depth, shot.depths[0][y, x].double(), rtol=1e-4, atol=0)


def test_cameras_of_the_sphere_look_at_its_centre_from_a_distance_of_five():
    scene = sphere(100, 3, generator("sphere"))
    own = scene.tracks
    apart = own.t.norm(dim=-1)  # two places on a sphere of radius 5
    assert apart.max() <= 10
    assert math.isclose(float((apart**2).mean()), 50, rel_tol=0.2)
    assert (own.inverse_depth > 0).all()
