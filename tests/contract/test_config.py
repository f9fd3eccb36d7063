"""Configs: to JSON and back, overridden by dotted names, and strict about both."""

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Literal

import pytest

from vergence.contract.config import differences, digest, documented, from_json, override, to_json
from vergence.core.errors import VergenceError


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    rate: float = 0.1
    kind: Literal["a", "b", 1] = "a"


@dataclass(frozen=True)
class Outer:
    count: int
    inner: Inner = Inner()
    many: tuple[int, ...] = ()
    pair: tuple[float, str] = (1.0, "x")
    where: Path | None = None
    weights: dict[str, float] = field(default_factory=dict)
    colour: Colour = Colour.RED
    flag: bool = False


FULL = Outer(3, Inner(0.5, "b"), (1, 2), (2.0, "y"), Path("p"), {"w": 1.0}, Colour.RED, True)


def test_a_config_survives_json():
    assert from_json(Outer, to_json(FULL)) == FULL
    assert from_json(Outer, {"count": 1}) == Outer(1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "config needs 'count', a whole number"),
        ({"count": 1, "innr": {}}, r"no field 'innr' \(did you mean 'inner'"),
        ({"count": "three"}, "config.count expects whole number, got 'three'"),
        ({"count": True}, "config.count expects a whole number, got True"),
        ({"count": 1.5}, "config.count expects"),
        ({"count": 1, "inner": {"rate": "fast"}}, "config.inner.rate expects number"),
        ({"count": 1, "inner": {"rate": float("nan")}}, "config.inner.rate expects a number, got nan"),
        ({"count": 1, "inner": {"kind": "c"}}, "expects 'a' or 'b' or 1, got 'c'"),
        ({"count": 1, "inner": {"kind": True}}, "expects 'a' or 'b' or 1, got True"),
        ({"count": 1, "many": [1, "2"]}, r"config\.many\.1 expects"),
        ({"count": 1, "pair": [1]}, "config.pair expects 2 values"),
        ({"count": 1, "weights": {"w": None}}, r"config\.weights\.w expects"),
        ({"count": 1, "colour": "blue"}, "expects 'red', got 'blue'"),
        ([], "config expects an object"),
        ({"count": 1, "where": 3}, "config.where expects"),
    ],
)
def test_what_is_wrong_is_named(given, said):
    with pytest.raises(VergenceError, match=said):
        from_json(Outer, given)


def test_override_replaces_by_dotted_name_and_leaves_the_rest():
    changed = override(FULL, {"inner.rate": 0.9, "many": [7]})
    assert (changed.inner, changed.many, changed.count) == (Inner(0.9, "b"), (7,), 3)
    assert FULL.inner.rate == 0.5


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"inner.rat": 1}, "no config field 'inner.rat'"),
        ({"inner.rate": "x"}, "inner.rate expects number"),
        ({"count.x": 1}, "no config field 'count.x'"),
    ],
)
def test_override_refuses_what_is_not_there_or_does_not_fit(changes, said):
    with pytest.raises(VergenceError, match=said):
        override(FULL, changes)


def test_differences_are_by_dotted_name():
    assert differences(FULL, override(FULL, {"inner.rate": 0.9})) == {"inner.rate": (0.5, 0.9)}
    assert differences(FULL, FULL) == {}


def test_equal_configs_have_equal_digests_and_others_do_not():
    assert digest(FULL) == digest(from_json(Outer, to_json(FULL)))
    assert digest(FULL) != digest(override(FULL, {"count": 4}))


@dataclass(frozen=True)
class _Cat:
    lives: int = 9


@dataclass(frozen=True)
class _Dog:
    tricks: int = 0
    name: str = ""


@dataclass(frozen=True)
class _Owner:
    pet: _Cat | _Dog = _Cat()


def test_of_several_dataclasses_the_one_with_the_given_fields_is_read_and_its_errors_are_told():
    for owner in (_Owner(), _Owner(_Dog(3, "Rex"))):
        assert from_json(_Owner, to_json(owner)) == owner
    with pytest.raises(VergenceError, match=r"config.pet.tricks expects whole number, got 'roll'"):
        from_json(_Owner, {"pet": {"tricks": "roll", "name": "Rex"}})
    with pytest.raises(VergenceError, match=r"config.pet expects _Cat or _Dog"):
        from_json(_Owner, {"pet": {"wings": 2}})


@dataclass(frozen=True)
class _Documented:
    rate: float = 0.1
    """Of the
    optimiser."""
    steps: int = 1
    seed: int = 0


@dataclass(frozen=True)
class _Inheriting(_Documented):
    steps: int = 2
    """In all."""
    warmup: int = 0
    """At first."""


def test_the_docstrings_of_fields_are_read_from_the_source():
    assert documented(_Documented) == {"rate": "Of the optimiser.", "steps": ""}
    assert documented(_Inheriting) == {"rate": "Of the optimiser.", "steps": "In all.", "warmup": "At first."}
    assert documented(type("Made", (), {})) == {}
