"""Pages are complete in one file, say what they were given, and turn clouds the right way."""

import base64
import json
import re

import numpy as np
import pytest
import torch
from PIL import Image

from vergence.drawing import viewer
from vergence.drawing.viewer import Layer, View, page, picture, turned


def read(path):
    text = path.read_text()
    data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)[1])
    return text, data


def floats(text):
    return np.frombuffer(base64.b64decode(text), "<f4").reshape(-1, 3)


def layers(count=50):
    points = torch.randn(count, 3, generator=torch.Generator().manual_seed(0))
    return [Layer("first", points, "#3b6fb6", 0.1 * points), Layer("second", points + 1, "#e08a2c")]


def test_a_page_holds_everything_it_shows(tmp_path):
    text, data = read(page(tmp_path / "a.html", "two clouds", "a note", layers()))
    assert not re.search(r"https?://|src=|@import|url\(", text)
    assert "{{" not in text
    first, second = data["layers"]
    np.testing.assert_array_equal(floats(first["points"]), turned(layers()[0].points, "camera"))
    np.testing.assert_array_equal(floats(first["vectors"]), turned(layers()[0].vectors, "camera"))
    assert "vectors" not in second
    assert "two clouds" in text


def test_a_layer_may_be_hidden_at_first_and_the_eye_begins_where_it_is_asked_to(tmp_path):
    both = layers()
    hidden = Layer("third", both[0].points, "#000000", shown=False)
    text, data = read(page(tmp_path / "a.html", "a", "b", [*both, hidden], eye=(0.1, -0.2)))
    assert [layer["shown"] for layer in data["layers"]] == [True, True, False]
    assert (data["yaw"], data["pitch"]) == (0.1, -0.2)
    assert "box.checked = layer.shown" in text


def test_names_cannot_break_the_page(tmp_path):
    evil = "</script><b>&\"'"
    text, data = read(page(tmp_path / "a.html", evil, evil, [Layer(evil, torch.zeros(1, 3), "#000000")]))
    assert data["layers"][0]["name"] == evil
    assert "<b>" not in text


@pytest.mark.parametrize(("axes", "ahead", "left", "up"), [("camera", 2, 0, 1), ("lidar", 0, 1, 2)])
def test_ahead_is_away_from_the_eye_left_is_left_and_up_is_up(axes, ahead, left, up):
    seen = turned(torch.eye(3), axes)
    assert seen[ahead].tolist() == [0, 0, -1]
    assert seen[left].tolist() == [-1, 0, 0]
    assert seen[up].tolist() == [0, 1, 0]


def test_of_many_points_some_are_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(viewer, "MOST", 10)
    _, data = read(page(tmp_path / "a.html", "", "", layers()))
    shown = floats(data["layers"][0]["points"])
    assert len(shown) == 10
    assert {tuple(row) for row in shown} <= {tuple(row) for row in turned(layers()[0].points, "camera").numpy()}
    np.testing.assert_allclose(floats(data["layers"][0]["vectors"]), 0.1 * shown, rtol=1e-6)


def test_a_single_point_can_be_looked_at(tmp_path):
    _, data = read(page(tmp_path / "a.html", "", "", [Layer("one", torch.ones(1, 3), "#000000")]))
    assert data["radius"] > 0
    assert data["middle"] == turned(torch.ones(1, 3), "camera")[0].tolist()


def test_a_picture_has_the_colours_of_its_layers(tmp_path):
    path = picture(tmp_path / "a.png", [[View("both", layers()), View("one", layers()[:1])]])
    pixels = np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3)
    for colour in ((0x3B, 0x6F, 0xB6), (0xE0, 0x8A, 0x2C)):
        through = 0.75 * np.array(colour) + 0.25 * 255  # points let the paper shine through
        assert (np.abs(pixels - through).sum(1) < 12).sum() > 20


def test_points_have_colours_of_their_own(tmp_path):
    points = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
    colours = torch.arange(120).reshape(40, 3)
    layer = Layer("coloured", points, "#000000", colours=colours)
    _, data = read(page(tmp_path / "a.html", "", "", [layer]))
    packed = np.frombuffer(base64.b64decode(data["layers"][0]["colours"]), np.uint8).reshape(-1, 3)
    np.testing.assert_array_equal(packed, colours.numpy())
    red = Layer("red", points, "#000000", colours=torch.tensor([[255, 0, 0]]).expand(40, 3))
    pixels = np.asarray(Image.open(picture(tmp_path / "a.png", [[View("", [red])]])).convert("RGB")).reshape(-1, 3)
    assert (np.abs(pixels - [255, 0, 0]).sum(1) < 12).sum() > 20


def test_normals_become_discs_that_are_thin_from_the_side_and_wide_from_the_front(tmp_path):
    yaw, pitch = viewer.YAW, viewer.PITCH
    towards = torch.tensor([[-np.sin(yaw) * np.cos(pitch), np.sin(pitch), np.cos(yaw) * np.cos(pitch)]])
    beside = torch.tensor([[np.cos(yaw), 0.0, np.sin(yaw)]])  # to the right of the picture
    corners = Layer("corners", torch.tensor([[-3.0, -3, -3], [3, 3, 3]]), "#e08a2c")
    areas = []
    for normal in (towards, beside):
        camera = normal.float() * torch.tensor([-1.0, 1, -1])  # the viewer's axes are right, up, towards the eye
        disc = Layer("disc", torch.zeros(1, 3), "#3b6fb6", normals=camera, disc=1.0)
        path = picture(tmp_path / "a.png", [[View("", [disc, corners])]])
        pixels = np.asarray(Image.open(path).convert("RGB")).astype(int).reshape(-1, 3)
        areas.append(int((pixels[:, 2] - pixels[:, 0] > 40).sum()))
    assert areas[0] > 20 * areas[1]
    _, data = read(page(tmp_path / "a.html", "", "", [disc]))
    assert data["layers"][0]["disc"] == 1.0
    np.testing.assert_allclose(floats(data["layers"][0]["normals"]), beside.numpy(), atol=1e-6)
