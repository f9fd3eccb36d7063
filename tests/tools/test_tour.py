"""A tour shows every system that is ready on its own example."""

import pytest

from vergence import catalogue
from vergence.cli.main import main
from vergence.cli.options import joined, read
from vergence.contract.inputs import make_inputs
from vergence.tools.tour import command_line, tour

WITH_EXAMPLE = [name for name in catalogue.names() if (catalogue.folder(name) / "example").is_dir()]


def test_ready_systems_are_run_and_others_show_their_stored_picture(tmp_path):
    page, (ready, other) = tour(tmp_path, ("ata", "roadmetrics"))
    assert (ready.name, other.name) == ("roadmetrics", "ata")
    assert ready.seconds is not None
    assert other.seconds is None
    assert all(artifact.path.is_file() for artifact in ready.files)
    text = page.read_text(encoding="utf-8")
    copies = [tmp_path / "roadmetrics" / "input" / f"{which}.graph" for which in ("truth", "prediction")]
    assert all(copy.is_file() for copy in copies)
    assert f"vergence predict roadmetrics {copies[0]} {copies[1]}" in text
    assert f"vergence.load(&#39;roadmetrics&#39;).predict(truth=&#39;{copies[0]}&#39;" in text
    assert text.count("data:image/jpeg;base64,") == 2


def test_the_command_writes_one_page_and_lists_what_it_ran(here, capsys):
    assert main(["tour", "ata", "-o", "out", "--quiet"]) == 0
    assert "needs training" in capsys.readouterr().out
    assert (here / "out" / "index.html").is_file()


def test_examples_have_their_files_and_a_system_may_have_none():
    example = catalogue.example("sesiam")
    assert example["video"].endswith("example/astronaut.mp4")
    assert catalogue.example("fake-ruler") is None


@pytest.mark.parametrize("name", WITH_EXAMPLE)
def test_the_command_that_is_shown_gives_the_inputs_of_the_example(name):
    kind = catalogue.settings(name).inputs
    example = {field: value for field, value in catalogue.example(name).items() if field != "gallery"}
    if "gallery" in catalogue.example(name):
        example["gallery"] = str(catalogue.folder(name) / "example")  # the tour copies its files into a folder
    words = command_line(name, example)
    assert words[:3] == ["vergence", "predict", name]
    parsed = read(joined(("inputs", kind)), words[3:], f"predict {name}", "")
    assert [parsed.inputs] == make_inputs(kind, example, "the example")
