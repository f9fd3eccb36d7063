"""Labelled scans in the public layouts, written from their published names with NumPy alone, and a checkpoint as the
authors have it."""

from __future__ import annotations

import json

import numpy as np
import torch


def _scan(count, seed):
    values = np.random.default_rng(seed).normal(0, 1, (count, 4)) * [15, 15, 1, 0.2]
    values[:, 3] = np.abs(values[:, 3]).clip(0, 1)
    return values.astype("<f4")


def semantickitti(path):
    for sequence in ("00", "08"):
        root = path / "sequences" / sequence
        (root / "velodyne").mkdir(parents=True)
        (root / "labels").mkdir()
        for number in range(2):
            _scan(90, number).tofile(root / "velodyne" / f"{number:06d}.bin")
            raw = np.random.default_rng(number).choice([0, 10, 40, 50, 70, 252], 90) | (7 << 16)
            raw.astype("<u4").tofile(root / "labels" / f"{number:06d}.label")


def nuscenes(path):
    tables = path / "v1.0-mini"
    tables.mkdir(parents=True)
    (path / "samples" / "LIDAR_TOP").mkdir(parents=True)
    (path / "lidarseg" / "v1.0-mini").mkdir(parents=True)
    rows = {"scene": [], "sample": [], "sample_data": [], "lidarseg": []}
    for number, scene in enumerate(("scene-0061", "scene-0103")):
        scan, labels = f"samples/LIDAR_TOP/{number}.pcd.bin", f"lidarseg/v1.0-mini/d{number}_lidarseg.bin"
        rows["scene"].append({"token": f"c{number}", "name": scene})
        rows["sample"].append({"token": f"s{number}", "scene_token": f"c{number}"})
        rows["sample_data"].append({"token": f"d{number}", "sample_token": f"s{number}", "filename": scan})
        rows["lidarseg"].append({"token": "l", "sample_data_token": f"d{number}", "filename": labels})
        values = np.concatenate([_scan(80, number), np.zeros((80, 1))], 1)
        values.astype("<f4").tofile(path / scan)
        np.random.default_rng(number).choice([0, 17, 24, 28, 30], 80).astype(np.uint8).tofile(path / labels)
    for name, records in rows.items():
        (tables / f"{name}.json").write_text(json.dumps(records))


def folder(path):
    for split in ("train", "test"):
        (path / split).mkdir(parents=True)
        for number in range(2):
            labels = np.random.default_rng(number).integers(0, 20, 70)
            np.savez(path / split / f"{number}.npz", points=_scan(70, number), labels=labels)


layouts = {"semantickitti": semantickitti, "nuscenes": nuscenes, "folder": folder}


def prediction(folder):
    _scan(150, 0).tofile(folder / "000000.bin")
    return ["000000.bin"]


def _norm(weights, name, width):
    weights |= {f"{name}.weight": torch.ones(width), f"{name}.bias": torch.zeros(width)}
    weights |= {f"{name}.running_mean": torch.zeros(width), f"{name}.running_var": torch.ones(width)}
    weights[f"{name}.num_batches_tracked"] = torch.tensor(7)


def _kernel(weights, name, size, inner, outer, blank=False):
    shape = (inner, outer) if size == 1 else (size, inner, outer)
    # A blank one takes no room in a file.
    weights[f"{name}.kernel"] = torch.zeros(()).expand(shape) if blank else torch.randn(shape) / (size * inner) ** 0.5


def spvcnn(widths):
    """Names and shapes of the authors' SPVCNN (and of their MinkUNet, which has the same)."""
    weights = {}
    stem, *outputs = widths
    for at, inner in ((0, 4), (3, stem)):
        _kernel(weights, f"stem.{at}", 27, inner, stem)
        _norm(weights, f"stem.{at + 1}", stem)

    def block(name, inner, outer):
        for at, width in ((0, inner), (3, outer)):
            _kernel(weights, f"{name}.net.{at}", 27, width, outer)
            _norm(weights, f"{name}.net.{at + 1}", outer)
        if inner != outer:
            _kernel(weights, f"{name}.downsample.0", 1, inner, outer)
            _norm(weights, f"{name}.downsample.1", outer)

    before = stem
    for stage in range(4):
        name = f"stage{stage + 1}"
        _kernel(weights, f"{name}.0.net.0", 8, before, before)
        _norm(weights, f"{name}.0.net.1", before)
        block(f"{name}.1", before, outputs[stage])
        block(f"{name}.2", outputs[stage], outputs[stage])
        before = outputs[stage]
    for stage, skip in zip(range(4), (outputs[2], outputs[1], outputs[0], stem), strict=True):
        name, after = f"up{stage + 1}", outputs[4 + stage]
        _kernel(weights, f"{name}.0.net.0", 8, before, after)
        _norm(weights, f"{name}.0.net.1", after)
        block(f"{name}.1.0", after + skip, after)
        block(f"{name}.1.1", after, after)
        before = after
    ends = (stem, outputs[3], outputs[5], outputs[7])
    for number in range(3):
        weights[f"point_transforms.{number}.0.weight"] = torch.randn(ends[number + 1], ends[number])
        weights[f"point_transforms.{number}.0.bias"] = torch.zeros(ends[number + 1])
        _norm(weights, f"point_transforms.{number}.1", ends[number + 1])
    weights |= {"classifier.0.weight": torch.randn(19, outputs[-1]), "classifier.0.bias": torch.zeros(19)}
    return weights


def searched(outputs, transitions, middles, depths, supernet=False):
    """Names and shapes of the authors' specialised SPVNAS, or of its supernet."""
    weights, stem = {}, 32
    layers, inner_norm, linear = (".layers", ".bn", ".linear") if supernet else ("", "", "")
    for at, inner in ((0, 4), (3, stem)):
        _kernel(weights, f"stem.{at}", 27, inner, stem, blank=True)
        _norm(weights, f"stem.{at + 1}", stem)

    def conv(name, size, inner, outer):
        _kernel(weights, f"{name}.net.conv", size, inner, outer, blank=True)
        _norm(weights, f"{name}.net.bn{inner_norm}", outer)

    before = stem
    for stage in range(8):
        name = f"{'downsample' if stage < 4 else 'upsample'}.{stage % 4}"
        conv(f"{name}.transition", 8, before, transitions[stage])
        skip = 0 if stage < 4 else (outputs[2], outputs[1], outputs[0], stem)[stage - 4]
        for number in range(depths[stage]):
            block = f"{name}.feature{layers}.{number}"
            inner = outputs[stage] if number else transitions[stage] + skip
            conv(f"{block}.net{layers}.0", 27, inner, middles[2 * stage + number])
            conv(f"{block}.net{layers}.1", 27, middles[2 * stage + number], outputs[stage])
            if not number:
                conv(f"{block}.downsample", 1, inner, outputs[stage])
        before = outputs[stage]
    ends = (stem, outputs[3], outputs[5], outputs[7])
    for number in range(3):
        name = f"point_transforms.{number}.net"
        weights[f"{name}.conv{linear}.weight"] = torch.randn(ends[number + 1], ends[number])
        weights[f"{name}.conv{linear}.bias"] = torch.zeros(ends[number + 1])
        _norm(weights, f"{name}.bn{inner_norm}", ends[number + 1])
    widest = 128  # never cut to the network's own width
    weights |= {"classifier.linear.weight": torch.randn(19, widest), "classifier.linear.bias": torch.zeros(19)}
    return weights


def checkpoint(folder):
    path = folder / "init"
    torch.save({"model": spvcnn((8, 8, 8, 16, 16, 16, 8, 8, 8))}, path)
    return path
