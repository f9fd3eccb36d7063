"""Distances between student and teacher: against definitions by loops, and closed forms."""

import math

import pytest
import torch
import torch.nn.functional as F

from vergence.ops.distilling import correlation_congruence, relational_angle, relational_distance, soft_targets


def noise(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_soft_targets_are_the_divergence_of_softened_answers():
    student, teacher = noise(5, 4), noise(5, 4, seed=1)
    p, q = (teacher / 3).softmax(1), (student / 3).softmax(1)
    expected = 9 * sum((p[i] * (p[i] / q[i]).log()).sum() for i in range(5)) / 5
    torch.testing.assert_close(soft_targets(student, teacher, 3.0), expected)
    assert soft_targets(teacher + 7, teacher, 3.0).abs() < 1e-12  # a common offset of logits says nothing


def test_hot_targets_match_centred_logits():
    """Hinton et al.: as the temperature grows, gradients become those of half the mean squared difference."""
    student, teacher = noise(5, 4).requires_grad_(), noise(5, 4, seed=1)
    (hot,) = torch.autograd.grad(soft_targets(student, teacher, 1e4), student)
    difference = student.detach() - teacher
    expected = (difference - difference.mean(1, keepdim=True)) / (4 * 5)
    torch.testing.assert_close(hot, expected, atol=1e-5, rtol=1e-3)


def test_congruence_compares_gaussian_kernels_of_unit_vectors():
    student, teacher = noise(5, 3), noise(5, 6, seed=1)
    total = 0.0
    for i in range(5):
        for j in range(5):
            a, b = (F.normalize(x, dim=1) for x in (student, teacher))
            total += float(
                ((-0.4 * (a[i] - a[j]).square().sum()).exp() - (-0.4 * (b[i] - b[j]).square().sum()).exp()) ** 2
            )
    assert correlation_congruence(student, teacher).item() == pytest.approx(total / 25)


def test_relational_distances_are_relative_to_their_mean():
    student, teacher = noise(5, 3), noise(5, 6, seed=1)
    far = [torch.cdist(x, x) for x in (student, teacher)]
    expected = F.smooth_l1_loss(*(d / d[~torch.eye(5, dtype=torch.bool)].mean() for d in far))
    torch.testing.assert_close(relational_distance(student, teacher), expected, atol=1e-9, rtol=1e-6)
    assert relational_distance(3 * teacher + 5, teacher) < 1e-12


def angles(x):
    n = len(x)
    found = torch.zeros(n, n, n, dtype=x.dtype)
    for i in range(n):
        for j in range(n):
            for k in range(n):
                if i not in (j, k):
                    found[i, j, k] = F.cosine_similarity(x[j] - x[i], x[k] - x[i], dim=0)
    return found


def test_relational_angles_are_those_between_three_samples():
    student, teacher = noise(5, 3), noise(5, 6, seed=1)
    expected = F.smooth_l1_loss(angles(student), angles(teacher))
    torch.testing.assert_close(relational_angle(student, teacher), expected)
    assert relational_angle(3 * teacher + 5, teacher) < 1e-12


@pytest.mark.parametrize("loss", [correlation_congruence, relational_distance, relational_angle])
def test_gradients_are_those_of_finite_differences_and_finite_for_equal_samples(loss):
    student, teacher = noise(5, 3).requires_grad_(), noise(5, 4, seed=1)
    assert torch.autograd.gradcheck(lambda x: loss(x, teacher), student, atol=1e-4)
    same = torch.ones(4, 3, requires_grad=True)
    loss(same, teacher[:4].float()).backward()
    assert same.grad.isfinite().all()
    assert math.isfinite(loss(teacher[:1], teacher[:1]))
