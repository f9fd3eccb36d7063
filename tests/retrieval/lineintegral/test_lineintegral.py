"""The descriptors do as they say, prediction ranks shapes and says what it left out, wrong input is named."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import vergence
from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.core.errors import VergenceError
from vergence.retrieval.lineintegral import bench, pictures
from vergence.retrieval.lineintegral.model import STANDARDISED, describe, describe_image, scales
from vergence.retrieval.lineintegral.settings import METHODS, VARIANTS, Config, Inputs, ModelConfig, ShapeData
from vergence.retrieval.lineintegral.system import SYSTEM
from vergence.retrieval.masks import Cameras, homography, prepared, seen
from vergence.retrieval.silhouettes import silhouette

SMALL = {"size": 64}


def mask(kind="fish", seed=1):
    return silhouette(kind, seed, 96) >= 0.5


def written(path, shape):
    Image.fromarray(shape.numpy().astype(np.uint8) * 255).save(path)


def gallery(folder, kinds=("fish", "key", "cup", "tree")):
    folder.mkdir()
    view = homography(Cameras(stretch=2, tilt=0), torch.Generator().manual_seed(3))
    for kind in kinds:
        written(folder / f"{kind}.png", seen(mask(kind), view, 96))
    return folder


@pytest.mark.parametrize("method", METHODS)
def test_every_method_describes_in_its_size_and_is_differentiable_in_the_image(method):
    config = ModelConfig(method=method, rows=4, angles=24, **SMALL)
    image = prepared(mask(), 32).requires_grad_()
    descriptor = describe_image(image, config)
    descriptor.sum().backward()
    assert descriptor.isfinite().all()
    assert image.grad.isfinite().all()
    assert image.grad.any()
    assert method != "lit" or len(descriptor) == 4 * 12


@pytest.mark.parametrize("variant", VARIANTS)
def test_only_the_affine_methods_ignore_a_stretch(variant):
    """The change by a stretch of 2 over the distance to another kind: small, unless invariance was taken away."""
    config = SYSTEM.configure("tiny", variant).model
    view = torch.eye(3, dtype=torch.float64)
    view[:2, :2] = torch.tensor([[1.4, 0.0], [0.0, 0.7]]) @ torch.tensor([[0.8, -0.6], [0.6, 0.8]])
    own, moved, other = (describe(m, config) for m in (mask(), seen(mask(), view, 128), mask("butterfly")))
    ratio = float((own - moved).abs().sum() / (own - other).abs().sum())
    if variant in ("r-transform", "no-normalisation", "fixed-lines"):
        assert ratio > 0.3
    elif variant != "second-power":
        assert ratio < 0.3


def test_standardised_features_have_equal_spread_and_constant_ones_stay():
    gallery = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 50.0, 0.0])
    for method in METHODS:
        spread = (gallery / scales(method, gallery)).std(0)
        if method in STANDARDISED:
            assert spread.tolist() == pytest.approx([1, 1, 0], abs=1e-5)
        else:
            assert torch.equal(scales(method, gallery), torch.ones(3))


def test_tables_of_other_libraries_agree(monkeypatch):
    monkeypatch.setattr(bench, "CONFIG", ModelConfig(rows=6, angles=40, size=96))
    image = prepared(mask("quadruped"), 96)
    ours = bench.table(image)
    for rival in (bench.by_radon, bench.by_coordinates, bench.by_grid):
        theirs = rival(image).float()
        assert float((ours - theirs).abs().mean()) < 0.01 * float(ours.mean()), rival.__name__


def test_it_finds_the_affine_copy_first_also_from_the_index_and_says_what_it_skipped(tmp_path):
    folder = gallery(tmp_path / "gallery")
    written(folder / "point.png", torch.nn.functional.pad(torch.ones(1, 1), (9, 9, 9, 9)).bool())
    (folder / "broken.png").write_bytes(b"")
    model, index = vergence.load("lineintegral"), str(tmp_path / "kept.safetensors")
    found = model.predict(query=[mask().float().numpy()], gallery=folder, index=index, top=3)
    assert found.answers[0].hits[0].name.endswith("fish.png")
    assert found.gallery == 4
    assert len(found.skipped) == 2
    assert any("point.png holds a point" in why for why in found.skipped)
    distances = [hit.distance for hit in found.answers[0].hits]
    assert distances == sorted(distances)
    assert found.descriptors.shape == (1, 18 * 90)
    again = model.predict(query=[mask().float().numpy()], index=index, top=3)
    assert again.answers[0].hits == found.answers[0].hits
    with pytest.raises(VergenceError, match="made with other weights or settings"):
        model.predict(query=[mask().float().numpy()], index=index, method="ami")


def test_distances_are_those_of_the_descriptors_and_a_query_does_not_find_itself(tmp_path):
    folder = gallery(tmp_path / "gallery")
    found = vergence.load("lineintegral").predict(query=[folder / "key.png"], gallery=folder)
    hits = {hit.name.rpartition("/")[2]: hit.distance for hit in found.answers[0].hits}
    assert set(hits) == {"fish.png", "cup.png", "tree.png"}
    masks = {name: torch.from_numpy(np.array(Image.open(folder / name)) > 0) for name in (*hits, "key.png")}
    for name, distance in hits.items():
        expected = float((describe(masks[name]) - describe(masks["key.png"])).abs().sum())
        assert distance == pytest.approx(expected, rel=1e-4)


def test_a_photograph_is_binarised_and_its_mask_is_written(tmp_path):
    folder = gallery(tmp_path / "gallery", ("key", "cup"))
    noise = torch.randint(0, 40, (96, 96), generator=torch.Generator().manual_seed(0))
    pixels = (200 - 150 * mask("key").long() + noise).clamp(0, 255).byte().numpy()
    Image.fromarray(pixels).save(tmp_path / "photo.jpg", quality=95)
    found = vergence.load("lineintegral").predict(query=[tmp_path / "photo.jpg"], gallery=folder)
    assert found.answers[0].photograph
    assert found.answers[0].hits[0].name.endswith("key.png")
    found.save(tmp_path / "out")
    kept = np.array(Image.open(tmp_path / "out" / "masks" / "001-photo.png")) > 0
    assert (kept == mask("key").numpy()).mean() > 0.98
    told = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (told["gallery"], told["queries"], told["skipped"]) == (2, 1, 0)
    page = (tmp_path / "out" / "results.html").read_text()
    assert "binarised by Otsu" in page
    assert page.count("<img") == 2 + 3 * 2  # the photograph, its mask; for each result a shape and two descriptors


def test_results_of_an_index_whose_files_are_gone_are_still_listed(tmp_path):
    folder = gallery(tmp_path / "gallery", ("key", "cup"))
    model, index = vergence.load("lineintegral"), str(tmp_path / "kept.safetensors")
    model.predict(query=[mask().float().numpy()], gallery=folder, index=index)
    (folder / "cup.png").unlink()
    model.predict(query=[mask().float().numpy()], index=index).save(tmp_path / "out")
    assert "cup.png" in (tmp_path / "out" / "results.csv").read_text()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"angles": 7}}, "angles come in opposite pairs|angles is 8"),
        ({"model": {"angles": 181}}, "angles come in opposite pairs"),
        ({"model": {"rows": 0}}, "rows is 1 to 1000"),
        ({"model": {"size": 5000}}, "size is 16 to 2048"),
        ({"data": {"views": -1}}, "0 to 1000 views"),
        ({"data": {"kinds": 15}}, "1 to 14 kinds"),
        ({"data": {"tilt": 2.0}}, "a tilt of 0 to 0.6"),
    ],
)
def test_configs_out_of_range_are_refused(changes, message):
    classes = {"model": ModelConfig, "data": ShapeData}
    with pytest.raises(VergenceError, match=message):
        Config(**{name: classes[name](**values) for name, values in changes.items()})


def test_inputs_without_query_or_gallery_are_refused(tmp_path):
    with pytest.raises(VergenceError, match="there is no query"):
        Inputs(gallery=tmp_path)
    with pytest.raises(VergenceError, match="there is no gallery"):
        Inputs(query=(tmp_path,))


def test_wrong_files_end_with_one_sentence_and_leave_nothing_behind(here, capsys):
    gallery(here / "gallery", ("key",))
    written(here / "empty.png", torch.zeros(9, 9, dtype=torch.bool))
    for query, said in (("empty.png", "holds no shape"), ("gallery", "is a folder"), ("no.png", "does not exist")):
        capsys.readouterr()
        assert main(["predict", "lineintegral", "--query", query, "--gallery", "gallery", "-o", "out", "--quiet"]) == 2
        message = capsys.readouterr().err
        assert said in message
        assert query in message
        assert message.count("\n") == 1
        assert not (here / "out").exists()


def test_one_sample_per_class_is_nothing_to_judge(tmp_path):
    for kind in ("key", "cup"):
        (tmp_path / "data" / kind).mkdir(parents=True)
        written(tmp_path / "data" / kind / "1.png", mask(kind))
    with pytest.raises(VergenceError, match="no two samples are of one class"):
        vergence.evaluate("lineintegral", data=str(tmp_path / "data"))
    metrics = SYSTEM.configure(
        "tiny", changes={"data.source": str(tmp_path / "data"), "data.copies": 3, "data.side": 48}
    )
    ctx = Context(metrics, tmp_path)
    assert SYSTEM.evaluate(ctx, None, SYSTEM.data(ctx, "test"))["knee"] > 60


@pytest.mark.parametrize("size", [(3, 4), (40, 7), (240, 300)])
def test_a_mask_of_any_size_is_drawn_in_one_size(size):
    """Small masks are enlarged together with their border."""
    shape = torch.nn.functional.pad(torch.ones(size), (1, 1, 1, 1)).bool()
    assert pictures.ink(shape).shape == (3, 240, 240)


def test_pictures_of_a_run_are_drawn(tmp_path):
    changes = {"data.kinds": 2, "data.individuals": 1, "data.views": 2, "model.size": 48}
    config = SYSTEM.configure("tiny", changes=changes)
    data = SYSTEM.data(Context(config, tmp_path), "test")
    shapes = [data[index] for index in range(len(data))]
    drawn = (
        pictures.anatomy(tmp_path, shapes, config.model),
        pictures.rankings(tmp_path, shapes, config.model, queries=2, top=2),
        pictures.curves(tmp_path, {"lit": {"precision_25": 90.0, "precision_50": 80.0}}, {"lit": "LIT"}),
    )
    assert all(artifact.path.stat().st_size > 1000 for artifact in drawn)
