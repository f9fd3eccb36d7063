"""Errors of displacement maps by their definition, and on perfect, wrong and empty input."""

import math

import torch

from vergence.metrics.displacement import endpoint_error, outliers


def test_the_end_point_error_is_the_mean_distance_over_valid_pixels():
    truth = torch.zeros(2, 3, 4)
    predicted = truth.clone()
    predicted[:, 0, 0] = torch.tensor([3.0, 4.0])
    assert math.isclose(endpoint_error(predicted, truth), 5 / 12, rel_tol=1e-6)
    valid = torch.zeros(3, 4, dtype=torch.bool)
    valid[0] = True
    assert math.isclose(endpoint_error(predicted, truth, valid), 5 / 4, rel_tol=1e-6)
    assert endpoint_error(truth, truth) == 0
    assert math.isnan(endpoint_error(predicted, truth, torch.zeros(3, 4, dtype=torch.bool)))


def test_disparity_has_no_direction():
    truth = torch.full((1, 2, 2), 10.0)
    assert endpoint_error(truth - 2, truth) == 2
    valid = torch.tensor([[[True, False], [False, False]]])
    assert endpoint_error(truth - 2, truth, valid) == 2


def test_an_outlier_is_off_by_three_pixels_and_by_a_twentieth():
    truth = torch.tensor([[10.0, 10.0, 100.0, 100.0]])
    predicted = truth + torch.tensor([[2.9, 3.1, 4.9, 5.1]])
    assert outliers(predicted, truth) == 50.0
    assert outliers(truth, truth) == 0.0
    assert outliers(truth + 50, truth) == 100.0


def test_outliers_of_flow_count_the_length_of_the_difference():
    truth = torch.zeros(1, 2, 1, 2)
    predicted = torch.tensor([[[[3.0, 2.0]], [[3.0, 2.0]]]])
    assert outliers(predicted, truth) == 50.0
    assert outliers(predicted, truth, torch.tensor([[[True, False]]])) == 100.0
