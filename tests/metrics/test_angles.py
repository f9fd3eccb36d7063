import math

import pytest
import torch

from vergence.metrics.angles import axis_errors, shares_within


def test_errors_are_angles_without_sign_and_length():
    truth = torch.tensor([[0.0, 0.0, 1.0]]).expand(3, 3)
    found = torch.tensor([[0.0, 0.0, -2.0], [0.0, 3.0, 3.0], [1.0, 0.0, 0.0]])
    assert axis_errors(found, truth).tolist() == pytest.approx([0, 45, 90])


def test_small_errors_keep_their_digits():
    found = torch.tensor([[math.sin(1e-8), 0.0, math.cos(1e-8)]], dtype=torch.float64)
    assert float(axis_errors(found, torch.tensor([[0.0, 0.0, 1.0]]))[0]) == pytest.approx(math.degrees(1e-8), rel=1e-6)


def test_shares_count_errors_at_the_limit():
    assert shares_within(torch.tensor([1.0, 2.0, 3.0, 100.0]), (1.0, 2.5, 90.0)) == [25, 50, 75]
    assert all(math.isnan(share) for share in shares_within(torch.zeros(0)))
