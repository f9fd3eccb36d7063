"""Blocks attached to existing networks: unchanged outputs, blocks that learn, and detaching."""

import copy
import io

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import vergence
from vergence.core.errors import VergenceError
from vergence.nn import BLOCKS, PreResNet, ResNet, SpectralNonlocal


class Plain(nn.Module):
    """A typical small network."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1)
        self.body = nn.Sequential(nn.Conv2d(8, 12, 3, 2, 1), nn.BatchNorm2d(12), nn.ReLU())
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        return self.head(self.body(F.relu(self.stem(x))).mean((2, 3)))


class Tokens(nn.Module):
    """Patches through transformer layers."""

    def __init__(self, batch_first=True):
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=batch_first)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 5)
        self.batch_first = batch_first

    def forward(self, x):
        tokens = self.patches(x).flatten(2).mT
        out = self.encoder(tokens if self.batch_first else tokens.transpose(0, 1))
        return self.head(out.mean(1 if self.batch_first else 0))


class Video(nn.Module):
    """A 3D network."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv3d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv3d(8, 8, 3, 1, 1))
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.layers(x).mean((2, 3, 4)))


class Growing(nn.ModuleDict):
    """Iterates over its children in its own forward, as DenseNets do."""

    def __init__(self):
        super().__init__({"a": nn.Conv2d(8, 8, 1), "b": nn.Conv2d(8, 8, 1)})

    def forward(self, x):
        for layer in self.values():
            x = layer(x)
        return x


IMAGES = (2, 3, 16, 16)
CASES = {
    "preresnet": (lambda: PreResNet(5, (1, 1, 1), (4, 8, 8)), "layer2.0", IMAGES),
    "resnet": (lambda: ResNet(5, (1, 1, 1, 1), "bottleneck", (4, 4, 4, 4)), ["layer2.0", "layer3"], (2, 3, 64, 64)),
    "plain": (Plain, "body", IMAGES),
    "inside a sequential": (Plain, "body.0", IMAGES),
    "tokens": (Tokens, "encoder.layers.*", IMAGES),
    "tokens, sequence first": (lambda: Tokens(batch_first=False), "encoder.layers.0", IMAGES),
    "video": (Video, lambda name, module: isinstance(module, nn.Conv3d), (2, 3, 4, 8, 8)),
    "container of its own": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), Around(), nn.Flatten(), nn.LazyLinear(5)),
        "1.growing",
        IMAGES,
    ),
}


class Around(nn.Module):
    def __init__(self):
        super().__init__()
        self.growing = Growing()

    def forward(self, x):
        return self.growing(x)


def case(name):
    make, at, shape = CASES[name]
    torch.manual_seed(0)
    model = make()
    x = torch.randn(shape)
    model.eval()(x)  # lazy layers take their size
    return model, at, x


def wake(blocks):
    """Blocks that no longer start as the identity."""
    for block in blocks.values():
        for parameter in block.parameters():
            if not parameter.detach().any():
                nn.init.uniform_(parameter, 0.5, 1.0)


@pytest.mark.parametrize("name", CASES)
def test_answers_stay_to_the_last_bit_and_every_new_parameter_learns(name):
    model, at, x = case(name)
    before = model(x)
    blocks = vergence.attach(model, at, "snl")
    assert torch.equal(model(x), before)
    assert not model.training
    assert not any(block.training for block in blocks.values())
    model.train()
    old = {f"{place}.{n}": p.detach().clone() for place, b in blocks.items() for n, p in b.named_parameters()}
    optimiser = torch.optim.SGD([p for b in blocks.values() for p in b.parameters()], lr=10.0)
    for _ in range(2):
        optimiser.zero_grad()
        F.cross_entropy(model(x), torch.tensor([1, 3])).backward()
        optimiser.step()
    new = {f"{place}.{n}": p for place, b in blocks.items() for n, p in b.named_parameters()}
    assert [n for n in old if torch.equal(old[n], new[n])] == []


@pytest.mark.parametrize("name", CASES)
def test_state_dicts_keep_their_names_and_detaching_leaves_no_trace(name):
    model, at, x = case(name)
    before, answer = model.state_dict(), model(x)
    blocks = vergence.attach(model, at, "nl")
    wake(blocks)
    state = model.state_dict()
    assert set(before) < set(state)
    assert all("attached" in key for key in set(state) - set(before))
    other = case(name)[0]
    vergence.attach(other, at, "nl")
    other.load_state_dict(state)
    torch.testing.assert_close(other(x), model(x))
    model.load_state_dict(before, strict=False)
    assert vergence.detach(model) == list(blocks)
    assert list(model.state_dict()) == list(before)
    assert torch.equal(model(x), answer)
    assert not any(module._forward_hooks for module in model.modules())


def test_the_block_gets_what_its_place_gives():
    model, _, x = case("plain")
    block = vergence.attach(model, "body.0", "snl")["body.0"]
    wake({"": block})
    seen = {}
    block.register_forward_hook(lambda m, i, o: seen.update(taken=i[0], given=o))
    model.body[1].register_forward_hook(lambda m, i, o: seen.update(next=i[0]))
    model(x)
    torch.testing.assert_close(seen["taken"], model.body[0].forward(F.relu(model.stem(x))))
    assert torch.equal(seen["given"], seen["next"])
    assert not torch.equal(seen["given"], seen["taken"])


@pytest.mark.parametrize("batch_first", [True, False])
def test_tokens_look_at_tokens_of_their_own_sample(batch_first):
    torch.manual_seed(0)
    model = Tokens(batch_first).eval()
    wake(vergence.attach(model, "encoder.layers.0", "nl"))
    x = torch.randn(3, 3, 16, 16)
    torch.testing.assert_close(model(x)[1], model(x[1:2])[0])


def test_a_copy_and_a_saved_network_call_their_own_blocks():
    model, _, x = case("plain")
    blocks = vergence.attach(model, ["body", "stem"], "snl")
    wake(blocks)
    answer = model(x)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        torch.testing.assert_close(other(x), answer)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.zero_()
        assert not other(x).any()
    assert torch.equal(model(x), answer)


@pytest.mark.parametrize("name", ["preresnet", "plain", "tokens", "video"])
def test_attached_networks_compile_and_export(name):
    model, at, x = case(name)
    wake(vergence.attach(model, at, "snl"))
    answer = model(x)
    torch._dynamo.reset()
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="aot_eager", fullgraph=True)(x), answer)
        torch.testing.assert_close(torch.export.export(model, (x,), strict=False).module()(x), answer)


@pytest.mark.parametrize("block", sorted(BLOCKS))
def test_every_block_can_be_attached_by_name(block):
    model, at, x = case("plain")
    before = model(x)
    vergence.attach(model, at, block)
    assert torch.equal(model(x), before)


def test_a_block_can_be_made_by_a_function_and_take_options():
    model = Plain()
    assert vergence.attach(model, "stem", "nl", inner=3)["stem"].inner == 3
    assert vergence.attach(model, "body", lambda channels: SpectralNonlocal(channels, 5))["body"].inner == 5


def test_blocks_are_of_the_kind_and_on_the_device_of_their_network():
    model = Plain().double()
    assert next(vergence.attach(model, "stem")["stem"].parameters()).dtype == torch.float64
    with torch.device("meta"):
        model = Plain()
    assert next(vergence.attach(model, "stem")["stem"].parameters()).is_meta


class Misleading(nn.Module):
    """A module whose last child is not the last layer it calls."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.gate = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        x = self.conv(x)
        return x * self.gate(x).sigmoid()


class Silent(nn.Module):
    def forward(self, x):
        return x.relu()


def test_an_example_finds_the_channels_where_layers_mislead():
    model = nn.Sequential(Misleading(), Silent())
    x = torch.randn(1, 3, 8, 8)
    vergence.attach(model, "0")
    with pytest.raises(VergenceError, match=r"'0' gives \(1, 8, 6, 6\), neither a map nor tokens of 1 channels"):
        model.eval()(x)
    vergence.detach(model)
    model.train()
    blocks = vergence.attach(model, ["0", "1"], example=x)
    assert [block.channels for block in blocks.values()] == [8, 8]
    assert model.training
    assert vergence.detach(model, "1") == ["1"]
    assert vergence.attach(model, "1", channels=8)["1"].channels == 8


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m: vergence.attach(m, "bdy"), r"no module 'bdy' \(did you mean 'body'"),
        (lambda m: vergence.attach(m, "layer*"), r"no module 'layer\*'"),
        (lambda m: vergence.attach(m, lambda name, module: False), "no module to attach to"),
        (lambda m: vergence.attach(m, []), "no module to attach to"),
        (lambda m: vergence.attach(m, "body", "snk"), r"no block 'snk' \(did you mean .*'snl'"),
        (lambda m: vergence.attach(m, "body", "snl", groups=2), "'snl' does not take groups"),
        (lambda m: vergence.attach(m, "body", "cgnl", groups=5), "divisible by groups, got channels=12"),
        (lambda m: vergence.attach(m, "body.2"), r"channels of 'body.2' \(ReLU\) cannot be told"),
        (lambda m: vergence.attach(m, "body", wiring="rectified"), "does not start as the identity"),
        (lambda m: [vergence.attach(m, "body") for _ in range(2)], "attached at 'body' already"),
        (lambda m: vergence.attach(m, "head", example=torch.randn(IMAGES)), r"'head': it gives \(2, 5\), without pos"),
        (lambda m: vergence.detach(m, "stem"), "nothing is attached at 'stem'"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence_and_changes_nothing(call, said):
    model = Plain()
    names = list(model.state_dict())
    with pytest.raises(VergenceError, match=said):
        call(model)
    vergence.detach(model)
    assert list(model.state_dict()) == names


def test_a_list_that_is_never_called_is_refused():
    model = nn.Module()
    model.layers = nn.ModuleList([nn.Conv2d(3, 3, 1)])
    with pytest.raises(VergenceError, match="'layers' is a ModuleList, which is not called as a whole"):
        vergence.attach(model, "layers")


@pytest.mark.parametrize(
    ("name", "at", "size"),
    [
        ("resnet18", "layer3.1", 64), ("vit_b_16", "encoder.layers.encoder_layer_5", 224),
        ("convnext_tiny", "features.5.2", 64), ("densenet121", "features.denseblock2", 64),
        ("swin_t", "features.3.0", 64),
    ],
)  # fmt: skip
def test_torchvision_models_take_blocks(name, at, size):
    models = pytest.importorskip("torchvision.models", reason="torchvision is not installed")
    torch.manual_seed(0)
    guest_takes_blocks(models.get_model(name, weights=None), at, size)


@pytest.mark.parametrize(
    ("name", "at", "size"),
    [("resnet18", "layer3.1", 64), ("vit_tiny_patch16_224", "blocks.5", 224), ("efficientnet_b0", "blocks.3.1", 64),
     ("convnext_atto", "stages.2.blocks.1", 64), ("swin_tiny_patch4_window7_224", "layers.1.blocks.0", 224)],
)  # fmt: skip
def test_timm_models_take_blocks(name, at, size):
    timm = pytest.importorskip("timm", reason="timm is not installed")
    torch.manual_seed(0)
    guest_takes_blocks(timm.create_model(name, pretrained=False), at, size)


def guest_takes_blocks(model, at, size):
    x = torch.randn(2, 3, size, size)
    wake({"": model.eval()})  # some start with a head of zeros
    with torch.no_grad():
        before = model(x)
        blocks = vergence.attach(model, at, "snl", example=x if at == "features.denseblock2" else None)
        assert torch.equal(model(x), before)
        wake(blocks)
        assert not torch.equal(model(x), before)
        vergence.detach(model)
        assert torch.equal(model(x), before)
