"""What is special to variational CTC: its losses, its readings of real files, and what it says of bad ones."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import vergence
from documents.varctc import fixtures
from vergence import catalogue
from vergence.contract.context import Context
from vergence.core.errors import VergenceError
from vergence.core.progress import Progress
from vergence.documents import layouts
from vergence.documents.lines import Alphabet
from vergence.documents.protocol import alignment
from vergence.documents.reader import centres, word_spans
from vergence.documents.varctc.model import build, steps_of
from vergence.documents.varctc.predict import read_upright
from vergence.documents.varctc.settings import SETTINGS, VARIANTS, Inputs, LossConfig, ModelConfig

TEST = ModelConfig(alphabet=" abc", channels=(3, 4, 4, 4, 5, 5, 6), hidden=4, dropout=0.0, embedding=3)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_loss_has_finite_gradients(variant):
    config = SETTINGS.configure("tiny", variant, {"model.channels": (3, 4, 4, 4, 5, 5, 6), "model.hidden": 4})
    torch.manual_seed(0)
    model = build(config.model)
    targets = torch.tensor([[3, 3, 4, -1], [5, 6, 7, 8]])
    found = model.losses(torch.randn(2, 1, 32, 100), targets, torch.tensor([3, 4]), config.loss)
    sum(found.values()).backward()
    missing = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert missing == []
    assert set(found) >= {"likelihood"}


def test_a_batch_of_labels_that_do_not_fit_is_no_loss():
    model = build(ModelConfig(alphabet="ab", channels=(3,) * 7, hidden=3, head="mml"))
    found = model.losses(torch.zeros(1, 1, 32, 32), torch.ones(1, 9).long(), torch.tensor([9]), LossConfig())
    assert float(found["likelihood"].detach()) == 0


def test_test_time_does_not_ask_the_posterior():
    torch.manual_seed(0)
    model = build(TEST).eval()
    images = torch.randn(2, 1, 32, 64)
    with torch.no_grad():
        before = model(images)
        for parameter in model.posterior.parameters():
            parameter.fill_(9.0)
        torch.testing.assert_close(model(images), before)


def test_a_line_is_read_the_same_alone_and_in_a_batch():
    torch.manual_seed(0)
    model = build(TEST).eval()
    images = torch.randn(3, 1, 32, 64)
    with torch.no_grad():
        torch.testing.assert_close(model(images)[:, 1:2], model(images[1:2]))


def test_steps_look_at_the_middle_of_their_columns():
    """An impulse in the picture changes the steps around it most, in either trunk."""
    torch.manual_seed(0)
    for trunk in ("crnn", "resnet"):
        model = build(ModelConfig(alphabet="ab", trunk=trunk, channels=(8,) * 7, stages=(8,) * 5, hidden=4)).eval()
        image = torch.zeros(1, 1, 32, 200)
        image[..., 96:104] = 3
        with torch.no_grad():
            change = (model.trunk(image) - model.trunk(torch.zeros_like(image))).abs().sum((0, 1))
        at = centres(len(change), 200)
        assert float((change * at).sum() / change.sum()) == pytest.approx(100, abs=6)


@pytest.mark.parametrize("width", [32, 100, 101, 130])
def test_the_number_of_steps_is_known_beforehand(width):
    for trunk, padded in (("crnn", False), ("crnn", True), ("resnet", False)):
        own = ModelConfig(alphabet="a", trunk=trunk, padded=padded, channels=(2,) * 7, stages=(2,) * 5, hidden=2)
        with torch.device("meta"):
            assert len(build(own)(torch.zeros(1, 1, 32, width))) == steps_of(own, width)


def test_texts_without_a_path_are_named_and_counted(tmp_path):
    for k, text in enumerate(("hello", "aabbccddeeff", "abcdefghijkl")):
        fixtures.picture(tmp_path / "train" / f"{k}.png", text)
    (tmp_path / "train" / "labels.csv").write_text("file,text\n0.png,hello\n1.png,aabbccddeeff\n2.png,abcdefghijkl\n")
    said = []
    progress = Progress()
    progress.say = said.append
    changes = {"data.source": f"folder:{tmp_path}", "data.width": 64, "model.alphabet": "abcdefghijklo"}
    ctx = Context(SETTINGS.configure("tiny", None, changes), tmp_path, progress=progress)
    lines = catalogue.load("varctc").data(ctx, "train")
    assert lines.too_long(13) == ["aabbccddeeff"]
    assert said == [
        "1 of 3 texts need more than the 13 steps of a picture, such as 'aabbccddeeff': their loss would be infinite "
        "and is left out"
    ]


def test_alignment_of_known_emissions():
    """Two symbols over 25 columns each; the chance of the right one is known, whatever the blank's."""
    steps, width = 10, 52
    at = centres(steps, width)
    chance = torch.full((steps, 1, 3), 0.05)
    chance[..., 0] = 0.5
    chance[at < 26, 0, 1], chance[at >= 26, 0, 2] = 0.45, 0.45
    extents = torch.tensor([[[0.0, 26.0], [26.0, 52.0], [float("nan")] * 2]])
    found = alignment(chance.log(), torch.tensor([[1, 2, -1]]), extents, width)
    assert float(found) == pytest.approx(0.9)
    assert alignment(chance.log(), torch.tensor([[1, 2, -1]]), torch.full((1, 3, 2), torch.nan), width).isnan().all()


def test_words_are_what_lies_between_spaces():
    own = Alphabet(" abc")
    assert word_spans([0, 2, 2, 0, 1, 1, 3, 0], own) == [(0, 4), (6, 8)]
    assert word_spans([1, 1, 0], own) == []
    assert word_spans([2, 0, 2], Alphabet("abc")) == [(0, 3)]


# Readers --------------------------------------------------------------------------------------------------------------


def test_published_names_give_their_texts(tmp_path):
    fixtures.icdar13(tmp_path / "13")
    assert layouts.icdar13(tmp_path / "13", "train").texts == ("Tiredness", "kills", "A")
    assert layouts.icdar13(tmp_path / "13", "test").texts == ("Tiredness", "kills")  # the protocol leaves out A
    fixtures.icdar03(tmp_path / "03")
    assert layouts.icdar03(tmp_path / "03", "test").texts == ("self", "STAFF")
    fixtures.synth90k(tmp_path / "90k")
    assert layouts.synth90k(tmp_path / "90k", "train").texts == ("Lube", "Lube", "Coffee", "Coffee")
    fixtures.iam_lines(tmp_path / "iam")
    assert set(layouts.iam_lines(tmp_path / "iam", "test").texts) == {"A MOVE to stop"}
    fixtures.iam_words(tmp_path / "words")
    assert layouts.iam_words(tmp_path / "words", "test").texts == ("MOVE", "Gaitskell")  # not the bad segmentation
    fixtures.svt(tmp_path / "svt")
    words = layouts.svt(tmp_path / "svt", "test")
    assert words.texts == ("GRAND", "HOTEL")
    assert words[0].picture.shape == (3, 30, 90)


def test_without_lists_writers_stay_together(tmp_path):
    fixtures.iam_words(tmp_path)
    for name in ("trainset.txt", "testset.txt"):
        (tmp_path / name).unlink()
    found = []
    for split in ("train", "val", "test"):
        try:
            found.append(layouts.iam_words(tmp_path, split))
        except VergenceError:
            continue
    assert all("forms are split by a hash" in part.note for part in found)
    assert sum(map(len, found)) == 4


def test_a_listed_file_that_is_missing_is_named(tmp_path):
    fixtures.parted(tmp_path)
    (tmp_path / "test" / "a.png").unlink()
    with pytest.raises(VergenceError, match=r"a\.png does not exist, but .*labels\.csv lists it"):
        layouts.folder(tmp_path, "test")


# Use ------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reader():
    return vergence.load("varctc")


@pytest.mark.parametrize("size", [(1, 1), (40, 1), (1, 150), (60, 200)])
def test_pictures_without_text_say_so(size, reader, tmp_path):
    result = reader.predict(images=np.full((*size, 3), 255, np.uint8))
    assert result.lines == ()
    assert "no text found" in result.note
    assert all(file.path.stat().st_size for file in result.save(tmp_path))


def test_a_line_is_read_with_a_confidence_for_every_word(reader, tmp_path):
    fixtures.picture(tmp_path / "line.png", "Total 2040", 24)
    result = reader.predict(images=tmp_path / "line.png")
    (line,) = result.lines
    assert line.text == "Total 2040"
    assert [word.text for word in line.words] == ["Total", "2040"]
    assert all(0 < word.confidence <= 1 for word in line.words)
    assert line.words[0].box[2] <= line.words[1].box[0]
    told = {file.path.name for file in result.save(tmp_path / "out")}
    assert {"text.txt", "words.csv", "text.json", "line-proof.png", "line-words.png"} == told
    assert json.loads((tmp_path / "out" / "text.json").read_text())["lines"][0]["words"][1]["text"] == "2040"


def test_a_lexicon_and_a_beam_change_words_only_as_they_should(reader, tmp_path):
    fixtures.picture(tmp_path / "line.png", "Total 2040", 24)
    (tmp_path / "words.txt").write_text("Total\nTonal\n2041\n2040\n")
    for changed in ({"lexicon": str(tmp_path / "words.txt")}, {"decode": "beam"}):
        assert reader.predict(images=tmp_path / "line.png", **changed).text == "Total 2040"
    (tmp_path / "words.txt").write_text("Tonal\n9940\n")
    assert reader.predict(images=tmp_path / "line.png", lexicon=str(tmp_path / "words.txt")).text == "Tonal 9940"


def test_words_below_the_threshold_are_marked(reader, tmp_path):
    fixtures.picture(tmp_path / "line.png", "Total 2040", 24)
    strict, lenient = (reader.predict(images=tmp_path / "line.png", check=c) for c in (1.0, 0.0))
    assert strict.summary()["to be checked"] == 2
    assert lenient.summary()["to be checked"] == 0


def test_alpha_sixteen_bits_and_exif_are_read_as_they_are_seen(tmp_path):
    grey = np.full((30, 90), 60000, np.uint16)
    grey[10:20, 20:40] = 500
    Image.fromarray(grey).save(tmp_path / "deep.png")
    assert read_upright(tmp_path / "deep.png").float().std() > 20
    clear = np.zeros((30, 90, 4), np.uint8)
    clear[10:20, 20:40, 3] = 255
    Image.fromarray(clear).save(tmp_path / "clear.png")
    seen = read_upright(tmp_path / "clear.png")
    assert seen[0, 0, 0] == 255
    assert seen[0, 15, 30] == 0
    turned = Image.new("L", (30, 90), 200)
    exif = turned.getexif()
    exif[0x0112] = 6
    turned.save(tmp_path / "turned.jpg", exif=exif)
    assert read_upright(tmp_path / "turned.jpg").shape == (3, 30, 90)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"images": np.full((4, 4, 3), np.nan)}, "not from 0 to 1"),
        ({"images": "nowhere.png"}, "nowhere.png does not exist"),
        ({"lexicon": "nowhere.txt"}, "nowhere.txt does not exist"),
        ({"check": 2.0}, "check is a confidence from 0 to 1"),
        ({"images": []}, "no picture given to read"),
    ],
)
def test_bad_inputs_are_refused_in_a_sentence(change, said, reader):
    with pytest.raises(VergenceError, match=said):
        reader.predict(**{"images": np.full((20, 60, 3), 255, np.uint8), **change})


def test_a_lexicon_with_a_strange_character_is_refused(reader, tmp_path):
    (tmp_path / "words.txt").write_text("häuser\n")
    with pytest.raises(VergenceError, match="'häuser' with 'ä'"):
        reader.predict(images=np.full((20, 60, 3), 255, np.uint8), lexicon=str(tmp_path / "words.txt"))


def test_bad_settings_are_refused():
    for make, said in (
        (lambda: ModelConfig(alphabet="aa"), "each once"),
        (lambda: ModelConfig(channels=(1, 2)), "seven channels"),
        (lambda: LossConfig(smoothing=1.0), "smoothing is below 1"),
        (lambda: Inputs(images=(Path("a.png"),), deskew=90), "0 to 30 degrees"),
    ):
        with pytest.raises(VergenceError, match=said):
            make()


def test_a_table_with_two_splits_has_a_validation_set_and_a_missing_one_is_named(tmp_path):
    for name in "ab":
        Image.new("L", (40, 20), 200).save(tmp_path / f"{name}.png")
    table = tmp_path / "labels.csv"
    table.write_text("file,text,split\na.png,one,train\nb.png,two,test\n")
    found = {split: layouts.folder(tmp_path, split) for split in ("train", "val", "test")}
    assert {split: own.texts for split, own in found.items()} == {"train": ("one",), "val": ("two",), "test": ("two",)}
    assert (found["val"].split, found["test"].split) == ("test", "")
    table.write_text("file,text,split\na.png,one,train\n")
    with pytest.raises(VergenceError, match=r"labels.csv has no file of the split val$"):
        layouts.folder(tmp_path, "val")
