"""Rendered sweeps look like a scanner's, files of SemanticKITTI are read and written, and labelled clouds are drawn."""

import numpy as np
import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.points.labelled import class_layers, class_page, from_above, seen_from_above
from vergence.points.semantickitti import CLASSES, COLOURS, LEARNING, RAW, read, read_labels, read_scan, write_labels
from vergence.points.sweeps import HEIGHT, REACH, Scanner, rendered_sweeps, street_sweep

SMALL = Scanner(16, 128)


def test_a_sweep_has_a_road_below_the_scanner_and_things_around_it():
    sweeps = [street_sweep(torch.Generator().manual_seed(seed), SMALL) for seed in range(3)]
    for sweep in sweeps:
        distance = sweep.points.norm(dim=1)
        assert 800 < len(sweep.points) <= 16 * 128
        assert float(distance.max()) < REACH + 1
        road = sweep.points[sweep.labels == CLASSES.index("road")]
        near = road[road.norm(dim=1) < 8]
        assert abs(float(near[:, 2].mean()) + HEIGHT) < 0.3  # left, forward, up: the road is below
        assert 0 <= float(sweep.intensity.min()) <= float(sweep.intensity.max()) < 1
    present = set(torch.cat([sweep.labels for sweep in sweeps]).tolist())
    assert {CLASSES.index(name) for name in ("road", "sidewalk", "building", "vegetation", "terrain")} <= present
    assert 0 not in present


def test_sweeps_are_the_same_for_the_same_seed():
    first, again, other = (rendered_sweeps(1, (seed,), SMALL)[0] for seed in ("a", "a", "b"))
    assert torch.equal(first.points, again.points)
    assert first.points.shape != other.points.shape or not torch.equal(first.points, other.points)


def test_every_class_has_a_number_in_files_and_moving_things_are_merged():
    assert len(CLASSES) == len(RAW) == len(COLOURS) == 20
    assert LEARNING[list(RAW)].tolist() == list(range(20))
    assert LEARNING[[252, 253, 254, 258, 60, 13]].tolist() == [1, 7, 6, 4, 9, 5]
    assert int(LEARNING[7]) == -1


def sequence(root, name, count=2):
    scans, labels = root / "sequences" / name / "velodyne", root / "sequences" / name / "labels"
    scans.mkdir(parents=True)
    labels.mkdir()
    for number in range(count):
        np.random.default_rng(number).normal(size=(5, 4)).astype("<f4").tofile(scans / f"{number:06d}.bin")
        np.array([0, 10, 40 | 3 << 16, 252, 81], "<u4").tofile(labels / f"{number:06d}.label")


def test_sequences_are_split_as_the_benchmark_does(tmp_path):
    for name in ("00", "08"):
        sequence(tmp_path, name)
    train, val, test = (read(tmp_path, split) for split in ("train", "val", "test"))
    assert len(train) == len(val) == 2
    assert "08" in str(val.files[0][0])
    assert test.split == "val"
    sweep = train[0]
    assert sweep.points.shape == (5, 3)
    assert sweep.labels.tolist() == [0, 1, 9, 1, 19]


def test_written_labels_come_back(tmp_path):
    labels = torch.arange(20)
    path = write_labels(tmp_path / "a.label", labels)
    assert torch.equal(read_labels(path, 20), labels)


def test_bad_files_are_refused_in_one_sentence(tmp_path):
    (tmp_path / "a.bin").write_bytes(bytes(20))
    np.array([[np.nan, 0, 0, 0]], "<f4").tofile(tmp_path / "nan.bin")
    np.array([7, 8], "<u4").tofile(tmp_path / "a.label")
    for name, message in (("a.bin", "not a scan: 20 bytes"), ("nan.bin", "1 of 1 points")):
        with pytest.raises(VergenceError, match=message):
            read_scan(tmp_path / name)
    with pytest.raises(VergenceError, match="expected 4 for each of the scan's 3 points"):
        read_labels(tmp_path / "a.label", 3)
    with pytest.raises(VergenceError, match="does not define: 7, 8"):
        read_labels(tmp_path / "a.label", 2)
    with pytest.raises(VergenceError, match="no folder sequences"):
        read(tmp_path, "train")


def test_labelled_clouds_are_drawn_in_the_colours_of_their_classes(tmp_path):
    points = torch.tensor([[10.0, 0.0, 0.0], [0.0, 10.0, 1.0], [10.0, 0.0, 2.0]])
    labels = torch.tensor([1, 9, 6])
    picture = seen_from_above(points, labels, COLOURS, 20.0, 40)
    assert picture[:, 10, 20].tolist() == list(COLOURS[6])  # the higher of two points ahead
    assert picture[:, 20, 10].tolist() == list(COLOURS[9])  # to the left
    assert [layer.name for layer in class_layers(points, torch.tensor([1, 1, 6]), CLASSES, COLOURS)] == [
        "car",
        "person",
    ]
    assert from_above(tmp_path / "a.png", [("one", points, labels)], CLASSES, COLOURS).stat().st_size > 1000
    assert "person" in class_page(tmp_path / "a.html", "t", "n", points, labels, CLASSES, COLOURS).read_text()
