"""Graphs by triangulation: planar, in both directions, and defined where there are no triangles."""

import itertools

import pytest
import torch

from vergence.ops.delaunay import delaunay_edges


def test_a_square_with_its_centre_has_its_sides_and_spokes():
    points = torch.tensor([[0.0, 0], [1, 0], [1, 1], [0, 1], [0.5, 0.5]])
    edges = {tuple(edge) for edge in delaunay_edges(points).tolist()}
    sides = {(0, 1), (1, 2), (2, 3), (3, 0)}
    spokes = {(4, corner) for corner in range(4)}
    assert edges == {pair for a, b in sides | spokes for pair in ((a, b), (b, a))}


@pytest.mark.parametrize("points", [[[0.0, 0], [1, 1], [2, 2], [5, 5]], [[3.0, 4], [1, 2]], [[1.0, 1]], []])
def test_points_without_triangles_are_all_joined(points):
    edges = delaunay_edges(torch.tensor(points).reshape(-1, 2))
    assert {tuple(edge) for edge in edges.tolist()} == set(itertools.permutations(range(len(points)), 2))


def test_two_points_at_one_place_are_joined_and_what_is_not_finite_is_refused():
    points = torch.tensor([[0.0, 0], [4, 0], [0, 4], [4, 0]])
    assert [1, 3] in delaunay_edges(points).tolist()
    with pytest.raises(ValueError, match="finite numbers"):
        delaunay_edges(torch.tensor([[0.0, torch.nan]]))
