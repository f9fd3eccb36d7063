"""SqueezeSegV3's own: every operator, the loss, augmentation, prediction and its refusals."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import vergence
from vergence.cli.main import main
from vergence.contract.evidence import filled
from vergence.contract.identity import Identity
from vergence.contract.inputs import InMemory
from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.engine.weights import metadata
from vergence.nn.adaptive import OPERATORS, Block, Coordinates, Normed, tiled_in_strips
from vergence.points.range_images import altered, network_input, project
from vergence.points.semantickitti import CLASSES, Sweep
from vergence.points.squeezesegv3 import bench
from vergence.points.squeezesegv3.model import build
from vergence.points.squeezesegv3.predict import _won, classes_of
from vergence.points.squeezesegv3.settings import Config, Facts, ModelConfig, Sweeps
from vergence.points.squeezesegv3.system import SYSTEM, level_loss
from vergence.points.sweeps import Scanner
from vergence.reference import adaptive as plain

SMALL = ModelConfig(widths=(4, 6, 8, 8))


def image(batch=2, height=8, width=64):
    return torch.randn(batch, 5, height, width, generator=torch.Generator().manual_seed(0))


# The network ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_keeps_the_shape_and_learns(operator):
    torch.manual_seed(0)
    block = Block(4, operator, 3)
    x = torch.randn(2, 4, 5, 9)
    out = block(x, Coordinates(torch.randn(2, 3, 5, 9)))
    assert out.shape == x.shape
    out.square().sum().backward()
    assert all(parameter.grad is not None for parameter in block.parameters())


def test_the_general_attention_has_the_others_as_special_cases():
    general, special = (filled(OPERATORS[name](3, 3)) for name in ("oisk", "isk"))
    with torch.no_grad():  # the same attention for every output channel
        for mine, theirs in zip(general.parameters(), special.parameters(), strict=True):
            mine.copy_(theirs.repeat(3, *[1] * (theirs.dim() - 1)) if len(mine) > len(theirs) else theirs)
        for norm, other in ((general.attention_norm, special.attention_norm),):
            norm.running_mean.copy_(other.running_mean.repeat(3))
            norm.running_var.copy_(other.running_var.repeat(3))
    x, at = torch.randn(1, 3, 4, 6, dtype=torch.float64), Coordinates(torch.randn(1, 3, 4, 6, dtype=torch.float64))
    torch.testing.assert_close(general(x, at), special(x, at))


def test_pixel_adaptive_weights_are_gaussians_of_the_coordinates():
    layer = filled(OPERATORS["pac"](2, 3))
    x, at = (torch.randn(1, n, 4, 5, dtype=torch.float64) for n in (2, 3))
    scale = torch.zeros(2, 4, 5, 3, 3, dtype=torch.float64)
    for p, q, i, j in np.ndindex(4, 5, 3, 3):
        u, v = p + i - 1, q + j - 1
        if 0 <= u < 4 and 0 <= v < 5:
            scale[:, p, q, i, j] = (-0.5 * (at[0, :, u, v] - at[0, :, p, q]).square().sum()).exp()
    expected = plain.adaptive_sum(x[0], scale, layer.conv.weight) + layer.conv.bias.view(-1, 1, 1)
    torch.testing.assert_close(layer(x, Coordinates(at))[0], expected)


@pytest.mark.parametrize("widths", [(4, 6, 8, 8), (32, 40, 8, 32)])
def test_the_folded_network_gives_the_map_of_the_direct_one(widths):
    network = filled(build(ModelConfig(widths=widths), 5)).float()
    x = image(1)
    with torch.inference_mode():
        ours, theirs = network(x), plain.squeezesegv3(network, x)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_folded_kernels_follow_the_weights():
    layer = Normed(torch.nn.Conv2d(3, 4, 3, padding=1), 0.1).eval()
    x = torch.randn(1, 3, 6, 8)
    with torch.no_grad():
        before = layer(x)
        layer.conv.weight.mul_(2)
        layer.train()(torch.randn(4, 3, 6, 8))
        layer.eval()
        torch.testing.assert_close(layer(x), F.leaky_relu(layer.norm(layer.conv(x)), 0.1), rtol=1e-4, atol=1e-5)
        assert not torch.allclose(layer(x), before)


def test_strips_of_any_height_give_one_convolution(monkeypatch):
    from vergence.ops.winograd import tiled_kernel

    monkeypatch.setattr("vergence.nn.adaptive.STRIP", 1)
    weight, bias, x = torch.randn(5, 3, 3, 3), torch.randn(5), torch.randn(2, 3, 10, 13)
    expected = F.leaky_relu(F.conv2d(x, weight, bias, padding=1), 0.1)
    torch.testing.assert_close(tiled_in_strips(x, tiled_kernel(weight), bias, 0.1), expected, rtol=1e-4, atol=1e-4)


def test_rangenet_has_the_parameters_of_its_layers():
    def conv(inputs, outputs, taps):
        return inputs * outputs * taps + 2 * outputs  # with a batch norm

    widths, total = [32 * 2**n for n in range(6)], conv(5, 32, 9)
    for blocks, a, b in zip((1, 1, 2, 2, 1), widths, widths[1:], strict=False):
        total += conv(a, b, 9) + blocks * (conv(b, a, 1) + conv(a, b, 9))
        total += conv(b, a, 4) + a + conv(a, b, 1) + conv(b, a, 9)  # back up, with a bias
    total += 32 * 20 * 9 + 20
    network = build(ModelConfig(shape="rangenet"), 20)
    assert sum(parameter.numel() for parameter in network.parameters()) == total


def test_skips_carry_gradients_only_if_asked():
    gradients = {}
    for skips in ("detached", "attached"):
        torch.manual_seed(0)
        network = build(ModelConfig(widths=(4, 6, 8, 8), skips=skips), 5).eval()
        network(image(1))[0].sum().backward()
        gradients[skips] = network.stem.conv.weight.grad
    assert not torch.allclose(gradients["detached"], gradients["attached"])


def test_images_of_a_wrong_width_are_refused():
    with pytest.raises(VergenceError, match="divisible by 8"):
        Sweeps(width=100)
    with pytest.raises(VergenceError, match="divisible by 32"):
        Config(ModelConfig(shape="rangenet"), Sweeps(width=8 * 33))
    with pytest.raises(VergenceError, match="four widths"):
        ModelConfig(widths=(3,))


# Training ------------------------------------------------------------------------------------------------------------


def test_a_level_is_weighted_cross_entropy_of_thinned_labels_without_class_0():
    scores, labels = torch.randn(2, 3, 4, 8), torch.randint(3, (2, 4, 16))
    weights = torch.tensor([0.0, 1.0, 5.0])
    expected = F.cross_entropy(scores, labels[..., ::2], weights, ignore_index=0)
    torch.testing.assert_close(level_loss(scores, labels, weights), expected)
    assert float(level_loss(scores, torch.zeros_like(labels), weights)) == 0


def test_altered_sweeps_keep_points_with_their_labels():
    source = torch.Generator().manual_seed(0)
    points = torch.randn(500, 3, generator=source) * torch.tensor([10.0, 10.0, 1.0])
    sweep = Sweep(points, torch.rand(500, generator=source), torch.arange(500))
    seen = altered(sweep, source)
    assert 100 < len(seen.points) <= 500
    assert len(seen.labels.unique()) == len(seen.labels)
    distance = points[seen.labels, :2].norm(dim=1)
    torch.testing.assert_close(seen.points[:, :2].norm(dim=1) / distance, torch.ones_like(distance), rtol=0, atol=0.06)
    assert float(seen.intensity.min()) >= 0


def test_empty_pixels_are_zero_after_normalisation():
    points = torch.tensor([[10.0, 0.0, -1.0], [0.0, 8.0, -1.0]])
    settings = Sweeps(height=16, width=64)
    seen = project(points, settings)
    shown = network_input(seen, points, torch.tensor([0.5, 0.1]), settings)
    assert (shown[:, ~seen.mask] == 0).all()
    assert float(shown[4, seen.row[0], seen.column[0]]) == pytest.approx((0.5 - 0.21) / 0.16, rel=1e-5)


# Use -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    torch.manual_seed(0)
    config = Config(SMALL, Sweeps(height=16, width=64))
    facts = Facts(CLASSES, (0.05,) * 20)
    identity = Identity("squeezesegv3", "tiny", "ssgv3", config, facts)
    path = tmp_path_factory.mktemp("weights") / "model.safetensors"
    save_tensors(path, SYSTEM.build(config, facts).state_dict(), metadata(identity, SYSTEM))
    return path


def points(count, spread=10.0):
    source = np.random.default_rng(0)
    cloud = source.normal(0, spread, (count, 3)) * [1, 1, 0.1]
    return np.concatenate([cloud, source.uniform(0, 1, (count, 1))], 1).astype("<f4")


def test_every_point_gets_a_class_also_behind_another(model):
    network = vergence.load(model)
    cloud = np.repeat(points(50), 2, 0)
    cloud[::2, :3] *= 3  # behind the others
    for labels in ("vote", "pixel"):
        result = network.predict(scan=cloud, labels=labels)
        assert result.labels.shape == (100,)
        assert int(result.labels.min()) > 0
        assert float(result.scans[0].confidence.min()) > 0


@pytest.mark.parametrize("cloud", [points(1), np.repeat(points(1), 30, 0), np.zeros((5, 4), "<f4"), points(4, 1e-4)])
def test_degenerate_scans_are_labelled(model, cloud):
    result = vergence.load(model).predict(scan=cloud)
    assert len(result.labels) == len(cloud)
    assert int(result.labels.min()) > 0


def test_bad_scans_are_refused_in_a_sentence(model, tmp_path, capsys):
    cloud = points(20)
    bad = cloud.copy()
    bad[3, 1], bad[4, 2] = np.nan, np.inf
    far = cloud.copy()
    far[0, 0] = 1e30
    (tmp_path / "empty.bin").touch()
    bad.tofile(tmp_path / "nan.bin")
    far.tofile(tmp_path / "far.bin")
    (tmp_path / "short.bin").write_bytes(cloud.tobytes()[:-3])
    expected = {"empty": "empty", "nan": "2 of 20", "far": "1 of 20", "short": "short"}
    for name, part in expected.items():
        where = tmp_path / f"out-{name}"
        code = main(
            ["predict", "squeezesegv3", str(tmp_path / f"{name}.bin"), "--weights", str(model), "-o", str(where)]
        )
        message = capsys.readouterr().err
        assert code == 2, message
        assert part in message.splitlines()[-1]
        assert not where.exists()


def test_other_units_are_warned_of(model, tmp_path, capsys):
    (points(200) * np.array([1e3, 1e3, 1e3, 1], "<f4")).astype("<f4").tofile(tmp_path / "millimetres.bin")
    out = str(tmp_path / "out")
    assert main(["predict", "squeezesegv3", str(tmp_path / "millimetres.bin"), "--weights", str(model), "-o", out]) == 0
    assert "in metres?" in "".join(capsys.readouterr())


def test_a_folder_of_scans_gives_labels_clouds_and_pictures(model, tmp_path):
    (tmp_path / "scans").mkdir()
    for number in range(2):
        points(100 + number).tofile(tmp_path / "scans" / f"{number:06d}.bin")
    result = vergence.load(model).predict(scan=tmp_path / "scans")
    files = {artifact.path.name for artifact in result.save(tmp_path / "out")}
    assert {"000000.label", "000001.ply", "000001.png", "000000.html", "classes.csv"} <= files
    assert (tmp_path / "out" / "000001.label").stat().st_size == 4 * 101
    with pytest.raises(VergenceError, match="no scans"):
        (tmp_path / "none").mkdir()
        vergence.load(model).predict(scan=tmp_path / "none")


def test_weights_are_not_judged_on_other_classes(model, tmp_path):
    from tests.points.squeezesegv3.fixtures import nuscenes

    nuscenes(tmp_path / "data")
    with pytest.raises(VergenceError, match="other classes"):
        vergence.evaluate(vergence.load(model), data=f"nuscenes:{tmp_path / 'data'}")


def test_a_changed_label_keeps_the_confidence_of_its_pixel():
    scores = torch.tensor([[-9.0, 3.0, 1.0, 0.0], [-9.0, 0.0, 1.0, 2.0]])
    won = _won(scores, torch.tensor([2, 3]))
    assert won.argmax(1).tolist() == [2, 3]
    assert won.max(1).values.tolist() == [3, 2]
    assert won.sort(1).values.tolist() == scores.sort(1).values.tolist()


def test_colours_are_those_of_the_data_set():
    assert classes_of(Facts(CLASSES, ())).colours[1] == (100, 150, 245)
    assert len(classes_of(Facts(("unlabeled", "a", "b"), ()))) == 3


def test_the_bench_compares_the_same_results(monkeypatch):
    monkeypatch.setattr(bench, "Scanner", lambda: Scanner(16, 256))
    monkeypatch.setattr(bench, "ModelConfig", lambda **given: ModelConfig(widths=(2, 2, 2, 2), **given))
    for contest in bench.contests():
        if contest.id in ("projection", "vote", "vote-torch"):
            ours, theirs = contest.ours(), contest.rivals["public"]()
            ours = ours.index.numpy() if contest.id == "projection" else ours.numpy()
            assert (np.asarray(theirs) == ours).mean() > 0.9999  # equal ranges may be resolved differently


def test_arrays_are_scans_too(model):
    result = vergence.load(model).predict(scan=InMemory("scan.npy", points(30)))
    assert json.dumps(dict(result.summary()))
