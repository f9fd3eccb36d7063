"""Strips do not depend on colours, labels stay in their alphabet, and rendered characters are where they are said."""

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.documents.alphabets import ALPHANUMERIC, PRINT
from vergence.documents.lines import MARGIN, Alphabet, Lines, labels, strip
from vergence.documents.printed import printed


def test_alphabets_have_each_symbol_once_and_texts_come_back():
    assert len(set(PRINT)) == len(PRINT) == 98
    assert len(ALPHANUMERIC) == 36
    own = Alphabet(PRINT)
    assert own.decode(own.encode("Total: 3,50 €")) == "Total: 3,50 €"
    assert Alphabet(ALPHANUMERIC).decode(Alphabet(ALPHANUMERIC).encode("HoTeL24")) == "hotel24"


def test_unknown_characters_are_refused_skipped_or_removed():
    own = Alphabet(ALPHANUMERIC)
    with pytest.raises(VergenceError, match="has the character"):
        labels(["ok", "it's"], own, "refuse")
    assert labels(["ok", "it's"], own, "skip") == ([0], ["ok"])
    assert labels(["ok", "it's"], own, "remove") == ([0, 1], ["ok", "its"])
    with pytest.raises(VergenceError, match="none of the 2 texts"):
        labels(["", "!"], own, "remove")


def test_a_strip_is_the_same_for_ink_of_any_colour():
    picture = torch.full((3, 20, 60), 230.0)
    picture[:, 5:15, 10:14] = 30
    plain = strip(picture.byte(), 32, 100)
    torch.testing.assert_close(strip(255 - picture.byte(), 32, 100), plain)
    torch.testing.assert_close(strip((picture * 0.5 + 60).byte(), 32, 100), plain, atol=0.02, rtol=0)
    assert plain.min() < 0
    assert plain.median() == 0


def test_a_strip_keeps_proportions_and_gets_margins():
    assert strip(torch.full((3, 16, 50), 200).byte(), 32).shape == (1, 32, 100 + 2 * MARGIN)
    assert strip(torch.zeros(3, 1, 1).byte(), 32).isfinite().all()


def test_batches_are_padded_with_paper_and_labels_with_minus_one():
    data = Lines.of(printed("lines", 4, "train", 32, 200, 0.0), Alphabet(PRINT), "refuse", 32, 0, True)
    source = torch.Generator().manual_seed(0)
    batch = data.collate([data.draw(k, source) for k in range(4)])
    widest = batch["image"].shape[-1]
    assert batch["target"].shape == (4, int(batch["length"].max()))
    for k in range(4):
        assert (batch["target"][k, : batch["length"][k]] > 0).all()
        assert (batch["target"][k, batch["length"][k] :] == -1).all()
    assert widest <= 1.3 * 200 + 2 * MARGIN + 1
    assert sorted(i for b in data.batches(2, source) for i in b) == [0, 1, 2, 3]


def test_rendered_characters_have_their_ink_in_their_extent():
    data = printed("words", 12, "train", 32, 100, 0.0)
    for sample in (data[k] for k in range(12)):
        values = strip(sample.picture, 32, 100)[0]
        assert len(sample.extents) == len(sample.text)
        assert (sample.extents[:, 1] > sample.extents[:, 0]).all()
        for left, right in sample.extents.tolist():
            assert values[:, max(int(left), 0) : int(right) + 1].min() < -0.8, sample.text


def test_test_words_are_other_pictures_than_training_words():
    one, other = (printed("words", 6, split, 32, 100, 1.0) for split in ("train", "test"))
    assert one.texts != other.texts
    assert not torch.equal(one.images, other.images)
