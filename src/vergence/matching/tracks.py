"""Tracks: local frames of one surface patch in several pictures, and what the cameras make of them.

B counts tracks and V the pictures of a track besides its first one. A track with fewer has a weight of 0 for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.matching.cameras import Camera
from vergence.matching.frames import APART, Features
from vergence.ops.epipolar import homogeneous, plane_affinity, relative_pose, triangulate
from vergence.reading.tables import read_records


@dataclass(frozen=True)
class Tracks:
    """Frames by track, the first one in the reference picture."""

    picture: Tensor
    """(B, 1 + V), index of the picture; -1 for none."""
    point: Tensor
    """(B, 1 + V, 2), in pixels."""
    frame: Tensor
    """(B, 1 + V, 2, 2), in pixels."""

    def __len__(self) -> int:
        return len(self.picture)

    def rows(self, index: Tensor) -> Tracks:
        return Tracks(self.picture[index], self.point[index], self.frame[index])


def join(features: Sequence[Features], matches: Mapping[tuple[int, int], tuple[Tensor, Tensor]], most: int) -> Tracks:
    """Tracks of at most ``most`` pictures from matches of pairs of pictures, as :func:`frames.match` gives them. Where
    several lead to one picture, the most similar one counts."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    starts = np.cumsum([0, *map(len, features)])
    links = [starts[list(pair)] + index.numpy() for pair, (index, _) in matches.items()]
    strong = [value.numpy() for _, value in matches.values()]
    ends = np.concatenate(links) if links else np.zeros((0, 2), int)
    strength = np.concatenate(strong) if strong else np.zeros(0)
    total = int(starts[-1])
    graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), (total, total))
    _, group = connected_components(graph, directed=False)
    best = np.full(total, -1.0)
    for side in range(2):
        np.maximum.at(best, ends[:, side], strength)
    nodes = np.flatnonzero(best >= 0)
    picture = np.searchsorted(starts, nodes, side="right") - 1
    order = np.lexsort((-best[nodes], picture, group[nodes]))
    nodes, picture = nodes[order], picture[order]
    fresh = np.ones(len(nodes), bool)  # the most similar one of each group in each picture
    fresh[1:] = (group[nodes][1:] != group[nodes][:-1]) | (picture[1:] != picture[:-1])
    nodes, picture = nodes[fresh], picture[fresh]
    _, begin, count = np.unique(group[nodes], return_index=True, return_counts=True)
    begin, count = begin[count > 1], np.minimum(count[count > 1], most)
    slots = begin[:, None] + np.arange(max(int(count.max(initial=2)), 2))
    seen = np.arange(slots.shape[1]) < count[:, None]
    slots = np.where(seen, slots, begin[:, None])
    points, frames = (torch.cat([getattr(f, name) for f in features]) for name in ("points", "frames"))
    chosen = torch.from_numpy(nodes[slots])
    which = torch.from_numpy(np.where(seen, picture[slots], -1))
    found = Tracks(which, points[chosen], frames[chosen])
    strongest = np.argsort(-best[nodes[begin]], kind="stable") if len(begin) else np.zeros(0, int)
    return found.rows(_apart(found, torch.from_numpy(strongest)))


def _apart(tracks: Tracks, order: Tensor) -> Tensor:
    """Tracks in this order without those that begin where an earlier one does."""
    kept: dict[tuple[int, int, int], int] = {}
    cells = (tracks.point[:, 0] / (APART / 2)).floor().long().tolist()
    for row in order.tolist():
        kept.setdefault((int(tracks.picture[row, 0]), *cells[row]), row)
    return torch.tensor(list(kept.values()), dtype=torch.long)


def read_tracks(path: Path, names: Sequence[str]) -> Tracks:
    """Tracks from a CSV file with the columns track, image, x, y, a11, a12, a21, a22: one row per local frame, in
    pixels. The first row of a track is its reference."""
    columns = ("x", "y", "a11", "a12", "a21", "a22")
    rows = read_records(path, ("track", "image", *columns), "a table of affine correspondences")
    by_track: dict[str, list[tuple[int, list[float]]]] = {}
    known = {name: number for number, name in enumerate(names)}
    for number, row in enumerate(rows, 2):
        if row["image"] not in known:
            raise VergenceError(f"{path}, row {number}: there is no picture {row['image']!r} among {', '.join(names)}")
        try:
            values = [float(row[name]) for name in columns]
        except ValueError:
            raise VergenceError(f"{path}, row {number}: expected numbers in {', '.join(columns)}") from None
        by_track.setdefault(row["track"], []).append((known[row["image"]], values))
    several = [track for track in by_track.values() if len(track) > 1]
    if not several:
        raise VergenceError(f"{path} has no track with frames in two pictures")
    most = max(map(len, several))
    picture = torch.full((len(several), most), -1)
    numbers = torch.zeros(len(several), most, 6, dtype=torch.float64)
    for place, track in enumerate(several):
        picture[place, : len(track)] = torch.tensor([number for number, _ in track])
        numbers[place, : len(track)] = torch.tensor([row for _, row in track], dtype=torch.float64)
        numbers[place, len(track) :] = numbers[place, 0]
    return Tracks(picture, numbers[..., :2], numbers[..., 2:].unflatten(-1, (2, 2)))


@dataclass(frozen=True)
class Observed:
    """Affine correspondences of tracks in normalised coordinates, with relative poses."""

    first: Tensor
    """(B,), index of the reference picture."""
    others: Tensor
    """(B, V); 0 where the weight is 0."""
    weight: Tensor
    """(B, V)."""
    K1: Tensor
    """(B, 3, 3), intrinsics of the reference."""
    K: Tensor
    """(B, V, 3, 3)."""
    R: Tensor
    """(B, V, 3, 3), from the reference to the others."""
    t: Tensor
    """(B, V, 3)."""
    x: Tensor
    """(B, 2)."""
    y: Tensor
    """(B, V, 2)."""
    A: Tensor
    """(B, V, 2, 2)."""
    frame: Tensor
    """(B, 2, 2), of the reference."""
    inverse_depth: Tensor = field(default_factory=lambda: torch.zeros(0))
    """(B,), once points are triangulated."""

    def __len__(self) -> int:
        return len(self.x)

    def rows(self, index: Tensor) -> Observed:
        """Some of the tracks."""
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{name: part[index] for name, part in parts.items() if len(part) == len(self.x)})

    def pixels(self) -> tuple[Tensor, Tensor]:
        """Points in pixels of the reference (B, 2) and of the others (B, V, 2)."""
        return _to_pixels(self.K1, self.x), _to_pixels(self.K, self.y)

    @property
    def baseline(self) -> Tensor:
        """(B, V), distances of the cameras from the reference's."""
        return self.t.norm(dim=-1)


def _to_pixels(K: Tensor, x: Tensor) -> Tensor:
    return (K[..., :2, :2] @ x.unsqueeze(-1)).squeeze(-1) + K[..., :2, 2]


def observe(cameras: Sequence[Camera], tracks: Tracks) -> Observed:
    """Tracks in normalised coordinates; frames become affinities relative to the reference."""
    K, R, t = (torch.stack([getattr(own, name) for own in cameras]) for name in ("K", "R", "t"))
    which = tracks.picture.clamp(min=0)
    inverse = torch.linalg.inv(K)[which]
    points = _to_pixels(inverse, tracks.point)
    frames = inverse[..., :2, :2] @ tracks.frame
    first = which[:, 0]
    turn, shift = relative_pose(R[first][:, None], t[first][:, None], R[which[:, 1:]], t[which[:, 1:]])
    back = torch.linalg.inv_ex(frames[:, :1])[0]
    weight = (tracks.picture[:, 1:] >= 0).to(points)
    weight = weight * (shift.norm(dim=-1) > 0)
    return Observed(
        first, which[:, 1:], weight, K[first], K[which[:, 1:]], turn, shift, points[:, 0], points[:, 1:],
        frames[:, 1:] @ back, frames[:, 0],
    )  # fmt: skip


def of_planes(cameras: Sequence[Camera], pixels: Tensor, plane: Tensor, scale: float = 4.0) -> Observed:
    """The exact correspondences of planes (B, 3) at pixels (B, 2) of the first camera in all others; frames are
    upright, of ``scale`` pixels."""
    count, views = len(pixels), len(cameras) - 1
    first, others = cameras[0], cameras[1:]
    K = torch.stack([own.K for own in others]).expand(count, views, 3, 3)
    R, t = relative_pose(
        first.R, first.t, torch.stack([own.R for own in others]), torch.stack([own.t for own in others])
    )
    R, t = R.expand(count, views, 3, 3), t.expand(count, views, 3)
    x = first.normalised(pixels)
    y, A = plane_affinity(R, t, plane[:, None], x[:, None])
    frame = (scale * torch.linalg.inv(first.K[:2, :2])).expand(count, 2, 2)
    which = torch.arange(1, views + 1).expand(count, views)
    inverse_depth = (plane * homogeneous(x)).sum(1)
    return Observed(
        torch.zeros(count).long(), which, torch.ones(count, views, dtype=x.dtype), first.K.expand(count, 3, 3), K, R, t,
        x, y, A, frame, inverse_depth,
    )  # fmt: skip


@dataclass(frozen=True)
class Settled:
    """Tracks whose points agree with the poses, and how many were left out for which reason."""

    tracks: Observed
    kept: Tensor
    """(B',), indices of the tracks that are left."""
    left_out: dict[str, int]


REASONS = {
    "not finite": "a coordinate or an affinity is not a finite number",
    "no baseline": "all cameras stand at one place, or rays are nearly parallel",
    "behind a camera": "the point would be behind a camera that sees it",
    "apart": "images of the point are too far from those of any point",
}


def settle(observed: Observed, away: float = 2.0, least_angle: float = 0.2) -> Settled:
    """Triangulate tracks and replace their points by the images of the triangulated ones (the paper's step before all
    methods with 2 degrees of freedom).

    Views in which a point is more than ``away`` pixels off are dropped, the worst first; tracks that are left with one
    picture, that are behind a camera, whose rays meet at less than ``least_angle`` degrees, or that have numbers that
    are not finite are left out and counted.
    """
    parts = (observed.x, observed.y.flatten(1), observed.A.flatten(1), observed.frame.flatten(1))
    finite = torch.stack([part.isfinite().all(1) for part in parts]).all(0)
    seen = (observed.weight > 0).any(1)
    kept = (finite & seen).nonzero().squeeze(1)
    found = _triangulated(observed.rows(kept), away)
    own, depth, used = found.tracks, found.depth, found.used
    behind = (used & ~(depth > 0)).any(1) | ~found.X.isfinite().all(1)
    narrow = ~behind & (found.angle < least_angle)
    apart = ~behind & ~narrow & (used & ~(found.far <= away)).any(1)
    left_out = {
        "not finite": int((~finite).sum()),
        "no baseline": int((finite & ~seen).sum() + narrow.sum()),
        "behind a camera": int(behind.sum()),
        "apart": int(apart.sum()),
    }
    good = (~(behind | narrow | apart)).nonzero().squeeze(1)
    return Settled(own.rows(good), kept[good], left_out)


@dataclass(frozen=True)
class _Triangulated:
    tracks: Observed
    X: Tensor
    """(B, 3), in the reference."""
    used: Tensor
    """(B, 1 + V), as the next two."""
    depth: Tensor
    far: Tensor
    """Distances of the points from the images of X, in pixels."""
    angle: Tensor
    """(B,), the largest angle between the reference's ray and another one, in degrees."""


def _triangulated(own: Observed, away: float) -> _Triangulated:
    R = torch.cat([torch.eye(3).to(own.R).expand(len(own), 1, 3, 3), own.R], 1)
    t = torch.cat([torch.zeros_like(own.x[:, None, :1]).expand(-1, 1, 3), own.t], 1)
    points = torch.cat([own.x[:, None], own.y], 1)
    focal = torch.cat([own.K1[:, None], own.K], 1).diagonal(dim1=-2, dim2=-1)[..., :2].mean(-1)
    weight = torch.cat([torch.ones_like(own.weight[:, :1]), own.weight], 1)
    while True:
        X, _ = triangulate(R, t, points, weight * focal**2)
        seen = (R @ X[:, None, :, None]).squeeze(-1) + t
        images = seen[..., :2] / seen[..., 2:]
        far = focal * (images - points).norm(dim=-1)
        used = weight > 0
        worst = torch.where(used, far, -1)[:, 1:].argmax(1)
        drop = (used & (far > away)).any(1) & (used.sum(1) > 2)
        if not drop.any():
            break
        weight[drop, 1 + worst[drop]] = 0
    settled = replace(own, x=images[:, 0], y=images[:, 1:], weight=weight[:, 1:], inverse_depth=1 / X[:, 2])
    return _Triangulated(settled, X, used, seen[..., 2], far, _angle(R, t, X, used))


def _angle(R: Tensor, t: Tensor, X: Tensor, used: Tensor) -> Tensor:
    """The largest angle (B,) between the reference's ray and another one, in degrees."""
    centres = -(R.mT @ t.unsqueeze(-1)).squeeze(-1)
    rays = torch.nn.functional.normalize(X[:, None] - centres, dim=-1)
    sine = torch.linalg.cross(rays[:, :1].expand_as(rays), rays).norm(dim=-1)
    angle = torch.rad2deg(torch.atan2(sine, (rays[:, :1] * rays).sum(-1)))
    return torch.where(used, angle, 0).amax(1)


def counted(left_out: Mapping[str, int]) -> str:
    """What was left out, in words; empty if nothing was."""
    some = {reason: count for reason, count in left_out.items() if count}
    return ", ".join(f"{count} {reason}" for reason, count in some.items())
