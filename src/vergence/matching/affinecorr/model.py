"""The methods: planes of tracks, from their affine correspondences alone or by aligning patches.

A method takes tracks whose points agree with the poses (:func:`vergence.matching.tracks.settle`) and returns one plane
per track. B counts tracks, V the pictures of a track besides its first one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.matching.affinecorr.settings import Method, Patch
from vergence.matching.tracks import Observed
from vergence.ops.affine_correspondences import correct_affinity, correct_views, estimate_plane
from vergence.ops.epipolar import essential, homogeneous, induced, plane_through
from vergence.ops.photoconsistency import Aligned, Alignment, Pictures, align
from vergence.ops.warps import Family, InPixels, Planes, affine_maps, affinities, along_line, through_point


@dataclass(frozen=True)
class Estimate:
    """One plane per track, and the correspondences it was made from."""

    plane: Tensor
    """(B, 3)."""
    y: Tensor
    """(B, V, 2)."""
    A: Tensor
    """(B, V, 2, 2)."""
    error: Tensor
    """(B, V), 2 - 2 times the correlation of aligned patches; 0 for methods that align none."""
    good: Tensor
    """(B,), whether the plane is finite, and alignment converged inside all pictures."""
    steps: Tensor
    """(B,), Gauss-Newton steps."""


def estimate(tracks: Observed, pictures: Pictures | None, method: Method, patch: Patch = Patch()) -> Estimate:
    """Planes of tracks by one of the methods that the paper compares."""
    if method in ("track3", "track6"):
        assert pictures is not None
        return track(tracks, pictures, 3 if method == "track3" else 6, patch)
    if method == "raw":
        return _from_affinities(tracks, tracks.A)
    if method == "pairwise":
        E = essential(tracks.R, tracks.t)
        x = tracks.x.unsqueeze(1).expand_as(tracks.y)
        return _from_affinities(tracks, correct_affinity(E, x, tracks.y, tracks.A))
    if method == "corrected":
        return _corrected(tracks, tracks.A)
    assert pictures is not None
    if method in ("ref4", "ref4-corrected"):
        refined, aligned = refine_affinities(tracks, pictures, patch)
        made = _from_affinities(tracks, refined) if method == "ref4" else _corrected(tracks, refined)
        return _with(made, aligned, tracks)
    return refine_plane(tracks, pictures, patch, free_depth=method == "ref3")


def _from_affinities(tracks: Observed, A: Tensor) -> Estimate:
    plane = estimate_plane(tracks.R, tracks.t, tracks.x, tracks.y, A, tracks.weight)
    return _plain(plane, tracks.y, A)


def _corrected(tracks: Observed, A: Tensor) -> Estimate:
    found = correct_views(tracks.R, tracks.t, tracks.x, tracks.inverse_depth, A, tracks.weight)
    return _plain(found.plane, found.y, found.A)


def _plain(plane: Tensor, y: Tensor, A: Tensor) -> Estimate:
    none = torch.zeros(len(plane), dtype=torch.long, device=plane.device)
    return Estimate(plane, y, A, torch.zeros_like(y[..., 0]), plane.isfinite().all(1), none)


def _with(made: Estimate, aligned: Aligned, tracks: Observed) -> Estimate:
    inside = (aligned.inside | (tracks.weight == 0)).all(1)
    return replace(made, error=aligned.error, good=made.good & aligned.converged & inside, steps=aligned.steps)


# Refinement -----------------------------------------------------------------------------------------------------------


def refine_plane(tracks: Observed, pictures: Pictures, patch: Patch, free_depth: bool = False) -> Estimate:
    """Ref2DoF: planes through the triangulated points, aligned in all pictures of a track at once, from the corrected
    affinities. With ``free_depth`` the points move along their rays too (3 degrees of freedom)."""
    view = induced(tracks.R, tracks.t, tracks.x.unsqueeze(1), tracks.inverse_depth.unsqueeze(1))
    start = _corrected(tracks, tracks.A).plane[:, :2]
    family: Family
    if free_depth:
        family, p = Planes(tracks.R, tracks.t, tracks.x), torch.cat([start, tracks.inverse_depth.unsqueeze(1)], 1)
    else:
        family, p = through_point(view), start
    aligned = _aligned(tracks, pictures, patch, family, p)
    depth = aligned.p[:, 2] if free_depth else tracks.inverse_depth
    maps, _ = family.at(aligned.p)
    made = _plain(plane_through(tracks.x, aligned.p[:, :2], depth), maps[..., 2], maps[..., :2])
    return _with(made, aligned, tracks)


def refine_affinities(tracks: Observed, pictures: Pictures, patch: Patch) -> tuple[Tensor, Aligned]:
    """Ref4DoF: the affinity (B, V, 2, 2) of each picture aligned by itself, with all four entries free."""
    single = _singles(tracks)
    aligned = _aligned(single, pictures, patch, affinities(single.y[:, 0]), single.A.flatten(1))
    shape = tracks.weight.shape
    seen = tracks.weight > 0
    A = torch.where(seen[..., None, None], aligned.p.view(*shape, 2, 2), tracks.A)
    converged = (aligned.converged.view(shape) | ~seen).all(1)
    steps = torch.where(seen, aligned.steps.view(shape), 0).sum(1)
    return A, Aligned(aligned.p, aligned.error.view(shape), aligned.inside.view(shape), converged, steps)


def _singles(tracks: Observed) -> Observed:
    """Every picture of every track as a track of its own."""
    views = tracks.weight.shape[1]
    spread = {name: getattr(tracks, name).repeat_interleave(views, 0) for name in ("first", "K1", "x", "frame")}
    flat = {
        name: getattr(tracks, name).flatten(0, 1).unsqueeze(1) for name in ("others", "weight", "K", "R", "t", "y", "A")
    }
    return replace(tracks, **spread, **flat, inverse_depth=tracks.inverse_depth.repeat_interleave(views))


def patch_frames(tracks: Observed, patch: Patch) -> Tensor:
    """What takes the square from -1 to 1 to a patch of the reference, (B, 2, 2) in pixels: the feature's frame times
    ``patch.scale``, between the smallest and the largest allowed."""
    frame = patch.scale * tracks.K1[:, :2, :2] @ tracks.frame
    size = torch.linalg.det(frame).abs().sqrt()
    wanted = size.clamp(patch.least, max(patch.most, patch.least))
    return frame * (wanted / size)[:, None, None]


def _aligned(tracks: Observed, pictures: Pictures, patch: Patch, family: Family, p: Tensor) -> Aligned:
    pixels = patch_frames(tracks, patch)
    centre = tracks.pixels()[0]
    template = torch.cat([pixels, centre.unsqueeze(-1)], -1)
    frame = torch.linalg.inv_ex(tracks.K1[:, :2, :2])[0] @ pixels
    settings = Alignment(patch.side, patch.steps, patch.tolerance, patch.coarse, patch.gain)
    maps = InPixels(family, frame, tracks.K)
    return align(pictures, tracks.first, template, tracks.others, maps, p, settings, tracks.weight)


def agreement(tracks: Observed, pictures: Pictures, plane: Tensor, patch: Patch) -> Tensor:
    """Correlations (B,) of patches with what planes (B, 3) make of them in the other pictures, as means over views."""
    family = Planes(tracks.R, tracks.t, tracks.x)
    p = torch.cat([plane[:, :2], (plane * homogeneous(tracks.x)).sum(1, keepdim=True)], 1)
    aligned = _aligned(tracks, pictures, replace(patch, steps=0, coarse=0, gain=True), family, p)
    error = (aligned.error.nan_to_num(2) * tracks.weight).sum(1) / tracks.weight.sum(1)
    return 1 - error / 2


# Tracking -------------------------------------------------------------------------------------------------------------


def track(tracks: Observed, pictures: Pictures, freedom: int, patch: Patch) -> Estimate:
    """Track3DoF (``freedom`` 3) or Track6DoF: patches of the first picture followed through the others, in their order.

    Each one begins where the last one ended, and is compared with the first picture. With 3 degrees of freedom points
    stay on epipolar lines and affinities agree with them; 6 are those of a usual affine tracker (KLT). Only the points
    and frames of the first picture are used. Planes are those of all pictures together (Eq. 13).
    """
    count, views = tracks.weight.shape
    last = F.pad(torch.eye(2).to(tracks.x).expand(count, 2, 2), (0, 1)) + F.pad(tracks.x.unsqueeze(-1), (2, 0))
    E = essential(tracks.R, tracks.t)
    maps, errors = [], []
    good = torch.ones(count, dtype=torch.bool, device=tracks.x.device)
    steps = torch.zeros(count, dtype=torch.long, device=tracks.x.device)
    for view in range(views):
        one = replace(tracks, **{
            name: getattr(tracks, name)[:, view : view + 1] for name in ("others", "weight", "K", "R", "t", "y", "A")
        })  # fmt: skip
        family = along_line(E[:, view], tracks.x, last[..., 2]) if freedom == 3 else affine_maps(tracks.x)
        aligned = _aligned(one, pictures, patch, family, family.nearest(last.unsqueeze(1)))
        now = family.at(aligned.p)[0][:, 0]
        good = good & now.isfinite().all(-1).all(-1) & aligned.inside[:, 0]
        last = torch.where(good[:, None, None], now, last)
        maps.append(last)
        errors.append(aligned.error[:, 0])
        steps = steps + aligned.steps
    found = torch.stack(maps, 1)
    y, A = found[..., 2], found[..., :2]
    plane = estimate_plane(tracks.R, tracks.t, tracks.x, y, A, tracks.weight)
    return Estimate(plane, y, A, torch.stack(errors, 1), good & plane.isfinite().all(1), steps)
