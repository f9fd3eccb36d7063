"""Labelled scans of nuScenes and of plain folders are read, groups are scored, and labels are written and drawn."""

import json

import numpy as np
import pytest
import torch

from vergence.contract.context import Context
from vergence.contract.inputs import InMemory
from vergence.core.errors import VergenceError
from vergence.core.progress import Progress
from vergence.data.clouds import read_cloud, read_scan, write_ply
from vergence.metrics.segmentation import confusion
from vergence.points import nuscenes
from vergence.points.classes import ClassSet, group_iou
from vergence.points.scans import LAYOUTS, label_scans, render, scores, unusual
from vergence.points.semantickitti import CLASS_SET, CLASSES, read_labels


def nuscenes_files(root, points=6, raw=(0, 17, 24, 28, 30, 2)):
    tables = root / "v1.0-mini"
    tables.mkdir(parents=True)
    (root / "samples" / "LIDAR_TOP").mkdir(parents=True)
    (root / "lidarseg" / "v1.0-mini").mkdir(parents=True)
    rows = {"scene": [], "sample": [], "sample_data": [], "lidarseg": []}
    for number, scene in enumerate(("scene-0061", "scene-0103")):
        scan, labels = f"samples/LIDAR_TOP/{number}.pcd.bin", f"lidarseg/v1.0-mini/d{number}_lidarseg.bin"
        rows["scene"].append({"token": f"c{number}", "name": scene})
        rows["sample"].append({"token": f"s{number}", "scene_token": f"c{number}"})
        rows["sample_data"].append({"token": f"d{number}", "sample_token": f"s{number}", "filename": scan})
        rows["sample_data"].append({"token": f"x{number}", "sample_token": f"s{number}", "filename": "sweeps/x.bin"})
        rows["lidarseg"].append({"token": "l", "sample_data_token": f"d{number}", "filename": labels})
        values = np.random.default_rng(number).normal(size=(points, 5))
        values[0] = [1, 2, 3, 255, 0]
        values.astype("<f4").tofile(root / scan)
        np.array(raw, np.uint8).tofile(root / labels)
    for name, records in rows.items():
        (tables / f"{name}.json").write_text(json.dumps(records))


def test_nuscenes_is_split_by_its_official_scenes_and_turned_to_forward_left_up(tmp_path):
    nuscenes_files(tmp_path)
    assert len(nuscenes.validation_scenes()) == 150
    train, val, test = (LAYOUTS["nuscenes"].read(tmp_path, split) for split in ("train", "val", "test"))
    assert len(train) == len(val) == 1
    assert val.files == test.files
    assert test.split == "val"
    assert "0.pcd.bin" in str(train.files[0][0])  # scene-0103 is one of validation
    sweep = train[0]
    assert sweep.points[0].tolist() == [2, -1, 3]  # its own axes are right, forward, up
    assert float(sweep.intensity[0]) == 1
    assert [nuscenes.CLASSES.names[label] for label in sweep.labels] == [
        "unlabeled", "car", "driveable_surface", "manmade", "vegetation", "pedestrian"
    ]  # fmt: skip


def test_nuscenes_files_that_disagree_are_refused(tmp_path):
    nuscenes_files(tmp_path / "few", raw=(0, 1))
    with pytest.raises(VergenceError, match="one for each of the scan's 6 points"):
        LAYOUTS["nuscenes"].read(tmp_path / "few", "train")[0]
    nuscenes_files(tmp_path / "many", raw=(0, 1, 2, 3, 4, 32))
    with pytest.raises(VergenceError, match="0 to 31"):
        LAYOUTS["nuscenes"].read(tmp_path / "many", "train")[0]
    with pytest.raises(VergenceError, match="no nuScenes-lidarseg"):
        LAYOUTS["nuscenes"].read(tmp_path, "train")
    table = tmp_path / "few" / "v1.0-mini" / "sample_data.json"
    table.write_text(table.read_text().replace("samples/LIDAR_TOP/0", "../outside"))
    with pytest.raises(VergenceError, match="not below it"):
        LAYOUTS["nuscenes"].read(tmp_path / "few", "train")


def test_a_plain_folder_has_scans_with_label_files_or_arrays(tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "test").mkdir()
    np.ones((4, 4), "<f4").tofile(tmp_path / "train" / "a.bin")
    np.array([10, 40, 50, 70], "<u4").tofile(tmp_path / "train" / "a.label")
    np.savez(tmp_path / "test" / "b.npz", points=np.ones((3, 3), np.float32), labels=np.array([1, 2, 19]))
    train, val = (LAYOUTS["folder"].read(tmp_path, split) for split in ("train", "val"))
    assert [CLASSES[label] for label in train[0].labels] == ["car", "road", "building", "vegetation"]
    assert val.split == "test"
    assert val[0].intensity.tolist() == [0, 0, 0]
    np.savez(tmp_path / "test" / "b.npz", points=np.ones((3, 3), np.float32), labels=np.array([1, 2, 20]))
    with pytest.raises(VergenceError, match="expected 0 to 19"):
        val[0]


def test_intensity_is_read_where_a_file_has_it(tmp_path):
    points, intensity = torch.randn(5, 3), torch.rand(5)
    with_intensity = write_ply(tmp_path / "with.ply", points, remission=intensity)
    without = write_ply(tmp_path / "without.ply", points)
    assert torch.equal(read_scan(with_intensity)[1], intensity)
    assert torch.equal(read_cloud(with_intensity), points)
    assert read_scan(without)[1] is None
    with pytest.raises(VergenceError, match="1 of 2 points whose intensity"):
        read_scan(InMemory("scan.npy", np.array([[0, 0, 0, 1.0], [0, 0, 0, np.nan]])))


def test_groups_compare_sets_with_finer_and_coarser_classes():
    truth = torch.tensor([CLASSES.index(name) for name in ("road", "sidewalk", "car", "pole", "person", "person")])
    guess = torch.tensor([CLASSES.index(name) for name in ("parking", "road", "truck", "trunk", "car", "person")])
    counts = confusion(guess, truth, len(CLASSES))
    shares = group_iou(counts, CLASS_SET)
    assert shares["ground"] == 100  # any ground is ground
    assert shares["vehicle"] == 100  # the person is outside the groups, though it was called a car
    assert shares["pole"] == 0
    assert shares["building"] != shares["building"]
    assert scores(counts, CLASS_SET)["groups"] == pytest.approx((100 + 100 + 0 + 0) / 4)  # vegetation was invented


class Said(Progress):
    def __init__(self):
        self.lines = []

    def say(self, text):
        self.lines.append(text)


def test_scans_are_labelled_written_and_drawn(tmp_path):
    source = tmp_path / "scans"
    source.mkdir()
    cloud = torch.randn(50, 3) * 10
    np.concatenate([cloud.numpy(), np.ones((50, 1))], 1).astype("<f4").tofile(source / "one.bin")
    np.save(source / "two.npy", cloud[:20].numpy())
    said = Said()
    ctx = Context(None, tmp_path, progress=said)

    def car_or_road(points, intensity):
        logits = torch.full((len(points), len(CLASSES)), -20.0)
        logits[:, 0] = 30.0  # never used
        logits[:, 1] = points[:, 0].sign()
        logits[:, 9] = -points[:, 0].sign()
        return logits

    result = label_scans(ctx, source, CLASS_SET, car_or_road)
    assert [scan.name for scan in result.scans] == ["one", "two"]
    assert torch.equal(result.scans[0].labels, torch.where(cloud[:, 0] > 0, 1, 9))
    assert any("two.npy has no intensity" in line for line in said.lines)
    files = {artifact.path.name for artifact in render(ctx, result)}
    assert {"one.ply", "one.label", "one.png", "one.html", "classes.csv"} <= files
    assert torch.equal(read_labels(tmp_path / "one.label", 50), result.scans[0].labels)


def test_scans_in_other_units_are_told_of():
    assert "metres" in unusual(torch.randn(10, 3) * 1e5, "scan")
    assert "metres" in unusual(torch.randn(10, 3) * 1e-2, "scan")
    assert unusual(torch.randn(10, 3) * 20, "scan") == ""
    assert unusual(torch.zeros(1, 3), "scan") == ""


def test_classes_known_by_name_have_colours_of_their_own():
    classes = ClassSet.of(("unlabeled", "tree", "house"))
    assert len(set(classes.colours)) == 3
    assert classes.groups().tolist() == [0, 0, 0]
