"""ATA as a system: windows over time, pages, protocol, and answers to what does not fit."""

import csv
import wave

import numpy as np
import pytest
import torch
from PIL import Image

from vergence import catalogue
from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.contract.identity import Identity
from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.engine.evaluate import run_evaluation
from vergence.engine.weights import metadata
from vergence.video.ata.pictures import chained, place_colours
from vergence.video.ata.predict import windows
from vergence.video.data import Kept
from vergence.video.settings import ClipView
from video.ata import fixtures

SYSTEM = catalogue.load("ata")
LABELS = ("keeps its way", "turns clockwise", "turns about", "turns anticlockwise")


@pytest.fixture
def weights(tmp_path):
    """An untrained network in a file, which is all that prediction asks for."""

    def make(variant="ata", labels=LABELS):
        config, facts = SYSTEM.configure("tiny", variant), SYSTEM.settings.facts(len(labels), labels)
        torch.manual_seed(0)
        path = tmp_path / f"{variant}.safetensors"
        identity = Identity("ata", "tiny", variant, config, facts)
        save_tensors(path, SYSTEM.build(config, facts).state_dict(), metadata(identity, SYSTEM))
        return path

    return make


def predict(*args):
    return main(["predict", "ata", *map(str, args), "-o", "out", "--threads", "1", "--quiet"])


# Windows -------------------------------------------------------------------------------------------------------------


def video(count, fps=10.0):
    return Kept("v", torch.zeros(count, 3, 8, 8, dtype=torch.uint8), fps)


def test_windows_cover_a_video_and_the_last_is_flush_with_its_end():
    view = ClipView(frames=4, sampling="uniform", size=8, resize=8, jitter=(8, 8))
    found = windows(view, video(47), seconds=2.0, hop=1.0)
    assert [(w.first, w.last) for w in found] == [(0, 19), (10, 29), (20, 39), (27, 46)]
    assert found[1].places == (12, 17, 22, 27)
    for window in found:
        assert window.first <= min(window.places) <= max(window.places) <= window.last


def test_a_window_is_what_a_clip_of_training_spans_unless_said_otherwise():
    view = ClipView(frames=8, sampling="dense", stride=2, rate=20.0, size=8, resize=8, jitter=(8, 8))
    found = windows(view, video(40), 0, 0)  # 8 * 2 frames at 20 a second: 0.8 seconds, 8 of these frames
    assert [(w.first, w.last) for w in found][:3] == [(0, 7), (4, 11), (8, 15)]
    assert [(w.first, w.last) for w in windows(view, video(5), 0, 0)] == [(0, 4)]


def test_followed_places_are_the_composition_of_matches():
    matches = torch.tensor([[1, 2, 0], [2, 0, 1]])
    assert chained(matches).tolist() == [[0, 1, 2], [1, 2, 0], [0, 1, 2]]
    assert len({tuple(c) for c in place_colours(5).tolist()}) == 25


# Prediction ----------------------------------------------------------------------------------------------------------


def test_labels_over_time_and_a_page_for_each_video(weights, here):
    fixtures.video(here / "a.mp4", 0, 30)
    others = ",".join(str(weights(name)) for name in ("averaging", "factorised"))
    assert predict("a.mp4", "--weights", weights(), "--window", 0.4, "--hop", 0.4, "--others", others) == 0
    rows = list(csv.reader((here / "out" / "labels.csv").open()))
    assert rows[0][:5] == ["file", "from", "to", "label 1", "probability 1"]
    assert [row[1:3] for row in rows[1:]] == [["0.00", "0.40"], ["0.40", "0.80"], ["0.80", "1.20"]]
    for row in rows[1:]:
        assert sum(map(float, row[4::2])) == pytest.approx(1, abs=4e-4)
        assert set(row[3::2]) == set(LABELS)
    page = (here / "out" / "a.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    drawn = {p.name for p in (here / "out").glob("*.png")}
    assert drawn == {"a-labels.png", "a-matches.png", "a-responses-last.png", "a-responses-inner.png"}
    heights = [Image.open(here / "out" / f"a-{name}.png").height for name in ("matches", "responses-last")]
    assert heights[1] - heights[0] == pytest.approx(heights[0], abs=8)  # two rows; frames and three networks


def test_a_broken_tail_is_left_out_with_a_word(weights, here, capsys):
    path = fixtures.video(here / "a.webm", 0, 60)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    assert (
        main(
            ["predict", "ata", "a.webm", "--weights", str(weights()), "--window", "0.4", "--threads", "1", "-o", "out"]
        )
        == 0
    )
    assert "windows are left out" in " ".join(capsys.readouterr().err.split())
    rows = list(csv.reader((here / "out" / "labels.csv").open()))[1:]
    assert 2 <= len(rows) < 10


def sound(path):
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(16000))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nowhere.mp4"], "nowhere.mp4 does not exist"),
        (["a.wav"], "a.wav has no pictures in it, only sound"),
        (["broken.mp4"], "broken.mp4 is not a readable video"),
        (["one"], "one has one frame only"),
        (["sizes"], "2.png is 30x40 (height x width), but 1.png before it is 20x40"),
        (["a.mp4", "--window", "-1"], "--window is a number of seconds"),
        (["a.mp4", "--block", "9"], "--block is from 0 to 3, got 9"),
        (["a.mp4", "--others", "a.mp4"], "a.mp4 is not a complete safetensors file"),
        ([], "no video given"),
    ],
)
def test_what_does_not_fit_is_refused_with_exit_code_2(args, said, weights, here, capsys):
    fixtures.video(here / "a.mp4", 0, 8)
    (here / "broken.mp4").write_bytes((here / "a.mp4").read_bytes()[:200])
    sound(here / "a.wav")
    fixtures.frames(here / "one", count=1)
    (here / "sizes").mkdir()
    for number, height in ((1, 20), (2, 30)):
        Image.fromarray(np.zeros((height, 40, 3), np.uint8)).save(here / "sizes" / f"{number}.png")
    assert predict(*args, "--weights", weights()) == 2
    assert said in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert not (here / "out" / "labels.csv").exists()


def test_fewer_frames_than_a_clip_has_are_said_and_used(weights, here, capsys):
    fixtures.frames(here / "few", count=3)
    assert main(["predict", "ata", "few", "--weights", str(weights()), "--threads", "1", "-o", "out"]) == 0
    assert "few has 3 frames, fewer than the 4 of a clip: some come twice" in " ".join(capsys.readouterr().err.split())


def test_features_that_are_not_numbers_are_refused_in_a_sentence():
    model = SYSTEM.build(SYSTEM.configure("tiny", "ata"), SYSTEM.settings.facts(4))
    with pytest.raises(VergenceError, match="frames cannot be aligned: .*NaN"):
        model(torch.full((1, 4, 3, 40, 40), torch.nan))


# Protocol ------------------------------------------------------------------------------------------------------------


class Fixed(torch.nn.Module):
    """Answers by the brightness of a clip: scores that a test can work out."""

    def forward(self, clips):
        light = clips.mean((1, 2, 3, 4))
        return torch.stack([light, -light, 0 * light - 9], 1)


def test_scores_are_averaged_over_clips_and_crops(tmp_path):
    fixtures.class_folders(tmp_path / "c")
    changes = {"data.source": str(tmp_path / "c"), "data.crops": 3, "data.clips": 2, "data.resize": 44}
    config = SYSTEM.configure("tiny", None, changes)
    ctx = Context(config, tmp_path, SYSTEM.settings.facts(2, ("run", "walk")))
    data = SYSTEM.data(ctx, "test")
    seen = []

    class Watched(Fixed):
        def forward(self, clips):
            seen.append(clips)
            return super().forward(clips)[:, :2]

    found = run_evaluation(SYSTEM, ctx, Watched(), data)
    assert len(torch.cat(seen)) == len(data) * 6
    scores = torch.stack([Fixed()(data[i].clips)[:, :2].softmax(-1).mean(0) for i in range(len(data))])
    labels = torch.tensor([data[i].label for i in range(len(data))])
    assert found == {"top1": pytest.approx(100 * float((scores.argmax(1) == labels).double().mean()))}


def test_evaluation_refuses_a_damaged_video_or_leaves_it_out_and_says_how_many(weights, here, capsys):
    fixtures.class_folders(here / "data")
    (here / "data" / "test" / "run" / "one.mp4").write_bytes(b"no video")
    path = str(weights(labels=("run", "walk")))
    common = ["eval", "ata", "--weights", path, "--data", "data", "--json"]
    assert main([*common, "--quiet"]) == 2
    assert "one.mp4 is not a readable video" in capsys.readouterr().err
    assert main([*common, "--data.damaged", "skip"]) == 0
    shown = capsys.readouterr()
    assert '"skipped": 1.0' in shown.out
    assert "left out" in shown.err


def test_labels_that_the_weights_do_not_know_are_refused(weights, here, capsys):
    fixtures.ucf101(here / "data")
    assert main(["eval", "ata", "--weights", str(weights()), "--data", "ucf101:data", "--quiet"]) == 2
    assert "the weights know the classes keeps its way, turns clockwise" in capsys.readouterr().err


def test_any_blocks_can_be_aligned_and_no_others():
    config = SYSTEM.configure("tiny", "ata", {"model.blocks": (0, 3)})
    assert SYSTEM.build(config, SYSTEM.settings.facts(4)).aligned == (0, 3)
    with pytest.raises(VergenceError, match="blocks 0 to 3"):
        SYSTEM.build(SYSTEM.configure("tiny", "ata", {"model.blocks": (4,)}), SYSTEM.settings.facts(4))
