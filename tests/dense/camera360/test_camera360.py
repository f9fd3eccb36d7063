"""Levelling: the axis of maps, lines and votes, readers, prediction on right and wrong pictures, and its files."""

import json
import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch
from PIL import Image

import vergence
from dense.camera360 import fixtures
from vergence.cli.main import main
from vergence.core.errors import VergenceError
from vergence.dense import vanishing
from vergence.dense.camera360.model import COARSE, GSCNN, build
from vergence.dense.camera360.settings import SETTINGS, SMALL, Inputs
from vergence.dense.panorama_data import LAYOUTS, Noise, Prepared, Sample, as_panorama
from vergence.dense.verticals import axis_of, bins, components, middles, pitch_roll, upright
from vergence.metrics.angles import axis_errors
from vergence.ops.sphere import caps, circle_votes, rotate
from vergence.reading.pictures import read_picture

UPS = ((0.0, 0.0, 1.0), (0.2, 0.1, 1.0), (-0.5, 0.6, 0.8), (1.0, 0.0, 0.3))


def tensor(pixels):
    return torch.from_numpy(np.array(pixels)).permute(2, 0, 1)


def unit(up):
    return torch.nn.functional.normalize(torch.tensor(up), dim=0)


@pytest.fixture(scope="module")
def model():
    return vergence.load("camera360")


# The axis -------------------------------------------------------------------------------------------------------------


def test_parts_continue_around_the_seam_and_corners_touch():
    mask = np.zeros((5, 8), bool)
    mask[2, 0] = mask[3, 7] = mask[0, 4] = True
    labels = components(mask)
    assert labels[2, 0] == labels[3, 7] != 0
    assert labels[0, 4] not in (0, labels[2, 0])
    assert (labels[~mask] == 0).all()


def test_the_top_and_the_bottom_row_do_not_touch():
    mask = np.zeros((5, 8), bool)
    mask[0], mask[4] = True, True
    labels = components(mask)
    assert labels[0, 0] != labels[4, 0]


def test_the_more_probable_spot_decides_and_the_answer_is_above():
    spots = torch.zeros(64, 128)
    up, wrong = unit((0.4, -0.5, 0.7)), unit((-0.9, 0.1, 0.4))
    spots += 0.9 * caps(-up[None], 64, 128, 8.0)[0]  # both ends of it
    spots += 0.6 * caps(wrong[None], 64, 128, 4.0)[0]
    assert axis_errors(axis_of(spots)[None], up[None]) < 0.3
    assert axis_of(spots)[2] > 0


def test_an_unsure_map_still_gives_its_largest_values():
    spots = 0.2 * caps(unit((0.4, -0.5, 0.7))[None], 64, 128, 8.0)[0] + 0.01
    assert axis_errors(axis_of(spots)[None], unit((0.4, -0.5, 0.7))[None]) < 0.3


def test_bins_hold_their_middles():
    index = torch.tensor([[0, 3], [9, 9], [17, 8]])
    assert torch.equal(bins(middles(index, COARSE, 10.0), COARSE, 10.0), index)


def test_pitch_is_the_elevation_of_the_middle_and_roll_lowers_the_right():
    middle_up = torch.tensor([-math.sin(0.2), 0.0, math.cos(0.2)])  # the middle looks along -x
    assert pitch_roll(middle_up)[0] == pytest.approx(math.degrees(0.2), abs=1e-4)
    right_low = torch.tensor([0.0, -math.sin(0.2), math.cos(0.2)])  # right is y
    assert pitch_roll(right_low)[1] == pytest.approx(math.degrees(0.2), abs=1e-4)


# Lines and votes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("up", UPS)
def test_posts_are_lines_through_the_vertical(up):
    normals, lengths = vanishing.line_normals(tensor(fixtures.panorama(0, 128, up)))
    steep = (normals @ unit(up).double()).abs() < math.sin(math.radians(3))
    assert steep.sum() >= 8
    assert len(lengths) == len(normals)
    found = vanishing.refined_axis(unit(up), normals, lengths)
    assert axis_errors(found[None], unit(up)[None]) < 1.0


def test_the_most_voted_axis_is_that_of_a_box():
    axes = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64))[0]
    directions = axes.repeat_interleave(20, 0)
    starts = torch.randn(60, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    normals = torch.nn.functional.normalize(torch.linalg.cross(starts, directions), dim=1)
    upmost = axes[axes[:, 2].abs().argmax()]
    found = vanishing.most_voted_axis(circle_votes(normals, 64, 128, 2.0))
    assert axis_errors(found[None], upmost[None]) < 4


def test_one_colour_has_no_lines_and_no_votes():
    flat = torch.full((3, 32, 64), 90, dtype=torch.uint8)
    assert len(vanishing.line_normals(flat)[0]) == 0
    assert int(vanishing.vanishing_image(flat, 32, 64).max()) == 0
    assert vanishing.refined_axis(unit((0.0, 0.0, 1.0)), *vanishing.line_normals(flat)) is None


# Data -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("up", UPS)
def test_drawn_panoramas_are_rolled_and_mirrored_together_with_their_vertical(up):
    picture = tensor(fixtures.panorama(0, 32, up))
    marked = 255 * caps(unit(up)[None], 32, 64, 20.0)[0].to(torch.uint8)
    data = Prepared([Sample(picture, marked, unit(up), False)], 32)
    for seed in range(4):
        drawn = data.draw(0, torch.Generator().manual_seed(seed))
        assert axis_errors(axis_of(drawn["votes"] / 255)[None], drawn["up"][None]) < 2.5


def test_files_are_rotated_so_that_their_vertical_is_known(tmp_path):
    fixtures.whole(tmp_path)
    data = LAYOUTS["folder"].read(tmp_path, "train")
    sample = data[0]
    own = data.files[0][0]
    level = tensor(np.asarray(read_picture(own).convert("RGB"))).float()
    again = rotate(sample.image[None].float(), upright(sample.up), level.shape[-2:])[0]
    assert (again - level).abs().mean() < 12  # twice resampled; random pictures are 60 apart
    assert not sample.near


def test_a_test_split_ends_with_the_picture_as_it_is(tmp_path):
    fixtures.whole(tmp_path)
    data = LAYOUTS["folder"].read(tmp_path, "test")
    assert data[data.rotations].near
    assert data[data.rotations].up.tolist() == [0, 0, 1]


def test_a_list_of_rotated_panoramas_gives_their_vertical(tmp_path):
    fixtures.deep360up(tmp_path)
    data = LAYOUTS["deep360up"].read(tmp_path, "test")
    assert len(data) == 3
    for sample in (data[1], data[2]):
        bright = (sample.image[0] > 200).float()  # around the vertical
        assert axis_errors(axis_of(bright)[None], sample.up[None]) < 2


@pytest.mark.parametrize(
    "line", ["images/0.png 200 0", "images/0.png x y", "images/0.png 5", "../list.txt 0 0", "no 0 0"]
)
def test_a_wrong_line_of_a_list_is_named(line, tmp_path):
    fixtures.deep360up(tmp_path)
    (tmp_path / "list.txt").write_text(line)
    with pytest.raises(VergenceError, match="line 1"):
        LAYOUTS["deep360up"].read(tmp_path, "test")


def test_noise_is_new_and_its_directly_drawn_form_knows_no_vertical():
    direct, turned = (Noise(4, 32, ("a",), kind) for kind in (False, True))
    assert not torch.equal(direct[0].image, direct[1].image)
    assert torch.equal(direct[0].image, direct[0].image)
    assert direct[0].image.float().std() > turned[0].image.float().std() + 5  # interpolation smooths


@pytest.mark.parametrize(
    ("size", "message"),
    [((100, 100), "a crop to 100 x 50"), ((300, 100), "add 50 rows"), ((1, 1), "at least 32 x 16")],
)
def test_other_shapes_are_refused_with_advice(size, message):
    with pytest.raises(VergenceError, match=message):
        as_panorama(torch.zeros(3, size[1], size[0], dtype=torch.uint8), "a.jpg")


# Networks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["gscnn", "no-votes", "regression", "coarse-to-fine", "votes"])
def test_every_method_gives_its_output(variant):
    network = build(SETTINGS.configure("tiny", variant).model).eval()
    found = network(torch.zeros(2, 3, 64, 128), torch.rand(2, 1, 64, 128))
    assert found.shape[0] == 2
    assert found.shape[1:] in ((2, 64, 128), (3,), (36,))


def test_other_sizes_are_refused_by_the_network():
    with pytest.raises(VergenceError, match="multiple of 32"):
        GSCNN(SMALL)(torch.zeros(1, 3, 64, 64), torch.zeros(1, 1, 64, 64))


@pytest.mark.parametrize(
    "changes",
    [
        {"model.widths": (1, 2)},
        {"model.strides": (4, 1, 1, 1)},
        {"data.height": 50},
        {"data.scenes": 0},
        {"objective.radius": 0.0},
        {"objective.tilt": 95.0},
    ],
)
def test_wrong_configs_are_refused(changes):
    with pytest.raises(VergenceError):
        SETTINGS.configure("tiny", changes=changes)


def test_wrong_inputs_are_refused_before_anything_is_read(tmp_path):
    with pytest.raises(VergenceError):
        Inputs(tmp_path / "a.jpg", quality=101)


# Prediction -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("up", [(0.02, -0.03, 1.0), (0.2, 0.1, 1.0), (-0.5, 0.3, 0.8)])
def test_the_starter_weights_set_a_striped_room_upright(model, up):
    result = model.predict(panorama=fixtures.panorama(1, 256, up))
    assert axis_errors(torch.tensor(result.up)[None], unit(up)[None]) < 2
    assert result.upright.shape == (3, 256, 512)


def test_files_agree_with_each_other(here, capsys):
    args = fixtures.prediction(here)
    assert main(["predict", "camera360", *args, "-o", "out", "--quiet"]) == 0
    angles = json.loads((here / "out" / "room-angles.json").read_text())
    packet = ET.fromstring((here / "out" / "room.xmp").read_text().split("?>", 1)[1].rsplit("<?", 1)[0])
    own = {node.tag.split("}")[1]: node.text for node in packet.iter() if "panorama" in node.tag}
    assert float(own["PosePitchDegrees"]) == pytest.approx(angles["pitch"], abs=1e-3)
    assert float(own["PoseRollDegrees"]) == pytest.approx(angles["roll"], abs=1e-3)
    with Image.open(here / "out" / "room-upright.jpg") as picture:
        assert picture.size == (128, 64)
        assert b"PosePitchDegrees>0.0000<" in picture.info["xmp"]


@pytest.mark.parametrize("kind", ["grey", "deep", "alpha", "turned"])
def test_grey_deep_transparent_and_turned_pictures_are_taken(kind, here, capsys):
    picture = Image.fromarray(fixtures.panorama(1, 64))
    if kind == "grey":
        picture.convert("L").save(here / "a.png")
    elif kind == "deep":
        Image.fromarray(np.asarray(picture.convert("L")).astype(np.uint16) * 257).save(here / "a.png")
    elif kind == "alpha":
        picture.convert("RGBA").save(here / "a.png")
    else:  # stored on its side, with EXIF's word on how to turn it
        exif = Image.Exif()
        exif[0x0112] = 6
        picture.transpose(Image.Transpose.ROTATE_90).save(here / "a.png", exif=exif)
    assert main(["predict", "camera360", "a.png", "-o", "out", "--quiet", "--quality", "0"]) == 0
    with Image.open(here / "out" / "a-upright.png") as level:
        assert level.size == (128, 64)


@pytest.mark.parametrize("size", [(1, 1), (64, 64), (300, 100), (64, 0)])
def test_wrong_pictures_are_refused_in_a_sentence_and_nothing_is_written(size, here, capsys):
    if size[1]:
        Image.new("RGB", size, (90, 80, 70)).save(here / "a.png")
    else:
        (here / "a.png").write_bytes(b"no picture")
    assert main(["predict", "camera360", "a.png", "-o", "out", "--quiet"]) == 2
    told = capsys.readouterr().err
    assert "a.png" in told
    assert told.count("\n") == 1
    assert not (here / "out").exists()


def test_one_colour_is_taken_with_a_hint(model):
    result = model.predict(panorama=np.full((64, 128, 3), 90, np.uint8))
    assert "one colour" in result.hint
    assert result.summary()["hint"] == result.hint
