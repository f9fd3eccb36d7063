"""Surfaces from meshes and text."""

import numpy as np
import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.data.meshes import read_mesh, read_numbers, read_surface, sample_faces

SQUARE = "OFF\n4 1 0\n0 0 0\n2 0 0\n2 1 0\n0 1 0\n4 0 1 2 3\n"


def written(path, text):
    path.write_text(text)
    return path


def test_polygons_become_fans_of_triangles(tmp_path):
    vertices, faces = read_mesh(written(tmp_path / "a.off", SQUARE))
    assert vertices.tolist() == [[0, 0, 0], [2, 0, 0], [2, 1, 0], [0, 1, 0]]
    assert faces.tolist() == [[0, 1, 2], [0, 2, 3]]


@pytest.mark.parametrize("head", ["OFF4 1 0", "OFF 4 1 0", "# a comment\nOFF\n# another\n4 1 0", "COFF\n4 1 0"])
def test_headers_of_off_files_come_in_several_forms(head, tmp_path):
    body = SQUARE.split("\n", 2)[2]
    assert len(read_mesh(written(tmp_path / "a.off", f"{head}\n{body}"))[1]) == 2


def test_obj_indices_count_from_one_or_from_the_end(tmp_path):
    text = "v 0 0 0\nv 1 0 0\nv 0 1 0\nvn 0 0 1\nf 1//1 2//1 3//1\nf -3 -2 -1\n"
    assert read_mesh(written(tmp_path / "a.obj", text))[1].tolist() == [[0, 1, 2], [0, 1, 2]]


def test_points_on_faces_are_spread_by_area(tmp_path):
    vertices = torch.tensor([[0.0, 0, 0], [3, 0, 0], [0, 1, 0], [10, 0, 0], [11, 0, 0], [10, 1, 0]])
    faces = torch.tensor([[0, 1, 2], [3, 4, 5]])
    points = sample_faces(vertices, faces, 20_000, generator("faces"))
    assert float((points[:, 0] < 5).double().mean()) == pytest.approx(0.75, abs=0.01)
    own = points[points[:, 0] > 5] - vertices[3]
    assert (own.sum(1) <= 1 + 1e-6).all()
    assert own.mean(0)[:2].tolist() == pytest.approx([1 / 3, 1 / 3], abs=0.01)


def test_faces_without_area_give_vertices():
    vertices = torch.tensor([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]])
    points = sample_faces(vertices, torch.tensor([[0, 1, 2]]), 10, generator("flat"))
    assert {tuple(p) for p in points.tolist()} <= {tuple(v) for v in vertices.tolist()}


@pytest.mark.parametrize("binary", [False, True])
def test_ply_meshes_are_sampled_and_clouds_are_not(binary, tmp_path):
    form = "binary_little_endian" if binary else "ascii"
    xyz = "property float x\nproperty float y\nproperty float z\n"
    for faces, expected in ((2, 500), (0, 4)):
        head = f"ply\nformat {form} 1.0\nelement vertex 4\n{xyz}element face {faces}\n"
        head += "property list uchar int vertex_indices\nend_header\n"
        corners = [[0, 1, 2], [0, 2, 3]][:faces]
        points = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], "<f4")
        if binary:
            rows = b"".join(b"\x03" + np.array(row, "<i4").tobytes() for row in corners)
            body = points.tobytes() + rows
        else:
            rows = [" ".join(map(str, row)) for row in points.tolist()] + [f"3 {a} {b} {c}" for a, b, c in corners]
            body = ("\n".join(rows) + "\n").encode()
        path = tmp_path / f"{faces}.ply"
        path.write_bytes(head.encode() + body)
        assert read_surface(path, 500, generator(0)).shape == (expected, 3)


@pytest.mark.parametrize("text", ["1 2 3\n4 5 6\n", "1,2,3\n4,5,6", "2\n1 2 3 9\n4 5 6 9\n", "# x y z\n1;2;3\n4;5;6\n"])
def test_text_has_one_point_per_row(text, tmp_path):
    points = read_surface(written(tmp_path / "a.xyz", text), 9, generator(0))
    assert points.tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.off", "", "does not begin with OFF"),
        ("a.off", "OFF\n4 1 0\n0 0 0\n", "1 rows for 4 vertices and 1 faces"),
        ("a.off", SQUARE.replace("4 0 1 2 3", "4 0 1 2 9"), "names vertex 9 of 4"),
        ("a.off", SQUARE.replace("2 1 0", "2 x 0"), "not a complete .off mesh"),
        ("a.off", "OFF\n99999999999 1 0\n", "more than the limit"),
        ("a.obj", "v 0 0 0\nv 1 0 0\nf 1 2\n", "fewer than three corners"),
        ("a.obj", "f 1 2 3\n", "no vertices"),
        ("a.obj", "v 0 nan 0\nv 0 0 1\nv 0 1 0\nf 1 2 3", "not finite"),
        ("a.xyz", "1 2\n3 4\n", "row 1 has 2 numbers"),
        ("a.xyz", "1 2 3\n3 4\n", "row 2 has 2 numbers"),
        ("a.stl", "solid", "no cloud or mesh that can be read"),
    ],
)
def test_damaged_surfaces_are_refused_in_a_sentence(name, text, sentence, tmp_path):
    with pytest.raises(VergenceError, match=sentence) as refusal:
        read_surface(written(tmp_path / name, text), 10, generator(0))
    assert name in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_numbers_keep_all_columns(tmp_path):
    assert read_numbers(written(tmp_path / "a.txt", "1 2 3 4\n5 6 7 8\n")).shape == (2, 4)
