"""Checkpoints of the authors' code, rebuilt here from its names and shapes, give the network that its authors run."""

import re

import pytest
import torch
import torch.nn.functional as F

from tracking.sesiam.fixtures import basis, checkpoint, weights
from vergence.cli.main import main
from vergence.engine.weights import load_model_of
from vergence.tracking.crops import normalised
from vergence.tracking.sesiam.settings import ModelConfig
from vergence.tracking.sesiam.system import SYSTEM

# What the public code computes, layer by layer ------------------------------------------------------------------------


def features(state, images):
    """(B, 3, H, W) in 0..255 to (B, 512, 3, h, w), with zeros as padding, as in its test script."""

    def bn(x, name):
        kinds = ("running_mean", "running_var", "weight", "bias")
        return F.batch_norm(x, *(state[f"{name}.{kind}"] for kind in kinds))

    def spatial(x, name, stride=1):
        """One convolution per scale by the weights times the stored basis; a picture is lifted to all scales."""
        stored, weight = state[f"{name}.basis"], state[f"{name}.weight"]
        kernels = torch.einsum("oif,fsyx->soiyx", weight.reshape(*weight.shape[:2], -1), stored)
        maps = x.unbind(2) if x.dim() == 5 else [x] * len(kernels)
        padding = stored.shape[-1] // 2
        return torch.stack([F.conv2d(m, k, stride=stride, padding=padding) for m, k in zip(maps, kernels)], 2)  # noqa: B905

    def pointwise(x, name):
        weight = state[f"{name}.weight"]
        if x.dim() == 4:
            return F.conv2d(x, weight)
        taps = weight if weight.dim() == 5 else weight[:, :, None]
        return F.conv3d(F.pad(x, (0, 0, 0, 0, 0, taps.shape[2] - 1)), taps)

    def unit(x, name, pooled=False, rectified=True):
        out = F.relu(bn(pointwise(x.amax(2) if pooled else x, f"{name}.conv1"), f"{name}.bn1"))
        out = F.relu(bn(spatial(out, f"{name}.conv2"), f"{name}.bn2"))
        out = bn(pointwise(out, f"{name}.conv3"), f"{name}.bn3")
        if f"{name}.downsample.0.weight" in state:
            x = bn(pointwise(x, f"{name}.downsample.0"), f"{name}.downsample.1")
        out = (out + x)[..., 1:-1, 1:-1]
        return F.relu(out) if rectified else out

    root = "features.features"
    x = (images / 255 - state["features.mean"].view(3, 1, 1)) / state["features.std"].view(3, 1, 1)
    x = F.relu(bn(spatial(x, f"{root}.conv1", 2), f"{root}.bn1"))[..., 2:-2, 2:-2]
    x = F.max_pool3d(x, (1, 2, 2))
    for number in range(3):
        x = unit(x, f"{root}.layer1.{number}")
    x = F.max_pool3d(unit(x, f"{root}.layer2.0", pooled=True), (1, 2, 2))
    for number in (2, 3, 4):
        x = unit(x, f"{root}.layer2.{number}", rectified=number < 4)
    return x


def test_a_public_checkpoint_runs_as_its_authors_code_does(tmp_path):
    state = weights()
    network, identity = load_model_of(SYSTEM, checkpoint(tmp_path, state))
    assert identity.config.model == ModelConfig(connection="correlation")
    assert sum(p.numel() for p in network.parameters()) == 1_449_024
    template, search = (torch.randint(0, 256, (1, 3, side, side)).float() for side in (95, 111))
    with torch.no_grad():
        theirs = [features(state, crop).amax(2) for crop in (template, search)]
        expected = 0.1 * F.conv2d(theirs[1], theirs[0])[:, 0]
        found = network(normalised(template), normalised(search))
    assert expected.shape == (1, 3, 3)
    assert expected.std() > 0.01
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


def test_every_name_of_a_checkpoint_has_its_place(tmp_path):
    state = weights()
    assert len(state) == 154
    network, _ = load_model_of(SYSTEM, checkpoint(tmp_path, state))
    constants = {name for name in state if name.endswith(("basis", "features.mean", "features.std"))}
    assert len(network.state_dict()) == len(state) - len(constants)
    assert sum(t.double().sum() for t in network.state_dict().values()) == pytest.approx(
        float(sum(t.double().sum() for name, t in state.items() if name not in constants))
    )


def test_names_may_have_the_prefix_of_parallel_training(tmp_path):
    state = {f"module.{name}": tensor for name, tensor in weights().items()}
    network, _ = load_model_of(SYSTEM, checkpoint(tmp_path, state))
    assert (network.trunk.stem.conv.weight == state["module.features.features.conv1.weight"]).all()


LAST = "features.features.layer2.4.conv3.weight"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({LAST: None}, "Missing key.*trunk.stage3.4.expand.conv.weight"),
        ({"features.features.layer3.0.conv1.weight": torch.ones(1)}, "Unexpected key.*layer3.0.conv1.weight"),
        ({LAST: torch.ones(512, 64, 1, 1)}, "size mismatch for trunk.stage3.4.expand.conv.weight"),
        ({"features.mean": torch.zeros(3)}, "'features.mean' is not that of the published network"),
        ({"features.features.conv1.basis": basis(9, 7, [1.0, 1.4, 1.96])}, "conv1.basis' is not that of the published"),
        ({"features.features.conv1.basis": None}, "not a checkpoint of SE-SiamFC's authors"),
    ],
)
def test_a_wrong_checkpoint_is_one_sentence(changes, said, tmp_path, capsys):
    state = {name: tensor for name, tensor in (weights() | changes).items() if tensor is not None}
    path = checkpoint(tmp_path, state)
    assert main(["eval", "sesiam", "--weights", str(path), "--quiet"]) == 2
    assert re.search(said, capsys.readouterr().err.replace("\n", " "))
