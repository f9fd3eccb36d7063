"""The network's behaviour, the game of its players, prediction on right and wrong pictures, and its files."""

import math

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.utils.parametrizations import spectral_norm as of_pytorch

from generation.cdvae import fixtures
from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.core.errors import VergenceError
from vergence.data.images import read_image
from vergence.generation.cdvae.model import CDVAE, Step
from vergence.generation.cdvae.predict import around, labelled, object_box, prepared, views_of
from vergence.generation.cdvae.settings import SETTINGS, SMALL, Config, Facts, Inputs, LossConfig, Pictures
from vergence.generation.cdvae.system import SYSTEM
from vergence.generation.players import FrozenFeatures, spectral_norm, spread_of

FACTS = Facts(("0", "90", "180", "270"), ((0, 1, 2, 3),), True, 0.8)
CONFIG = SETTINGS.configure("tiny", None, {"model.channels": 2})
PLAYERS = ("discriminator", "dac", "translator")


def build(variant=None):
    torch.manual_seed(0)
    config = SETTINGS.configure("tiny", variant, {"model.channels": 2})
    return CDVAE(config.model, 4, 32)


@pytest.fixture(scope="module")
def network():
    return build().eval().requires_grad_(False)


def context(tmp_path):
    return Context(CONFIG, tmp_path, FACTS, "predict")


def batch(count=4):
    return torch.rand(count, 3, 32, 32) * 2 - 1, torch.arange(count) % 4


@pytest.mark.parametrize("variant", list(SETTINGS.variants))
def test_every_variant_draws_pictures_in_range(variant):
    pictures, views = batch()
    made = build(variant).eval()(pictures, views, views.flip(0))
    assert made.shape == pictures.shape
    assert made.abs().max() <= 1


@pytest.mark.parametrize("player", PLAYERS)
def test_the_losses_of_a_player_lead_to_it(player):
    model = build()
    own = Step(model, *batch(), torch.Generator().manual_seed(0)).losses(player, LossConfig())
    sum(own.values()).backward()
    reached = {name.split(".")[0] for name, value in model.named_parameters() if value.grad is not None}
    assert player in reached
    assert player == "translator" or reached == {player}  # the translator's pass through the two others, frozen


def test_an_update_moves_all_players_and_leaves_them_trainable():
    model = build().train()
    before = {name: value.clone() for name, value in model.named_parameters()}
    ctx = Context(CONFIG, None, FACTS)
    ctx.optimisers = {name: torch.optim.Adam(getattr(model, name).parameters(), lr=1e-3) for name in PLAYERS}
    pictures, views = batch(8)
    losses = SYSTEM.update(ctx, model, {"picture": pictures, "view": views})
    assert set(losses) == {"discriminator", "classifier", "kl", "pixel", "adversarial", "dac", "code"}
    assert all(math.isfinite(value) for value in losses.values())
    assert all(not torch.equal(getattr(model, name).state_dict()[key], before[f"{name}.{key}"])
               for name, key in (("dac", "0.weight"), ("translator", "encoder.mean.weight")))  # fmt: skip
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_spectral_norm_is_that_of_pytorch():
    torch.manual_seed(0)
    ours, theirs = torch.nn.Conv2d(4, 6, 3).double(), torch.nn.Conv2d(4, 6, 3).double()
    theirs.load_state_dict(ours.state_dict())
    ours, theirs = spectral_norm(ours), of_pytorch(theirs)
    for _ in range(300):
        ours.weight, theirs.weight  # noqa: B018
    x = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=1e-9)
    slopes = [
        torch.autograd.grad(each(x).square().sum(), each.parametrizations.weight.original) for each in (ours, theirs)
    ]
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-8)


def test_spread_is_that_of_groups_of_four():
    x = torch.randn(8, 3, 2, 2)
    found = spread_of(x)
    expected = x[4:].std(0, unbiased=False).mean()
    torch.testing.assert_close(found[7, 0, 1, 1], expected, rtol=1e-4, atol=1e-5)
    assert spread_of(x[:5]).shape == (5, 1, 2, 2)


def test_vgg_features_come_after_conv2_2_and_conv5_3():
    with torch.device("meta"):
        features = FrozenFeatures("vgg16")
        shapes = [tuple(each.shape) for each in features(torch.zeros(1, 3, 64, 64))]
        names = set(features.layers.state_dict())
    assert shapes == [(1, 128, 32, 32), (1, 512, 4, 4)]
    assert {"0.weight", "28.bias"} <= names
    assert not any(parameter.requires_grad for parameter in features.parameters())


def test_weights_of_vgg_are_loaded_by_their_names_and_others_refused():
    config = SETTINGS.configure("tiny", None, {"model.channels": 2, "model.features": "vgg16"})
    model = CDVAE(config.model, 4, 32)
    state = {f"features.{name}": torch.full_like(w, 0.5) for name, w in model.features.layers.state_dict().items()}
    assert "26 tensors" in SYSTEM.load_pretrained(config, model, state | {"classifier.0.weight": torch.zeros(1)})
    assert (model.features.layers[0].weight == 0.5).all()
    with pytest.raises(VergenceError, match=r"lack features\.0\.weight"):
        SYSTEM.load_pretrained(config, model, {"conv.weight": torch.zeros(1)})
    with pytest.raises(VergenceError, match="has none"):
        SYSTEM.load_pretrained(CONFIG, build(), state)


@pytest.mark.parametrize(
    "changes",
    [{"model.filters": 1}, {"model.kernel": 4}, {"data.views": 1}, {"data.kinds": ("boat",)}, {"data.size": 40},
     {"loss.kl": -1.0}, {"model.halvings": 4}],
)  # fmt: skip
def test_wrong_configs_are_refused(changes):
    with pytest.raises(VergenceError):
        SETTINGS.configure("tiny", None, changes)


# Prediction -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "expected"), [("", None), ("180", 2), ("3", 3), ("0", 0)])
def test_views_are_named_by_name_or_number(text, expected):
    assert labelled(FACTS, text, "view") == expected


@pytest.mark.parametrize("text", ["4", "-1", "91", "left", "1e1", "²"])
def test_views_out_of_range_are_refused(text):
    with pytest.raises(VergenceError, match="view is the name of a view or its number from 0 to 3, got"):
        labelled(FACTS, text, "view")


def test_filters_between_start_at_the_views_and_close_the_turn():
    filters = torch.arange(3.0).view(3, 1, 1)
    assert around(filters, True, 1).flatten().tolist() == [0, 0.5, 1, 1.5, 2, 1]
    assert around(filters, False, 1).flatten().tolist() == [0, 0.5, 1, 1.5, 2]
    assert around(filters, False, 0).flatten().tolist() == [0, 1, 2]


def test_frames_of_the_turntable_at_views_are_the_views(network, tmp_path):
    fixtures.thing().save(tmp_path / "toy.png")
    result = views_of(context(tmp_path), network, Inputs(tmp_path / "toy.png", source="90", between=2))
    assert result.views.shape == (4, 3, 32, 32)
    assert (result.views.int() - result.turntable[::3].int()).abs().max() <= 1
    assert (result.source, result.estimated) == ("90", False)


def test_the_estimated_source_has_the_smallest_error(network, tmp_path):
    fixtures.thing().save(tmp_path / "toy.png")
    result = views_of(context(tmp_path), network, Inputs(tmp_path / "toy.png"))
    assert result.estimated
    assert result.names.index(result.source) == int(result.errors.argmin())


def test_an_object_is_cut_to_the_size_of_training_and_centred(tmp_path):
    picture = Image.new("RGB", (200, 120), (250, 250, 250))
    picture.paste((200, 30, 30), (10, 20, 50, 100))  # 40 x 80
    picture.save(tmp_path / "a.png")
    made = prepared(tmp_path / "a.png", 32, 0.8)
    assert object_box((made * 127.5 + 127.5).round().to(torch.uint8)) in [(3, 10, 29, 22), (3, 9, 29, 23)]
    whole = prepared(tmp_path / "a.png", 32, 0.0)
    assert not torch.equal(made, whole)


def test_a_busy_ground_is_left_whole():
    busy = torch.randint(0, 256, (3, 40, 40), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    assert object_box(busy) is None
    assert object_box(torch.full((3, 40, 40), 200, dtype=torch.uint8)) is None


def test_transparent_pixels_become_white(tmp_path):
    fixtures.thing(mode="RGBA").save(tmp_path / "a.png")
    assert (read_image(tmp_path / "a.png")[:, 0] == 255).all()
    assert prepared(tmp_path / "a.png", 32, 0.0)[:, 0, 0].tolist() == pytest.approx([1, 1, 1])


@pytest.mark.parametrize(("size", "message"), [((1, 1), "has 1 x 1 pixels"), ((300, 4), "has 300 x 4 pixels")])
def test_pictures_without_pixels_are_refused(size, message, network, tmp_path):
    Image.new("RGB", size).save(tmp_path / "dot.png")
    with pytest.raises(VergenceError, match=message):
        views_of(context(tmp_path), network, Inputs(tmp_path / "dot.png"))


def test_inputs_between_have_a_range(tmp_path):
    with pytest.raises(VergenceError, match="between is from 0 to 30"):
        Inputs(tmp_path / "a.png", between=31)


def test_a_folder_of_a_single_view_and_an_empty_view_are_refused(here, capsys):
    for name in ("a", "b"):
        fixtures._save(here / "one" / "train" / "0" / f"{name}.png", fixtures.thing())
    fixtures.parted(here / "two")
    (here / "two" / "train" / "up").mkdir()
    for folder, message in (("one", "a single view"), ("two", "holds no pictures")):
        assert main(["train", "cdvae", "--data", folder, "--quiet"]) == 2
        told = capsys.readouterr().err
        assert message in told
        assert told.count("\n") == 1


def test_training_needs_no_pairs(here):
    """Pictures of which no two show the same object: there is a reconstruction to judge, and nothing else."""
    for number, view in enumerate(("front", "left")):
        for split in ("train", "test"):
            for index in range(4):
                fixtures._save(here / "toys" / split / view / f"{number}{index}.png", fixtures.thing(index))
    config = Config(SMALL, data=Pictures("toys", size=32))
    data = SYSTEM.data(Context(config, here), "test")
    torch.manual_seed(0)
    model = CDVAE(SMALL, 2, 32).eval().requires_grad_(False)
    scores = SYSTEM.evaluate(Context(config, here, SYSTEM.facts(Context(config, here), data)), model, data)
    assert scores["reconstruction"] > 0
    assert math.isnan(scores["l1"])


def test_pictures_of_other_sizes_are_made_square(here):
    for view in ("0", "1"):
        Image.fromarray(np.full((20, 50, 3), 90, np.uint8)).save(_made(here / "wide" / "train" / view / "a.png"))
        Image.fromarray(np.full((70, 31), 90, np.uint8)).save(_made(here / "wide" / "train" / view / "b.png"))
    data = SYSTEM.data(Context(Config(SMALL, data=Pictures("wide", size=32)), here), "train")
    assert {tuple(sample["picture"].shape) for sample in (data[0], data[3])} == {(3, 32, 32)}


def _made(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
