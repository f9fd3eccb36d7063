"""Maps are read alike from every form, in every unit, and what is wrong with a file is said in a sentence."""

import json

import networkx as nx
import numpy as np
import pytest
from PIL import Image

from maps.roadmetrics.fixtures import _geojson, _graphml, _text, mask
from vergence.core.errors import VergenceError
from vergence.maps.data import LAYOUTS, Pair, in_pixels, matched, read_map
from vergence.maps.geometry import near
from vergence.maps.graph import road_graph
from vergence.maps.metrics import opt_p
from vergence.maps.raster import drawn, graph_of_mask
from vergence.maps.synth import city


def written(path, content):
    path.write_text(content)
    return path


@pytest.fixture
def plain(tmp_path):
    return read_map(written(tmp_path / "plain.graph", _text()))


def test_every_form_holds_the_same_roads(tmp_path, plain):
    assert len(plain) == 6
    for name, content in (("a.geojson", _geojson()), ("a.graphml", _graphml())):
        other = read_map(written(tmp_path / name, content))
        assert nx.is_isomorphic(other.to_networkx(), plain.to_networkx())
        assert other.length == pytest.approx(plain.length)


def test_an_edge_may_be_listed_once_and_lines_may_end_as_on_windows(tmp_path, plain):
    once = "0 0\n0 9\n\n0 1\n"
    assert read_map(written(tmp_path / "once.graph", once)).length == 9
    assert read_map(written(tmp_path / "crlf.graph", once.replace("\n", "\r\n"))).length == 9
    assert len(read_map(written(tmp_path / "none.graph", "\n"))) == 0


def test_lines_of_geojson_meet_where_they_share_a_vertex(tmp_path):
    lines = {"type": "MultiLineString", "coordinates": [[[0, 0], [10, 0, 7]], [[10, 0], [10, 10]], [[5, -5], [5, 5]]]}
    other = {"type": "Feature", "geometry": {"type": "Point", "coordinates": [1, 2]}, "properties": None}
    collection = {"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": lines}, other]}
    found = read_map(written(tmp_path / "a.geojson", json.dumps(collection)))
    assert len(found) == 3
    assert found.degrees.max() == 2  # roads that cross without a vertex do not meet


def test_the_geometry_of_a_graphml_edge_is_followed(tmp_path):
    text = _graphml([(0, 0), (10, 0)], [(0, 1)]).replace(
        '<edge source="n0" target="n1"/>',
        '<edge source="n0" target="n1"><data key="g">LINESTRING (0 0, 5 12, 10 0)</data></edge>',
    )
    text = text.replace("<graph id", '<key id="g" for="edge" attr.name="geometry" attr.type="string"/><graph id')
    assert read_map(written(tmp_path / "a.graphml", text)).length == 26


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.graph", "1 2\n3 x\n\n0 1\n", "the line '3 x' where a node"),
        ("a.graph", "1 2\n3 4\n\n0 1.5\n", "the line '0 1.5' where an edge"),
        ("a.graph", "1 2\n3 4\n\n0 7\n", "the edge 0 7 names a node that does not exist"),
        ("a.graph", "1 2\nnan 4\n\n0 1\n", "the node 1 is at"),
        ("a.graph", "1 2\n3 4\n", "no empty line"),
        ("a.graph", "0 0\n1 1\n2 2\n\n0 1\n1 0\n1 2\n", "in both directions but (1, 2) in one"),
        ("a.geojson", "{", "not readable JSON"),
        ("a.geojson", '{"type": "Topology"}', "found 'Topology'"),
        ("a.geojson", "[]", "is not GeoJSON"),
        ("a.geojson", '{"type": "LineString", "coordinates": [[0, 0], ["x", 1]]}', "not two numbers"),
        ("a.graphml", "<graphml>", "not readable GraphML"),
        ("a.graphml", _graphml(edges=[(0, 9)]), "without x and y"),
        ("a.graphml", _graphml(nodes=[("nan", 0), (1, 1)], edges=[(0, 1)]), "finite"),
        ("a.png", "no picture", "not a readable picture"),
        ("a.csv", "1,2", "is not a map"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_file(tmp_path, name, content, said):
    with pytest.raises(VergenceError) as refusal:
        read_map(written(tmp_path / name, content))
    assert said in str(refusal.value)
    assert name in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_metres_and_degrees_become_pixels():
    road = road_graph([(0, 0), (60, 0)], [(0, 1)])
    assert in_pixels(Pair("a", road, road), "metres", 0.6).truth.length == pytest.approx(100)
    # A thousandth of a degree of latitude is 111.2 m, of longitude at 60 degrees half of that.
    north = road_graph([(10, 60), (10, 60.001)], [(0, 1)])
    east = road_graph([(10, 60), (10.001, 60)], [(0, 1)])
    lengths = [in_pixels(Pair("a", g), "degrees", 1.0).truth.length for g in (north, east)]
    assert lengths == pytest.approx([111.2, 55.6], abs=0.1)
    with pytest.raises(VergenceError, match="longitude and latitude"):
        in_pixels(Pair("a", north, north), "pixels", 0.6)
    with pytest.raises(VergenceError, match="not longitude and latitude"):
        in_pixels(Pair("a", road_graph([(0, 0), (600, 0)], [(0, 1)])), "degrees", 0.6)


def test_folders_are_matched_by_name_whatever_the_form(tmp_path):
    for role, suffix, content in (("t", ".graph", _text()), ("p", ".thr20.geojson", _geojson())):
        (tmp_path / role).mkdir()
        for name in ("rome", "oslo"):
            written(tmp_path / role / f"{name}{suffix}", content)
    pairs = matched(tmp_path / "t", tmp_path / "p")
    assert [pairs[i].name for i in range(2)] == ["oslo", "rome"]
    written(tmp_path / "t" / "bonn.graph", _text())
    with pytest.raises(VergenceError, match="p has no map for bonn.graph"):
        matched(tmp_path / "t", tmp_path / "p")
    written(tmp_path / "t" / "rome.geojson", _geojson())
    with pytest.raises(VergenceError, match="two maps named 'rome'"):
        matched(tmp_path / "t", tmp_path / "p")
    with pytest.raises(VergenceError, match="a file and a folder"):
        matched(tmp_path / "t" / "bonn.graph", tmp_path / "p")


def test_a_method_without_its_city_is_refused(tmp_path):
    written(tmp_path / "rome.cnn.graph", _text())
    with pytest.raises(VergenceError, match=r"rome.cnn.graph but no rome.graph"):
        LAYOUTS["roadtracer"].read(tmp_path, "test")


# Masks ----------------------------------------------------------------------------------------------------------------


def test_a_mask_becomes_the_roads_it_was_drawn_from(tmp_path, plain):
    mask(tmp_path / "mask.png")
    found = read_map(tmp_path / "mask.png")
    assert set(near(plain.split(5.0).points, found, 8.0, 25.0).point) == set(range(len(plain.split(5.0).points)))
    assert set(near(found.split(5.0).points, plain, 4.0, 25.0).point) == set(range(len(found.split(5.0).points)))
    assert np.bincount(found.degrees)[[1, 3]].tolist() == [2, 2]
    assert opt_p(plain, found).agreement.f1 == 1


def test_a_city_survives_being_drawn_and_traced():
    graph = city(6, blocks=4)
    graph = graph.moved(graph.points + 50)
    found = graph_of_mask(drawn(graph, 480, 480, thickness=7))
    assert opt_p(graph, found).agreement.f1 == 1
    assert found.length == pytest.approx(graph.length, rel=0.03)


def test_any_byte_but_zero_is_road():
    odd = np.zeros((40, 60), np.uint8)
    odd[18:23, 5:55] = 255
    assert graph_of_mask(odd.view(bool)).length == pytest.approx(graph_of_mask(odd > 0).length)


def test_rings_dots_and_nothing_are_traced():
    empty = np.zeros((40, 40), bool)
    assert len(graph_of_mask(empty)) == 0
    empty[20, 20] = True
    assert len(graph_of_mask(empty)) == 0
    y, x = np.mgrid[:100, :100]
    ring = np.abs(np.hypot(x - 50, y - 50) - 30) < 4
    found = graph_of_mask(ring)
    assert found.length == pytest.approx(2 * np.pi * 30, rel=0.06)
    assert (found.degrees == 2).all()


def test_a_mask_of_any_mode_is_read(tmp_path):
    picture = Image.new("RGB", (60, 20))
    picture.paste("white", (5, 8, 55, 12))
    picture.save(tmp_path / "a.png")
    picture.convert("1").save(tmp_path / "b.png")
    assert read_map(tmp_path / "a.png").length == pytest.approx(read_map(tmp_path / "b.png").length)
    assert read_map(tmp_path / "a.png").length == pytest.approx(47, abs=4)
