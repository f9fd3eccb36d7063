"""What a visitor does, without the page: clicks, files, an order carried out in its own process, and what is shown."""

from __future__ import annotations

import csv
import json
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from vergence import catalogue
from vergence.app import jobs, parts, picking, shelf
from vergence.app.demo import Demo, Gallery, clicks_of, sentence
from vergence.app.form import Field, form
from vergence.app.jobs import OUTPUTS, Job, Jobs
from vergence.app.limits import Limits
from vergence.app.work import work
from vergence.contract.inputs import Artifact, Kind
from vergence.core.errors import VergenceError
from vergence.data.video import write_video
from vergence.studies import results


@pytest.fixture
def gallery(tmp_path):
    uploads = tmp_path / "uploads"
    uploads.mkdir()
    limits = Limits(folder_mb=1)
    made = Gallery(tmp_path / "runs", limits, uploads, Jobs(tmp_path / "jobs", limits))
    yield made
    made.jobs.close()


# Clicks ---------------------------------------------------------------------------------------------------------------


def test_a_click_is_a_place_in_the_picture_s_own_pixels():
    picture = Image.new("RGB", (1440, 720))  # shown at half its size
    clicks = picking.clicked(picture, Kind.POINTS, [], [100, 50])
    assert clicks == [[200.0, 100.0]]
    small = Image.new("RGB", (32, 16))  # shown ten times as large
    assert picking.clicked(small, Kind.POINTS, clicks, [160, 80])[1] == [16.0, 8.0]


def test_a_click_outside_is_put_on_the_edge():
    picture = Image.new("RGB", (1440, 720))
    assert picking.clicked(picture, Kind.POINTS, [], [-9, 9999]) == [[0.0, 719.0]]


def test_two_clicks_in_any_order_are_a_box():
    assert picking.boxes([[30, 40], [10, 10]]) == [[10, 10, 20, 30]]
    assert picking.boxes([[30, 40]]) == []
    assert picking.boxes([[5, 5], [5, 5], [0, 0], [8, 9]]) == [[0, 0, 8, 9]]


def test_what_was_chosen_is_drawn():
    picture = Image.new("RGB", (720, 720), "black")
    plain = np.asarray(picking.shown(picture, Kind.BOXES, []))
    boxed = np.asarray(picking.shown(picture, Kind.BOXES, [[100, 100], [300, 200]]))
    changed = (plain != boxed).any(2)
    rows, columns = np.nonzero(changed)
    assert (abs(rows.min() - 100) <= 3, abs(rows.max() - 200) <= 3) == (True, True)
    assert (abs(columns.min() - 100) <= 3, abs(columns.max() - 300) <= 3) == (True, True)
    assert not changed[150, 200]


def test_there_are_only_so_many_places():
    picture = Image.new("RGB", (720, 720))
    with pytest.raises(VergenceError, match="at most .* can be chosen"):
        picking.clicked(picture, Kind.POINTS, [[0.0, 0.0]] * picking.MOST, [1, 1])


def test_an_example_s_boxes_become_the_clicks_that_choose_them():
    one = Field("box", Kind.BOXES)
    assert picking.boxes(clicks_of([[10, 20, 30, 40]], one)) == [[10, 20, 30, 40]]


# Orders ---------------------------------------------------------------------------------------------------------------


def graph(path, text="0 0\n100 0\n100 100\n\n0 1\n1 0\n1 2\n2 1\n"):
    path.write_text(text)
    return str(path)


def test_a_prediction_runs_in_a_process_of_its_own_and_can_be_shown(gallery):
    demo = Demo(gallery, catalogue.load("roadmetrics"))
    given = {"truth": graph(gallery.uploads / "a.graph"), "prediction": graph(gallery.uploads / "b.txt")}
    job = demo.begin(given, "")
    end = time.monotonic() + 60
    while not job.over and time.monotonic() < end:
        time.sleep(0.1)
    assert (job.state, job.error) == ("done", "")
    assert {a.kind for a in job.made} & {"image", "html"}
    assert all(a.path.is_file() for a in job.made)
    page = parts.job(job, 0)
    assert f"/_/result/{job.token}/0" in page
    for path in (job.folder / OUTPUTS).rglob("*"):
        assert str(gallery.uploads.parent).encode() not in path.read_bytes()
    assert str(gallery.uploads.parent) not in page


@pytest.fixture
def untrained(gallery):
    """Weights of a preset of snl as nobody trained them: the id that the page's list has for them."""
    import torch

    from vergence.contract.identity import Identity
    from vergence.core.files import save_tensors
    from vergence.engine.weights import metadata
    from vergence.runs.folder import Run
    from vergence.runs.machine import Runtime
    from vergence.runs.order import Order

    def make(preset):
        system = catalogue.load("snl")
        config = system.configure(preset, "snl")
        run = Run.create(Order("snl", preset, "snl", config, Runtime(device="cpu")), gallery.runs)
        torch.manual_seed(0)
        facts = system.settings.facts(3, ("run", "sit", "walk"))
        identity = Identity("snl", preset, "snl", config, facts)
        save_tensors(
            run.folder / "last.safetensors", system.build(config, facts).state_dict(), metadata(identity, system)
        )
        return next(w.id for w in shelf.weights("snl", gallery.runs) if preset in w.title)

    return make


@pytest.fixture
def carried_out(gallery, monkeypatch):
    """A function that orders a prediction and does it here, not in a process of its own: the job, and its page."""
    monkeypatch.setattr(gallery.jobs, "submit", lambda job: job)

    def carry(demo, given, weights):
        job = demo.begin(given, weights)
        monkeypatch.chdir(job.folder)
        work(job.folder)
        job.state, job.made = "done", jobs._made(job)
        page = parts.job(job, 0)
        for content in [page.encode(), *(p.read_bytes() for p in (job.folder / OUTPUTS).rglob("*") if p.is_file())]:
            assert str(gallery.uploads.parent).encode() not in content  # where things lie is nobody's business
        return job, page

    return carry


def person(path, seeds, folder=""):
    """A zip of frames, by default without a folder."""
    with zipfile.ZipFile(path, "w") as archive:
        for number, seed in enumerate(seeds):
            pixels = np.random.default_rng(seed).integers(0, 256, (32, 16, 3), dtype=np.uint8)
            with archive.open(f"{folder}{number}.png", "w") as file:
                Image.fromarray(pixels).save(file, "PNG")
    return str(path)


def test_a_video_is_labelled_and_shows_what_a_clicked_point_looks_at(gallery, untrained, carried_out):
    frames = np.random.default_rng(0).integers(0, 256, (6, 48, 64, 3), dtype=np.uint8)
    path = str(write_video(gallery.uploads / "my walk.mp4", frames, 10.0))
    demo = Demo(gallery, catalogue.load("snl"))
    assert demo.picture(demo.field("videos"), [path]).size == (64, 48)  # what is clicked on
    job, page = carried_out(demo, {"videos": [path], "points": [[32, 24]]}, untrained("tiny-video"))
    table, drawn = job.made
    with table.path.open() as file:
        _, row = csv.reader(file)
    assert row[0] == "my-walk.mp4"
    assert sorted(row[1::2]) == ["run", "sit", "walk"]
    assert sum(map(float, row[2::2])) == pytest.approx(1, abs=1e-3)
    with Image.open(drawn.path) as attention:
        assert len(attention.convert("RGB").getcolors(10**7)) > 100
    assert "my-walk.mp4" in page
    assert f"/_/result/{job.token}/1" in page


@pytest.mark.parametrize("form", ["one zip", "a zip a person"])
def test_a_tracklet_is_found_among_uploaded_ones(gallery, untrained, carried_out, form):
    """The query's frames are those of anna: nothing is nearer."""
    query = person(gallery.uploads / "query.zip", [1, 2, 3], "frames/")
    zips = [person(gallery.uploads / f"{name}.zip", seeds) for name, seeds in (("anna", [1, 2, 3]), ("bert", [7, 8]))]
    if form == "one zip":
        with zipfile.ZipFile(gallery.uploads / "people.zip", "w") as archive:
            for path in zips:
                with zipfile.ZipFile(path) as one:
                    for name in one.namelist():
                        archive.writestr(f"people/{Path(path).stem}/{name}", one.read(name))
        zips = [str(gallery.uploads / "people.zip")]
    demo = Demo(gallery, catalogue.load("snl"))
    job, page = carried_out(demo, {"query": [query], "gallery": zips, "top": 5}, untrained("tiny-reid"))
    assert [a.kind for a in job.made] == ["html", "image", "table", "image"]
    with job.made[2].path.open() as file:
        _, *rows = csv.reader(file)
    assert [row[:3] for row in rows] == [["query", "1", "anna"], ["query", "2", "bert"]]
    assert float(rows[0][3]) == pytest.approx(0, abs=1e-3)
    assert "bert" in job.made[0].path.read_text()
    assert f'src="/_/result/{job.token}/0"' in page


@pytest.mark.parametrize(
    ("preset", "given", "said"),
    [
        ("tiny-video", {"query": "query.zip"}, "no video given to predict on"),
        ("tiny-reid", {"query": "query.zip"}, "there is no query"),
        ("tiny-reid", {"query": "query.zip", "gallery": "query.zip"}, "gallery holds no tracklets"),
    ],
)
def test_what_the_weights_cannot_use_is_said(gallery, untrained, carried_out, preset, given, said):
    person(gallery.uploads / "query.zip", [1])
    given = {name: [str(gallery.uploads / file)] for name, file in given.items()}
    with pytest.raises(VergenceError, match=said):
        carried_out(Demo(gallery, catalogue.load("snl")), given, untrained(preset))


def test_only_the_inputs_that_fit_the_weights_are_shown(gallery, untrained):
    demo = Demo(gallery, catalogue.load("snl"))
    assert demo.takes("") == set()  # nothing can run yet
    assert demo.takes(untrained("tiny-video")) == {"videos", "points"}
    assert demo.takes(untrained("tiny-reid")) == {"query", "gallery", "top", "points"}
    assert not demo.example_fields() <= {"videos", "points"}  # the example is a picture
    assert demo.example_fields() <= demo.takes(untrained("tiny"))


def test_a_system_that_cannot_run_yet_says_so_on_its_tile(gallery, untrained):
    demo = Demo(gallery, catalogue.load("snl"))
    assert not demo.ready()
    waiting = {name: shelf.waits(name, gallery.runs) for name in catalogue.names()}
    assert waiting["snl"] == "to be trained first (about 2 minutes)"
    assert (waiting["flot"], waiting["roadmetrics"]) == ("", "")  # starter weights; no weights needed
    page = parts.cards(shelf.systems(), waiting)
    assert page.count('class="waits"') == sum(map(bool, waiting.values()))
    untrained("tiny")
    assert demo.ready()
    assert shelf.waits("snl", gallery.runs) == ""
    assert all(Demo(gallery, catalogue.load(name)).ready() for name in ("flot", "roadmetrics", "patchwise"))


def test_a_wrong_input_leaves_nothing_behind(gallery):
    demo = Demo(gallery, catalogue.load("roadmetrics"))
    with pytest.raises(VergenceError, match="prediction is missing"):
        demo.begin({"truth": graph(gallery.uploads / "a.graph")}, "")
    with pytest.raises(VergenceError, match="only files that were uploaded here"):
        demo.begin({"truth": "/etc/passwd", "prediction": "/etc/passwd"}, "")
    assert not list(gallery.jobs.folder.glob("*/*"))


def test_without_weights_the_offer_names_the_minutes(gallery, tmp_path):
    assert "about 2 minutes" in Demo(gallery, catalogue.load("snl")).offer()
    Image.new("RGB", (8, 8)).save(gallery.uploads / "a.png")
    demo, pictures = Demo(gallery, catalogue.load("bld")), [str(gallery.uploads / "a.png")]
    with pytest.raises(VergenceError, match="no trained weights of bld yet"):
        demo.begin({"images": pictures}, "")


@pytest.mark.parametrize("id", ["../../etc", "/etc/passwd", "no-such-run"])
def test_weights_are_picked_from_the_list_and_nothing_else(gallery, id):
    demo = Demo(gallery, catalogue.load("snl"))
    (gallery.runs / "snl").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(gallery.uploads / "a.png")
    with pytest.raises(VergenceError, match="no trained weights"):
        demo.begin({"images": [str(gallery.uploads / "a.png")]}, id)


def test_uploads_together_are_bounded(gallery):
    gallery.room.reserve(900_000, gallery)
    with pytest.raises(VergenceError, match="no room for more uploads"):
        gallery.room.reserve(200_000, gallery)
    gallery.room.release(900_000)
    (gallery.uploads / "a").write_bytes(bytes(200_000))
    with pytest.raises(VergenceError, match="no room for more uploads"):
        gallery.room.reserve(900_000, gallery)


def test_whatever_goes_wrong_is_a_sentence(capsys):
    def broken():
        raise RuntimeError("secret")

    assert sentence(lambda: 3) == (3, "")
    found, told = sentence(broken)
    assert found is None
    assert "secret" not in told
    assert "RuntimeError: secret" in capsys.readouterr().err


@pytest.mark.parametrize("name", [n for n in catalogue.names() if form(catalogue.load(n))])
def test_the_example_of_a_system_is_what_its_form_takes(gallery, name):
    demo = Demo(gallery, catalogue.load(name))
    if not demo.has_example:
        pytest.skip(f"{name} has no example")
    given = demo.example()
    assert set(given) <= {field.name for field in demo.fields}
    for field in demo.fields:
        if field.required:
            assert field.name in given
        if field.name in given and field.kind.value in (
            "image",
            "images",
            "video",
            "videos",
            "cloud",
            "graph",
            "folder",
        ):
            assert demo.checked(field, given[field.name])


def test_numbers_are_not_shown_as_words(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((4, 3)))
    job = Job("x", "prediction", [], 1, tmp_path, state="done")
    job.made = [Artifact("table", tmp_path / "a.npy", "numbers")]
    assert "<pre>" not in parts.job(job, 0)
    assert "a.npy" in parts.job(job, 0)


# What is shown --------------------------------------------------------------------------------------------------------


def test_every_system_has_a_picture_even_where_nothing_was_run(tmp_path):
    for name in catalogue.names():
        found = shelf.picture(name, tmp_path)
        assert found.is_file() if found else shelf.drawn(catalogue.about(name)).startswith("<svg")


def test_words_and_tasks_choose_systems():
    pages = shelf.systems()
    assert {page.name for page in catalogue.matching(pages, "", "")} == set(catalogue.names())
    assert [page.name for page in catalogue.matching(pages, "OPTIMAL flow", "")] == ["flot"]
    tracking = {page.name for page in catalogue.matching(pages, "", "tracking")}
    assert "sesiam" in tracking
    assert "flot" not in tracking
    assert catalogue.matching(pages, "flot", "tracking") == []


def test_reports_are_listed_newest_first_and_opened_only_from_the_list(tmp_path):
    for stamp in ("20260101-000000-tiny", "20260301-000000-tiny"):
        folder = tmp_path / "snl" / "reports" / stamp
        folder.mkdir(parents=True)
        (folder / "report.html").write_text("x")
    (tmp_path / "secret.html").write_text("x")
    found = shelf.reports("snl", tmp_path)
    assert [r.title for r in found] == [
        "all variants: tiny, 01 March 2026, 00:00",
        "all variants: tiny, 01 January 2026, 00:00",
    ]
    assert shelf.report("snl", found[0].id, tmp_path) == found[0]
    assert shelf.report("snl", "comparison-../../secret", tmp_path) is None


@pytest.mark.parametrize("name", catalogue.names())
def test_claims_have_a_verdict_each(name, tmp_path):
    found = shelf.claims(name, tmp_path)
    assert len(found) == len(catalogue.load(name).claims)
    page = parts.claims(catalogue.about(name), found)
    assert page.count('<article class="claim') == len(found)


@pytest.mark.parametrize("name", catalogue.names())
def test_the_stored_table_is_shown_as_it_was_measured(name):
    stored, table = results.run(name), shelf.table(name)
    assert (stored is None) == (table is None)
    if table is None:
        assert parts.measured(catalogue.about(name), None, "") == ""
        return
    assert table.rows[0][0] in parts.measured(catalogue.about(name), table, "")
    assert len(table.rows) == len(stored.rows)
    metrics = catalogue.load(name).metrics
    first = next(m for m in metrics if any(m in row.metrics for row in stored.rows.values()))
    for (_, cells), row in zip(table.rows, stored.rows.values(), strict=True):
        values = [v for v in row.metrics.get(first, ()) if v is not None]
        assert cells[0][0].startswith(f"{np.mean(values):.{metrics[first].digits}f}" if values else "–")
    assert table.command == stored.command


def test_everything_that_was_typed_or_read_is_escaped(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"<script>": 1}))
    job = Job("x", "prediction", [], 1, tmp_path, state="done")
    job.made = [Artifact("json", tmp_path / "a.json", "<b>bold</b>"), Artifact("text", tmp_path / "none", "gone")]
    page = parts.job(job, 0) + parts.wrong("<script>") + parts.uploaded([SimpleNamespace(name="<i>", about="&")])
    assert "<script>" not in page
    assert "<b>bold" not in page
    assert "<i>" not in page


def test_a_job_says_where_it_is():
    job = Job("x", "training", [], 1)
    assert "2 jobs are before this one" in parts.job(job, 2)
    job.state, job.began = "running", time.monotonic()
    job.progress.start("steps", 10)
    assert "steps 0 of 10" in parts.job(job, 0)
    job.state, job.error = "failed", "no such thing"
    assert "no such thing" in parts.job(job, 0)
