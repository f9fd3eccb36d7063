"""Files may ask for so much and no more."""

import pytest

from vergence.core.errors import VergenceError
from vergence.reading.budget import Budget, budget, current, within, within_expansion


def test_a_limit_is_named_with_the_amount_and_how_to_raise_it():
    with pytest.raises(VergenceError, match=r"a\.png has 200,000,000 pixels, more than the limit of 100,000,000"):
        within("pixels", 2e8, "a.png")
    with pytest.raises(VergenceError, match=r"VERGENCE_BUDGET=pixels=2e\+08 raises it"):
        within("pixels", 2e8, "a.png")
    within("pixels", 1e8, "a.png")


def test_limits_change_inside_a_block_and_by_the_environment(monkeypatch):
    before = current()
    with budget(pixels=10):
        with pytest.raises(VergenceError, match="more than the limit of 10"):
            within("pixels", 11, "a.png")
        with budget(points=5):
            assert (current().pixels, current().points) == (10, 5)
    assert current() == before == Budget()
    monkeypatch.setenv("VERGENCE_BUDGET", " pixels=3e8, points = 7 ")
    assert (current().pixels, current().points) == (3e8, 7)


@pytest.mark.parametrize(
    ("text", "message"),
    [("pixel=3", "no limit 'pixel'"), ("pixels=many", "is a number, got 'many'"), ("pixels=0", "at least 1, got 0")],
)
def test_a_budget_that_makes_no_sense_is_one_sentence(text, message, monkeypatch):
    monkeypatch.setenv("VERGENCE_BUDGET", text)
    with pytest.raises(VergenceError, match=message):
        current()
    monkeypatch.delenv("VERGENCE_BUDGET")
    with pytest.raises(VergenceError, match="no 'pixel'"), budget(pixel=3):
        pass


def test_small_files_may_grow_and_large_ones_only_by_a_factor():
    within_expansion(2e8, 10, "small.zip")
    within_expansion(1e9, 1e7, "plain.zip")
    with pytest.raises(VergenceError, match=r"bomb\.zip has 1,000 times its packed size when unpacked"):
        within_expansion(3e9, 3e6, "bomb.zip")
