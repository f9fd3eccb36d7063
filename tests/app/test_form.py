"""A form for every system of the catalogue, from its typed inputs alone."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

import pytest

from vergence import catalogue
from vergence.app.form import FILES, PICKED, SHOWN, filled, form, safe_text
from vergence.contract.inputs import Boxes, Cloud, Folder, Image, Images, Kind, Point, Points, Text, Video
from vergence.contract.system import System
from vergence.core.errors import VergenceError

NAMES = catalogue.names()


@dataclass(frozen=True)
class Everything:
    """One of each."""

    picture: Image
    """What to look at."""
    word: Text
    """What to say."""
    places: Points = ()
    """Where."""
    film: Video | None = None
    boxes: Boxes = ()
    cloud: Cloud | None = None
    kept: Text = ""
    """A file that keeps it."""
    number: int | None = None
    share: float = 0.5
    choice: Literal["a", "b"] = "a"


class Fake(System):
    settings = dataclasses.replace(catalogue.settings("snl"), inputs=Everything)

    def infer(self, ctx, model, inputs):
        return ()


@pytest.mark.parametrize("name", NAMES)
def test_every_system_that_predicts_has_a_form_and_no_other(name):
    system = catalogue.load(name)
    fields = form(system)
    assert bool(fields) == (system.offers("infer") and system.settings.inputs is not None)
    for field in fields:
        assert field.kind in (*FILES, *PICKED, Kind.NUMBER, Kind.CHOICE, Kind.TEXT)
        assert (field.kind in PICKED) == bool(field.on)
        if field.on:
            assert all(f.kind in SHOWN for f in fields if f.name in field.on)


@pytest.mark.parametrize("name", [n for n in NAMES if catalogue.load(n).settings.inputs])
def test_an_empty_form_is_one_sentence_or_the_defaults(name):
    system = catalogue.load(name)
    required = [field for field in form(system) if field.required]
    if required:
        with pytest.raises(VergenceError, match=f"{required[0].label} is missing"):
            filled(system, {})
        return
    try:
        assert isinstance(filled(system, {}), system.settings.inputs)
    except VergenceError as error:
        assert "give --" in str(error)  # one of several is needed


def test_places_are_chosen_on_the_picture_before_them_and_files_by_name_are_not_asked_for():
    fields = {field.name: field for field in form(Fake())}
    assert (fields["places"].on, fields["boxes"].on) == (("picture",), ("picture", "film"))
    assert "kept" not in fields
    assert (fields["picture"].required, fields["picture"].help) == (True, "What to look at.")
    assert (fields["number"].whole, fields["share"].whole) == (True, False)
    assert fields["choice"].choices == ("a", "b")


def test_what_was_given_becomes_typed_inputs():
    found = filled(Fake(), {"picture": "/x/a.png", "word": "hello", "places": [[1.0, 2.0]], "number": 3.0, "share": 1})
    assert found.picture.name == "a.png"
    assert found.places == (Point(1.0, 2.0),)
    assert (found.number, found.share, found.choice) == (3, 1.0, "a")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, "picture is missing: a picture is expected"),
        ({"picture": "a.png"}, "word is missing"),
        ({"number": 1.5}, "number expects a whole number, got 1.5"),
        ({"share": float("nan")}, "share expects a number"),
        ({"share": "1"}, "share expects a number"),
        ({"choice": "c"}, "choice expects one of a, b, got 'c'"),
        ({"word": "../secret"}, "word expects plain text"),
    ],
)
def test_wrong_values_are_one_sentence(values, sentence):
    good = {"picture": "a.png", "word": "hello"} if values and "picture" not in values else {}
    with pytest.raises(VergenceError, match=sentence):
        filled(Fake(), good | values)


@pytest.mark.parametrize("text", ["/etc/passwd", "a/b", "..", "~root", "C:\\x", "a\0b", " --weights=x", "x" * 2001])
def test_text_that_could_be_a_path_or_a_flag_is_refused(text):
    with pytest.raises(VergenceError, match="expects"):
        safe_text("word", text)


def test_plain_text_is_left_as_it_is():
    assert safe_text("word", "lite0, lite1 (both)") == "lite0, lite1 (both)"


def test_a_list_of_files_may_be_empty_where_others_are_given():
    system = catalogue.load("snl")
    found = filled(system, {"videos": ["/x/a.mp4"]})
    assert (found.images, [p.name for p in found.videos]) == ((), ["a.mp4"])
    with pytest.raises(VergenceError, match="images is missing"):
        filled(system, {"top": 3})


def test_help_is_read_from_the_source():
    help_of = {field.name: field.help for field in form(Fake()) + form(catalogue.load("snl"))}
    assert help_of["picture"] == "What to look at."
    assert help_of["images"].startswith("Picture files")


@dataclass(frozen=True)
class Nowhere:
    """Places without a picture."""

    places: Points
    folder: Folder | None = None
    pictures: Images = ()


def test_places_that_are_needed_without_a_picture_are_a_mistake_of_the_system():
    class Other(Fake):
        settings = dataclasses.replace(Fake.settings, inputs=Nowhere)

    with pytest.raises(VergenceError, match="asks for places but has no picture"):
        form(Other())
