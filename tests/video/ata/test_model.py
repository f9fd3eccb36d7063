"""The models that are compared: their cost by formula, and their start from image weights."""

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.reading.weights import load_state
from vergence.video.ata.model import SIZES, TEMPORAL, blocks_of, build, closed_form, load_image_weights
from vergence.video.ata.settings import VARIANTS
from vergence.video.ata.system import SYSTEM

SMALL = {"size": "tiny", "width": 64, "classes": 7, "frames": 4, "image": 32}


def counted(variant, **arguments):
    with torch.device("meta"):
        model = build(variant, **arguments).eval()
        clip = torch.empty(1, arguments["frames"], 3, arguments["image"], arguments["image"])
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(clip)
    return sum(p.numel() for p in model.parameters()), counter.get_total_flops() // 2


@pytest.mark.parametrize("variant", TEMPORAL)
def test_every_variant_costs_what_the_closed_form_says(variant):
    cost = closed_form(variant, **SMALL)
    assert counted(variant, **SMALL) == (cost.parameters, cost.macs)


@pytest.mark.parametrize(
    ("variant", "arguments"),
    [
        pytest.param("ata", {"size": "l16", "classes": 174, "frames": 8, "image": 224}, marks=pytest.mark.slow),
        ("ata-2", {"size": "ti16", "classes": 10, "frames": 16, "image": 112, "tubelet": 2}),
        ("joint", {"size": "s16", "classes": 10, "frames": 4, "image": 96}),
    ],
)
def test_so_does_every_size_with_options(variant, arguments):
    cost = closed_form(variant, **arguments)
    assert counted(variant, **arguments) == (cost.parameters, cost.macs)


def test_vit_b_has_the_published_number_of_parameters():
    # 85,798,656 is ViT-B/16 without its classifier; TimeSformer adds 35,453,952 and 8 x 768 numbers for time.
    arguments = {"size": "b16", "classes": 400, "frames": 8, "image": 224}
    assert closed_form("averaging", **arguments).parameters == 85_798_656 + 769 * 400
    assert closed_form("ata", **arguments).parameters == 85_798_656 + 769 * 400 + 35_453_952 + 8 * 768


def test_stages_are_quarters_of_the_blocks():
    assert blocks_of((0,), 12) == (0, 1, 2)
    assert blocks_of((1, 3), 12) == (3, 4, 5, 9, 10, 11)
    assert blocks_of((0, 1, 2, 3), 4) == (0, 1, 2, 3)
    assert build("ata-1", **SMALL, depth=12).aligned == (0, 1, 2)
    assert build("ata-1", **SMALL, aligned=(2,)).aligned == (2,)


@pytest.mark.parametrize("variant", TEMPORAL)
def test_every_variant_answers_and_learns(variant):
    torch.manual_seed(0)
    model = build(variant, **SMALL)
    answer = model(torch.randn(2, 4, 3, 32, 32))
    assert answer.shape == (2, 7)
    answer.square().sum().backward()
    assert all(math.isfinite(float(p.grad.norm())) for p in model.parameters() if p.grad is not None)


def test_unknown_names_are_refused():
    with pytest.raises(VergenceError, match=r"no variant 'atta' of ata \(did you mean"):
        build("atta", **SMALL)
    with pytest.raises(VergenceError, match="no size 'huge'"):
        build("ata", **{**SMALL, "size": "huge"})


# Image weights, under the names that the public files have


def image_weights(classes=1000, grid=2, depth=4, width=64, patch=8):
    source = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=source)

    state = {
        "cls_token": draw(1, 1, width),
        "pos_embed": draw(1, 1 + grid * grid, width),
        "patch_embed.proj.weight": draw(width, 3, patch, patch),
        "patch_embed.proj.bias": draw(width),
        "norm.weight": draw(width),
        "norm.bias": draw(width),
        "head.weight": draw(classes, width),
        "head.bias": draw(classes),
    }
    for i in range(depth):
        for name, shape in (("norm1", (width,)), ("norm2", (width,)), ("attn.qkv", (3 * width, width)),
                            ("attn.proj", (width, width)), ("mlp.fc1", (4 * width, width)),
                            ("mlp.fc2", (width, 4 * width))):  # fmt: skip
            state[f"blocks.{i}.{name}.weight"], state[f"blocks.{i}.{name}.bias"] = draw(*shape), draw(shape[0])
    return state


def torchvision_names(state):
    pairs = [("cls_token", "class_token"), ("pos_embed", "encoder.pos_embedding"), ("patch_embed.proj", "conv_proj"),
             ("head.", "heads.head."), ("blocks.", "encoder.layers.encoder_layer_"), ("norm1", "ln_1"),
             ("norm2", "ln_2"), ("attn.qkv.", "self_attention.in_proj_"), ("attn.proj", "self_attention.out_proj"),
             ("mlp.fc1", "mlp.0"), ("mlp.fc2", "mlp.3")]  # fmt: skip
    found = {}
    for name, value in state.items():
        name = "encoder.ln." + name[5:] if name.startswith("norm.") else name
        for ours, theirs in pairs:
            name = name.replace(ours, theirs)
        found[name] = value
    return found


def saved(tmp_path, state, kind="timm"):
    if kind == "timm":
        save_tensors(tmp_path / "vit.safetensors", state)
        return tmp_path / "vit.safetensors"
    torch.save(torchvision_names(state) if kind == "torchvision" else state, tmp_path / "vit.pth")
    return tmp_path / "vit.pth"


def start(model, path):
    return load_image_weights(model, load_state(path), str(path))


@pytest.mark.parametrize("kind", ["timm", "torchvision"])
@pytest.mark.parametrize("variant", ["averaging", "joint", "factorised", "ata", "ata-conv"])
def test_a_video_model_starts_as_the_image_model(tmp_path, variant, kind):
    state = image_weights(grid=4)
    model = build(variant, **SMALL)
    drawn = start(model, saved(tmp_path, state, kind))
    for name, value in model.state_dict().items():
        if ".temporal." not in name and not name.startswith(("head.", "time_embed")):
            assert torch.equal(value, state[name])
            assert name not in drawn
    assert {"head.weight", "head.bias"} <= set(drawn)
    if variant in ("factorised", "ata"):
        assert torch.equal(model.blocks[2].temporal.attn.qkv.weight, state["blocks.2.attn.qkv.weight"])
        assert torch.equal(model.blocks[2].temporal.norm.bias, state["blocks.2.norm1.bias"])
        assert not model.blocks[2].temporal.fc.weight.any()


def test_a_still_clip_then_has_the_image_models_features(tmp_path):
    path = saved(tmp_path, {k: v * 0.1 for k, v in image_weights(grid=4).items()})
    image, video = build("averaging", **{**SMALL, "frames": 1}), build("ata", **SMALL)
    for model in (image, video):
        start(model.eval(), path)
    with torch.no_grad():
        video.blocks[0].temporal.fc.weight.zero_()  # the one that does not begin with nothing
        picture = torch.randn(2, 1, 3, 32, 32)
        (alone, _), (still, _) = (
            model.run(*model.embedded(picture.expand(-1, frames, -1, -1, -1)))
            for model, frames in ((image, 1), (video, 4))
        )
    torch.testing.assert_close(still, alone[:, 0], atol=1e-4, rtol=1e-4)


def test_grids_tubelets_and_classifiers_are_fitted(tmp_path):
    state = image_weights(classes=7, grid=2)
    model = build("factorised", **SMALL, tubelet=2)
    drawn = start(model, saved(tmp_path, state))
    assert model.pos_embed.shape == (1, 17, 64)
    assert torch.equal(model.pos_embed[:, 0], state["pos_embed"][:, 0])
    assert torch.equal(model.patch_embed.proj.weight[:, :, 1], state["patch_embed.proj.weight"])
    assert not model.patch_embed.proj.weight[:, :, 0].any()
    assert torch.equal(model.head.weight, state["head.weight"])
    assert "head.weight" not in drawn


def test_a_timesformer_brings_its_own_attention_over_time(tmp_path):
    state = image_weights(grid=4)
    for i in range(4):
        for theirs, ours in (("temporal_norm1", "norm1"), ("temporal_attn.qkv", "attn.qkv"),
                             ("temporal_attn.proj", "attn.proj")):  # fmt: skip
            for kind in ("weight", "bias"):
                state[f"blocks.{i}.{theirs}.{kind}"] = state[f"blocks.{i}.{ours}.{kind}"] + 1
        state[f"blocks.{i}.temporal_fc.weight"], state[f"blocks.{i}.temporal_fc.bias"] = (
            torch.ones(64, 64),
            torch.ones(64),
        )
    state["time_embed"] = torch.randn(1, 8, 64)
    path = tmp_path / "timesformer.pyth"
    torch.save({"model_state": {f"model.{name}": value for name, value in state.items()}}, path)
    model = build("ata", **SMALL)
    assert set(start(model, path)) == {"head.weight", "head.bias"}
    assert torch.equal(model.blocks[3].temporal.attn.proj.weight, state["blocks.3.temporal_attn.proj.weight"])
    assert torch.equal(model.time_embed, state["time_embed"][:, ::2])


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"conv1.weight": torch.zeros(3)}, "expected the weights of an image ViT"),
        (image_weights(depth=3), "has no 'blocks.3.*': expected a ViT of 4 blocks"),
        (image_weights(depth=5), "has 5 blocks, this model has 4"),
        (image_weights(width=32), "this model needs"),
        (image_weights() | {"pos_embed": torch.zeros(1, 4, 64)}, "do not form a square grid"),
    ],
)
def test_other_weights_are_refused_and_change_nothing(tmp_path, state, message):
    model = build("ata", **SMALL)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(VergenceError, match=message):
        start(model, saved(tmp_path, state))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_sizes_are_those_of_the_image_models():
    assert {name: (s.width, s.depth, s.heads) for name, s in SIZES.items() if name.endswith("16")} == {
        "ti16": (192, 12, 3), "s16": (384, 12, 6), "b16": (768, 12, 12), "l16": (1024, 24, 16),
    }  # fmt: skip


def test_every_variant_is_a_kind_of_model():
    assert {name: dict(v.changes) for name, v in VARIANTS.items()} == {
        name: {"model.temporal": name} for name in TEMPORAL
    }


def test_a_start_from_image_weights_says_what_is_new(tmp_path):
    path = saved(tmp_path, image_weights(classes=4, grid=5, width=32))
    config = SYSTEM.configure("tiny", "ata", {"pretrained": str(path)})
    said = SYSTEM.load_pretrained(config, SYSTEM.build(config, SYSTEM.settings.facts(4)), load_state(path))
    assert said.startswith("the model starts from an image or video ViT; new: ")
    assert "temporal.fc" in said
