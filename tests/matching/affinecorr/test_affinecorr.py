"""Methods and trackers on a textured plane, and prediction on photographs with right and wrong cameras."""

import csv
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import vergence
from matching.affinecorr import fixtures
from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.core.errors import VergenceError
from vergence.data.clouds import read_cloud
from vergence.matching.affinecorr.bench import textured_plane
from vergence.matching.affinecorr.model import agreement, estimate, patch_frames
from vergence.matching.affinecorr.settings import BARE, Patch
from vergence.matching.affinecorr.system import SYSTEM, case_of
from vergence.metrics.oriented import normal_angle
from vergence.ops.affine_correspondences import inconsistency, oriented_point
from vergence.ops.epipolar import essential

PATCH = Patch(coarse=1)
PLANE = torch.tensor([0.08, -0.05, 0.3], dtype=torch.float64)
"""That of :func:`textured_plane`."""


def noisy(tracks, sigma=0.1):
    noise = torch.randn(tracks.A.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return replace(tracks, A=tracks.A + sigma * noise)


def errors(tracks, plane):
    true = oriented_point(PLANE.expand_as(plane), tracks.x)[1]
    return normal_angle(oriented_point(plane, tracks.x)[1], true)


@pytest.fixture(scope="module")
def seen():
    """Tracks with noisy affinities in three pictures, and the pictures."""
    tracks, stack, _ = textured_plane(3, 30)
    return noisy(tracks), stack


@pytest.mark.parametrize("method", ["ref4", "ref4-corrected", "ref2", "ref3"])
def test_refinement_finds_the_plane_from_noisy_affinities(seen, method):
    tracks, stack = seen
    before, found = estimate(tracks, None, "raw"), estimate(tracks, stack, method, PATCH)
    assert errors(tracks, before.plane).median() > 5
    assert errors(tracks, found.plane).median() < 1
    assert found.good.double().mean() > 0.9
    assert (agreement(tracks, stack, found.plane, PATCH) > agreement(tracks, stack, before.plane, PATCH)).all()


@pytest.mark.parametrize("method", BARE)
def test_methods_without_pictures_return_the_plane_of_exact_affinities(method):
    tracks, _, _ = textured_plane(3, 5)
    assert errors(tracks, estimate(tracks, None, method).plane).max() < 1e-5


def test_refined_correspondences_agree_with_the_poses_and_those_of_four_degrees_do_not(seen):
    tracks, stack = seen
    E, x = essential(tracks.R, tracks.t), tracks.x[:, None].expand_as(tracks.y)
    off = {m: inconsistency(E, x, *astuple(estimate(tracks, stack, m, PATCH))).abs().max() for m in ("ref2", "ref4")}
    assert off["ref2"] < 1e-12
    assert off["ref4"] > 1e-6


def astuple(found):
    return found.y, found.A


@pytest.mark.parametrize("freedom", [3, 6])
def test_trackers_follow_patches_without_matches(freedom):
    tracks, stack, _ = textured_plane(4, 20, step=0.02)
    blind = replace(tracks, y=torch.full_like(tracks.y, torch.nan), A=torch.full_like(tracks.A, torch.nan))
    found = estimate(blind, stack, f"track{freedom}", replace(PATCH, coarse=2))
    assert (350 * (found.y - tracks.y).norm(dim=-1)).median() < 0.1
    E, x = essential(tracks.R, tracks.t), tracks.x[:, None].expand_as(tracks.y)
    off = inconsistency(E, x, found.y, found.A).abs().max()
    assert (off < 1e-12) == (freedom == 3)


def test_a_patch_has_the_shape_of_its_feature_within_bounds():
    tracks, _, _ = textured_plane(2, 3)
    stretch = torch.tensor([[2.0, 0.3], [0.0, 0.5]], dtype=torch.float64)
    scales = torch.tensor([0.1, 5.0, 100.0], dtype=torch.float64)
    tracks = replace(tracks, frame=scales[:, None, None] / 350 * stretch)
    frames = patch_frames(tracks, Patch(scale=3.0, least=10, most=30))
    sides = torch.linalg.det(frames).sqrt()
    torch.testing.assert_close(sides, torch.tensor([10.0, 15.0, 30.0], dtype=torch.float64))
    torch.testing.assert_close(frames / sides[:, None, None], stretch.expand(3, 2, 2))


def test_methods_that_align_refuse_a_scene_without_pictures(tmp_path):
    config = SYSTEM.configure("sphere", "ref2")
    sample = SYSTEM.data(Context(config, tmp_path, SYSTEM.settings.facts()), "test")[0]
    with pytest.raises(VergenceError, match="no pictures to align"):
        case_of(config, sample, 0)


# Photographs ----------------------------------------------------------------------------------------------------------

LENS = {"intrinsics": f"{fixtures.FOCAL},63.5,47.5", "pose": "-0.12,-0.04,0"}


@pytest.fixture
def pair(here):
    fixtures.prediction(here)
    return [here / "left.png", here / "right.png"]


def true_normal():
    return -torch.from_numpy(fixtures.PLANE / np.linalg.norm(fixtures.PLANE))


def test_normals_of_photographs_are_those_of_the_plane(pair, here):
    result = vergence.load("affinecorr").predict(images=pair, **LENS)
    assert len(result.points) > 20
    off = (result.points @ torch.from_numpy(fixtures.PLANE) - 1).abs()
    assert off.median() < 0.02
    angle = normal_angle(result.normals, true_normal().expand_as(result.normals))
    assert angle.median() < 0.5 * normal_angle(result.before, true_normal().expand_as(result.before)).median()
    assert angle.median() < 12
    files = {path.name for path in (here / "out").iterdir()} if result.save(here / "out") else set()
    assert files == {"points.png", "points.html", "points.ply", "points.csv", "points.json"}
    torch.testing.assert_close(read_cloud(here / "out" / "points.ply").double(), result.points, atol=1e-5, rtol=0)
    head = (here / "out" / "points.ply").read_bytes()[:600].decode("latin1")
    assert all(f"property float n{axis}" in head for axis in "xyz")
    rows = list(csv.DictReader((here / "out" / "points.csv").open()))
    assert len(rows) == len(result.points)
    length = sum(float(rows[0][name]) ** 2 for name in ("nx", "ny", "nz"))
    assert length == pytest.approx(1, abs=1e-4)
    assert json.loads((here / "out" / "points.json").read_text())["method"] == "ref2"


def table(path, count=40, bad=()):
    """Exact correspondences of the plane; what ``bad`` says is written into a row of the right picture."""
    random = np.random.default_rng(0)
    shift = fixtures.FOCAL * 0.12
    lines = ["track,image,x,y,a11,a12,a21,a22"]
    for number in range(count):
        x, y = random.uniform([40, 20], [110, 80])
        ray = np.array([(x - 63.5) / fixtures.FOCAL, (y - 47.5) / fixtures.FOCAL, 1])
        slope = 0.12 * fixtures.PLANE[:2]
        cells = [x - shift * (ray @ fixtures.PLANE), y, 4 * (1 - slope[0]), -4 * slope[1], 0, 4]
        for where, column, value in bad:
            if where == number:
                cells[column] = value
        lines.append(f"{number},left.png,{x},{y},4,0,0,4")
        lines.append(f"{number},right.png," + ",".join(map(str, cells)))
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_own_correspondences_give_exact_normals_and_bad_ones_are_left_out_and_counted(pair, here):
    model = vergence.load("affinecorr")
    given = {"images": pair, "method": "corrected", "correlation": -1.0, **LENS, "pose": "-0.12,0,0"}
    whole = model.predict(correspondences=table(here / "a.csv"), **given)
    assert len(whole.points) == 40
    assert normal_angle(whole.normals, true_normal().expand(40, 3)).max() < 1e-4
    bad = [(3, 2, "nan"), (5, 0, 300.0), (7, 1, 90.0)]
    rest = model.predict(correspondences=table(here / "b.csv", bad=bad), **given)
    assert rest.left_out == {"not finite": 1, "behind a camera": 1, "apart": 1}
    kept = torch.tensor([i for i in range(40) if i not in (3, 5, 7)])
    torch.testing.assert_close(rest.points, whole.points[kept], atol=0, rtol=0)


def test_centres_on_a_line_are_no_special_case(here):
    """Three cameras in a row: the form of Eq. 8 divides zero by zero."""
    for name, picture in zip(("a.png", "b.png", "c.png"), fixtures.views(3), strict=True):
        picture.save(here / name)
    rows = [{"name": f"{n}.png", "K": [fixtures.FOCAL, 63.5, 47.5], "R": np.eye(3).tolist(), "t": [-0.12 * i, 0, 0]}
            for i, n in enumerate("abc")]  # fmt: skip
    (here / "cameras.json").write_text(json.dumps({"cameras": rows}))
    with (here / "t.csv").open("w") as file:
        file.write("track,image,x,y,a11,a12,a21,a22\n")
        for i, name in enumerate("abc"):
            slope = 0.12 * i * fixtures.PLANE[:2]
            file.write(f"0,{name}.png,{63.5 - fixtures.FOCAL * 0.12 * i * 0.5},47.5,{4 * (1 - slope[0])},"
                       f"{-4 * slope[1]},0,4\n")  # fmt: skip
    result = vergence.load("affinecorr").predict(
        images=[here / f"{name}.png" for name in "abc"], cameras="cameras.json", correspondences="t.csv",
        method="corrected", correlation=-1.0,
    )  # fmt: skip
    assert normal_angle(result.normals, true_normal()[None]).max() < 1e-4
    assert result.views.tolist() == [3]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "give cameras, or intrinsics and a pose"),
        ({"intrinsics": "100,64,48"}, "there is no pose"),
        ({**LENS, "pose": "0,0,0"}, "have the same centre"),
        ({**LENS, "pose": "1,0,0,0,2,0,0,0,1,-0.1,0,0"}, "R is not a rotation"),
        ({**LENS, "pose": "nan,0,0"}, "not finite"),
        ({**LENS, "correspondences": "none.csv"}, "none.csv"),
        ({**LENS, "pose": "0.12,0.04,0"}, "behind a camera"),
        ({"cameras": '{"cameras": []}'}, "has no cameras"),
    ],
)
def test_wrong_input_is_one_sentence_and_writes_nothing(pair, here, capsys, given, said):
    flags = [f"--{name}={value}" for name, value in given.items()]
    assert main(["predict", "affinecorr", *map(str, pair), *flags, "-o", "out", "--quiet"]) == 2
    message = capsys.readouterr().err
    assert said in message
    assert message.count("\n") == 1
    assert not (here / "out").exists()


def test_pictures_without_texture_are_refused(here):
    from PIL import Image

    for name in ("left.png", "right.png"):
        Image.new("RGB", (80, 60), (90, 90, 90)).save(here / name)
    with pytest.raises(VergenceError, match=r"no patch is left in left.png, right.png"):
        vergence.load("affinecorr").predict(images=[here / "left.png", here / "right.png"], **LENS)


def test_without_opencv_one_sentence_says_what_to_install(pair, monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(VergenceError, match=r"pip install 'vergence\[opencv\]'"):
        vergence.load("affinecorr").predict(images=pair, **LENS)
