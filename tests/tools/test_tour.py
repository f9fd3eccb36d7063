"""A tour shows every system that is ready on its own example."""

from vergence import catalogue
from vergence.cli.main import main
from vergence.tools.tour import tour


def test_ready_systems_are_run_and_others_show_their_stored_picture(tmp_path):
    page, (ready, other) = tour(tmp_path, ("csalr", "roadmetrics"))
    assert (ready.name, other.name) == ("roadmetrics", "csalr")
    assert ready.seconds is not None
    assert other.seconds is None
    assert all(artifact.path.is_file() for artifact in ready.files)
    text = page.read_text(encoding="utf-8")
    assert "vergence predict roadmetrics --truth truth.graph --prediction prediction.graph" in text
    assert "vergence.load(&#39;roadmetrics&#39;).predict(truth=&#39;truth.graph&#39;" in text
    assert text.count("data:image/jpeg;base64,") == 2


def test_the_command_writes_one_page_and_lists_what_it_ran(here, capsys):
    assert main(["tour", "csalr", "-o", "out", "--quiet"]) == 0
    assert "needs training" in capsys.readouterr().out
    assert (here / "out" / "index.html").is_file()


def test_examples_have_their_files_and_a_system_may_have_none():
    example = catalogue.example("sesiam")
    assert example["video"].endswith("example/astronaut.mp4")
    assert catalogue.example("fake-ruler") is None
