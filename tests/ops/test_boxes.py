"""Boxes by their definitions: overlaps, codes, anchors and suppression."""

import math

import pytest
import torch

from vergence.ops import boxes as boxes_module
from vergence.ops.boxes import anchors, clipped, decoded, encoded, nms, overlap, pairwise_iou, soft_nms


def some(count, seed=0, size=100.0):
    source = torch.Generator().manual_seed(seed)
    low = torch.rand(count, 2, generator=source, dtype=torch.float64) * size
    return torch.cat([low, low + 5 + torch.rand(count, 2, generator=source, dtype=torch.float64) * size / 4], 1)


def plain_iou(a, b):
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    common = max(width, 0) * max(height, 0)
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


def plain_nms(boxes, scores, threshold, groups):
    kept = []
    for index in sorted(range(len(boxes)), key=lambda i: -scores[i]):
        if all(groups[index] != groups[other] or plain_iou(boxes[index], boxes[other]) <= threshold for other in kept):
            kept.append(index)
    return kept


def test_overlaps_are_those_of_the_definition():
    first, second = some(7), some(5, 1)
    table = pairwise_iou(first, second)
    expected = [[plain_iou(a, b) for b in second.tolist()] for a in first.tolist()]
    torch.testing.assert_close(table, torch.tensor(expected, dtype=torch.float64))


def test_overlaps_of_boxes_that_do_not_meet_differ_by_their_distance():
    box = torch.tensor([0.0, 0.0, 2.0, 2.0])
    near, far = torch.tensor([3.0, 0.0, 5.0, 2.0]), torch.tensor([8.0, 0.0, 10.0, 2.0])
    assert overlap(box, near) == overlap(box, far) == 0
    assert math.isclose(float(overlap(box, near, "giou")), -(10 - 8) / 10, rel_tol=1e-6)
    assert math.isclose(float(overlap(box, near, "diou")), -9 / 29, rel_tol=1e-6)
    for kind in ("giou", "diou", "ciou"):
        assert float(overlap(box, box, kind)) == pytest.approx(1.0)
        assert float(overlap(box, far, kind)) < float(overlap(box, near, kind))
    long = torch.tensor([0.0, 0.5, 2.0, 1.5])
    assert float(overlap(box, long, "ciou")) < float(overlap(box, long, "diou"))


@pytest.mark.parametrize("kind", ["iou", "giou", "diou"])
def test_overlaps_have_the_gradient_of_their_formula(kind):
    first, second = some(4).requires_grad_(), some(4, 0) + 1.5
    assert torch.autograd.gradcheck(lambda a: overlap(a, second, kind), first)


def test_boxes_without_area_overlap_nothing():
    flat = torch.tensor([[1.0, 1.0, 1.0, 4.0], [3.0, 3.0, 2.0, 2.0]])
    assert float(pairwise_iou(flat, torch.tensor([[0.0, 0.0, 9.0, 9.0]])).abs().max()) == 0
    assert torch.isfinite(pairwise_iou(flat, flat)).all()


def test_codes_come_back_as_boxes_and_growth_is_limited():
    boxes, around = some(20), some(20, 3)
    weights = (10.0, 10.0, 5.0, 5.0)
    torch.testing.assert_close(decoded(encoded(boxes, around, weights), around, weights), boxes)
    same = encoded(around, around)
    assert float(same.abs().max()) < 1e-12
    huge = decoded(torch.full((1, 4), 100.0), torch.tensor([[0.0, 0.0, 16.0, 16.0]]))
    assert float(huge[0, 2] - huge[0, 0]) == pytest.approx(1000, rel=1e-4)


def test_anchors_have_their_size_and_ratio_and_lie_on_the_grid():
    found = anchors(2, 3, 8.0, (32.0, 64.0), (0.5, 2.0)).reshape(2, 3, 4, 4)
    width, height = found[..., 2] - found[..., 0], found[..., 3] - found[..., 1]
    torch.testing.assert_close((width * height)[0, 0], torch.tensor([32.0**2, 64.0**2] * 2))
    torch.testing.assert_close((height / width)[0, 0], torch.tensor([0.5, 0.5, 2.0, 2.0]))
    centres = (found[..., :2] + found[..., 2:]) / 2
    torch.testing.assert_close(centres[1, 2, 0], torch.tensor([16.0, 8.0]))


def test_clipped_boxes_are_in_the_picture():
    assert clipped(torch.tensor([[-3.0, 2.0, 50.0, 99.0]]), 20, 30).tolist() == [[0, 2, 30, 20]]


@pytest.fixture(params=["compiled", "in PyTorch"])
def kernel(request, monkeypatch):
    if request.param == "in PyTorch":
        monkeypatch.setattr(boxes_module, "_kernel", lambda: None)
    elif boxes_module._kernel() is None:
        pytest.skip("numba is not installed")


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("count", [1, 10, 700])
@pytest.mark.parametrize("threshold", [0.1, 0.5])
def test_suppression_keeps_what_the_greedy_loop_keeps(count, threshold):
    boxes = some(count, size=60.0)
    source = torch.Generator().manual_seed(9)
    scores, groups = torch.rand(count, generator=source), torch.randint(0, 3, (count,), generator=source)
    plain = plain_nms(boxes.tolist(), scores.tolist(), threshold, groups.tolist())
    assert nms(boxes, scores, threshold, groups).tolist() == plain
    assert nms(boxes, scores, threshold, groups, most=4).tolist() == plain[:4]
    alone = plain_nms(boxes.tolist(), scores.tolist(), threshold, [0] * count)
    assert nms(boxes, scores, threshold).tolist() == alone


def test_suppression_of_nothing_is_nothing():
    assert nms(torch.zeros(0, 4), torch.zeros(0), 0.5).tolist() == []
    assert soft_nms(torch.zeros(0, 4), torch.zeros(0))[0].tolist() == []


@pytest.mark.parametrize("kind", ["gaussian", "linear"])
def test_soft_suppression_is_the_loop_of_its_paper(kind):
    boxes = some(60, size=30.0)
    source = torch.Generator().manual_seed(4)
    scores = torch.rand(60, generator=source, dtype=torch.float64)
    groups = torch.randint(0, 2, (60,), generator=source)
    expected = []
    for group in (0, 1):
        left = {i: float(scores[i]) for i in range(60) if groups[i] == group}
        while left:
            best = max(left, key=left.get)
            value = left.pop(best)
            if value < 1e-3:
                break
            expected.append((best, value))
            for other in left:
                iou = plain_iou(boxes[best].tolist(), boxes[other].tolist())
                left[other] *= math.exp(-(iou**2) / 0.5) if kind == "gaussian" else (1 - iou if iou > 0.3 else 1)
    expected.sort(key=lambda pair: -pair[1])
    index, lowered = soft_nms(boxes, scores, groups, kind=kind)
    assert index.tolist() == [i for i, _ in expected]
    torch.testing.assert_close(lowered, torch.tensor([v for _, v in expected], dtype=torch.float64))
    assert len(soft_nms(boxes, scores, groups, kind=kind, most=5)[0]) == 5
