"""Networks for clips: published sizes and names, blocks at the requested places, and agreement with image networks."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vergence.core.errors import VergenceError
from vergence.nn import (
    BLOCKS,
    Nonlocal,
    P3DResNet,
    ResNet,
    ResNet3d,
    ResNetTP,
    SpectralNonlocal,
    VideoTransformer,
    inflate,
)
from vergence.nn.clips import waves
from vergence.nn.p3d import PseudoBottleneck
from vergence.nn.resnet3d import Bottleneck3d, Conv3d

SMALL = {"depths": (1, 1, 1), "widths": (4, 4, 8)}
NETWORKS = {
    "i3d": lambda **more: ResNet3d(3, **SMALL, **more),
    "resnext3d": lambda **more: ResNet3d(3, **SMALL, groups=2, expansion=2, **more),
    "i3d-small": lambda **more: ResNet3d(3, **SMALL, stem="small", **more),
    "p3d": lambda **more: P3DResNet(3, dropout=0.0, **SMALL, **more),
    "p3d-small": lambda **more: P3DResNet(3, dropout=0.0, **SMALL, stem="small", **more),
    "tp": lambda **more: ResNetTP(3, **SMALL, **more),
}


def parameters(model):
    return sum(p.numel() for p in model.parameters())


def filled(network, seed=0):
    """The model with random parameters and running statistics, in double precision, for evaluation."""
    torch.manual_seed(seed)
    for name, value in network.state_dict().items():
        if value.is_floating_point():
            value.copy_(
                torch.rand_like(value) + 0.5 if "var" in name or value.dim() < 2 else torch.randn_like(value) / 4
            )
    return network.double().eval()


# Size and names ------------------------------------------------------------------------------------------------------


def test_a_3d_resnet_is_the_image_network_with_deeper_kernels():
    """Only the stem (7 times the weights) and the 3x3 convolutions (3 times) grow."""
    with torch.device("meta"):
        model, image = ResNet3d(1000), ResNet(1000, (3, 4, 6, 3), "bottleneck")
    middle = sum(9 * width**2 * depth for width, depth in zip((64, 128, 256, 512), (3, 4, 6, 3), strict=True))
    assert parameters(model) == 25_557_032 + 6 * 49 * 3 * 64 + 2 * middle
    assert list(model.state_dict()) == list(image.state_dict())


def test_a_3d_resnext_has_the_names_and_shapes_of_the_public_weights():
    """As listed by the public 3D ResNets for their ResNeXt-101 of cardinality 32."""
    with torch.device("meta"):
        model = ResNet3d(400, (3, 4, 23, 3), (128, 256, 512, 1024), groups=32, expansion=2)
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    expected = {
        "conv1.weight": (64, 3, 7, 7, 7), "bn1.running_mean": (64,),
        "layer1.0.conv1.weight": (128, 64, 1, 1, 1), "layer1.0.conv2.weight": (128, 4, 3, 3, 3),
        "layer1.0.conv3.weight": (256, 128, 1, 1, 1), "layer1.0.downsample.0.weight": (256, 64, 1, 1, 1),
        "layer2.3.conv2.weight": (256, 8, 3, 3, 3), "layer3.22.bn3.weight": (1024,),
        "layer4.0.downsample.0.weight": (2048, 1024, 1, 1, 1), "layer4.2.conv2.weight": (1024, 32, 3, 3, 3),
        "fc.weight": (400, 2048),
    }  # fmt: skip
    assert expected.items() <= shapes.items()
    assert "layer1.1.downsample.0.weight" not in shapes
    assert "layer3.23.conv1.weight" not in shapes
    assert len([name for name in shapes if name.endswith("conv2.weight")]) == 33


def test_p3d_is_a_resnet152_with_temporal_kernels_and_has_the_names_of_the_public_weights():
    """ResNet-152 has 60,192,808 parameters for 1000 classes; a 3x1x1 kernel and its norm come to each deep block."""
    with torch.device("meta"):
        model = P3DResNet(487, (3, 8, 36, 3))
    temporal = sum((3 * width**2 + 2 * width) * depth for width, depth in ((64, 3), (128, 8), (256, 36)))
    assert parameters(model) == 60_192_808 - 2049 * 1000 + 2049 * 487 + temporal
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    assert shapes["conv1_custom.weight"] == (64, 3, 1, 7, 7)
    assert shapes["layer2.0.conv2.weight"] == (128, 128, 1, 3, 3)
    assert shapes["layer2.0.conv3.weight"] == (128, 128, 3, 1, 1)
    assert shapes["layer3.35.conv4.weight"] == (1024, 256, 1, 1, 1)
    assert shapes["layer4.0.conv_normal.weight"] == (512, 512, 3, 3)
    assert shapes["layer4.0.downsample.0.weight"] == (2048, 1024, 1, 1)


def test_temporal_pooling_has_the_size_and_names_of_the_image_network():
    with torch.device("meta"):
        model, image = ResNetTP(625), ResNet(625, (3, 4, 6, 3), "bottleneck")
    assert parameters(model) == 23_508_032 + 2048 * 625 + 625
    assert list(model.state_dict()) == list(image.state_dict())


def test_a_video_transformer_has_four_layers_on_a_resnet34():
    with torch.device("meta"):
        model = VideoTransformer(400)
    width = 512
    layer = 4 * (width**2 + width) + 8 * width**2 + 5 * width + 4 * width
    assert parameters(model) == 21_284_672 + 4 * layer + 400 * (width + 1)


@pytest.mark.parametrize(
    ("make", "clip", "blocks"),
    [
        (lambda **more: ResNet3d(101, at=["layer3.4"], **more), (2, 16, 3, 112, 112), {(1024, 2, 7, 7)}),
        (
            lambda **more: ResNet3d(
                101, (3, 4, 23, 3), (128, 256, 512, 1024), ["layer2.2"], groups=32, expansion=2, **more
            ),
            (2, 16, 3, 112, 112),
            {(512, 4, 14, 14)},
        ),
        (lambda **more: P3DResNet(101, at=["layer2.2"], **more), (2, 16, 3, 160, 160), {(512, 4, 20, 20)}),
        (lambda **more: ResNetTP(625, at=["layer3.4"], **more), (2, 4, 3, 224, 112), {(1024, 4, 14, 7)}),
        (lambda **more: VideoTransformer(101, mixer=more["insert"]), (2, 16, 3, 224, 224), {(512, 16, 1, 1)}),
    ],
)
def test_at_published_size_shapes_are_right_and_blocks_see_whole_clips(make, clip, blocks):
    with torch.device("meta"):
        model = make(insert=SpectralNonlocal)
        seen = set()
        for block in model.inserted.values():
            block.register_forward_pre_hook(lambda module, inputs: seen.add(tuple(inputs[0].shape[1:])))
        logits = model(torch.empty(clip))
    assert logits.shape == (2, model.fc.out_features)
    assert seen == blocks


# Learning ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("frames", [1, 5, 8])
def test_clips_of_any_length_give_logits_and_gradients_reach_everything(name, frames):
    torch.manual_seed(0)
    model = NETWORKS[name](at=["layer2.0"], insert=Nonlocal)
    nn.init.ones_(model.inserted["layer2.0"].norm.weight)
    logits = model(torch.randn(2, frames, 3, 32, 32))
    assert logits.shape == (2, 3)
    logits.square().sum().backward()
    still = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert still == []
    if frames > 1:
        nothing = {n for n, p in model.named_parameters() if not p.grad.any()}
        assert nothing == set()


@pytest.mark.parametrize("tokens", ["frames", "places"])
@pytest.mark.parametrize("mixer", ["attention", *BLOCKS])
def test_any_block_can_mix_the_tokens_of_a_video_transformer(mixer, tokens):
    torch.manual_seed(0)
    model = VideoTransformer(3, (1, 1), "basic", (4, 8), layers=2, heads=2, mixer=mixer, tokens=tokens)
    for block in model.inserted.values():  # they start as the identity
        nn.init.ones_(block.norm.gamma if hasattr(block.norm, "gamma") else block.norm.weight)
    assert len(model.inserted) == (0 if mixer == "attention" else 2)
    model(torch.randn(3, 4, 3, 32, 32)).square().sum().backward()
    # A softmax does not see what is added to all keys; CGNL's norm and CC's softmax leave some without effect too.
    assert [n for n, p in model.named_parameters() if p.grad is None] == []
    assert all(p.grad.any() for n, p in model.named_parameters() if n.startswith("encoder."))


@pytest.mark.parametrize("name", [*NETWORKS, "vtn"])
def test_the_order_of_frames_matters_except_to_a_mean_over_time(name):
    model = filled(
        NETWORKS[name](at=["layer1.0"], insert=Nonlocal)
        if name != "vtn"
        else VideoTransformer(3, (1, 1), "basic", (4, 8), layers=1, heads=2, mixer="snl")
    )
    clip = torch.randn(1, 6, 3, 32, 32, dtype=torch.float64)
    shuffled = clip[:, [3, 0, 5, 2, 1, 4]]
    same = torch.allclose(model(clip), model(shuffled), rtol=1e-9, atol=1e-9)
    assert same == (name == "tp")


# Definitions of the networks ------------------------------------------------------------------------------------------


def test_a_3d_bottleneck_on_one_frame_is_the_2d_one_with_the_middle_of_its_kernel():
    from vergence.nn.resnet import Bottleneck

    deep, flat = filled(Bottleneck3d(4, 4, 2)), Bottleneck(4, 4, 2).double().eval()
    weights = {n: v[:, :, v.shape[2] // 2] if v.dim() == 5 else v for n, v in deep.state_dict().items()}
    flat.load_state_dict(weights)
    x = torch.randn(2, 4, 9, 7, dtype=torch.float64)
    torch.testing.assert_close(deep(x.unsqueeze(2)).squeeze(2), flat(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("inputs", "stride"), [(4, 2), (4, 1), (12, 1)])
@pytest.mark.parametrize("edges", ["zeros", "repeated"])
def test_a_grouped_3d_bottleneck_is_its_groups_side_by_side(inputs, stride, edges):
    """Forward and backward, in training, against plain convolutions of each group's own channels."""
    block = filled(Bottleneck3d(inputs, 6, stride, edges, groups=3, expansion=2)).train()
    x = torch.randn(2, inputs, 5, 6, 4, dtype=torch.float64, requires_grad=True)

    def normed(y, norm):
        mean, var = y.mean((0, 2, 3, 4), keepdim=True), y.var((0, 2, 3, 4), correction=0, keepdim=True)
        scale, shift = (p.view(-1, 1, 1, 1) for p in (norm.weight, norm.bias))
        return (y - mean) / (var + norm.eps).sqrt() * scale + shift

    def plain(x):
        y = torch.einsum("oi,bithw->bothw", block.conv1.weight.flatten(1), x)
        y = F.pad(normed(y, block.bn1).relu(), (1, 1, 1, 1, 0, 0))
        y = F.pad(y, (0, 0, 0, 0, 1, 1), mode="replicate" if edges == "repeated" else "constant")
        pieces = zip(y.split(2, 1), block.conv2.weight.split(2), strict=True)
        y = torch.cat([F.conv3d(part, kernel, stride=stride) for part, kernel in pieces], 1)
        y = torch.einsum("oi,bithw->bothw", block.conv3.weight.flatten(1), normed(y, block.bn2).relu())
        beside = x
        if inputs != 12 or stride == 2:
            conv, norm = block.downsample
            beside = normed(F.conv3d(x, conv.weight, stride=stride), norm)
        return (normed(y, block.bn3) + beside).relu()

    ours, expected = block(x), plain(x)
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)
    wanted = [x, *block.parameters()]
    upstream = torch.randn_like(ours)
    for found, other in zip(
        torch.autograd.grad(ours, wanted, upstream), torch.autograd.grad(expected, wanted, upstream), strict=True
    ):
        torch.testing.assert_close(found, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_nonlocal_block_on_one_frame_is_its_form_on_a_picture(name):
    block = filled(BLOCKS[name](6))
    x = torch.randn(2, 6, 5, 4, dtype=torch.float64)
    torch.testing.assert_close(block(x.unsqueeze(2)).squeeze(2), block(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["A", "B", "C"])
def test_a_pseudo_3d_block_is_its_two_convolutions_put_together_as_published(kind):
    block = filled(PseudoBottleneck(8, 2, 1, kind))
    x = torch.randn(2, 8, 5, 6, 6, dtype=torch.float64)

    def layer(number, y, padding):
        norm = block.get_submodule(f"bn{number}")
        y = F.conv3d(y, block.get_submodule(f"conv{number}").weight, padding=padding)
        return F.batch_norm(y, norm.running_mean, norm.running_var, norm.weight, norm.bias, False, 0.0, norm.eps)

    narrow = layer(1, x, 0).relu()

    def space(y):
        return layer(2, y, (0, 1, 1)).relu()

    def time(y):
        return layer(3, y, (1, 0, 0)).relu()

    mixed = {
        "A": lambda: time(space(narrow)),
        "B": lambda: space(narrow) + time(narrow),
        "C": lambda: space(narrow) + time(space(narrow)),
    }[kind]()
    torch.testing.assert_close(block(x), (layer(4, mixed, 0) + x).relu(), rtol=1e-12, atol=1e-12)


def test_pseudo_3d_kinds_take_turns_and_the_last_stage_sees_frames_one_by_one():
    model = P3DResNet(2, (2, 3, 1), (4, 4, 4))
    kinds = [getattr(model.get_submodule(f"layer{n}")[i], "kind", "2D") for n, d in ((1, 2), (2, 3), (3, 1))
             for i in range(d)]  # fmt: skip
    assert kinds == ["A", "B", "C", "A", "B", "2D"]


def test_pseudo_3d_time_is_halved_as_published_and_an_odd_frame_stays():
    model = P3DResNet(2, (1, 1, 1, 1), (4, 4, 4, 4)).eval()
    assert model.features(torch.randn(1, 16, 3, 64, 64)).shape == (1, 16, 1, 2, 2)
    assert model.features(torch.randn(1, 17, 3, 64, 64)).shape == (1, 16, 2, 2, 2)


def test_temporal_pooling_without_blocks_is_the_mean_of_the_frames_features():
    model = filled(NETWORKS["tp"]())
    image = ResNet(0, (1, 1, 1), "bottleneck", (4, 4, 8)).double().eval()
    image.load_state_dict({n: v for n, v in model.state_dict().items() if not n.startswith("fc.")})
    clip = torch.randn(2, 3, 3, 32, 16, dtype=torch.float64)
    each = torch.stack([image(clip[:, t]) for t in range(3)])
    torch.testing.assert_close(model.features(clip), each.mean(0), rtol=1e-12, atol=1e-12)


def test_a_block_over_frames_sees_them_one_by_one_and_one_over_clips_all_together():
    clip = torch.randn(2, 3, 3, 32, 32, dtype=torch.float64)
    models = [filled(NETWORKS["tp"](at=["layer2.0"], insert=Nonlocal, block_over=over)) for over in ("frame", "clip")]
    alone = [torch.stack([model.features(clip[:, t : t + 1]) for t in range(3)]).mean(0) for model in models]
    torch.testing.assert_close(alone[0], alone[1], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(models[0].features(clip), alone[0], rtol=1e-12, atol=1e-12)
    assert not torch.allclose(models[1].features(clip), alone[1], rtol=1e-3)


def test_a_video_transformer_is_post_norm_attention_on_frames_with_waves():
    """Against PyTorch's own encoder layer."""
    model = filled(VideoTransformer(3, (1, 1), "basic", (4, 8), layers=1, heads=2))
    clip = torch.randn(2, 5, 3, 32, 32, dtype=torch.float64)
    mine, theirs = model.layers[0], nn.TransformerEncoderLayer(8, 2, 32, 0.0, batch_first=True).double().eval()
    theirs.load_state_dict({
        "self_attn.in_proj_weight": mine.mix.qkv.weight, "self_attn.in_proj_bias": mine.mix.qkv.bias,
        "self_attn.out_proj.weight": mine.mix.proj.weight, "self_attn.out_proj.bias": mine.mix.proj.bias,
        **{f"{a}.{p}": mine.state_dict()[f"{b}.{p}"] for p in ("weight", "bias")
           for a, b in (("linear1", "fc1"), ("linear2", "fc2"), ("norm1", "norm1"), ("norm2", "norm2"))},
    })  # fmt: skip
    tokens = torch.stack([model.encoder(clip[:, t]) for t in range(5)], 1)
    tokens = tokens + waves(5, 8).double()
    expected = model.fc(theirs(tokens)).mean(1)
    torch.testing.assert_close(model(clip), expected, rtol=1e-10, atol=1e-10)


def test_waves_are_those_of_the_transformer():
    found = waves(7, 6).double()
    for position in range(7):
        for pair in range(3):
            angle = torch.tensor(position / 10_000 ** (2 * pair / 6), dtype=torch.float64)
            expected = torch.stack([angle.sin(), angle.cos()])
            torch.testing.assert_close(found[position, 2 * pair : 2 * pair + 2], expected, rtol=1e-5, atol=1e-6)


# Inflation -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def image():
    return filled(ResNet(3, (1, 2, 1), "bottleneck", (4, 4, 8)), seed=3)


def still(picture, frames):
    return picture.unsqueeze(1).expand(-1, frames, -1, -1, -1)


@pytest.mark.parametrize("frames", [1, 2, 9])
def test_an_inflated_network_sees_a_still_clip_as_the_image_network_sees_the_picture(image, frames):
    model = ResNet3d(3, (1, 2, 1), (4, 4, 8), edges="repeated").double().eval()
    assert inflate(model, image.state_dict()) == ()
    picture = torch.randn(2, 3, 48, 32, dtype=torch.float64)
    torch.testing.assert_close(model(still(picture, frames)), image(picture), rtol=1e-10, atol=1e-10)


def test_with_zeros_at_the_edges_only_frames_out_of_their_reach_are_the_pictures(image):
    model = ResNet3d(3, (1, 2, 1), (4, 4, 8)).double().eval()
    inflate(model, image.state_dict())
    picture = torch.randn(1, 3, 32, 32, dtype=torch.float64)
    seen = F.relu(model.bn1(model.conv1(still(picture, 12).transpose(1, 2))))
    expected = F.relu(image.bn1(image.conv1(picture))).unsqueeze(2)
    close = torch.isclose(seen, expected, rtol=1e-10, atol=1e-10).all(0).all(0).flatten(1).all(1)
    assert close.tolist() == [False] * 3 + [True] * 6 + [False] * 3


def test_a_pseudo_3d_network_takes_spatial_kernels_and_keeps_its_temporal_ones(image):
    model = P3DResNet(5, (1, 2, 1), (4, 4, 8), at=["layer2.0"], insert=Nonlocal).double()
    before = {n: v.clone() for n, v in model.state_dict().items()}
    left = inflate(model, image.state_dict())
    after, source = model.state_dict(), image.state_dict()
    assert torch.equal(after["layer2.1.conv2.weight"][:, :, 0], source["layer2.1.conv2.weight"])
    assert torch.equal(after["layer2.1.bn4.bias"], source["layer2.1.bn3.bias"])
    assert torch.equal(after["layer3.0.conv_normal.weight"], source["layer3.0.conv2.weight"])
    assert torch.equal(after["conv1_custom.weight"][:, :, 0], source["conv1.weight"])
    assert all(torch.equal(after[n], before[n]) for n in left)
    assert {n.rpartition(".")[0] for n in left if "after" not in n} == {
        "fc", *(f"layer{n}.{part}" for n in ("1.0", "2.0", "2.1") for part in ("conv3", "bn3"))
    }  # fmt: skip


@pytest.mark.parametrize("name", ["p3d", "i3d", "tp"])
def test_a_checkpoint_of_the_network_itself_is_loaded_as_it_is(name):
    trained = filled(NETWORKS[name]()).state_dict()
    old = {key: value for key, value in trained.items() if not key.endswith("num_batches_tracked")}
    model = NETWORKS[name](at=["layer2.0"], insert=Nonlocal).double()
    left = inflate(model, old)
    assert all("after" in key or key.endswith("num_batches_tracked") for key in left)
    assert all(torch.equal(value, old[key]) for key, value in model.state_dict().items() if key in old)


def test_what_cannot_be_inflated_is_refused_in_a_sentence(image):
    with pytest.raises(VergenceError, match=r"'conv1.weight' is \(4, 3, 7, 7\), which cannot be inflated"):
        inflate(ResNet3d(3, (1, 2, 1), (4, 4, 8), stem="small"), image.state_dict())
    with pytest.raises(VergenceError, match="expected the weights of a ResNet.*'features.0.weight'"):
        inflate(ResNet3d(3, **SMALL), {"features.0.weight": torch.zeros(3)})


# Bad input -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*NETWORKS, "vtn"])
@pytest.mark.parametrize("shape", [(2, 3, 32, 32), (2, 3, 8, 32, 32), (2, 0, 3, 32, 32)])
def test_what_is_not_a_clip_is_refused(name, shape):
    model = NETWORKS[name]() if name != "vtn" else VideoTransformer(3, (1, 1), "basic", (4, 4), layers=1, heads=2)
    with pytest.raises(VergenceError, match=r"clips are \(B, T, 3, H, W\)"):
        model(torch.zeros(shape))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: P3DResNet(3, kinds=("A", "D")), "kinds of pseudo-3D blocks are A, B and C"),
        (lambda: VideoTransformer(3, (1, 1), "basic", (4, 4), heads=3), "got 3 heads for 4"),
        (lambda: VideoTransformer(3, (1, 1), "basic", (4, 4), mixer="snll"), "no block 'snll'.*'snl'"),
        (lambda: ResNet3d(3, groups=48), r"groups must divide every.*got 48 groups, widths \(64, 128, 256, 512\)"),
        (lambda: ResNet3d(3, (1,), (2,), expansion=1), "4 the channels of the first stage.*an expansion of 1"),
        (lambda: ResNet3d(3, at=["layer9.0"], insert=Nonlocal), "no residual block 'layer9.0'"),
    ],
)
def test_what_cannot_be_built_is_refused_in_a_sentence(make, said):
    with torch.device("meta"), pytest.raises(VergenceError, match=said):
        make()


def test_a_repeated_edge_is_what_a_longer_clip_would_show():
    conv = Conv3d(2, 3, (3, 3, 3), edges="repeated").double()
    x = torch.randn(1, 2, 4, 5, 5, dtype=torch.float64)
    longer = torch.cat([x[:, :, :1], x, x[:, :, -1:]], 2)
    expected = F.conv3d(longer, conv.weight, padding=1)[:, :, 1:-1]
    torch.testing.assert_close(conv(x), expected, rtol=1e-12, atol=1e-12)
