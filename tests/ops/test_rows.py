"""Weighted rows are gathers and sums, forward and backward."""

import torch
import torch.nn.functional as F

from vergence.ops.rows import bilinear_rows, weighted_rows


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_sums_of_rows_are_those_of_gathering():
    table, weight = noise(9, 4).requires_grad_(), noise(6, 3, seed=1).requires_grad_()
    index = torch.randint(0, 9, (6, 3), generator=torch.Generator().manual_seed(2))
    ours, theirs = weighted_rows(table, index, weight), (table[index] * weight.unsqueeze(-1)).sum(1)
    torch.testing.assert_close(ours, theirs)
    direction = noise(6, 4, seed=3)
    pairs = (torch.autograd.grad(side, (table, weight), direction, retain_graph=True) for side in (ours, theirs))
    for a, b in zip(*pairs, strict=True):
        torch.testing.assert_close(a, b)
    assert weighted_rows(table, index[:0], weight[:0]).shape == (0, 4)
    half = weighted_rows(table.detach().bfloat16(), index, weight.detach())
    torch.testing.assert_close(half.double(), theirs.detach(), rtol=0.05, atol=0.05)


def test_bilinear_rows_are_those_of_grid_sample():
    picture = noise(1, 3, 5, 7)
    places = 1.4 * noise(1, 1, 40, 2, seed=1)
    y, x = ((places[0, 0, :, 1] + 1) * 5 - 1) / 2, ((places[0, 0, :, 0] + 1) * 7 - 1) / 2
    for border in (False, True):
        mode = "border" if border else "zeros"
        theirs = F.grid_sample(picture, places, padding_mode=mode, align_corners=False)[0, :, 0].mT
        ours = weighted_rows(picture[0].flatten(1).mT, *bilinear_rows(y, x, 5, 7, border))
        torch.testing.assert_close(ours, theirs)
