"""Compare mabnet's starter weights with OpenCV's SGBM on the motorcycle pair and on rendered test pairs.

    python docs/mabnet_peers.py

prints EPE and D1 (more than 3 pixels and 5 % off) of both and the seconds they take on one core. SGBM leaves pixels
out: its errors are given for those it answers, and for all of them with gaps filled along the row.
"""

from __future__ import annotations

import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from torch import Tensor

import vergence
from vergence.data.images import read_image
from vergence.data.photographs import path_of
from vergence.matching.frames import opencv
from vergence.matching.mabnet.bench import matcher
from vergence.matching.stereo import RenderedPairs, Sample
from vergence.metrics.displacement import endpoint_error, outliers
from vergence.reading.arrays import read_npz


def motorcycle() -> Sample:
    left, right = (read_image(path_of(f"motorcycle_{side}.png")) for side in ("left", "right"))
    truth = torch.from_numpy(read_npz(path_of("motorcycle_disp.npz"))["arr_0"].astype(np.float32))
    known = truth.isfinite()
    return Sample("motorcycle", left, right, truth.where(known, 0), known, known)


def semiglobal(sample: Sample, disparities: int) -> Tensor:
    """SGBM's disparity (H, W), not a number where it has none."""
    pair = (picture.permute(1, 2, 0).contiguous().numpy() for picture in (sample.left, sample.right))
    found = torch.from_numpy(matcher(disparities).compute(*pair).astype(np.float32) / 16)
    return found.where(found >= 0, torch.nan)


def filled(disparity: Tensor) -> Tensor:
    """Gaps filled by interpolation along each row; rows without a value are 0."""
    rows = disparity.clone().numpy()
    for row in rows:
        known = np.flatnonzero(np.isfinite(row))
        row[:] = np.interp(np.arange(len(row)), known, row[known]) if len(known) else 0
    return torch.from_numpy(rows)


def compare(title: str, samples: list[Sample], disparities: int, enlarge: float = 1.8) -> None:
    model = vergence.load("mabnet")
    rows: dict[str, list[tuple[float, float, float]]] = {}
    for sample in samples:
        results = {}
        began = time.perf_counter()
        pair = {"left": sample.left, "right": sample.right}
        results["mabnet"] = model.predict(**pair, disparities=disparities - 1, enlarge=enlarge).disparity
        middle = time.perf_counter()
        raw = semiglobal(sample, disparities)
        seconds = {"mabnet": middle - began, "SGBM": time.perf_counter() - middle}
        results["SGBM, where it answers"], results["SGBM, filled"] = raw, filled(raw)
        for name, found in results.items():
            valid = sample.valid & found.isfinite()
            error = endpoint_error(found, sample.disparity, valid), outliers(found, sample.disparity, valid)
            rows.setdefault(name, []).append((*error, seconds[name.split(",")[0]]))
    print(title)
    for name, values in rows.items():
        epe, d1, spent = (sum(column) / len(column) for column in zip(*values, strict=True))
        print(f"  {name:24s} EPE {epe:6.2f} px   D1 {d1:5.1f} %   {spent:.2f} s")


if __name__ == "__main__":
    torch.set_num_threads(1)
    opencv().setNumThreads(1)
    for enlarge in (1.0, 1.8):
        compare(f"motorcycle, 741 x 500, 80 disparities, enlarged {enlarge} times", [motorcycle()], 80, enlarge)
    rendered = RenderedPairs.of(16, 192, 384, 64.0, ("starter", "test"), "test")
    compare("16 rendered test pairs, 384 x 192, 64 disparities", [rendered[i] for i in range(len(rendered))], 64)
