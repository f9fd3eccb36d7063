"""What a run leaves in a system's results folder: its table, its costs and one picture, each with how it was made."""

import json

import numpy as np
import pytest
from PIL import Image

from helpers import short, start
from vergence import catalogue
from vergence.core.errors import VergenceError
from vergence.core.progress import Progress
from vergence.engine.execute import execute
from vergence.runs import versions
from vergence.studies import results, traces
from vergence.studies.subject import Subject


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Systems keep their results below a folder of the test's own."""
    monkeypatch.setattr(catalogue, "folder", lambda name: tmp_path / name)
    monkeypatch.setattr(versions, "commit", lambda: "abc")
    named = lambda system, folder, needs, *rest: {traces.name_of(need): "seal" for need in needs}  # noqa: E731
    monkeypatch.setattr(traces, "keep", named)
    return tmp_path


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    system, root = catalogue.load("snl"), tmp_path_factory.mktemp("runs")
    made = {}
    for variant in ("none", "snl"):
        config = short(system, 2, {"data.count": 60, "train.batch": 8}, variant=variant)
        made[variant] = [start("snl", config, root, variant)]
        execute(made[variant][0], Progress())
    return Subject(system, "tiny", made)


def test_what_is_stored_is_what_the_runs_gave(subject, place):
    results.store_run(subject, "vergence run snl", Progress())
    kept = results.run("snl")
    for variant, runs in subject.runs.items():
        row = kept.rows[variant]
        assert {m: list(v) for m, v in row.metrics.items()} == {m: [v] for m, v in runs[0].metrics.items()}
        assert row.cost.parameters == sum(p.numel() for p in catalogue.load("snl").build(runs[0].order.config,
            catalogue.load("snl").settings.facts(2, ("different", "same"))).parameters())  # fmt: skip
    assert (kept.preset, kept.command) == ("tiny", "vergence run snl")
    assert kept.environment.packages["torch"]
    assert kept.traces == {"tiny/none/s0": "seal", "tiny/snl/s0": "seal"}
    picture = results.picture("snl")
    assert picture.caption
    assert picture.command == "vergence run snl"
    assert (place / "snl" / "results" / "picture.png").stat().st_size <= results.LARGEST


def test_a_title_picture_outlives_later_runs_unless_one_of_theirs_is_asked_for(subject, place):
    Image.new("RGB", (30, 20), "red").save(place / "title.png")
    results.store_picture("snl", place / "title.png", "Drawn for the wall.", "python docs/picture.py snl")
    results.store_run(subject, "vergence run snl", Progress())
    assert results.picture("snl").caption == "Drawn for the wall."
    results.store_run(subject, "vergence run snl --picture attention", Progress(), "attention")
    assert results.picture("snl").command == "vergence run snl --picture attention"


def test_a_picture_that_the_report_does_not_have_is_refused_before_anything_is_written(subject, place):
    with pytest.raises(VergenceError, match=r"has no picture 'atention' \(did you mean 'attention'\?\)"):
        results.store_run(subject, "vergence run snl", Progress(), "atention")
    assert not (place / "snl").exists()


def test_a_picture_that_cannot_be_packed_is_made_smaller_until_it_travels(place, monkeypatch):
    monkeypatch.setattr(results, "LARGEST", 9_000)
    noise = np.random.default_rng(0).integers(0, 256, (120, 160, 3), dtype=np.uint8)
    place.joinpath("a.png").parent.mkdir(exist_ok=True)
    Image.fromarray(noise).save(place / "a.png")
    path = results.store_picture("snl", place / "a.png", "Noise.", "python noise.py")
    with Image.open(path) as kept:
        assert kept.width / kept.height == pytest.approx(4 / 3, rel=0.02)
        assert kept.width < 160
    assert 3_000 < path.stat().st_size <= results.LARGEST


def test_a_bench_is_kept_as_it_was_found(place):
    contest = {"system": "snl", "contest": "a", "rival": "b", "ratio": 2.0, "low": 1.5, "high": 2.5, "memory": None}
    results.store_bench("snl", [contest], [], "vergence bench snl", 1)
    kept = results.bench("snl")
    assert kept.contests == (contest,)
    assert kept.environment.threads == 1


def test_what_is_not_stored_is_none_and_what_is_damaged_is_named(place):
    assert (results.run("snl"), results.bench("snl"), results.picture("snl")) == (None, None, None)
    folder = place / "snl" / "results"
    folder.mkdir(parents=True)
    (folder / "picture.json").write_text(json.dumps({"caption": "x"}))
    with pytest.raises(VergenceError, match=r"picture\.json"):
        results.picture("snl")
