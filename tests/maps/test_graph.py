"""Graphs are cleaned as documented, refused with a sentence where they cannot be, and do not depend on how they are
written down."""

import networkx as nx
import numpy as np
import pytest

from vergence.core.errors import VergenceError
from vergence.maps import geometry
from vergence.maps.geometry import closest, near, on_segments, stretches, within
from vergence.maps.graph import as_graph, from_networkx, road_graph
from vergence.maps.roads import Network, Places, roads, simplified
from vergence.maps.synth import city


def test_loops_repeats_lonely_nodes_and_doubles_go():
    points = [(0, 0), (10, 0), (10, 0), (50, 50), (10, 10)]
    graph = road_graph(points, [(0, 1), (1, 0), (0, 0), (2, 4), (1, 2)])
    assert len(graph.points) == 3
    assert len(graph) == 2
    assert sorted(graph.degrees.tolist()) == [1, 1, 2]
    assert graph.length == pytest.approx(20)


@pytest.mark.parametrize(
    ("points", "edges", "said"),
    [
        ([(0, 0), (float("nan"), 1)], [(0, 1)], "the node 1 is at"),
        ([(0, 0), (float("inf"), 1)], [(0, 1)], "finite"),
        ([(0, 0), (1, 1)], [(0, 2)], "the edge 0 2 names a node that does not exist"),
        ([(0, 0), (1, 1)], [(-1, 0)], "names a node that does not exist"),
        ([(0, 0), (1, 1)], [(0, 0.5)], "edges are node numbers"),
        ([(0, 0), (1, 1)], [("a", "b")], "edges are node numbers"),
        ([(0, 0, 3), (1, 1, 3)], [(0, 1)], "nodes are x, y"),
        ([(0, 0), (1,)], [(0, 1)], "nodes are x, y"),
    ],
)
def test_what_makes_no_graph_is_refused(points, edges, said):
    with pytest.raises(VergenceError, match=said):
        road_graph(points, edges)


def test_nodes_of_any_name_are_read_from_networkx():
    graph = nx.Graph()
    for name, pos in ((0, (0, 0)), ("north", (0, 10)), ((1, 2), (10, 10))):
        graph.add_node(name, pos=pos)
    graph.add_edges_from([(0, "north"), ("north", (1, 2))])
    found = from_networkx(graph)
    assert found.length == 20
    assert nx.is_isomorphic(found.to_networkx(), graph)
    assert from_networkx(nx.MultiDiGraph(graph)).length == 20


def test_a_node_without_a_place_and_what_is_no_graph_are_refused():
    graph = nx.path_graph(3)
    with pytest.raises(VergenceError, match=r"the node 0 of the truth has no pos=\(x, y\)"):
        as_graph(graph, "the truth")
    with pytest.raises(VergenceError, match="the truth is a int"):
        as_graph(3, "the truth")


def test_control_points_on_a_straight_road_vanish_and_bends_stay():
    line = road_graph([(0, 0), (3, 3), (7, 7), (10, 10), (10, 20)], [(0, 1), (1, 2), (2, 3), (3, 4)])
    assert len(line.canonical) == 2
    assert line.canonical.length == pytest.approx(line.length)
    ring = road_graph([(0, 0), (5, 0), (10, 0), (10, 10), (0, 10)], [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])
    assert len(ring.canonical) == 4


def test_the_canonical_order_survives_turning_and_renumbering():
    graph = city(5, blocks=4)
    order = np.random.default_rng(0).permutation(len(graph.points))
    number = np.argsort(order)
    turned = graph.points[order] @ np.array([[0.6, -0.8], [0.8, 0.6]]) + 100
    other = road_graph(turned, number[graph.edges])
    assert np.array_equal(graph.canonical.edges, other.canonical.edges)
    back = (other.canonical.points - 100) @ np.array([[0.6, 0.8], [-0.8, 0.6]])
    np.testing.assert_allclose(back, graph.canonical.points, atol=1e-9)


def test_pieces_are_even_and_short_enough_and_make_up_the_whole():
    graph = city(1, blocks=3)
    for cut in (graph.split(10.0), graph.halved(10.0)):
        assert cut.lengths.max() <= 10 + 1e-4
        assert cut.length == pytest.approx(graph.length)
        assert np.array_equal(cut.points[: len(graph.points)], graph.points)
        assert np.array_equal(np.bincount(cut.degrees)[3:], np.bincount(graph.degrees)[3:])
    assert road_graph([(0, 0), (100, 0)], [(0, 1)]).split(25.0).lengths.tolist() == [25] * 4
    assert len(road_graph([(0, 0), (101, 0)], [(0, 1)]).halved(25.0)) == 8


def test_a_window_cuts_edges_at_its_border():
    cross = road_graph([(-10, 5), (20, 5), (5, -10), (5, 20), (5, 5)], [(0, 4), (4, 1), (2, 4), (4, 3)])
    inside = cross.inside(0, 0, 10, 10)
    assert inside.length == pytest.approx(20)
    assert sorted(inside.degrees.tolist()) == [1, 1, 1, 1, 4]
    assert len(cross.inside(100, 100, 110, 110)) == 0


def test_near_finds_what_all_pairs_find():
    random = np.random.default_rng(3)
    graph = road_graph(random.uniform(0, 300, (40, 2)), random.integers(0, 40, (60, 2)))
    points = random.uniform(-20, 320, (50, 2))
    expected = set()
    for i, point in enumerate(points):
        start, end = (graph.points[graph.edges[:, k]] for k in (0, 1))
        distance = on_segments(np.broadcast_to(point, start.shape), start, end)[1]
        expected |= {(i, int(e)) for e in np.flatnonzero(distance <= 30)}
    for spacing in (None, 25.0):
        found = near(points, graph, 30.0, spacing)
        assert set(zip(found.point.tolist(), found.edge.tolist(), strict=True)) == expected
    first = closest(points, graph, 30.0)
    assert len(first.point) == len({i for i, _ in expected})


def test_trees_find_what_all_pairs_find(monkeypatch):
    random = np.random.default_rng(5)
    a, b = random.uniform(0, 300, (40, 2)), random.uniform(0, 300, (30, 2))
    graph = road_graph(random.uniform(0, 300, (20, 2)), random.integers(0, 20, (30, 2)))
    found = []
    for dense in (0, 10**9):
        monkeypatch.setattr(geometry, "DENSE", dense)
        pairs = sorted(zip(*(column.tolist() for column in within(a, b, 40.0)), strict=True))
        found.append((pairs, [column.tolist() for column in near(a, graph, 30.0, 25.0)]))
    assert found[0][0] == found[1][0]
    for one, other in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_stretches_are_where_an_edge_is_near_another():
    random = np.random.default_rng(2)
    for radius in (3.0, 40.0):
        a, b = (road_graph(random.uniform(0, 200, (12, 2)), random.integers(0, 12, (14, 2))) for _ in range(2))
        shares = np.linspace(0, 1, 401)
        for (own, other), found in zip(((a, b), (b, a)), stretches(a, b, radius), strict=True):
            for edge, (u, v) in enumerate(own.edges):
                line = own.points[u] + shares[:, None] * (own.points[v] - own.points[u])
                expected = np.isin(np.arange(401), near(line, other, radius).point)
                mine = found.edge == edge
                inside = ((found.low[mine] <= shares[:, None]) & (shares[:, None] <= found.high[mine])).any(1)
                assert np.array_equal(inside, expected)


def test_parallel_and_crossing_edges_are_near_up_to_the_radius_itself():
    road = road_graph([(0, 0), (100, 0)], [(0, 1)])
    for y, near_all in ((8.0, True), (-8.0, True), (8.001, False)):
        beside, _ = stretches(road, road_graph([(0, y), (100, y)], [(0, 1)]), 8.0)
        assert (beside.low.tolist(), beside.high.tolist()) == (([0.0], [1.0]) if near_all else ([], []))
    cross, _ = stretches(road, road_graph([(50, -50), (50, 50)], [(0, 1)]), 8.0)
    np.testing.assert_allclose([cross.low[0], cross.high[0]], [0.42, 0.58])
    end, _ = stretches(road, road_graph([(100, 0), (100, 50)], [(0, 1)]), 8.0)
    np.testing.assert_allclose([end.low[0], end.high[0]], [0.92, 1.0])


def test_a_node_under_a_bridge_belongs_to_its_own_road():
    below = road_graph([(-50, 0), (0, 0), (50, 10)], [(0, 1), (1, 2)])
    both = below.joined(road_graph([(0, -50), (0, 50)], [(0, 1)]))
    found = closest(np.zeros((1, 2)), both, 25.0)
    assert 0 < both.degrees[both.edges[found.edge[0]]].max() == 2
    assert found.share[0] in (0.0, 1.0)


def test_roads_hold_every_edge_once_and_end_at_junctions():
    graph = city(2, blocks=4).split(15.0)
    found = roads(graph)
    assert sorted(e for road in found for e in road.edges) == list(range(len(graph)))
    assert all((graph.degrees[road.nodes[1:-1]] == 2).all() for road in found)
    ring = road_graph([(0, 0), (10, 0), (10, 10), (0, 10)], [(0, 1), (1, 2), (2, 3), (3, 0)])
    assert [len(road.edges) for road in roads(ring)] == [4]


def test_ways_around_a_ring_and_between_islands():
    ring = road_graph(
        [(0, 0), (10, 0), (10, 10), (0, 10), (50, 50), (60, 50)], [(0, 1), (1, 2), (2, 3), (0, 3), (4, 5)]
    )
    edge = {tuple(e): i for i, e in enumerate(ring.edges.tolist())}
    start = Places(np.full(3, edge[0, 1]), np.full(3, 0.5))
    end = Places(np.array([edge[2, 3], edge[0, 1], edge[4, 5]]), np.array([0.5, 0.9, 0.5]))
    assert Network(ring).travel(start, end).tolist() == [20, 4, np.inf]


def test_simplification_stays_within_its_tolerance_and_keeps_junctions():
    graph = city(3, blocks=4).split(5.0)
    bent = graph.moved(graph.points + np.random.default_rng(0).normal(0, 0.5, graph.points.shape))
    simple = simplified(bent, 3.0)
    assert len(simple) < len(bent) / 4
    assert near(bent.points, simple, 3.0 + 1e-9).point.tolist() != []
    assert set(near(bent.points, simple, 3.0 + 1e-9, 25.0).point.tolist()) == set(range(len(bent.points)))
    assert np.array_equal(np.bincount(simple.degrees)[3:], np.bincount(bent.degrees)[3:])
