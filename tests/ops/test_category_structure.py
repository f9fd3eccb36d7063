"""Category structure: values and gradients against loops, and the degenerate batches."""

import pytest
import torch

from vergence.ops.category_structure import (
    centre_cosines,
    class_centres,
    groups,
    inter_distance,
    inter_structure,
    intra_distance,
    intra_structure,
)
from vergence.reference import category_structure as plain

LABELS = torch.tensor([7, 2, 2, 7, 7, 0])


def noise(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_centres_are_class_means_in_the_order_of_labels():
    features = noise(6, 3, 2, 2)
    expected = torch.stack([features[5], features[[1, 2]].mean(0), features[[0, 3, 4]].mean(0)]).flatten(1)
    torch.testing.assert_close(class_centres(features, LABELS), expected)
    torch.testing.assert_close(plain.centres(features.flatten(1), LABELS), expected)
    assert groups(LABELS).classes.tolist() == [0, 2, 7]


def test_two_samples_lie_opposite_each_other_about_their_centre():
    residual = intra_structure(torch.tensor([[1.0, 0.0], [3.0, 4.0]]), torch.tensor([5, 5]))
    torch.testing.assert_close(residual, torch.tensor([[-1.0, -2.0], [1.0, 2.0]]))


@pytest.mark.parametrize(("norm", "expected"), [("fro", (10**0.5 + 0) / 2), ("mse", 10 / 6)])
def test_the_intra_distance_of_a_batch_worked_by_hand(norm, expected):
    """Class 0 differs from the teacher by (1, 2) and (-1, -2) about its centre, class 1 has one sample."""
    student = torch.tensor([[1.0, 2.0], [-1.0, -2.0], [9.0, 9.0]])
    found = intra_distance(student, torch.zeros(3, 2), torch.tensor([0, 0, 1]), norm)
    assert found.item() == pytest.approx(expected)


@pytest.mark.parametrize(("norm", "expected"), [("fro", 2**0.5), ("mse", 0.5)])
def test_the_inter_distance_of_a_batch_worked_by_hand(norm, expected):
    """Centres at right angles against centres in one direction: two of four cosines differ by 1."""
    student, teacher = torch.eye(2), torch.tensor([[1.0, 0, 0], [2.0, 0, 0]])
    assert inter_distance(student, teacher, torch.tensor([3, 4]), norm).item() == pytest.approx(expected)


@pytest.mark.parametrize("norm", ["fro", "mse"])
def test_gradients_are_those_of_finite_differences(norm):
    student, teacher = noise(6, 4).requires_grad_(), noise(6, 4, seed=1)
    for distance in (intra_distance, inter_distance):
        assert torch.autograd.gradcheck(lambda x, d=distance: d(x, teacher, LABELS, norm), student)


def test_classes_that_are_absent_have_no_effect():
    """Numbers of the others do not matter either: the mean is over the classes of the batch."""
    student, teacher = noise(6, 4), noise(6, 4, seed=1)
    for distance in (intra_distance, inter_distance):
        few = distance(student, teacher, torch.tensor([0, 1, 1, 0, 0, 2]))
        torch.testing.assert_close(distance(student, teacher, torch.tensor([0, 500, 500, 0, 0, 999])), few)


def test_one_sample_of_each_class_gives_zero_with_a_zero_gradient():
    student = noise(6, 4).requires_grad_()
    loss = intra_distance(student, noise(6, 4, seed=1), torch.arange(6))
    loss.backward()
    assert loss == 0
    assert (student.grad == 0).all()


def test_a_perfect_copy_has_zero_distances_with_finite_gradients():
    student = noise(6, 4).requires_grad_()
    loss = intra_distance(student, student.detach(), LABELS) + inter_distance(student, student.detach(), LABELS)
    loss.backward()
    assert loss == 0
    assert (student.grad == 0).all()


def test_dead_features_have_cosine_zero_and_finite_gradients():
    student = torch.zeros(6, 4, requires_grad=True)
    loss = inter_distance(student, noise(6, 4, seed=1).float(), LABELS)
    loss.backward()
    assert loss.isfinite()
    assert (student.grad == 0).all()
    assert (centre_cosines(torch.zeros(3, 2)) == 0).all()


def test_second_derivatives_are_refused_instead_of_wrong():
    student = noise(6, 4).requires_grad_()
    (first,) = torch.autograd.grad(intra_distance(student, noise(6, 4, seed=1), LABELS), student, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_half_precision_is_summed_in_full():
    student, teacher = (1000 * noise(64, 512, seed=n) for n in range(2))
    labels = torch.arange(64) % 4
    for distance in (intra_distance, inter_distance):
        low = distance(student.bfloat16(), teacher.bfloat16(), labels)
        assert low.dtype == torch.float32
        torch.testing.assert_close(low.double(), distance(student, teacher, labels), rtol=0.02, atol=1e-3)
        with torch.autocast("cpu", torch.bfloat16):
            whole = distance(student.float(), teacher.float(), labels)
        torch.testing.assert_close(whole.double(), distance(student, teacher, labels), rtol=1e-4, atol=1e-4)


def test_cosines_of_a_batch_of_one_class_are_one():
    assert inter_structure(noise(3, 5), torch.tensor([4, 4, 4])).tolist() == [[pytest.approx(1.0)]]
