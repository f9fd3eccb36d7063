"""Average precision equals the official tools and plain forms, and closed forms on perfect, empty and wrong input."""

import contextlib
import io
import math

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.metrics.detection import Found, Truth, coco_precision, voc_precision

NAMES = ("ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large", "ar1", "ar10", "ar100", "ar_small", "ar_medium",
         "ar_large")  # fmt: skip


def drawn(pictures, seed, classes=3, most=9):
    """Objects of all sizes, some of them crowds, and detections of which some are near objects."""
    source = torch.Generator().manual_seed(seed)

    def number(high):
        return int(torch.randint(0, high, (), generator=source))

    def boxes(count):
        low = torch.rand(count, 2, generator=source) * 200
        return torch.cat([low, low + 4 + 150 * torch.rand(count, 2, generator=source) ** 2], 1)

    found, truth = [], []
    for _ in range(pictures):
        objects = boxes(number(most))
        labels = torch.randint(1, classes + 1, (len(objects),), generator=source)
        aside = torch.rand(len(objects), generator=source) < 0.15
        size = (objects[:, 2] - objects[:, 0]) * (objects[:, 3] - objects[:, 1])
        size = size * (0.5 + 0.5 * torch.rand(len(objects), generator=source))
        near = objects.repeat(2, 1)
        near = near + 8 * torch.randn(near.shape, generator=source)
        near[:, 2:] = torch.maximum(near[:, 2:], near[:, :2] + 1)
        every = torch.cat([near, objects[:1], boxes(number(4))])
        own = torch.randint(1, classes + 1, (len(every),), generator=source)
        own[: len(labels)] = labels
        scores = torch.rand(len(every), generator=source).mul(20).round() / 20  # with ties
        found.append(Found(every, scores, own))
        truth.append(Truth(objects, labels, aside, size))
    return found, truth


def official(found, truth, classes):
    coco_tools = pytest.importorskip("pycocotools.coco")
    from pycocotools.cocoeval import COCOeval

    def wide(box):
        return [float(box[0]), float(box[1]), float(box[2] - box[0]), float(box[3] - box[1])]

    objects = []
    for picture, each in enumerate(truth, 1):
        for box, label, aside, size in zip(
            each.boxes.double(), each.labels, each.aside, each.area.double(), strict=True
        ):
            objects.append({"id": len(objects) + 1, "image_id": picture, "category_id": int(label), "bbox": wide(box),
                            "area": float(size), "iscrowd": int(aside)})  # fmt: skip
    results = []
    for picture, each in enumerate(found, 1):
        for box, score, label in zip(each.boxes.double(), each.scores.double(), each.labels, strict=True):
            results.append({"image_id": picture, "category_id": int(label), "bbox": wide(box), "score": float(score)})
    with contextlib.redirect_stdout(io.StringIO()):
        tool = coco_tools.COCO()
        tool.dataset = {"images": [{"id": n + 1} for n in range(len(truth))], "annotations": objects,
                        "categories": [{"id": label} for label in classes]}  # fmt: skip
        tool.createIndex()
        judge = COCOeval(tool, tool.loadRes(results), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return {name: 100 * value if value > -1 else math.nan for name, value in zip(NAMES, judge.stats, strict=True)}


@pytest.mark.parametrize("seed", range(6))
def test_precision_of_coco_is_that_of_the_official_tools(seed):
    found, truth = drawn(12, seed)
    ours, theirs = coco_precision(found, truth, [1, 2, 3]), official(found, truth, [1, 2, 3])
    assert list(ours) == list(NAMES)
    for name in NAMES:
        assert ours[name] == pytest.approx(theirs[name], abs=1e-9, nan_ok=True), name


def test_precision_of_coco_does_not_depend_on_how_pictures_are_parcelled(monkeypatch):
    found, truth = drawn(12, 7)
    whole = coco_precision(found, truth, [1, 2, 3])
    monkeypatch.setattr("vergence.metrics.detection.TOGETHER", 20)
    assert coco_precision(found, truth, [1, 2, 3]) == pytest.approx(whole, nan_ok=True)


def plain_voc(found, truth, label, overlap, points, offset):
    """A loop over detections in the order of their scores."""

    def side(low, high):
        return float(high - low) + offset

    free, positives = [], 0
    for each in truth:
        own = [n for n, k in enumerate(each.labels.tolist()) if k == label]
        free.append({n: True for n in own})
        positives += sum(not bool(each.aside[n]) for n in own)
    rows = [(float(s), p, box) for p, f in enumerate(found) for box, s, k in
            zip(f.boxes.double(), f.scores, f.labels.tolist(), strict=True) if k == label]  # fmt: skip
    rows.sort(key=lambda row: -row[0])
    curve, hits, wrong = [], 0, 0
    for _, picture, box in rows:
        best, at = 0.0, None
        for n in free[picture]:
            other = truth[picture].boxes[n].double()
            width = min(box[2], other[2]) - max(box[0], other[0]) + offset
            height = min(box[3], other[3]) - max(box[1], other[1]) + offset
            common = float(max(width, 0)) * float(max(height, 0))
            union = side(box[0], box[2]) * side(box[1], box[3]) + side(other[0], other[2]) * side(other[1], other[3])
            if common / (union - common) > best:
                best, at = common / (union - common), n
        if best > overlap:
            if truth[picture].aside[at]:
                continue
            if free[picture][at]:
                free[picture][at] = False
                hits += 1
            else:
                wrong += 1
        else:
            wrong += 1
        curve.append((hits / positives, hits / (hits + wrong)))
    if points == "eleven":
        return sum(max((p for r, p in curve if r >= t / 10 - 1e-12), default=0.0) for t in range(11)) / 11
    total, before = 0.0, 0.0
    for place, (recall, _) in enumerate(curve):
        total += (recall - before) * max(p for _, p in curve[place:])
        before = recall
    return total


@pytest.mark.parametrize("points", ["eleven", "area"])
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_precision_of_voc_is_that_of_a_loop_over_detections(points, offset):
    for seed in range(3):
        found, truth = drawn(10, seed + 20)
        found = [Found(f.boxes, f.scores + torch.arange(len(f.scores)) * 1e-4, f.labels) for f in found]
        ours = voc_precision(found, truth, [1, 2, 3], 0.5, points, offset)
        for label in (1, 2, 3):
            assert ours[label] == pytest.approx(100 * plain_voc(found, truth, label, 0.5, points, offset))


def test_perfect_empty_and_wrong_detections_have_their_closed_forms():
    _, truth = drawn(8, 3)
    truth = [Truth(t.boxes, t.labels) for t in truth]
    perfect = [Found(t.boxes, torch.rand(len(t.labels)), t.labels) for t in truth]
    empty = [Found(torch.zeros(0, 4), torch.zeros(0), torch.zeros(0, dtype=torch.long))] * 8
    wrong = [Found(t.boxes + 1e4, torch.rand(len(t.labels)), t.labels) for t in truth]
    for found, expected in ((perfect, 100), (empty, 0), (wrong, 0)):
        assert coco_precision(found, truth, [1, 2, 3])["ap"] == pytest.approx(expected)
        for points in ("eleven", "area"):
            assert list(voc_precision(found, truth, [1, 2, 3], points=points).values()) == pytest.approx([expected] * 3)
    assert math.isnan(coco_precision(perfect, truth, [9])["ap"])
    assert math.isnan(voc_precision(perfect, truth, [9])[9])


def test_a_second_detection_of_an_object_is_wrong():
    truth = [Truth(torch.tensor([[0.0, 0.0, 10.0, 10.0]]), torch.tensor([1]))]
    twice = [Found(torch.tensor([[0.0, 0.0, 10.0, 10.0]]).repeat(2, 1), torch.tensor([0.9, 0.8]), torch.tensor([1, 1]))]
    assert voc_precision(twice, truth, [1], points="area")[1] == pytest.approx(100)  # it comes after full recall
    late = [Found(torch.tensor([[50.0, 0.0, 60.0, 10.0], [0.0, 0.0, 10.0, 10.0]]), torch.tensor([0.9, 0.8]),
                  torch.tensor([1, 1]))]  # fmt: skip
    assert voc_precision(late, truth, [1], points="area")[1] == pytest.approx(50)
    assert coco_precision(late, truth, [1])["ap50"] == pytest.approx(50)


def test_detections_of_other_pictures_are_refused():
    found, truth = drawn(3, 0)
    for judge in (coco_precision, voc_precision):
        with pytest.raises(VergenceError, match="2 pictures cannot be judged by objects of 3"):
            judge(found[:2], truth, [1])
