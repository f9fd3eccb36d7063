"""What is sesiam's own: evaluation by each data set's protocol, prediction on a user's videos, what is refused."""

import csv
import dataclasses
import json

import numpy as np
import pytest
import torch

import vergence
from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.contract.identity import Identity
from vergence.contract.inputs import Box
from vergence.contract.settings import NoFacts
from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.core.progress import Progress
from vergence.data.video import open_video, write_video
from vergence.engine.weights import metadata
from vergence.reading.weights import load_state
from vergence.tracking.data import Clips, Tracks
from vergence.tracking.metrics import one_pass
from vergence.tracking.protocol import Found, followed_with_restarts
from vergence.tracking.sesiam import predict
from vergence.tracking.sesiam.model import SiameseNetwork, configured
from vergence.tracking.sesiam.settings import Inputs
from vergence.tracking.sesiam.system import SYSTEM
from vergence.tracking.settings import Scene
from vergence.tracking.siamese import Tracker, shift_out
from vergence.tracking.synth import moving_digits

SMALL = {
    "model.width": 0.34,
    "data.scene.size": 96,
    "data.scene.digit": 20,
    "data.scene.frames": 5,
    "data.tests": 2,
    "data.sequences": 2,
}


def context(tmp_path, variant="siamfc-t", **changes):
    config = SYSTEM.configure("tiny", variant, SMALL | changes)
    return Context(config, tmp_path, NoFacts(), progress=Heard())


class Heard(Progress):
    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)


def network(ctx):
    torch.manual_seed(0)
    return configured(ctx.config.model).eval()


# Judging --------------------------------------------------------------------------------------------------------------


def test_digits_are_judged_in_both_worlds_whatever_was_trained_on(tmp_path):
    ctx = context(tmp_path)
    found = SYSTEM.evaluate(ctx, network(ctx), SYSTEM.data(ctx, "test"))
    assert set(found) == {"auc", "auc_t", "auc_s", "precision", "precision_t", "precision_s"}
    assert found["auc"] == pytest.approx((found["auc_t"] + found["auc_s"]) / 2)


@pytest.mark.parametrize(
    ("protocol", "more"),
    [("ope", set()), ("got10k", {"ao", "sr50", "sr75"}), ("vot", {"accuracy", "robustness", "eao"})],
)
def test_each_kind_of_data_is_judged_by_its_own_protocol(tmp_path, protocol, more):
    ctx = context(tmp_path)
    tracks = dataclasses.replace(
        moving_digits("t-mnist", 2, "test", ctx.config.data.scene), protocol=protocol, whole=60
    )
    found = SYSTEM.evaluate(ctx, network(ctx), Clips({"": tracks}))
    assert set(found) == {"auc", "precision"} | more
    assert ctx.progress.said == ["judged on 2 of the 60 sequences of the data set"]


def test_a_tracker_that_knows_the_truth_scores_as_one(tmp_path):
    track = moving_digits("s-mnist", 1, "test", Scene(size=96, digit=20, frames=20)).sequences[0]

    class Knows:
        def start(self, frame, box):
            pass

        def step(self, frame):
            self.at = next(i for i in range(20) if (track.frames[i] == frame).all())
            return Found(tuple(track.boxes[self.at]), 1.0)

    run = followed_with_restarts(track, Knows())
    assert run.failures == 0
    np.testing.assert_allclose(run.codes[1:], 1.0)
    assert one_pass(track.boxes, track.boxes).success[:-1].min() == 1


def test_sequences_of_different_lengths_are_tracked_side_by_side(tmp_path):
    ctx = context(tmp_path)
    a = moving_digits("t-mnist", 1, "test", Scene(size=96, digit=20, frames=3)).sequences[0]
    b = moving_digits("t-mnist", 2, "test", Scene(size=96, digit=20, frames=6)).sequences[1]
    found = SYSTEM.evaluate(ctx, network(ctx), Clips({"": Tracks((a, b))}))
    assert np.isfinite(list(found.values())).all()


# The network ----------------------------------------------------------------------------------------------------------


def test_a_scale_equivariant_network_starts_from_a_file_of_an_ordinary_one(tmp_path):
    plain = configured(SYSTEM.configure("tiny", "siamfc-t", SMALL).model)
    file = tmp_path / "plain.safetensors"
    save_tensors(file, plain.state_dict())

    def started(variant, **changes):
        config = SYSTEM.configure("tiny", variant, SMALL | changes | {"pretrained": str(file)})
        model = configured(config.model)
        before = [p.clone() for p in model.parameters()]
        said = SYSTEM.load_pretrained(config, model, load_state(file))
        return said, any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))

    assert started("se-siamfc-t") == ("starting from the ordinary network", True)
    with pytest.raises(VergenceError, match="plain.safetensors does not hold an ordinary network of the size 'tiny'"):
        started("se-siamfc-t", **{"model.width": 1.0})
    with pytest.raises(VergenceError, match="only se-siamfc starts from"):
        started("siamfc-t")


def test_the_response_of_a_moved_picture_moves_as_far(tmp_path):
    """Figure 1, with weights that were never trained: a bright square is found by any features."""
    given = np.arange(-24.0, 25.0, 8.0)  # whole strides
    frame = np.empty((100, 100, 3), np.uint8)
    frame[:] = 124, 116, 104  # what networks see as zero, like the padding
    frame[40:60, 40:60] = 255
    for variant in ("siamfc-t", "se-siamfc-t"):
        x, y = shift_out(network(context(tmp_path, variant)), frame, (40, 40, 20, 20), given)
        assert np.abs(x - given).max() <= 4
        assert np.abs(y - given).max() <= 4


# A user's video -------------------------------------------------------------------------------------------------------


def clip(path, frames=6, size=(64, 80)):
    ground = np.random.default_rng(0).integers(0, 80, (*size, 3), dtype=np.uint8)
    shown = []
    for number in range(frames):
        frame = ground.copy()
        frame[20:40, 20 + number : 40 + number] = (220, 200, 60)
        shown.append(frame)
    return write_video(path, shown, 10.0)


def predicted(ctx, inputs):
    """Files by their ending."""
    result = predict.follow(ctx, network(ctx), inputs)
    return {artifact.path.suffix: artifact for artifact in predict.render(ctx, inputs, result)}


def test_a_video_is_followed_frame_by_frame(tmp_path):
    ctx = context(tmp_path / "out")
    made = predicted(ctx, Inputs(clip(tmp_path / "clip.mp4"), (Box(20, 20, 20, 20), Box(50, 40, 10, 10))))
    video, table = made[".mp4"], made[".csv"]
    assert open_video(video.path).size == (64, 80)
    assert len(list(open_video(video.path))) == 6
    rows = list(csv.DictReader(table.path.open()))
    assert [(int(r["frame"]), int(r["target"])) for r in rows] == [(f, t) for f in range(6) for t in range(2)]
    assert [float(rows[0][k]) for k in ("x", "y", "width", "height", "score")] == [20, 20, 20, 20, 1]
    assert all(0 <= float(r["score"]) <= 1 for r in rows)
    assert "6 frames with 2 targets" in video.caption
    assert "frames per second" in video.caption


def test_a_trained_tracker_stays_on_what_it_follows(tmp_path):
    """Nothing is trained here: a bright square on dark noise is easy for any features."""
    ctx = context(tmp_path / "out", **{"inference.window": 0.3})
    made = predicted(ctx, Inputs(clip(tmp_path / "clip.mp4", 10), (Box(20, 20, 20, 20),)))
    last = list(csv.DictReader(made[".csv"].path.open()))[-1]
    x, y, w, h = (float(last[k]) for k in ("x", "y", "width", "height"))
    assert abs(x + w / 2 - 39) < 8
    assert abs(y + h / 2 - 30) < 8


def test_it_stops_after_so_many_frames(tmp_path):
    made = predicted(context(tmp_path / "out"), Inputs(clip(tmp_path / "clip.mp4"), (Box(20, 20, 20, 20),), frames=3))
    assert len(list(csv.DictReader(made[".csv"].path.open()))) == 3


def test_a_video_that_breaks_off_is_followed_as_far_as_it_goes(tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (40, 64, 80, 3), dtype=np.uint8)
    whole = write_video(tmp_path / "whole.avi", noise, 10.0)
    broken = tmp_path / "broken.avi"
    broken.write_bytes(whole.read_bytes()[: int(whole.stat().st_size * 0.6)])
    ctx = context(tmp_path / "out")
    made = predicted(ctx, Inputs(broken, (Box(20, 20, 20, 20),)))
    rows = list(csv.DictReader(made[".csv"].path.open()))
    assert 1 < len(rows) < 40
    assert any("is damaged" in text and f"{len(rows)} frames were read" in text for text in ctx.progress.said)
    assert "could not be read" in made[".mp4"].caption


@pytest.mark.parametrize(
    ("box", "said"),
    [
        (Box(200, 10, 20, 20), "outside the frame of 80 x 64"),
        (Box(10, 10, 0, 20), "has no area"),
        (Box(float("nan"), 10, 5, 20), "not four numbers"),
    ],
)
def test_a_box_that_makes_no_sense_is_refused_and_nothing_is_written(tmp_path, box, said):
    with pytest.raises(VergenceError, match=said):
        predicted(context(tmp_path / "out"), Inputs(clip(tmp_path / "clip.mp4"), (box,)))
    assert not (tmp_path / "out").exists()


def test_without_a_box_and_without_a_display_it_says_how_to_give_one(tmp_path, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(predict.sys, "platform", "linux")
    with pytest.raises(VergenceError, match=r"give --box x,y,width,height in the pixels of its 80 x 64 frames"):
        predicted(context(tmp_path), Inputs(clip(tmp_path / "clip.mp4")))


def test_frames_that_change_their_size_are_refused(tmp_path):
    from PIL import Image

    folder = tmp_path / "frames"
    folder.mkdir()
    for number, size in enumerate([(40, 30), (40, 30), (44, 30)]):
        Image.new("RGB", size).save(folder / f"{number}.png")
    with pytest.raises(VergenceError, match=r"2\.png is 30x44"):
        predicted(context(tmp_path / "out"), Inputs(folder, (Box(5, 5, 10, 10),)))
    assert not list((tmp_path / "out").glob("*"))


def test_grey_frames_are_followed(tmp_path):
    from PIL import Image

    folder = tmp_path / "frames"
    folder.mkdir()
    for number in range(3):
        Image.new("L", (60, 40), 30 * number).save(folder / f"{number}.png")
    assert predicted(context(tmp_path / "out"), Inputs(folder, (Box(5, 5, 10, 10),)))


def test_a_file_that_is_no_video_is_one_sentence_on_the_command_line(here, capsys):
    (here / "not.mp4").write_bytes(b"nothing of a video" * 20)
    (here / "runs").mkdir()
    ctx = context(here)
    weights = saved(ctx, here / "w.safetensors")
    args = ["predict", "sesiam", "not.mp4", "--box", "1,1,5,5", "--weights", str(weights), "--quiet"]
    assert main(args) == 2
    said = capsys.readouterr().err
    assert "not.mp4 is not a readable video" in said
    assert said.count("\n") == 1


def test_an_output_named_like_a_video_is_that_video(here, capsys):
    clip(here / "clip.mp4")
    weights = saved(context(here), here / "w.safetensors")
    args = ["predict", "sesiam", "clip.mp4", "--box", "20,20,20,20", "--weights", str(weights), "--quiet", "--json"]
    assert main([*args, "-o", "done/out.mp4"]) == 0
    made = [a["path"] for a in json.loads(capsys.readouterr().out)["files"]]
    assert made == ["done/out.mp4", "done/out.png", "done/out.csv"]
    assert sorted(p.name for p in (here / "done").iterdir()) == ["out.csv", "out.mp4", "out.png"]
    assert main([*args, "-o", "done/out.webm"]) == 2
    assert "writes files of the kinds .mp4, .png, .csv" in capsys.readouterr().err


def saved(ctx, path):
    """Weights as a run leaves them."""
    identity = Identity("sesiam", "tiny", "siamfc-t", ctx.config, NoFacts())
    save_tensors(path, network(ctx).state_dict(), metadata(identity, SYSTEM))
    return path


def test_frames_given_in_python_are_followed_and_the_result_is_in_memory(tmp_path):
    frames = np.stack(list(open_video(clip(tmp_path / "clip.mp4"))))
    model = vergence.load(saved(context(tmp_path), tmp_path / "w.safetensors"))
    result = model.predict(video=frames, box=[(20, 20, 20, 20)])
    assert result.boxes.shape == (6, 1, 4)
    assert result.boxes[0, 0].tolist() == [20, 20, 20, 20]
    assert result.scores.shape == (6, 1)
    flat = model.predict(video=frames, box=np.array([20, 20, 20, 20]))
    np.testing.assert_array_equal(flat.boxes, result.boxes)
    assert {a.path.suffix for a in result.save(tmp_path / "out")} == {".mp4", ".png", ".csv"}
    two = model.predict(video=[frames, tmp_path / "clip.mp4"], box=[(20, 20, 20, 20)])
    assert [r.boxes.shape for r in two] == [(6, 1, 4)] * 2


# Pictures -------------------------------------------------------------------------------------------------------------


def test_pictures_are_made_of_every_variant_and_unknown_truth_is_not_drawn(tmp_path):
    ctx = context(tmp_path)
    models = {name: network(context(tmp_path, name)) for name in ("siamfc-t", "se-siamfc-t")}
    clips = SYSTEM.data(ctx, "test").only(1)
    for tracks in clips.worlds.values():
        tracks.sequences[0].boxes[2] = np.nan
    made = SYSTEM.pictures(ctx, models, clips)
    assert [a.path.name for a in made] == ["plots.png", "attributes.png", "shifts.png", "track.gif"]
    assert all(a.path.stat().st_size > 1000 for a in made)


def test_networks_are_what_variants_name():
    small = {name: configured(SYSTEM.configure("tiny", name).model) for name in SYSTEM.variants}
    assert all(isinstance(made, SiameseNetwork) for made in small.values())
    assert small["se-released"].scales == (1.0,)
    assert len(small["se-axis"].scales) == 3
    Tracker(small["se-axis"], SYSTEM.configure("tiny", "se-axis").inference)
