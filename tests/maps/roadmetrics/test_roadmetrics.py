"""The commands: maps judged, drawn and refused; the study of the measures."""

import csv
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from maps.roadmetrics.fixtures import EDGES, NODES, _geojson, _text, layouts, mask
from vergence.cli.main import main
from vergence.maps.data import read_map
from vergence.maps.metrics import NAMES, Measures, compare
from vergence.maps.roadmetrics.bench import against_plain, pair, table
from vergence.maps.roadmetrics.settings import PRESETS

QUICK = ["--measures.subgraphs.starts", "20", "--measures.trips.pairs", "30", "--measures.repeats", "1", "--quiet"]


def judged(args, capsys):
    assert main(["eval", "roadmetrics", *args, *QUICK, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["metrics"]


def test_two_files_are_judged(here, capsys):
    (here / "t.graph").write_text(_text())
    (here / "p.geojson").write_text(_geojson(edges=EDGES[:-1]))
    found = judged(["--truth", "t.graph", "--prediction", "p.geojson"], capsys)
    assert set(NAMES) <= set(found)
    assert found["opt_j_precision"] == 1
    assert 0 < found["opt_p_recall"] < 1
    swapped = judged(["--truth", "p.geojson", "--prediction", "t.graph"], capsys)
    assert swapped["opt_p_precision"] == found["opt_p_recall"]


def test_the_table_stands_upright(here, capsys):
    (here / "t.graph").write_text(_text())
    assert main(["eval", "roadmetrics", "--truth", "t.graph", "--prediction", "t.graph", *QUICK]) == 0
    out = capsys.readouterr().out
    assert re.search(r"OPT-P precision\s+│\s+1\.000", out)
    assert max(map(len, out.splitlines())) <= 80


def test_folders_are_judged_together(here, capsys):
    layouts["folder"]["graph"](here / "data")
    (here / "data" / "prediction" / "west.graph").write_text(_text(edges=EDGES[:3]))
    both = judged(["--truth", "data/truth", "--prediction", "data/prediction"], capsys)
    assert judged(["--data", "data"], capsys) == both
    graphs = [read_map(here / "data" / role / "west.graph") for role in ("truth", "prediction")]
    alone = compare(*graphs, Measures(repeats=1)).opt_p.recall
    assert both["opt_p_recall"] == pytest.approx((1 + alone) / 2)


def test_a_window_and_a_unit_are_taken_into_account(here, capsys):
    (here / "t.graph").write_text(_text())
    (here / "p.graph").write_text(_text(edges=EDGES[:-1]))
    args = ["--truth", "t.graph", "--prediction", "p.graph"]
    assert judged([*args, "--data.window", "0", "0", "430", "200"], capsys)["opt_p_recall"] == 1
    assert judged([*args, "--data.unit", "metres"], capsys)["ccq_recall"] < 1


@pytest.mark.parametrize(
    ("city", "left", "top"),
    [("vancouver", -4096, -4096), ("New_York", -4096, -4096), ("boston", 4096, -4096), ("chicago", -4096, -8192)],
)
def test_each_city_is_judged_in_the_window_that_the_authors_chose(city, left, top, here, capsys):
    """The prediction has the road just inside the window, but not the one in its border nor the one outside."""
    inside = [(left + x, top + y) for x, y in ((260, 300), (7932, 300), (4000, 7932))]
    border = [(left + 200, top + 1000), (left + 200, top + 3000)]
    outside = [(left + 8300, top + 1000), (left + 8300, top + 3000)]
    (here / "fake").mkdir()
    edges = [(0, 1), (1, 2), (3, 4), (5, 6)]
    (here / "fake" / f"{city}.graph").write_text(_text(inside + border + outside, edges))
    (here / "fake" / f"{city}.mine.graph").write_text(_text(inside, edges[:2]))
    found = judged(["--data", "roadtracer:fake", "--data.window", "published"], capsys)
    assert [found[name] for name in NAMES] == pytest.approx([1.0] * len(NAMES))
    assert judged(["--data", "roadtracer:fake"], capsys)["ccq_recall"] < 1
    assert PRESETS["paper"].data.window == "published"


def test_without_a_published_window_or_a_road_in_it_a_city_is_refused(here, capsys):
    (here / "fake").mkdir()
    for city in ("atlantis", "boston"):  # at the origin, where Boston's window does not reach
        for name in (f"{city}.graph", f"{city}.mine.graph"):
            (here / "fake" / name).write_text(_text())
        args = ["eval", "roadmetrics", "--data", "roadtracer:fake", "--data.window", "published", *QUICK]
        assert main(args) == 2
        said = " ".join(capsys.readouterr().err.replace("│", " ").split())
        expected = {"atlantis": "no window is published for the map 'atlantis'",
                    "boston": "the window 4356 -3836 12028 3836 holds no road of the map 'boston'"}  # fmt: skip
        assert expected[city] in said
        for path in (here / "fake").iterdir():
            path.unlink()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--truth", "t.graph"], "both --truth and --prediction"),
        (["--truth", "no.graph", "--prediction", "t.graph"], "no.graph does not exist"),
        (["--truth", "t.graph", "--prediction", "."], "a file and a folder"),
        (["--data", "maps:t.graph"], "has no prediction to evaluate"),
        (["--truth", "t.graph", "--prediction", "t.graph", "--data.metres-a-pixel", "0"], "above 0"),
        (["--truth", "t.graph", "--prediction", "t.graph", "--measures.opt-p.snap", "-1"], "snap > 0"),
    ],
)
def test_what_does_not_fit_is_refused_with_exit_code_2(args, said, here, capsys):
    (here / "t.graph").write_text(_text())
    assert main(["eval", "roadmetrics", *args, "--quiet"]) == 2
    assert said in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_drawings_tables_and_the_map_are_written(here, capsys):
    (here / "t.graph").write_text(_text())
    mask(here / "p.png", edges=EDGES[:-1])
    assert main(["predict", "roadmetrics", "t.graph", "p.png", "--image", "p.png", "-o", "out", "--quiet"]) == 0
    made = {p.name for p in (here / "out").iterdir()}
    assert made == {
        "overlay.png", "overlay.svg", "map.html", "mistakes.geojson", "scores.csv", "prediction-conversion.png"
    }  # fmt: skip
    mistakes = json.loads((here / "out" / "mistakes.geojson").read_text())["features"]
    missed = [np.array(f["geometry"]["coordinates"]) for f in mistakes if f["properties"]["mistake"] == "missed"]
    start, end = np.array(NODES[2]), np.array(NODES[5])  # the road that is not in the prediction
    assert sum(np.linalg.norm(np.diff(m, axis=0), axis=1).sum() for m in missed) == pytest.approx(
        np.linalg.norm(end - start), abs=45
    )
    page = (here / "out" / "map.html").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))
    assert [layer["name"] for layer in data["layers"]] == ["found", "missed", "invented"]
    assert "http" not in page
    rows = dict(csv.reader((here / "out" / "scores.csv").open()))
    assert float(rows["OPT-P precision"]) == 1


def test_a_map_that_is_named_like_markup_does_no_harm(here):
    name = "<script>alert(1)<script>.graph"
    (here / name).write_text(_text())
    assert main(["predict", "roadmetrics", name, name, "-o", "out", "--quiet"]) == 0
    assert "<script>alert" not in (here / "out" / "map.html").read_text()


def test_every_score_falls_as_the_study_says(here, capsys):
    found = judged(["--errors.kind", "interruptions", "--data.cities", "1"], capsys)
    assert found["ccq"] == found["junct"] == 1
    assert all(found[f"{name}_few"] > found[name] for name in ("opt_p", "opt_j", "opt_g"))


def test_mistakes_are_put_into_crops_of_a_map_that_is_given(here, capsys):
    from vergence.maps.synth import city

    graph = city(0, blocks=14)
    (here / "town.graph").write_text(_text(graph.points.tolist(), graph.edges.tolist()))
    args = ["--data", "maps:town.graph", "--data.cities", "1", "--errors.kind", "doubled"]
    assert judged(args, capsys)["opt_p"] < 1


@pytest.mark.slow
def test_fast_and_plain_measures_agree_on_a_larger_city():
    for name, (ours, theirs) in against_plain(*pair(5)).items():
        np.testing.assert_allclose(ours(), theirs(), atol=1e-9, err_msg=name)


@pytest.mark.slow
def test_the_table_of_a_city_has_a_row_for_every_measure_of_the_public_code(tmp_path):
    for name, graph in zip(("t", "p"), pair(4), strict=True):
        (tmp_path / f"{name}.graph").write_text(_text(graph.points.tolist(), graph.edges.tolist()))
    rows = list(table(tmp_path / "t.graph", tmp_path / "p.graph"))
    assert [row.split()[1] for row in rows[1:]] == ["OPT-P", "OPT-J", "OPT-G", "SUBG", "CCQ", "TLTS"]


@pytest.mark.slow
def test_real_roads_agree_with_themselves():
    folder = os.environ.get("VERGENCE_ROADS")
    if not folder:
        pytest.skip("VERGENCE_ROADS names no folder with CITY.graph")
    for path in sorted(Path(folder).glob("*.graph")):
        graph = read_map(path)
        for name, value in compare(graph, graph, Measures(repeats=1)).headline.items():
            assert value == pytest.approx(1, abs=1e-3), (path.name, name)
