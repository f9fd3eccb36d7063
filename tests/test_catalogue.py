"""Systems are found by name; nothing heavy is imported to say which there are."""

import subprocess
import sys

import pytest

from vergence import catalogue
from vergence.core.errors import VergenceError

LIGHT = """
import sys
import vergence
from vergence.cli.main import main
assert main({args!r}) == 0
heavy = [m for m in ("torch", "numpy", "scipy", "matplotlib") if m in sys.modules]
assert not heavy, heavy
"""


@pytest.mark.parametrize("args", [["list"], ["--help"], ["show", "snl"], [], ["list", "--json"], ["cite", "snl"]])
def test_these_answer_without_importing_torch(args):
    done = subprocess.run([sys.executable, "-c", LIGHT.format(args=args)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_systems_of_other_packages_are_found_by_entry_point():
    assert "fake-game" in catalogue.names()
    assert catalogue.about("fake-game").title == "A game"
    assert catalogue.load("fake-game").about.name == "fake-game"


def test_a_mistyped_name_answers_with_the_nearest():
    with pytest.raises(VergenceError, match=r"no system 'snk' \(did you mean 'snl'\?\)"):
        catalogue.load("snk")


def test_a_system_without_a_bench_has_none():
    assert catalogue.bench("fake-ruler") is None
    assert catalogue.bench("snl") is not None


def test_a_system_without_a_stored_picture_has_none():
    assert catalogue.picture("fake-ruler") is None
    assert catalogue.picture("roadmetrics").name == "picture.png"


def test_every_system_says_what_it_does_in_a_few_words():
    for name in catalogue.names():
        if catalogue.modules()[name].startswith("vergence."):
            assert 0 < len(catalogue.about(name).brief) <= 38
