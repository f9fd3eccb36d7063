"""Losses, distillation and prediction: two pictures or a video, right and wrong."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import vergence
from matching.pyramidflow import fixtures
from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.contract.identity import Identity
from vergence.contract.settings import NoFacts
from vergence.core.errors import VergenceError
from vergence.data.video import open_video, write_video
from vergence.matching.motion import Augment, Moving
from vergence.matching.pyramidflow import predict
from vergence.matching.pyramidflow.model import Level, build, flow_loss, flows, level_truth, pseudo_labels
from vergence.matching.pyramidflow.settings import Inputs, ModelConfig
from vergence.matching.pyramidflow.system import SYSTEM, believed_flow
from vergence.ops.density import vector2density
from vergence.reading.maps import read_flo

SMALL = ModelConfig(
    "vgg", (4, 6, 8), convs=1, levels=2, reach=2, width=8, carried=4, block="resnet", context=False, corners=False
)


def network(**changes):
    torch.manual_seed(0)
    return build(replace(SMALL, **changes)).eval()


def context(folder, model=SMALL, **data):
    config = replace(SYSTEM.configure("tiny"), model=model)
    return Context(replace(config, data=replace(config.data, **data)), folder, NoFacts(), stage="predict")


# Network and losses --------------------------------------------------------------------------------------------------


def test_true_densities_have_no_loss_and_the_true_flow():
    """What a perfect network would score at every level: the loss is zero, in both samplings of the truth."""
    for corners in (True, False):
        model = replace(SMALL, corners=corners)
        truth = torch.full((1, 2, 16, 16), 3.0)
        still = torch.zeros(1, 2, 4, 4)
        scores = vector2density(torch.full((1, 2, 4, 4), 0.75), 2).clamp_min(1e-30).log()
        level = Level(4, still + 0.75, still, scores)
        loss = flow_loss([level], truth, torch.ones(1, 16, 16, dtype=torch.bool), model)
        assert float(loss) == pytest.approx(0, abs=1e-5)


def test_sparse_truth_is_averaged_over_what_is_known():
    flow = torch.zeros(1, 2, 8, 8)
    valid = torch.zeros(1, 8, 8, dtype=torch.bool)
    flow[0, :, 0, 1], valid[0, 0, 1] = 8.0, True
    near, known = level_truth(flow, valid, 4, corners=True)
    assert known[0].tolist() == [[True, False], [False, False]]
    assert near[0, :, 0, 0].tolist() == pytest.approx([2.0, 2.0], rel=1e-5)


def test_dense_truth_never_mixes_two_motions():
    flow = torch.zeros(1, 2, 8, 8)
    flow[..., 4:] = 8.0
    near, _ = level_truth(flow, torch.ones(1, 8, 8, dtype=torch.bool), 2, corners=False)
    assert set(near.flatten().tolist()) == {0.0, 4.0}


@pytest.mark.parametrize("size", [(16, 24), (33, 50), (5, 7), (1, 1)])
def test_flow_of_pictures_of_any_size_has_their_size(size):
    with torch.no_grad():
        forward, backward = flows(network(), *torch.randn(2, 1, 3, *size))
    assert forward.shape == backward.shape == (1, 2, *size)


def test_a_regression_head_learns_too():
    net = network(head="regression", cues=False).train()
    first, second = torch.randn(2, 1, 3, 32, 32)
    truth, valid = torch.full((2, 2, 32, 32), 4.0), torch.ones(2, 32, 32, dtype=torch.bool)
    optimiser = torch.optim.Adam(net.parameters(), 1e-2)
    losses = []
    for _ in range(8):
        loss = flow_loss(net.levels(first, second), truth, valid, net.settings)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


def test_pseudo_labels_are_believed_only_where_directions_agree():
    net = network()
    first, second = torch.randn(2, 1, 3, 16, 24)
    with torch.no_grad():
        _, everywhere = pseudo_labels(net, first, second, least=0.0, gap=1e9, dark=1e9)
        flow, nowhere = pseudo_labels(net, first, second, least=0.0, gap=-1.0, dark=1e9)
        uneven, _ = believed_flow(net, first[..., :21], second[..., :21])
    assert flow.shape == (1, 2, 16, 24)
    assert everywhere.any()
    assert not nowhere.any()
    assert uneven.shape == (1, 2, 16, 21)


def test_distillation_adds_the_teachers_flow(tmp_path):
    """Labels are made once, before training, and weigh a tenth of the loss."""
    fixtures.kitti_2015(tmp_path / "data")
    config = replace(SYSTEM.configure("tiny"), model=SMALL)
    data = replace(config.data, source=f"kitti:{tmp_path / 'data'}", crop=(32, 48), teacher="teacher.safetensors")
    ctx = Context(replace(config, data=data), tmp_path / "run", NoFacts(), stage="fit")
    teacher = network()
    ctx.load = lambda path: (teacher, Identity("pyramidflow", "tiny", "all", config, NoFacts()))
    prepared = SYSTEM.prepare(ctx, SYSTEM.data(ctx, "train"))
    sample = prepared.draw(0, torch.Generator().manual_seed(0))
    assert sample["taught"].shape == (2, 32, 48)
    batch = {name: value[None] for name, value in sample.items()}
    losses = SYSTEM.losses(ctx, network().train(), batch)
    assert set(losses) == {"density", "distilled"}
    alone = SYSTEM.losses(ctx, network().train(), {n: v for n, v in batch.items() if not n.startswith("taught")})
    assert losses["density"].item() == pytest.approx(0.9 * alone["density"].item(), rel=1e-4)
    ctx.load = lambda path: (teacher, Identity("flot", "tiny", "flot", config, NoFacts()))
    ctx.folder = tmp_path / "other"
    with pytest.raises(VergenceError, match="weights of flot"):
        SYSTEM.prepare(ctx, SYSTEM.data(ctx, "train"))


def test_perfect_and_zero_flow_are_scored_as_such(tmp_path, monkeypatch):
    flow = torch.zeros(2, 16, 24)
    flow[0, 4:8, 4:8] = 6.0
    small = flow[0] > 0
    whole = torch.ones(16, 24, dtype=torch.bool)
    sample = {"first": torch.zeros(3, 16, 24, dtype=torch.uint8), "second": torch.zeros(3, 16, 24, dtype=torch.uint8)}
    sample |= {
        "flow": flow,
        "valid": whole,
        "visible": whole,
        "backward": -flow,
        "backward_valid": whole,
        "small": small,
    }
    data, ctx = Moving([sample], Augment((16, 24))), context(tmp_path)
    for found, epe, fl in ((flow, 0.0, 0.0), (0 * flow, 0.25, 100 / 24)):
        monkeypatch.setattr("vergence.matching.pyramidflow.system.flows", lambda *_, f=found: (f[None], -f[None]))
        scores = SYSTEM.evaluate(ctx, network(), data)
        assert scores["epe"] == pytest.approx(epe)
        assert scores["fl"] == pytest.approx(fl)
        assert scores["epe_zero"] == pytest.approx(0.25)
        assert scores["epe_small"] == pytest.approx(24 * epe)


def test_imagenet_weights_start_the_encoder():
    config = replace(SYSTEM.configure("paper"), model=ModelConfig(channels=(4, 4, 4, 4, 4, 4, 4), width=8, reach=1))
    model = SYSTEM.build(config, NoFacts())
    weights = {"base_layer.0.weight": torch.ones(4, 3, 7, 7), "fc.weight": torch.ones(2, 2)}
    assert "1 of" in SYSTEM.load_pretrained(config, model, weights)
    assert bool((model.encoder.base.base_layer[0].weight == 1).all())
    with pytest.raises(VergenceError, match="no weights of DLA-34"):
        SYSTEM.load_pretrained(config, model, {"other": torch.ones(1)})
    with pytest.raises(VergenceError, match="dlaup only"):
        SYSTEM.load_pretrained(config, network(), weights)


# Prediction ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path):
    fixtures.prediction(tmp_path)
    return tmp_path / "one.png", tmp_path / "two.png"


def predicted(folder, *images, **options):

    return predict.optical_flow(context(folder), network().requires_grad_(False), Inputs(tuple(images), **options))


def test_identical_frames_have_zero_flow_and_it_is_said(pair, tmp_path):
    result = predicted(tmp_path, pair[0], pair[0])
    assert result.flow.abs().max() == 0
    assert not result.occluded.any()
    assert "identical" in result.summary()["note"]


def test_frames_of_different_size_are_refused(pair, tmp_path):
    next(fixtures.frames(1, 20, 30)).save(tmp_path / "small.png")
    with pytest.raises(VergenceError, match=r"one.png \(64 x 48\) and small.png \(30 x 20\) differ in size"):
        predicted(tmp_path, pair[0], tmp_path / "small.png")


def test_one_or_three_pictures_are_refused(pair, tmp_path):
    with pytest.raises(VergenceError, match=r"one.png is a single picture"):
        predicted(tmp_path, pair[0])
    with pytest.raises(VergenceError, match="got 3 files"):
        predicted(tmp_path, *pair, pair[0])


@pytest.mark.parametrize("mode", ["L", "I;16", "RGBA", "1"])
def test_pictures_of_any_kind_are_read(mode, tmp_path):
    for name, picture in zip(("a.png", "b.png"), fixtures.frames(2), strict=True):
        if mode == "I;16":
            picture = Image.fromarray(np.asarray(picture.convert("L")).astype(np.uint16) * 257)
        else:
            picture = picture.convert(mode)
        picture.save(tmp_path / name)
    assert predicted(tmp_path, tmp_path / "a.png", tmp_path / "b.png").flow.isfinite().all()


def test_pictures_of_one_pixel_go_through(tmp_path):
    for name, value in (("a.png", 10), ("b.png", 200)):
        Image.fromarray(np.full((1, 1, 3), value, np.uint8)).save(tmp_path / name)
    result = predicted(tmp_path, tmp_path / "a.png", tmp_path / "b.png")
    assert result.flow.shape == (2, 1, 1)
    ctx = context(tmp_path / "out")

    ctx.folder.mkdir()
    files = predict.render(ctx, Inputs((tmp_path / "a.png", tmp_path / "b.png")), result)
    assert all(file.path.stat().st_size for file in files)


def test_the_flow_that_is_written_is_the_flow(pair, tmp_path):

    result = predicted(tmp_path, *pair, scale=0.7)
    ctx = context(tmp_path / "out")
    ctx.folder.mkdir()
    files = predict.render(ctx, Inputs(pair), result)
    stored = next(f.path for f in files if f.path.name.endswith("-flow.flo"))
    assert np.array_equal(read_flo(stored), result.flow.permute(1, 2, 0).numpy())
    facts = json.loads(next(f.path for f in files if f.kind == "json").read_text(encoding="utf-8"))
    assert facts["size"] == "64 x 48"


def test_a_video_becomes_a_video_of_its_flow(tmp_path):

    video = write_video(tmp_path / "film.mp4", [np.asarray(f) for f in fixtures.frames(5)], 10)
    result = predicted(tmp_path, video, every=2)
    assert result.motion.shape == (3, 7)
    ctx = context(tmp_path / "out")
    ctx.folder.mkdir()
    files = predict.render(ctx, Inputs((video,), every=2), result)
    made = open_video(files[0].path)
    assert (made.length, tuple(made.size)) == (3, (96, 64))
    assert len(predicted(tmp_path, video, frames=3).motion) == 2


def test_a_video_of_one_frame_is_refused_and_writes_nothing(tmp_path, capsys, monkeypatch):
    write_video(tmp_path / "still.mp4", [np.asarray(f) for f in fixtures.frames(1)], 10)
    with pytest.raises(VergenceError, match=r"still.mp4 has a single frame: optical flow needs two"):
        predicted(tmp_path, tmp_path / "still.mp4")
    with pytest.raises(VergenceError, match="empty"):
        (tmp_path / "empty").mkdir()
        predicted(tmp_path, tmp_path / "empty")


def test_large_frames_are_refused_before_they_take_memory(pair, tmp_path):
    ctx = context(tmp_path)
    ctx.memory = 1000
    with pytest.raises(VergenceError, match="needs about"):
        predict.between(ctx, network(), *torch.zeros(2, 3, 48, 64, dtype=torch.uint8))


def test_starter_weights_follow_a_photograph(tmp_path, capsys):
    """A photograph that no training saw, moved by a few pixels: nearly all of the motion is found."""
    from vergence.data.photographs import photograph

    whole = photograph("chelsea.png", 300).byte().permute(1, 2, 0).numpy()
    first, second = whole[20:164, 30:222], whole[16:160, 36:228]  # six to the left, four down
    Image.fromarray(first).save(tmp_path / "a.png")
    Image.fromarray(second).save(tmp_path / "b.png")
    result = vergence.load("pyramidflow").predict(images=[tmp_path / "a.png", tmp_path / "b.png"])
    middle = result.flow[:, 16:-16, 16:-16].flatten(1).median(1).values
    assert middle.tolist() == pytest.approx([-6.0, 4.0], abs=0.6)
    assert result.after < 0.5 * result.before
    assert main(["predict", "pyramidflow", str(tmp_path / "a.png"), "-o", str(tmp_path / "out"), "--quiet"]) == 2
    assert not (tmp_path / "out").exists()
