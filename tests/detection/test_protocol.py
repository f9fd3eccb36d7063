"""How detectors are judged, on input whose result is known."""

import math

import torch
from sklearn.metrics import average_precision_score

from vergence.detection.adaptation import present_classes
from vergence.detection.data import Sample
from vergence.detection.protocol import domain_probe, found_of, label_precision, precisions, truth_of
from vergence.nn.rcnn import Detections


def sample(scale=1.0):
    boxes = torch.tensor([[0.0, 0.0, 20.0, 20.0], [30.0, 30.0, 60.0, 50.0]]) * scale
    return Sample(torch.zeros(3, 8, 8), boxes, torch.tensor([1, 3]), torch.zeros(2, dtype=torch.bool), "a", scale)


def test_the_truth_scores_everything_whatever_the_scale_of_the_picture():
    own = sample(2.5)
    found = found_of(Detections(own.boxes, torch.tensor([0.9, 0.8]), own.labels), own)
    torch.testing.assert_close(found.boxes, sample().boxes)
    values = precisions([found], [truth_of(own)], 4)
    assert {name: round(value, 6) for name, value in values.items()} == dict.fromkeys(values, 100.0)


def test_nothing_found_scores_zero_and_nothing_to_find_is_no_number():
    nothing = Detections(torch.zeros(0, 4), torch.zeros(0), torch.zeros(0, dtype=torch.long))
    assert precisions([found_of(nothing, sample())], [truth_of(sample())], 3)["map"] == 0
    empty = sample()._replace(
        boxes=torch.zeros(0, 4), labels=torch.zeros(0, dtype=torch.long), aside=torch.zeros(0).bool()
    )
    assert math.isnan(precisions([found_of(nothing, empty)], [truth_of(empty)], 3)["map"])


def test_precision_of_labels_is_that_of_scikit_learn():
    source = torch.Generator().manual_seed(0)
    chances, present = torch.rand(40, 3, generator=source), (torch.rand(40, 3, generator=source) < 0.3).float()
    present[:, 2] = 0  # a class that does not occur
    expected = [100 * average_precision_score(present[:, k].numpy(), chances[:, k].numpy()) for k in range(2)]
    assert math.isclose(label_precision(chances, present), sum(expected) / 2, rel_tol=1e-9)


def test_a_probe_tells_domains_that_a_line_separates_and_no_others():
    source = torch.randn(100, 5, generator=torch.Generator().manual_seed(0))
    other = torch.randn(100, 5, generator=torch.Generator().manual_seed(1))
    assert domain_probe(source, other + torch.tensor([9.0, 0, 0, 0, 0])) == 100
    assert 35 < domain_probe(source, other) < 65
    assert domain_probe(source * 0, source * 0) == 50


def test_labels_of_a_picture_are_a_set():
    assert present_classes(torch.tensor([3, 1, 3]), 4).tolist() == [1, 0, 1, 0]
    assert present_classes(torch.zeros(0, dtype=torch.long), 2).tolist() == [0, 0]
