"""Outputs and inputs of modules, recorded while a network runs."""

import torch
from torch import nn

from vergence.nn.probe import caught, cells


def test_outputs_and_inputs_of_modules_are_caught_and_no_hook_stays():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    x = torch.randn(4, 2)
    answer, seen = caught({"first": model[0]}, lambda: model(x))
    assert torch.equal(seen["first"].relu(), answer)
    assert torch.equal(caught({"second": model[1]}, lambda: model(x), inputs=True)[1]["second"], model[0](x))
    assert not model[0]._forward_hooks
    assert caught({"idle": nn.Linear(1, 1)}, lambda: model(x))[1] == {}


def test_points_lie_in_the_cells_that_cover_them():
    maps = torch.zeros(1, 1, 3, 4)
    assert cells(maps, [(0.0, 0.0), (0.99, 0.0), (0.0, 0.99), (1.0, 1.0)]).tolist() == [0, 3, 8, 11]
    assert cells(torch.zeros(1, 1, 5, 3, 4), [(0.5, 0.5)]).tolist() == [2 * 12 + 1 * 4 + 2]  # the middle frame
