"""Errors in closed form on perfect, known and random input."""

import math

import torch

from vergence.metrics.oriented import affinity_error, fitted_plane, normal_angle, symmetric_epipolar_distance


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_affinities_differ_by_the_frobenius_norm():
    A = noise(5, 2, 2)
    torch.testing.assert_close(affinity_error(A, A), torch.zeros(5).double())
    other = A + torch.tensor([[3.0, 0.0], [0.0, 4.0]])
    torch.testing.assert_close(affinity_error(other, A), torch.full((5,), 5.0).double())


def test_angles_are_right_at_both_ends_and_between():
    z = torch.tensor([0.0, 0.0, -2.0]).double()
    for degrees in (0.0, 1e-6, 30.0, 90.0, 179.0, 180.0):
        turned = torch.tensor(
            [math.sin(math.radians(degrees)), 0.0, -math.cos(math.radians(degrees))], dtype=torch.float64
        )
        assert abs(float(normal_angle(turned, z)) - degrees) < 1e-9


def test_epipolar_distances_of_a_rectified_pair_are_row_differences():
    F = torch.tensor([[0.0, 0, 0], [0, 0, -1], [0, 1, 0]]).double()
    x, y = 100 * noise(9, 2), 100 * noise(9, 2, seed=1)
    torch.testing.assert_close(symmetric_epipolar_distance(F.expand(9, 3, 3), x, y), (x - y)[:, 1].abs())


def test_epipolar_distances_are_distances_from_the_two_lines():
    F, x, y = noise(4, 3, 3), noise(4, 2, seed=1), noise(4, 2, seed=2)
    for i in range(4):
        far = []
        for matrix, here, there in ((F[i], x[i], y[i]), (F[i].mT, y[i], x[i])):
            a, b, c = matrix @ torch.tensor([*here, 1.0]).double()
            far.append(float((a * there[0] + b * there[1] + c).abs() / (a * a + b * b).sqrt()))
        wanted = math.sqrt((far[0] ** 2 + far[1] ** 2) / 2)
        assert abs(float(symmetric_epipolar_distance(F[i], x[i], y[i])) - wanted) < 1e-9


def test_a_plane_is_found_through_noise_free_points():
    u, v = noise(20, 1), noise(20, 1, seed=1)
    points = u * torch.tensor([1.0, 0, 2.0]) + v * torch.tensor([0.0, 1.0, -1.0]) + 5
    normal, away = fitted_plane(points)
    wanted = torch.nn.functional.normalize(torch.tensor([2.0, -1.0, -1.0]).double(), dim=0)
    torch.testing.assert_close((normal @ wanted).abs(), torch.tensor(1.0).double())
    assert away.max() < 1e-12
