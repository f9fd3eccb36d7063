"""The system itself: variants, weights of other projects, prediction, and what it says about bad input."""

import csv
import json

import numpy as np
import pytest
import torch
from PIL import Image

import vergence
from detection.dualmultilabel import fixtures
from vergence import catalogue
from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.contract.identity import Identity
from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.data.video import write_video
from vergence.detection.adaptation import SOURCE, TARGET, squared_domain
from vergence.detection.data import Rendered, Sample, collated
from vergence.detection.dualmultilabel import bench
from vergence.detection.dualmultilabel.model import MCAR, detector_of
from vergence.detection.dualmultilabel.predict import class_names, pretrained
from vergence.detection.dualmultilabel.settings import SETTINGS, Facts, Inputs, ModelConfig, Weights
from vergence.detection.finding import category, drawn_on, unique
from vergence.engine.weights import metadata
from vergence.ops.boxes import nms
from vergence.ops.roi import roi_align


def batch(seed, count=2):
    source = torch.Generator().manual_seed(seed)
    boxes = torch.tensor([[5.0, 8.0, 30.0, 50.0], [35.0, 20.0, 75.0, 45.0]])
    aside = torch.zeros(2, dtype=torch.bool)
    return collated(
        [Sample(torch.rand(3, 64, 80, generator=source), boxes, torch.tensor([1, 2]), aside, "") for _ in range(count)]
    )


@pytest.mark.parametrize("variant", list(SETTINGS.variants))
def test_every_variant_has_its_losses_and_trains_what_it_should(variant):
    config = SETTINGS.configure("tiny", variant)
    torch.manual_seed(0)
    model = MCAR(config.model, 6)
    adapts = config.model.adversary != "none" or config.weights.consistency > 0
    losses = model.losses(batch(1), batch(2) if adapts else None, config.weights, torch.Generator().manual_seed(0))
    assert set(losses) == {"rpn_score", "rpn_box", "class", "box"} | {
        name for name, weight in (("labels", config.weights.labels), ("consistency", config.weights.consistency),
                                  ("adversary", config.weights.adversary)) if weight
    }  # fmt: skip
    torch.stack(list(losses.values())).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_target_pictures_without_boxes_are_never_trained_on():
    """Their boxes may be anything: nothing changes."""
    config = SETTINGS.configure("tiny")
    torch.manual_seed(0)
    model = MCAR(config.model, 6)
    other = batch(2)
    bare = other._replace(targets=[])
    plain, without = (
        model.losses(batch(1), target, config.weights, torch.Generator().manual_seed(0)) for target in (other, bare)
    )
    assert {name: value.item() for name, value in plain.items()} == {n: v.item() for n, v in without.items()}


def test_a_source_picture_without_objects_trains():
    model = MCAR(SETTINGS.configure("tiny").model, 6)
    own = batch(1, 1)
    none = own.targets[0]._replace(boxes=torch.zeros(0, 4), labels=torch.zeros(0, dtype=torch.long))
    losses = model.losses(own._replace(targets=[none]), batch(2), Weights(), torch.Generator().manual_seed(0))
    assert all(value.isfinite() for value in losses.values())


def test_strong_and_weak_domains_count_the_other_way_round_from_the_paper():
    ones = torch.ones(1, 1, 2, 2)
    assert squared_domain(ones, TARGET) == 0
    assert squared_domain(ones, SOURCE) == 1


def test_early_layers_of_the_published_detectors_are_fixed():
    with torch.device("meta"):
        vgg = detector_of(ModelConfig("vgg16"), 8)
        resnet = detector_of(ModelConfig(), 6)
    fixed = [name for name, p in vgg.named_parameters() if not p.requires_grad]
    assert fixed == [f"backbone.body.{n}.{kind}" for n in (0, 2, 5, 7) for kind in ("weight", "bias")]
    assert [name for name, p in resnet.named_parameters() if not p.requires_grad] == ["backbone.body.conv1.weight"]


def test_plain_forms_of_the_bench_compute_the_same():
    boxes = bench.random_boxes(120, 60, 100, "test")
    boxes[0] = torch.tensor([99.0, 10.0, 100.0, 58.0])  # narrower than a pixel of the map, at its border
    scores = torch.rand(120, generator=torch.Generator().manual_seed(0))
    assert bench.by_pairs(boxes, scores, 0.5) == nms(boxes, scores, 0.5).tolist()
    assert bench.by_kept(boxes, scores, 0.5).tolist() == nms(boxes, scores, 0.5).tolist()
    features = torch.randn(1, 4, 10, 14, generator=torch.Generator().manual_seed(1))
    ours = roi_align(features, boxes[:5], torch.zeros(5, dtype=torch.long), 3, 1 / 8)
    torch.testing.assert_close(bench.by_bins(features, boxes[:5], 3, 1 / 8), ours, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(bench.by_boxes(features, boxes[:5], 3, 1 / 8), ours, atol=1e-5, rtol=1e-4)


def test_the_direct_detector_of_the_bench_finds_the_same():
    torch.manual_seed(0)
    model = MCAR(ModelConfig(depths=(1, 1, 1, 1), multi=False, adversary="none"), 2).eval().requires_grad_(False)
    picture, sizes = torch.rand(1, 3, 96, 128), torch.tensor([[96, 128]])
    ours = model.detect(picture, sizes)[0]
    direct = bench.direct(model.detector, model.prepared(picture, sizes), sizes)
    torch.testing.assert_close(direct.scores, ours.scores, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(direct.boxes, ours.boxes, atol=0.05, rtol=1e-3)


# Data -----------------------------------------------------------------------------------------------------------------


def test_rendered_domains_have_boxes_in_the_picture_and_other_rates_of_classes():
    data = Rendered("target", "train", 6, "foggy")
    for index in range(len(data)):
        sample = data[index]
        assert sample.picture.shape == (3, 64, 80)
        assert len(sample.boxes) > 0
        assert (sample.boxes >= 0).all()
        assert (sample.boxes[:, 2] <= 80).all()
        assert (sample.boxes[:, 3] <= 64).all()
        assert (sample.boxes[:, 2:] - sample.boxes[:, :2] >= 6).all()
    assert torch.equal(data[2].picture, data[2].picture)
    clear = Rendered("target", "train", 6)[2].picture
    assert data[2].picture.std() < clear.std()


def test_domains_without_a_common_class_are_refused(tmp_path):
    fixtures.table(tmp_path / "things")
    (tmp_path / "things" / "classes.txt").write_text("person\ncar\ndog\n")
    fixtures.table(tmp_path / "other")
    for name in ("train", "test"):
        path = tmp_path / "other" / f"{name}.csv"
        path.write_text(path.read_text().replace("person", "a").replace("car", "b").replace("dog", "c"))
    system = catalogue.load("dualmultilabel")
    changes = {"data.source": f"csv:{tmp_path / 'other'}", "data.labelled": f"csv:{tmp_path / 'things'}"}
    config = SETTINGS.configure("tiny", None, changes)
    with pytest.raises(VergenceError, match="have no class in common"):
        system.data(Context(config, tmp_path), "train")
    config = SETTINGS.configure("tiny", None, changes | {"data.source": f"csv:{tmp_path / 'things'}"})
    data = system.data(Context(config, tmp_path), "train")
    assert system.facts(Context(config, tmp_path), data) == Facts(("person", "car", "dog"))


# Weights of other projects --------------------------------------------------------------------------------------------


def test_published_detectors_have_the_names_of_their_classes():
    assert class_names(80)[0] == "person"
    assert class_names(90)[89] == "toothbrush"
    assert class_names(90)[11] == "unused 12"
    assert class_names(20)[4] == "bottle"
    assert class_names(3) == ("class 1", "class 2", "class 3")
    assert category("toothbrush", class_names(90)) == category("toothbrush", class_names(80)) == 90
    assert category("cup", ("dog", "cup", "unicorn")) == 2


def test_weights_of_torchvision_are_read_and_find_objects(tmp_path):
    path = fixtures.checkpoint(tmp_path)
    model = vergence.load(path)
    assert model.identity.config.model == ModelConfig("resnet-fpn", "torchvision", (1, 1, 1, 1), False, "none")
    assert (model.identity.config.data.shortest, model.identity.config.data.longest) == (800, 1333)
    state = torch.load(path, weights_only=True)
    ours = model.module.state_dict()["detector.roi_heads.box_predictor.cls_score.weight"]
    assert torch.equal(ours, state["roi_heads.box_predictor.cls_score.weight"].float())
    torch.save({"backbone.body.conv1.weight": torch.zeros(1)}, tmp_path / "odd.pth")
    with pytest.raises(VergenceError, match=r"odd\.pth is not a Faster R-CNN"):
        vergence.load("dualmultilabel", tmp_path / "odd.pth")


def test_imagenet_weights_fill_trunk_and_head():
    config = ModelConfig(depths=(1, 1, 1, 1))
    torch.manual_seed(0)
    model = MCAR(config, 2)
    body = {name.removeprefix("backbone.body."): torch.randn_like(t) for name, t in model.detector.state_dict().items()
            if name.startswith("backbone.body.")}  # fmt: skip
    head = {name.removeprefix("roi_heads.box_head."): torch.randn_like(t)
            for name, t in model.detector.state_dict().items() if "layer4" in name}  # fmt: skip
    assert "start from ImageNet" in pretrained(config, model, body | head)
    assert torch.equal(
        model.detector.state_dict()["roi_heads.box_head.layer4.0.conv1.weight"], head["layer4.0.conv1.weight"]
    )
    with pytest.raises(VergenceError, match=r"nothing for 'layer4"):
        pretrained(config, model, body)


# Use ------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """An untrained small detector that is sure of much."""
    system, folder = catalogue.load("dualmultilabel"), tmp_path_factory.mktemp("weights")
    config = SETTINGS.configure("tiny", "source-only")
    torch.manual_seed(0)
    model = system.build(config, Facts())
    torch.nn.init.normal_(model.detector.roi_heads.box_predictor.cls_score.weight, std=1.0)
    identity = Identity("dualmultilabel", "tiny", "source-only", config, Facts())
    save_tensors(folder / "w.safetensors", model.state_dict(), metadata(identity, system))
    return folder / "w.safetensors"


def picture(path, height=64, width=80, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (height, width, 3), np.uint8)).save(path)


def test_a_folder_with_a_broken_picture_and_a_video_are_searched(weights, tmp_path, capsys):
    for n in range(3):
        picture(tmp_path / "in" / f"{n}.png", seed=n)
    (tmp_path / "in" / "broken.png").write_bytes(b"none")
    frames = [np.random.default_rng(n).integers(0, 255, (64, 80, 3), np.uint8) for n in range(4)]
    write_video(tmp_path / "clip.mp4", frames, 5)
    out = tmp_path / "out"
    args = [
        "predict",
        "dualmultilabel",
        str(tmp_path / "in"),
        str(tmp_path / "clip.mp4"),
        "--every",
        "2",
        "--score",
        "0.1",
    ]
    assert main([*args, "--weights", str(weights), "-o", str(out)]) == 0
    told = capsys.readouterr()
    assert "left out" in told.out + told.err
    rows = json.loads((out / "objects.json").read_text())
    assert {row["file_name"] for row in rows} == {"0.png", "1.png", "2.png", "clip.mp4 000000", "clip.mp4 000002"}
    assert len({row["image_id"] for row in rows}) == 5
    assert (out / "clip-objects.mp4").stat().st_size > 0
    assert (out / "0-objects.png").exists()
    with (out / "objects.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == len(rows)
    for row, line in zip(rows, table, strict=True):
        assert row["bbox"][0] + row["bbox"][2] == pytest.approx(float(line["right"]), abs=0.02)


def test_boxes_are_in_pixels_of_the_file_whatever_its_size(weights):
    model = vergence.load(weights)
    small = np.random.default_rng(0).integers(0, 255, (64, 80, 3), np.uint8)
    large = small.repeat(4, 0).repeat(4, 1)
    first, second = model.predict(images=[small], score=0.1), model.predict(images=[large], score=0.1)
    assert first.sizes.tolist() == [[64, 80]]
    assert second.sizes.tolist() == [[256, 320]]
    assert second.boxes.max() > 80
    assert (second.boxes[:, 2] <= 320).all()


def test_wrong_inputs_are_told_in_a_sentence(weights, tmp_path, capsys):
    picture(tmp_path / "a.png")
    (tmp_path / "empty").mkdir()
    for args in (["nowhere.png"], [str(tmp_path / "empty")], [str(tmp_path / "a.png"), "--score", "2"],
                 [str(tmp_path / "a.png"), "--most", "0"], [str(tmp_path / "a.png"), "--every", "0"]):  # fmt: skip
        assert main(["predict", "dualmultilabel", *args, "--weights", str(weights), "-o", str(tmp_path / "out")]) == 2
        said = capsys.readouterr().err.splitlines()
        assert len([line for line in said if not line.startswith("weights: ")]) == 1
        assert not (tmp_path / "out").exists()
    with pytest.raises(VergenceError, match="nothing to look at"):
        Inputs(())
    with pytest.raises(VergenceError, match="needs the multi-label head"):
        ModelConfig(multi=False)


def test_names_of_files_that_repeat_are_numbered():
    assert unique(["a", "b", "a", "a"]) == ["a", "b", "a-2", "a-3"]


def test_names_of_boxes_stay_inside_the_picture():
    drawn = drawn_on(torch.zeros(3, 100, 200, dtype=torch.uint8), [[190, 0, 200, 20]], ["potted plant"], [0.5])
    assert drawn.size == (600, 300)
    assert np.asarray(drawn)[:30, 400:].any()
