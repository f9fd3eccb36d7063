"""Overlaps and Soft-NMS of spans equal their plain forms; scores never rise."""

import math

import pytest
import torch

from vergence.ops import spans as spans_module
from vergence.ops.spans import pairwise_span_iou, soft_nms_spans, span_iou
from vergence.reference import spans as plain


def drawn(count, seed, duration=1.0):
    source = torch.Generator().manual_seed(seed)
    ends = torch.rand(count, 2, generator=source, dtype=torch.float64).sort(-1).values * duration
    return ends, torch.rand(count, generator=source, dtype=torch.float64)


def test_the_overlap_equals_its_definition_and_is_zero_for_empty_spans():
    first, second = drawn(7, 0)[0], drawn(9, 1)[0]
    expected = [[plain.iou(tuple(a), tuple(b)) for b in second.tolist()] for a in first.tolist()]
    torch.testing.assert_close(pairwise_span_iou(first, second), torch.tensor(expected, dtype=torch.float64))
    assert float(span_iou(torch.tensor([2.0, 2.0]), torch.tensor([2.0, 2.0]))) == 0


@pytest.fixture(params=["compiled", "in PyTorch"])
def kernel(request, monkeypatch):
    if request.param == "in PyTorch":
        monkeypatch.setattr(spans_module, "_kernel", lambda: None)
    elif spans_module._kernel() is None:
        pytest.skip("numba is not installed")


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("seed", range(4))
def test_soft_nms_equals_the_loop_over_spans_in_every_row_of_a_batch(seed):
    rows = [drawn(60, seed * 10 + k, duration=8.0) for k in range(3)]
    spans, scores = (torch.stack(part) for part in zip(*rows, strict=True))
    index, lowered = soft_nms_spans(spans, scores, 0.4, (0.3, 0.9), duration=8.0, most=25)
    for row in range(3):
        expected = plain.soft_nms([tuple(s) for s in spans[row].tolist()], scores[row].tolist(), 0.4, 0.3, 0.9, 8.0, 25)
        assert index[row].tolist() == [i for i, _ in expected]
        assert lowered[row].tolist() == pytest.approx([s for _, s in expected])
        assert (lowered[row] <= scores[row][index[row]]).all()


@pytest.mark.usefixtures("kernel")
def test_a_vanishing_sigma_is_hard_suppression():
    spans, scores = drawn(80, 3)
    index, lowered = soft_nms_spans(spans[None], scores[None], 1e-9, (0.5, 0.5), most=80)
    kept = index[0][lowered[0] > 0]
    ranked = scores.argsort(descending=True)
    expected = []
    for candidate in ranked.tolist():
        if all(plain.iou(tuple(spans[candidate].tolist()), tuple(spans[k].tolist())) <= 0.5 for k in expected):
            expected.append(candidate)
    assert kept.tolist() == expected


@pytest.mark.usefixtures("kernel")
def test_rows_with_fewer_spans_than_asked_for_end_in_none():
    spans, scores = drawn(5, 4)
    scores[3:] = -math.inf
    index, lowered = soft_nms_spans(spans[None], scores[None], most=7)
    assert sorted(index[0, :3].tolist()) == [0, 1, 2]
    assert index[0, 3:].tolist() == [-1] * 4
    assert torch.isinf(lowered[0, 3:]).all()


@pytest.mark.parametrize("change", [{"sigma": 0.0}, {"most": 0}, {"scores": torch.zeros(2, 4)}])
def test_wrong_arguments_are_named(change):
    arguments = {"spans": torch.zeros(1, 5, 2), "scores": torch.zeros(1, 5)} | change
    with pytest.raises(ValueError, match="got"):
        soft_nms_spans(**arguments)
