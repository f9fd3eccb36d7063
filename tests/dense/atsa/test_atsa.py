"""ATSA: its network and variants, pretrained weights, prediction on right and wrong files, and the files it writes."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import vergence
from dense.atsa import fixtures
from vergence.cli.main import main
from vergence.core.errors import VergenceError
from vergence.dense.atsa.model import build, load_vgg
from vergence.dense.atsa.settings import SETTINGS, SMALL, VARIANTS, Inputs, ModelConfig


def little(**changes):
    torch.manual_seed(0)
    sizes = {"trunk": (4, 6, 8, 10, 10), "trunk_depths": (1,) * 5, "branches": (4, 8, 16, 32), "blocks": 1,
             "depth_stem": (4, 6), "init": "kaiming"}  # fmt: skip
    return build(ModelConfig(**(sizes | changes)))


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_maps_pictures_of_any_multiple_of_32(variant):
    changes = {name.removeprefix("model."): value for name, value in VARIANTS[variant].changes.items()}
    network = little(**changes).eval()
    out = network(torch.randn(2, 3, 64, 96), torch.rand(2, 1, 64, 96))
    assert out.shape == (2, 2, 64, 96)
    map_ = network.saliency(torch.randn(1, 3, 32, 32), torch.rand(1, 1, 32, 32))
    assert map_.shape == (1, 32, 32)
    assert 0 <= map_.min() <= map_.max() <= 1


def test_colour_alone_does_not_depend_on_depth_and_the_others_do():
    picture, (one, other) = torch.randn(1, 3, 32, 32), torch.rand(2, 1, 1, 32, 32)
    for variant in ("rgb", "atsa", "sum", "plain", "two-vgg"):
        changes = {name.removeprefix("model."): value for name, value in VARIANTS[variant].changes.items()}
        network = little(**changes).eval()
        same = torch.equal(network(picture, one), network(picture, other))
        assert same == (variant == "rgb"), variant


def test_saliency_is_the_softmax_of_the_second_map():
    network = little().eval()
    inputs = torch.randn(1, 3, 32, 32), torch.rand(1, 1, 32, 32)
    torch.testing.assert_close(network.saliency(*inputs), network(*inputs).softmax(1)[:, 1])


def test_sigmoid_outputs_keep_maps_between_the_two_bounds():
    network = little(outputs="sigmoid").eval()
    nn.init.normal_(network.decoder.head.weight, std=50)
    map_ = network.saliency(torch.randn(1, 3, 32, 32), torch.rand(1, 1, 32, 32))
    assert 1 / (1 + np.e) <= map_.min() <= map_.max() <= np.e / (1 + np.e)


def test_wide_layers_in_bands_give_the_map_of_the_whole(monkeypatch):
    monkeypatch.setattr("vergence.nn.convnorm.BAND", 20_000)
    network = little(trunk=(64, 64, 64, 64, 64)).eval().requires_grad_(False)
    inputs = torch.randn(2, 3, 64, 64), torch.rand(2, 1, 64, 64)
    fast = network(*inputs)
    exact = network.double()(*(t.double() for t in inputs))
    torch.testing.assert_close(fast.double(), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("picture", "depth"), [((1, 3, 30, 32), (1, 1, 30, 32)), ((1, 3, 32, 32), (1, 3, 32, 32)), ((3, 32, 32), (32, 32))]
)
def test_wrong_shapes_are_refused(picture, depth):
    with pytest.raises(VergenceError, match="multiples of 32"):
        little()(torch.zeros(picture), torch.zeros(depth))


@pytest.mark.parametrize(
    "changes",
    [{"model.branches": (8, 16, 32, 60)}, {"model.trunk": (8, 8)}, {"model.blocks": 0}, {"data.size": 60},
     {"data.alike": 0.9, "data.useless": 0.2}],
)  # fmt: skip
def test_wrong_configs_are_refused(changes):
    with pytest.raises(VergenceError):
        SETTINGS.configure("tiny", changes=changes)


# Pretrained weights ---------------------------------------------------------------------------------------------------


def vgg19_bn(widths, depths):
    """Random weights under torchvision's names."""
    state, number, below = {}, 0, 3
    for width, depth in zip(widths, depths, strict=True):
        for _ in range(depth):
            conv, norm = nn.Conv2d(below, width, 3), nn.BatchNorm2d(width)
            nn.init.normal_(norm.running_mean)
            for at, module in ((number, conv), (number + 1, norm)):
                state |= {f"features.{at}.{name}": value for name, value in module.state_dict().items()}
            number, below = number + 3, width
        number += 1
    return state | {"classifier.0.weight": torch.zeros(2, 2)}


def test_imagenet_weights_fill_the_trunk_with_their_statistics():
    network = little(trunk_depths=(2, 2, 4, 4, 4))
    state = vgg19_bn((4, 6, 8, 10, 10), (2, 2, 4, 4, 4))
    assert "features.49.weight" in state  # the last convolution of torchvision's vgg19_bn
    assert "colour trunk starts from ImageNet weights" in load_vgg(network, state)
    trunk = network.colour.trunk.stages
    assert torch.equal(trunk[0][0].conv.weight, state["features.0.weight"])
    assert torch.equal(trunk[4][3].conv.weight, state["features.49.weight"])
    assert torch.equal(trunk[4][3].norm.running_mean, state["features.50.running_mean"])


def test_both_trunks_of_two_equal_streams_are_filled():
    network = little(depth="ladder")
    assert load_vgg(network, vgg19_bn((4, 6, 8, 10, 10), (1,) * 5)).startswith("both trunks")


@pytest.mark.parametrize(("damage", "message"), [("gone", "have no 'features.1.weight'"), ("bent", r"shape \(9,\)")])
def test_weights_of_another_network_are_refused(damage, message):
    state = vgg19_bn((4, 6, 8, 10, 10), (1,) * 5)
    if damage == "gone":
        del state["features.1.weight"]
    else:
        state["features.1.weight"] = torch.zeros(9)
    with pytest.raises(VergenceError, match=message):
        load_vgg(little(), state)


# Prediction -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return vergence.load("atsa")


def test_the_starter_weights_find_a_disc_in_front(model):
    picture, depth, mask = fixtures.scene(3, 120, 160)
    result = model.predict(image=picture, depth=depth)
    hit = (result.mask.numpy() & mask).sum() / (result.mask.numpy() | mask).sum()
    assert hit > 0.4
    left, top, width, height = result.box
    rows, columns = result.mask.nonzero(as_tuple=True)
    assert (left, top) == (columns.min(), rows.min())
    assert (left + width, top + height) == (columns.max() + 1, rows.max() + 1)


def test_a_map_and_its_negative_give_the_same_if_told_which_is_near(model):
    picture, depth, _ = fixtures.scene(3, 64, 80)
    one = model.predict(image=picture, depth=depth, nearest="bright")
    other = model.predict(image=picture, depth=255 - depth, nearest="dark")
    torch.testing.assert_close(one.saliency, other.saliency, rtol=0, atol=1e-4)
    found = [model.predict(image=picture, depth=d).nearest for d in (depth, 255 - depth)]
    assert found == ["bright", "dark"]


def test_the_threshold_cuts_the_mask_and_alpha_follows_it(model):
    picture, depth, _ = fixtures.scene(3, 64, 80)
    result = model.predict(image=picture, depth=depth, threshold=0.25)
    assert torch.equal(result.mask, result.saliency >= 0.25)
    alpha = result.cutout()[3]
    assert (alpha[result.mask] >= 127).all()
    assert (alpha[~result.mask] <= 128).all()


@pytest.mark.parametrize(
    ("depth", "hint"),
    [
        (np.zeros((64, 80)), "one value everywhere"),
        (np.full((64, 80), 7, np.uint16), "one value everywhere"),
        (np.where(np.arange(80) < 8, np.nan, fixtures.scene(3, 64, 80)[1]), "10.0% of depth.png has no value"),
        (fixtures.scene(3, 32, 40)[1], "has 40 x 32 pixels and was resized to 80 x 64"),
    ],
)
def test_odd_depth_maps_are_used_with_a_hint(model, depth, hint):
    result = model.predict(image=fixtures.scene(3, 64, 80)[0], depth=depth)
    assert hint in result.hint
    assert result.saliency.isfinite().all()


def test_files_agree_with_each_other(here, capsys):
    assert main(["predict", "atsa", *fixtures.prediction(here), "-o", "out", "--quiet"]) == 0
    map_ = np.load(here / "out" / "photo-saliency.npy")
    with Image.open(here / "out" / "photo-saliency.png") as stored:
        np.testing.assert_allclose(np.asarray(stored) / 255, map_, atol=1 / 500)
    with Image.open(here / "out" / "photo-cutout.png") as cutout:
        assert cutout.mode == "RGBA"
        np.testing.assert_array_equal(np.asarray(cutout)[..., :3], fixtures.scene(4, 60, 80)[0])
    with Image.open(here / "out" / "photo-mask.png") as mask:
        assert set(np.unique(mask)) <= {0, 255}
        assert mask.size == (80, 60)


def test_a_turned_photograph_with_a_depth_map_as_stored_is_turned_with_it(here, capsys):
    picture, depth, _ = fixtures.scene(4, 60, 80)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(picture).save(here / "a.jpg", exif=exif)
    Image.fromarray(depth).save(here / "d.png")
    assert main(["predict", "atsa", "a.jpg", "d.png", "-o", "out"]) == 0
    assert "turned as the EXIF orientation" in " ".join(capsys.readouterr().out.split())
    with Image.open(here / "out" / "a-mask.png") as mask:
        assert mask.size == (60, 80)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (((1, 1), (1, 1)), "p.png has 1 x 1 pixels: expected at least 16 x 16"),
        (((64, 48), (64, 64)), "d.png has 64 x 64 pixels and p.png 64 x 48: expected a map of the same view"),
    ],
)
def test_wrong_pictures_are_refused_in_a_sentence_and_nothing_is_written(sizes, message, here, capsys):
    for name, size in zip(("p.png", "d.png"), sizes, strict=True):
        Image.new("L", size, 90).save(here / name)
    assert main(["predict", "atsa", "p.png", "d.png", "-o", "out", "--quiet"]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert not (here / "out").exists()


@pytest.mark.parametrize("kind", ["alpha", "grey", "deep"])
def test_grey_transparent_and_deep_pictures_are_taken(kind, here, capsys):
    picture, depth, _ = fixtures.scene(4, 60, 80)
    grey = Image.fromarray(picture).convert("L" if kind == "grey" else "RGBA")
    grey.save(here / "p.png")
    Image.fromarray(depth.astype(np.uint16) * 250 if kind == "deep" else depth).save(here / "d.png")
    assert main(["predict", "atsa", "p.png", "d.png", "-o", "out", "--quiet"]) == 0


def test_a_threshold_beyond_one_is_refused_before_anything_is_read(tmp_path):
    with pytest.raises(VergenceError, match="threshold is from 0 to 1, got 2"):
        Inputs(tmp_path / "a.png", tmp_path / "d.png", threshold=2)


def test_small_is_small():
    assert sum(p.numel() for p in build(SMALL).parameters()) < 300_000
