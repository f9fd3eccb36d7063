"""Cameras of every form give the projection that their format defines, and wrong ones a sentence."""

import json

import cv2
import numpy as np
import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.matching.cameras import camera, chosen, pair_of, read_cameras, refuse_one_centre, undistorted

K = np.array([[500.0, 0, 320], [0, 510, 240], [0, 0, 1]])
R = cv2.Rodrigues(np.array([0.1, -0.3, 0.2]))[0]
T = np.array([0.4, -0.2, 3.0])
X = np.array([[0.3, 0.2, 1.0], [-0.5, 0.4, 0.7]])


def projected(rotation=R, t=T, lens=K):
    p = (X @ rotation.T + t) @ lens.T
    return p[:, :2] / p[:, 2:]


def colmap(folder, lens="1 PINHOLE 640 480 500 510 320.5 240.5", pose=None):
    folder.mkdir(exist_ok=True)
    (folder / "cameras.txt").write_text(f"# Camera list\n{lens}\n")
    angle = np.linalg.norm([0.1, -0.3, 0.2])
    w, v = np.cos(angle / 2), np.sin(angle / 2) * np.array([0.1, -0.3, 0.2]) / angle
    numbers = " ".join(map(repr, map(float, pose if pose is not None else [w, *v, *T])))
    lines = [
        "# Image list",
        "# Number of images: 2, mean observations per image: 1",
        f"1 {numbers} 1 a.jpg",
        "1.5 2.5 -1",
        f"2 {numbers} 1 sub/b c.jpg",
        "",
    ]
    (folder / "images.txt").write_text("\n".join(lines) + "\n")
    return folder


def strecha(path, distortion="0 0 0"):
    rows = [*K, distortion, *R.T, -R.T @ T, (640, 480)]
    path.write_text("\n".join(row if isinstance(row, str) else " ".join(map(repr, map(float, row))) for row in rows))


def test_colmap_is_shifted_by_half_a_pixel(tmp_path):
    cameras = read_cameras(colmap(tmp_path / "model"))
    assert list(cameras) == ["a.jpg", "sub/b c.jpg"]
    np.testing.assert_allclose(cameras["a.jpg"].project(torch.from_numpy(X))[0], projected(), atol=1e-9)
    assert cameras["a.jpg"].size == (640, 480)
    again = read_cameras(str(tmp_path / "model" / "images.txt"))
    torch.testing.assert_close(again["a.jpg"].R, cameras["a.jpg"].R)
    (tmp_path / "project" / "sparse").mkdir(parents=True)
    colmap(tmp_path / "project" / "sparse" / "0")
    assert "a.jpg" in read_cameras(tmp_path / "project")
    by_name = chosen(cameras, ["a.png", "b c.jpg"], "model")  # by stem
    assert [c.name for c in by_name] == ["a.jpg", "sub/b c.jpg"]
    with pytest.raises(VergenceError, match=r"model has no camera for the picture 'z.jpg'"):
        chosen(cameras, ["z.jpg"], "model")


def test_strechas_rotation_is_transposed_and_its_t_is_the_centre(tmp_path):
    strecha(tmp_path / "0000.png.camera")
    own = read_cameras(tmp_path)["0000.png"]
    np.testing.assert_allclose(own.project(torch.from_numpy(X))[0], projected(), atol=1e-9)
    np.testing.assert_allclose(own.centre, -R.T @ T, atol=1e-12)
    P = K @ np.hstack([R, T[:, None]])  # the data set's own .P files
    p = np.hstack([X, np.ones((2, 1))]) @ P.T
    np.testing.assert_allclose(own.project(torch.from_numpy(X))[0], p[:, :2] / p[:, 2:], atol=1e-9)


def test_json_is_read_from_a_file_a_folder_or_text(tmp_path):
    text = json.dumps({"cameras": [{"name": "a.png", "K": [500, 510, 320, 240], "R": R.tolist(), "t": T.tolist()}]})
    (tmp_path / "cameras.json").write_text(text)
    for source in (text, tmp_path, tmp_path / "cameras.json"):
        np.testing.assert_allclose(
            read_cameras(source)["a.png"].project(torch.from_numpy(X))[0], projected(), atol=1e-9
        )


def test_two_intrinsics_and_a_pose_are_a_pair():
    vector = pair_of(["a", "b"], "500,510,320,240", "0.1 -0.3 0.2, 0.4 -0.2 3")[1]
    matrix = pair_of(["a", "b"], "1,2,3;500,510,320,240", " ".join(map(str, [*R.ravel(), *T])))
    for own in (vector, matrix[1]):
        np.testing.assert_allclose(own.project(torch.from_numpy(X))[0], projected(), atol=1e-6)
    first = matrix[0]
    assert first.K.tolist() == [[1, 0, 2], [0, 1, 3], [0, 0, 1]]
    rectified = pair_of(["a", "b"], "500,320,240", "-0.2,0,0")
    torch.testing.assert_close(rectified[1].centre, torch.tensor([0.2, 0, 0]).double())


def test_distortion_is_opencvs():
    bent = camera("a", K, np.eye(3), np.zeros(3), "here", [-0.2, 0.05, 0.003, -0.002, 0.02])
    picture = cv2.GaussianBlur(np.random.default_rng(0).normal(size=(480, 640)), (0, 0), 4)
    ours = undistorted(torch.from_numpy(picture)[None], bent)[0].numpy()
    theirs = cv2.undistort(picture, K, np.array(bent.distortion))
    assert np.abs(ours - theirs)[5:-5, 5:-5].max() < 0.02 * picture.std()
    plain = camera("a", K, np.eye(3), np.zeros(3), "here", size=(640, 481))
    with pytest.raises(VergenceError, match="a has 640 x 480 pixels, and its camera 640 x 481"):
        undistorted(torch.from_numpy(picture)[None], plain)


def cameras_of(**changes):
    row = {"name": "a.png", "K": K.tolist(), "R": R.tolist(), "t": T.tolist()} | changes
    return json.dumps({"cameras": [{k: v for k, v in row.items() if v is not None}]})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (cameras_of(R=(2 * R).tolist()), "camera 'a.png' of the cameras: R is not a rotation"),
        (cameras_of(R=(R @ np.diag([1, 1, -1])).tolist()), "a reflection"),
        (cameras_of(R=[[1, 0], [0, 1]]), "R has the shape"),
        (cameras_of(R="x"), "R is not numbers"),
        (cameras_of(t=[0, 0, float("inf")]), "not finite"),
        (cameras_of(K=np.diag([-1, 1, 1]).tolist()), "fx and fy above 0"),
        (cameras_of(t=None), "has no 't'"),
        ('{"cameras": []}', "has no cameras"),
        ('{"cameras": [', "is not JSON"),
    ],
)
def test_wrong_cameras_are_named(text, said):
    with pytest.raises(VergenceError, match=said) as refusal:
        read_cameras(text)
    assert "\n" not in str(refusal.value)


def test_wrong_files_are_named(tmp_path):
    (tmp_path / "empty").mkdir()
    for source, said in ((tmp_path / "nowhere", "does not exist"), (tmp_path / "empty", "has no cameras")):
        with pytest.raises(VergenceError, match=said):
            read_cameras(source)
    folder = colmap(tmp_path / "model", lens="1 FISHEYE 640 480 500 320 240")
    with pytest.raises(VergenceError, match=r"cameras.txt has the camera '1 FISHEYE'"):
        read_cameras(folder)
    colmap(tmp_path / "model", pose=[0, 0, 0, 0, 1, 2, 3])  # a quaternion of length 0
    with pytest.raises(VergenceError, match=r"'a.jpg' of .*images.txt: R has values that are not finite"):
        read_cameras(folder)
    colmap(tmp_path / "model")
    text = (folder / "images.txt").read_text()
    (folder / "images.txt").write_text(text[: len(text) // 2])
    with pytest.raises(VergenceError, match=r"images.txt .*cut short"):
        read_cameras(folder)
    strecha(tmp_path / "x.png.camera", distortion="0.1 0 0")
    with pytest.raises(VergenceError, match=r"x.png.camera has radial distortion"):
        read_cameras(tmp_path / "x.png.camera")


@pytest.mark.parametrize(
    ("lenses", "pose", "said"),
    [
        ("500", "0 0 1", "intrinsics are f,cx,cy"),
        ("500,1,2", "0 0", "a pose has 3 numbers"),
        ("a,b,c", "0 0 1", "'a b c' where numbers are expected"),
        ("500,1,2", "2 0 0 0 1 0 0 0 1 0 0 1", "camera 'b' of pose: R is not a rotation"),
    ],
)
def test_wrong_text_is_named(lenses, pose, said):
    with pytest.raises(VergenceError, match=said):
        pair_of(["a", "b"], lenses, pose)


def test_equal_centres_are_refused():
    pair = pair_of(["a.png", "b.png"], "500,320,240", "0.1 0.2 0.1 0 0 0")
    with pytest.raises(VergenceError, match=r"a.png and b.png have the same centre"):
        refuse_one_centre(pair)
    refuse_one_centre(pair_of(["a.png", "b.png"], "500,320,240", "1e-4 0 0"))
