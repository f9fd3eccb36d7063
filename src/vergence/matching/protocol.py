"""How oriented points and tracks are judged: errors of normals and affinities, and the share of tracks kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from vergence.matching.tracks import Observed
from vergence.metrics.oriented import affinity_error, fitted_plane, normal_angle, symmetric_epipolar_distance
from vergence.ops.affine_correspondences import oriented_point
from vergence.ops.epipolar import essential, plane_affinity, relative_pose

TRACKED = 5.0
"""Pixels: the largest symmetric epipolar distance of a track."""


@dataclass(frozen=True)
class Judged:
    """Errors of B tracks; NaN where the truth is unknown."""

    angle: Tensor
    """(B,), of normals, in degrees."""
    affinity: Tensor
    """(B, V), Frobenius norms."""
    good: Tensor
    """(B,), whether the method itself is content."""
    epipolar: Tensor
    """(B,), the largest symmetric epipolar distance between any two pictures, in pixels."""
    away: Tensor
    """(B,), the largest distance from where the point truly is in a picture, in pixels."""
    point: Tensor
    """(B, 3), in the reference."""
    normal: Tensor
    """(B, 3)."""
    true_point: Tensor
    """(B, 3)."""

    @property
    def tracked(self) -> Tensor:
        return self.good & (self.epipolar < TRACKED)


def judge(tracks: Observed, plane: Tensor, y: Tensor, A: Tensor, good: Tensor, truth: Tensor) -> Judged:
    """Compare planes (B, 3) and correspondences y (B, V, 2), A (B, V, 2, 2) with true planes (B, 3)."""
    point, normal = oriented_point(plane, tracks.x)
    true_point, true_normal = oriented_point(truth, tracks.x)
    true_y, true_A = plane_affinity(tracks.R, tracks.t, truth[:, None], tracks.x[:, None])
    unseen = tracks.weight == 0
    off = (tracks.K[..., :2, :2] @ (y - true_y).unsqueeze(-1)).squeeze(-1).norm(dim=-1)
    return Judged(
        normal_angle(normal, true_normal),
        affinity_error(A, true_A).masked_fill(unseen, torch.nan),
        good,
        epipolar_distance(tracks, y),
        off.masked_fill(unseen, 0).amax(1),
        point,
        normal,
        true_point,
    )


def epipolar_distance(tracks: Observed, y: Tensor) -> Tensor:
    """The largest symmetric epipolar distance (B,) between two pictures of a track, in pixels."""
    count = len(tracks)
    K = torch.cat([tracks.K1[:, None], tracks.K], 1)
    R = torch.cat([torch.eye(3).to(tracks.R).expand(count, 1, 3, 3), tracks.R], 1)
    t = torch.cat([torch.zeros_like(tracks.t[:, :1]), tracks.t], 1)
    points = torch.cat([tracks.x[:, None], y], 1)
    pixels = (K[..., :2, :2] @ points.unsqueeze(-1)).squeeze(-1) + K[..., :2, 2]
    seen = torch.cat([torch.ones_like(tracks.weight[:, :1]), tracks.weight], 1) > 0
    inverse = torch.linalg.inv(K)
    worst = torch.zeros_like(tracks.x[:, 0])
    for i, j in combinations(range(K.shape[1]), 2):
        E = essential(*relative_pose(R[:, i], t[:, i], R[:, j], t[:, j]))
        far = symmetric_epipolar_distance(inverse[:, j].mT @ E @ inverse[:, i], pixels[:, i], pixels[:, j])
        worst = torch.where(seen[:, i] & seen[:, j], torch.maximum(worst, far), worst)
    return worst


def summary(judged: Sequence[Judged], tracking: bool, flat: bool = False) -> dict[str, float]:
    """The metrics of all tracks together. With ``tracking``, normals are those of successful tracks, and with ``flat``
    (a scene that is one plane) distances and angles to planes fitted to the true and to the found points are added."""
    angle, good = (torch.cat([getattr(one, name) for one in judged]) for name in ("angle", "good"))
    tracked = torch.cat([one.tracked for one in judged])
    known = angle.isfinite()
    counted = known & tracked if tracking else known
    affinity = torch.cat([one.affinity[one.tracked if tracking else slice(None)].flatten() for one in judged])
    metrics = {
        "normal_error": _median(angle[counted]),
        "normal_mean": float(angle[counted].mean()),
        "normal_q3": _quantile(angle[counted], 0.75),
        "within_20": 100 * float((angle[counted] < 20).double().mean()),
        "ac_error": _median(affinity[affinity.isfinite()]),
        "kept": 100 * float(good.double().mean()),
    }
    if tracking:
        away = torch.cat([one.away for one in judged])
        sure = away.isfinite()
        metrics["tracked"] = 100 * float(tracked.double().mean())
        metrics["truly_tracked"] = 100 * float((good & (away < TRACKED))[sure].double().mean())
        metrics["epipolar"] = _median(torch.cat([one.epipolar for one in judged])[good])
        metrics["normal_q3_all"] = _quantile(angle[known & good], 0.75)
    return metrics | (_flat(judged) if flat else {})


def _flat(judged: Sequence[Judged]) -> dict[str, float]:
    """Against the plane of the true points and that of the found ones, of each shot by itself."""
    angles: dict[str, list[Tensor]] = {"true": [], "own": []}
    distances: dict[str, list[Tensor]] = {"true": [], "own": []}
    for one in judged:
        kept = one.tracked & one.point.isfinite().all(1) & one.true_point.isfinite().all(1)
        if int(kept.sum()) < 3:
            continue
        for name, points in (("true", one.true_point[kept]), ("own", one.point[kept])):
            normal, _ = fitted_plane(points)
            normal = normal * -torch.sign(normal @ points.mean(0))
            angles[name].append(normal_angle(one.normal[kept], normal.expand_as(points)))
            distances[name].append(((one.point[kept] - points.mean(0)) @ normal).abs())
    metrics = {}
    for name in ("true", "own"):
        if angles[name]:
            metrics[f"plane_angle_{name}"] = _median(torch.cat(angles[name]))
            metrics[f"plane_distance_{name}"] = _median(torch.cat(distances[name]))
    return metrics


def _median(values: Tensor) -> float:
    return _quantile(values, 0.5)


def _quantile(values: Tensor, share: float) -> float:
    return float(values.quantile(share)) if len(values) else float("nan")
