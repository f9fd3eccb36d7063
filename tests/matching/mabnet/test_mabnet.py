"""The network's behaviour, prediction on right and wrong pairs, and the files it writes."""

import numpy as np
import pytest
import torch
from PIL import Image

import vergence
from matching.mabnet import fixtures
from vergence.cli.main import main
from vergence.core.errors import VergenceError
from vergence.data.clouds import read_cloud
from vergence.matching.mabnet.exact import as_transcribed, transcribed
from vergence.matching.mabnet.model import MAB2d, build
from vergence.matching.mabnet.predict import pair_range
from vergence.matching.mabnet.settings import SETTINGS, SMALL, Inputs, ModelConfig
from vergence.reading.maps import read_pfm, read_png16


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return build(SMALL).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def model():
    return vergence.load("mabnet")


def as_picture(pixels):
    return torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1)


@pytest.mark.parametrize(("height", "width", "disparities"), [(32, 48, 16), (16, 80, 48), (48, 16, 64)])
def test_the_output_follows_the_input_and_stays_within_the_disparities(network, height, width, disparities):
    left, right = torch.randn(2, 2, 3, height, width).unbind(0)
    found = network(left, right, disparities)
    assert found.shape == (2, height, width)
    assert 0 <= found.min() <= found.max() <= disparities - 1


def test_features_are_at_a_quarter_and_scores_at_a_quarter_of_the_disparities(network):
    pair = torch.randn(2, 1, 3, 64, 128)
    assert network.features(pair[0]).shape == (1, 8, 16, 32)
    assert network.scores(*pair, 192)[-1].shape == (1, 48, 16, 32)


def test_training_returns_a_disparity_for_each_hourglass():
    model = ModelConfig(stem=8, blocks=(1, 1, 1, 1), widths=(8, 8, 8, 8), neck=8, channels=8, disparities=16)
    assert [d.shape for d in build(model)(*torch.randn(2, 1, 3, 16, 32))] == [(1, 16, 32)] * 3


def test_training_and_its_statistics_are_those_of_the_direct_transcription():
    model = ModelConfig(stem=8, blocks=(1, 1), widths=(8, 8), neck=8, channels=8, hourglasses=1, disparities=16)
    torch.manual_seed(0)
    network, direct = build(model).double(), transcribed(model).double()
    direct.load_state_dict(as_transcribed(network), strict=False)
    left, right = torch.randn(2, 2, 3, 32, 48, dtype=torch.float64)
    torch.testing.assert_close(network(left, right)[0], direct(left, right, 16)[0], rtol=0, atol=1e-9)
    theirs = direct.state_dict()
    for name, value in as_transcribed(network).items():
        torch.testing.assert_close(value, theirs[name], rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("shapes", "disparities", "message"),
    [
        (((1, 3, 32, 32), (1, 3, 32, 48)), 16, "a pair is two tensors"),
        (((1, 3, 30, 32), (1, 3, 30, 32)), 16, "height must be a multiple of 16, got 30"),
        (((1, 3, 32, 32), (1, 3, 32, 32)), 20, "disparities must be a multiple of 16, got 20"),
    ],
)
def test_wrong_pairs_are_refused_by_the_network(network, shapes, disparities, message):
    with pytest.raises(VergenceError, match=message):
        network(*(torch.zeros(shape) for shape in shapes), disparities)


def test_a_branch_without_channels_is_refused():
    with pytest.raises(VergenceError, match=r"a share of 0\.25 of 2 channels has 0\.5"):
        MAB2d(4, 4)


@pytest.mark.parametrize(
    "changes",
    [
        {"disparities": 0},
        {"longest": 5},
        {"enlarge": 0.5},
        {"baseline": 1.0},
        {"focal": 100.0},
        {"baseline": -1.0, "focal": 1.0},
    ],
)
def test_wrong_inputs_are_refused_before_anything_is_read(changes, tmp_path):
    with pytest.raises(VergenceError):
        Inputs(tmp_path / "left.png", tmp_path / "right.png", **changes)


@pytest.mark.parametrize("changes", [{"disparities": 100}, {"hourglasses": 4}, {"blocks": (1,)}, {"shares": ()}])
def test_wrong_networks_are_refused(changes):
    with pytest.raises(VergenceError):
        SETTINGS.configure("tiny", changes={f"model.{name}": value for name, value in changes.items()})


# The range of a pair --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [3, 11])
def test_the_range_of_a_pair_is_found_and_a_swapped_one_noticed(shift):
    left, right = map(as_picture, fixtures.pair(height=80, width=160, shift=shift))
    largest, hint = pair_range(left, right)
    assert shift <= largest <= 1.15 * shift + 3
    assert hint == ""
    assert "swapped" in pair_range(right, left)[1]


def test_pictures_of_different_places_are_noticed():
    left, right = (as_picture(fixtures.pair(seed, 80, 160)[0]) for seed in (0, 1))
    assert "hardly anything matches" in pair_range(left, right)[1]


# Prediction -----------------------------------------------------------------------------------------------------------


def test_the_starter_weights_find_a_plain_shift(model):
    left, right = fixtures.pair(3, 96, 160, 12)
    result = model.predict(left=left, right=right)
    assert (result.disparity[:, 24:] - 12).abs().median() < 2
    assert result.disparity.shape == (96, 160)


def test_depth_is_baseline_times_focal_over_disparity_and_the_offset(model):
    left, right = fixtures.pair(3, 64, 96, 8)
    result = model.predict(left=left, right=right, baseline=0.5, focal=80.0, offset=2.0)
    torch.testing.assert_close(result.depth, 0.5 * 80 / (result.disparity + 2))
    points, colours = result.points()
    assert len(points) == len(colours) > 0
    x = (points[:, 0] * 80 / points[:, 2] + 95 / 2).round().long()
    y = (points[:, 1] * 80 / points[:, 2] + 63 / 2).round().long()
    assert torch.equal(result.left[:, y, x].mT, colours)


def test_large_pictures_are_matched_smaller_and_disparities_are_those_of_the_original(model):
    left, right = fixtures.pair(3, 96, 200, 12)
    large = model.predict(left=left, right=right, disparities=31)
    small = model.predict(left=left, right=right, disparities=31, longest=100)
    assert (large.scale, small.scale) == (1.8, 0.5)
    assert small.disparity.shape == large.disparity.shape == (96, 200)
    assert small.searched == 64  # 32 levels at half the size
    assert (large.disparity[:, 24:] - 12).abs().median() < 2


def test_files_agree_with_each_other(here, capsys):
    args = fixtures.prediction(here)
    assert main(["predict", "mabnet", *args, "-o", "out", "--quiet"]) == 0
    disparity = np.load(here / "out" / "left-disparity.npy")
    np.testing.assert_array_equal(read_pfm(here / "out" / "left-disparity.pfm"), disparity)
    np.testing.assert_allclose(read_png16(here / "out" / "left-disparity.png") / 256, disparity, atol=1 / 512)
    depth = np.load(here / "out" / "left-depth.npy")
    np.testing.assert_allclose(depth[depth > 0], 0.2 * 100 / disparity[depth > 0], rtol=1e-5)
    assert len(read_cloud(here / "out" / "left-cloud.ply")) <= disparity.size
    with Image.open(here / "out" / "left-colours.png") as picture:
        assert picture.size == disparity.shape[::-1]


@pytest.mark.parametrize("kind", ["grey", "deep", "alpha"])
def test_grey_deep_and_transparent_pictures_are_taken(kind, here, capsys):
    for name, pixels in zip(("l.png", "r.png"), fixtures.pair(height=48, width=64), strict=True):
        grey = Image.fromarray(pixels).convert("L")
        if kind == "deep":
            fixtures.png16(here / name, np.asarray(grey).astype(np.uint16) * 257)
        else:
            (grey if kind == "grey" else Image.fromarray(pixels).convert("RGBA")).save(here / name)
    assert main(["predict", "mabnet", "l.png", "r.png", "-o", "out", "--quiet"]) == 0


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (((64, 48), (64, 50)), "l.png has 64 x 48 pixels and r.png 64 x 50: expected a rectified pair of one size"),
        (((1, 1), (1, 1)), "l.png has 1 x 1 pixels: expected at least 32 x 32"),
        (((64, 48), (64, 48)), "l.png and r.png are the same picture"),
    ],
)
def test_wrong_pairs_are_refused_in_a_sentence_and_nothing_is_written(sizes, message, here, capsys):
    for name, size in zip(("l.png", "r.png"), sizes, strict=True):
        Image.new("RGB", size, (90, 80, 70)).save(here / name)
    assert main(["predict", "mabnet", "l.png", "r.png", "-o", "out", "--quiet"]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert not (here / "out").exists()


def test_a_swapped_pair_is_matched_with_a_hint(model):
    right, left = fixtures.pair(3, 96, 160, 12)
    result = model.predict(left=left, right=right)
    assert "swapped" in result.hint
    assert result.summary()["hint"] == result.hint
