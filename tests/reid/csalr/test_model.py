"""PCB and PCB-RPP: parts that share out a map, branches that train attention, ImageNet weights by public names."""

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.nn import ResNet
from vergence.nn.resnet import load_imagenet
from vergence.reading.weights import load_state
from vergence.reid.csalr.model import SoftParts, Stripes, attended, build, refine
from vergence.reid.csalr.settings import ModelConfig

TINY = ModelConfig("resnet-tiny", grid=(6, 2), parts=3, embedding=16)


def network(model=TINY, classes=5, refined=False):
    torch.manual_seed(0)
    return build(model, classes, refined)


@pytest.mark.parametrize("height", [24, 25])
def test_stripes_partition_the_map(height):
    x = torch.randn(2, 8, height, 8).double()
    parts = Stripes(6)(x)
    assert parts.shape == (2, 6, 8)
    rows = torch.bincount(torch.arange(height) * 6 // height).double()
    torch.testing.assert_close((parts * rows[:, None]).sum(1) / height, x.mean((2, 3)))
    torch.testing.assert_close(parts[:, 0], x[:, :, : int(rows[0])].mean((2, 3)))


def test_soft_parts_that_are_sure_of_the_stripes_are_the_stripes():
    x = torch.randn(2, 16, 12, 4).double()
    soft = SoftParts(16, 6, 0.0).double().eval()
    stripes = (torch.arange(12) // 2 == torch.arange(6)[:, None]).double()  # (parts, rows)
    soft.shares = lambda x: stripes[None, :, :, None].expand(len(x), -1, -1, 4)
    torch.testing.assert_close(soft(x), Stripes(6)(x))


def test_shares_of_soft_parts_sum_to_one_and_see_eight_channels_together():
    x = torch.randn(2, 16, 12, 4)
    soft = SoftParts(16, 6, 0.0).eval()
    shares = soft.shares(x)
    assert shares.shape == (2, 6, 12, 4)
    torch.testing.assert_close(shares.sum(1), torch.ones(2, 12, 4))
    swapped = torch.cat([x[:, :8].flip(1), x[:, 8:]], 1)  # order within eight channels does not matter
    torch.testing.assert_close(soft.shares(swapped), shares)


def test_descriptors_are_parts_of_length_one():
    found = network().eval()(torch.randn(2, 3, 96, 56))
    assert found.shape == (2, 3 * 64)
    torch.testing.assert_close(found.unflatten(1, (3, 64)).norm(dim=-1), torch.ones(2, 3))


def test_the_last_stage_keeps_the_size_of_the_one_before():
    with torch.device("meta"):
        made = build(ModelConfig(attention="none"), 751, False).eval()
        last, branches = made.trunk(torch.zeros(1, 3, 384, 128))
    assert last.shape == (1, 2048, 24, 8)
    assert branches == []


def test_supervision_looks_at_the_input_times_what_is_added_before_the_gate():
    made = network().train()
    seen = {}
    made.backbone.layer1.register_forward_hook(lambda m, i, o: seen.update(x=o))
    images = torch.randn(4, 3, 96, 56)
    answers = made.answers(images)
    assert [b.shape for b in answers.branches] == [(4, 5)] * 3
    product = (seen["x"] * made.attention["layer1"].mix(seen["x"])).mean((2, 3))
    torch.testing.assert_close(answers.branches[0], made.supervision["layer1"](product))


def test_branches_train_attention_while_its_gate_is_shut():
    made = network().train()
    answers = made.answers(torch.randn(4, 3, 96, 56))
    weight = made.attention["layer2"].query.weight
    (by_parts,) = torch.autograd.grad(answers.parts[0].square().sum(), weight, retain_graph=True, allow_unused=True)
    assert by_parts is None or by_parts.abs().max() == 0
    (by_branch,) = torch.autograd.grad(answers.branches[1].square().sum(), weight)
    assert by_branch.abs().max() > 0


def test_without_attention_or_supervision_there_is_no_branch():
    for model in (
        ModelConfig("resnet-tiny", attention="none"),
        ModelConfig("resnet-tiny", supervision=0.0, grid=(6, 2)),
    ):
        assert len(network(model).supervision) == 0


def test_refining_keeps_everything_but_the_pooling():
    made = network()
    before = {k: v.clone() for k, v in made.state_dict().items()}
    refine(made, TINY)
    after = made.state_dict()
    assert set(after) - set(before) == {"pool.classify.weight", "pool.classify.bias"}
    assert all(torch.equal(after[k], v) for k, v in before.items())
    assert set(network(refined=True).state_dict()) == set(after)


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_imagenet_weights_load_by_their_public_names(tmp_path, suffix):
    """A whole ResNet-18 has the 122 public names, the classifier's two of which are left."""
    torch.manual_seed(1)
    public = ResNet(1000, (2, 2, 2, 2), "basic").state_dict()
    assert {"conv1.weight", "bn1.running_var", "layer2.0.downsample.0.weight", "layer4.1.conv2.weight"} <= set(public)
    path = tmp_path / f"resnet18{suffix}"
    if suffix == ".pth":
        torch.save({k: v for k, v in public.items() if not k.endswith("num_batches_tracked")}, path)
    else:
        save_tensors(path, public)
    made = network(ModelConfig("resnet18"))
    assert not torch.equal(made.backbone.conv1.weight, public["conv1.weight"])
    assert "the backbone starts from ImageNet" in load_imagenet(made.backbone, load_state(path))
    own = made.backbone.state_dict()
    assert all(torch.equal(own[k], public[k]) for k in own)
    assert set(public) - set(own) == {"fc.weight", "fc.bias"}


def test_imagenet_weights_that_do_not_fit_are_refused():
    narrow = ResNet(10, (2, 2, 2, 2), "basic", (32, 64, 128, 256)).state_dict()
    with pytest.raises(VergenceError, match=r"'conv1.weight' of shape \(32, 3, 7, 7\), expected \(64, 3, 7, 7\)"):
        load_imagenet(network(ModelConfig("resnet18")).backbone, narrow)
    with pytest.raises(VergenceError, match="expected a ResNet under torchvision's names"):
        load_imagenet(network(ModelConfig("resnet18")).backbone, {"x": torch.zeros(1)})


def test_attention_is_that_of_the_cell_under_the_point():
    made = network().eval()
    images = torch.randn(1, 3, 96, 56)
    descriptors, looks, seen = attended(made, images, [(0.0, 0.0), (0.99, 0.5)])
    torch.testing.assert_close(descriptors, made(images))
    assert looks["layer1"].shape == (1, 2, 24, 14)
    own = made.attention["layer1"].attention(seen["layer1"], torch.tensor([0, 12 * 14 + 13]))
    torch.testing.assert_close(looks["layer1"], own)


def test_landmarks_of_table_2_at_the_published_size():
    counts = {name: ModelConfig(landmarks=name).landmark_grid for name in ("quarter", "half", "full", "double")}
    assert {name: rows * columns for name, (rows, columns) in counts.items()} == {
        "quarter": 24,
        "half": 48,
        "full": 96,
        "double": 192,
    }


def test_published_parameters_are_those_of_the_parts_added_up():
    trunk = 25_557_032 - (2048 * 1000 + 1000)  # torchvision's ResNet-50 without its classifier
    head = 2048 * 256 + 2 * 256 + 6 * (256 * 751 + 751)
    attention = 0
    for channels in (256, 512, 1024):
        inner = channels // 16
        attention += 2 * (inner * channels + 2 * inner)  # queries and keys, two groups
        attention += channels * channels // 2 + channels  # values
        attention += channels * channels + channels + 1  # fusion, gate
        attention += channels * 751 + 751  # supervision
    with torch.device("meta"):
        made = build(ModelConfig(), 751, False)
    assert sum(p.numel() for p in made.parameters()) == trunk + head + attention


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"stages": (0,)}, "stages from 1 to 4"),
        ({"stages": (1, 1)}, "each once"),
        ({"parts": 0}, "parts is from 1 to 64"),
        ({"grid": (0, 2)}, "a grid of at least 1 x 1"),
        ({"dropout": 1.0}, "a dropout below 1"),
    ],
)
def test_models_that_make_no_sense_are_refused(bad, said):
    with pytest.raises(VergenceError, match=said):
        ModelConfig(**bad)


def test_maps_too_small_for_parts_or_landmarks_are_refused():
    with pytest.raises(VergenceError, match="6 parts do not fit a map of 2 rows"):
        network(ModelConfig("resnet-tiny", attention="none"))(torch.zeros(2, 3, 32, 32))
    with pytest.raises(VergenceError, match="a landmark grid of 24 x 4 does not fit a map of 8 x 8"):
        network(ModelConfig("resnet-tiny"))(torch.zeros(2, 3, 32, 32))
