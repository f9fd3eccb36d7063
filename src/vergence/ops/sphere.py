"""Panoramas on the sphere: equirectangular coordinates, rotation, perspective views, and votes of great circles.

Directions are unit vectors (x, y, z) with z up. The pixel in column x and row y of an equirectangular picture, counted
from 0, shows the direction of colatitude ``λ = π (y + ½) / H`` and longitude ``φ = 2π − 2π (x + ½) / W``: columns run
against the longitude, and the middle column shows -x. Nothing here has a seam: columns continue from the last to the
first, and rows continue across the poles, half a turn away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

TURN = 2 * math.pi
TILE = 64
"""Rows that are rotated at once where memory counts: their coordinates stay in a core's cache."""


def _refuse_flat(panoramas: Tensor) -> None:
    if panoramas.dim() != 4 or panoramas.shape[-1] % 2 or not panoramas.is_floating_point():
        raise ValueError(
            f"panoramas are floats (B, C, H, W) of an even width, got {tuple(panoramas.shape)} of {panoramas.dtype}"
        )


# Coordinates ----------------------------------------------------------------------------------------------------------


def pixel_to_sphere(x: Tensor, y: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Colatitudes from 0 to π and longitudes from 0 to 2π of pixel places: the map p."""
    return math.pi * (y + 0.5) / height, TURN - TURN * (x + 0.5) / width


def sphere_to_pixel(colatitude: Tensor, longitude: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Columns from -½ to below W - ½, and rows, of colatitudes and longitudes: the inverse of p."""
    across = (-longitude / TURN).remainder(1.0)
    return across * width - 0.5, colatitude * (height / math.pi) - 0.5


def sphere_to_vector(colatitude: Tensor, longitude: Tensor) -> Tensor:
    """Unit vectors (..., 3) of colatitudes and longitudes: the map f."""
    flat = colatitude.sin()
    return torch.stack([longitude.cos() * flat, longitude.sin() * flat, colatitude.cos()], -1)


def vector_to_sphere(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Colatitudes, and longitudes from -π to π, of vectors (..., 3) of any length: the inverse of f, exact near the
    poles too."""
    x, y, z = vectors.unbind(-1)
    return torch.atan2(torch.hypot(x, y), z), torch.atan2(y, x)


def pixel_to_vector(x: Tensor, y: Tensor, height: int, width: int) -> Tensor:
    """Unit vectors (..., 3) of pixel places."""
    return sphere_to_vector(*pixel_to_sphere(x, y, height, width))


def vector_to_pixel(vectors: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Columns and rows of directions (..., 3)."""
    return sphere_to_pixel(*vector_to_sphere(vectors), height, width)


def pixel_directions(height: int, width: int, like: Tensor) -> Tensor:
    """The directions (H, W, 3) of all pixels, in the type and on the device of ``like``."""
    rows = torch.arange(height, dtype=like.dtype, device=like.device)
    columns = torch.arange(width, dtype=like.dtype, device=like.device)
    y, x = torch.meshgrid(rows, columns, indexing="ij")
    return pixel_to_vector(x, y, height, width)


def pixel_areas(height: int, width: int, like: Tensor) -> Tensor:
    """The solid angle (H,) of a pixel of each row; all pixels together have 4π."""
    borders = torch.arange(height + 1, dtype=like.dtype, device=like.device) * (math.pi / height)
    # 2 sin a sin b instead of a difference of cosines, which cancels near the poles
    middle, half = (borders[1:] + borders[:-1]) / 2, math.pi / (2 * height)
    return middle.sin() * (2 * math.sin(half) * TURN / width)


def fibonacci_sphere(count: int, like: Tensor) -> Tensor:
    """``count`` nearly uniform directions (count, 3), from the top to the bottom in a spiral of golden angles."""
    number = torch.arange(count, dtype=like.dtype, device=like.device)
    height = 1 - (2 * number + 1) / count
    longitude = (number * ((math.sqrt(5) - 1) / 2)).remainder(1.0) * TURN
    flat = (1 - height * height).sqrt()
    return torch.stack([flat * longitude.cos(), flat * longitude.sin(), height], -1)


def shortest_arc(start: Tensor, end: Tensor) -> Tensor:
    """The rotations (..., 3, 3) that take unit vectors (..., 3) to others by the shortest arc; opposite ones by half a
    turn about some axis at right angles to them."""
    cross, cosine = torch.linalg.cross(start, end), (start * end).sum(-1, keepdim=True)
    x, y, z = cross.unbind(-1)
    zero = torch.zeros_like(x)
    skew = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).unflatten(-1, (3, 3))
    eye = torch.eye(3, dtype=start.dtype, device=start.device)
    opposite = cosine < -1 + 1e-9
    turned = eye + skew + skew @ skew / torch.where(opposite, 1, 1 + cosine).unsqueeze(-1)
    least = F.one_hot(start.abs().argmin(-1), 3).to(start)
    axis = F.normalize(torch.linalg.cross(start, least), dim=-1)
    half = 2 * axis.unsqueeze(-1) * axis.unsqueeze(-2) - eye
    return torch.where(opposite.unsqueeze(-1), half, turned)


def yaw(angle: Tensor) -> Tensor:
    """Rotations (..., 3, 3) about the vertical by angles in radians."""
    cos, sin, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    return torch.stack([cos, -sin, zero, sin, cos, zero, zero, zero, zero + 1], -1).unflatten(-1, (3, 3))


def angle_between(one: Tensor, other: Tensor) -> Tensor:
    """Angles (...) in radians between unit vectors (..., 3), exact for small angles too."""
    return 2 * torch.atan2((one - other).norm(dim=-1), (one + other).norm(dim=-1))


# Sampling -------------------------------------------------------------------------------------------------------------


def framed(panoramas: Tensor) -> Tensor:
    """Panoramas (B, C, H, W) with one more column and row on each side, as the sphere continues them: bilinear sampling
    then needs no other rule at the seam and at the poles."""
    rows = torch.cat(
        [panoramas[..., :1, :].roll(panoramas.shape[-1] // 2, -1), panoramas,
         panoramas[..., -1:, :].roll(panoramas.shape[-1] // 2, -1)], -2,
    )  # fmt: skip
    return torch.cat([rows[..., -1:], rows, rows[..., :1]], -1)


def sample(panoramas: Tensor, directions: Tensor) -> Tensor:
    """Panoramas (B, C, H, W), sampled bilinearly at directions (B or 1, h, w, 3) of any length: (B, C, h, w). It is one
    ``grid_sample``, differentiable in both."""
    _refuse_flat(panoramas)
    height, width = panoramas.shape[-2:]
    x, y = vector_to_pixel(directions.to(panoramas.dtype), height, width)
    grid = torch.stack([(x + 1) * (2 / (width + 1)) - 1, (y + 1) * (2 / (height + 1)) - 1], -1)
    grid = grid.expand(len(panoramas), -1, -1, -1)
    return F.grid_sample(framed(panoramas), grid, "bilinear", "border", align_corners=True)


def rotate(panoramas: Tensor, rotations: Tensor, size: tuple[int, int] | None = None) -> Tensor:
    """Panoramas (B, C, H, W) turned by rotations R (3, 3) or (B, 3, 3) (Eq. 2): a pixel that shows direction d shows
    what was at ``R d`` before. A direction u of a scene is then seen at ``Rᵀ u``."""
    height, width = size or panoramas.shape[-2:]
    own = rotations.to(panoramas) if rotations.dim() == 3 else rotations.to(panoramas).unsqueeze(0)
    directions = pixel_directions(height, width, panoramas).flatten(0, 1)
    turned = (directions @ own.mT).unflatten(1, (height, width))
    return sample(panoramas, turned)


@torch.no_grad()
def rotate_tiles(panorama: Tensor, rotation: Tensor, size: tuple[int, int] | None = None, tile: int = TILE) -> Tensor:
    """As :func:`rotate` for one panorama (C, H, W) of bytes or floats of any size, by tiles of rows: beyond the result
    and one copy in single precision, memory does not grow with the picture.

    Coordinates are separable: ``R d = sin λ (R₀ cos φ + R₁ sin φ) + cos λ R₂``, so that a pixel costs one multiply-add
    per coordinate and two arc tangents. The rows of a tile are shared among the threads.
    """
    if panorama.dim() != 3 or panorama.shape[-1] % 2:
        raise ValueError(f"a panorama is (C, H, W) of an even width, got {tuple(panorama.shape)}")
    kind = panorama.dtype if panorama.dtype == torch.float64 else torch.float32
    channels, high, wide = panorama.shape
    height, width = size or (high, wide)
    source = _framed_copy(panorama, kind)
    own = rotation.to(panorama.device, torch.float64).clone()
    own[0].neg_()  # columns from the seam on are π + atan2(y, -x), without a jump inside the picture
    rows, columns = (torch.arange(side, dtype=torch.float64, device=panorama.device) for side in (height, width))
    colatitude, longitude = pixel_to_sphere(columns, rows, height, width)
    around = (own[:, :1] * longitude.cos() + own[:, 1:2] * longitude.sin()).to(kind).unsqueeze(1)  # (3, 1, W)
    flat, upright = colatitude.sin().to(kind), (own[:, 2:] * colatitude.cos()).to(kind).unsqueeze(-1)  # (H,), (3, H, 1)
    # angles to places in the frame, from -1 to 1
    scale = own.new_tensor([2 * wide / (TURN * (wide + 1)), 2 * high / (math.pi * (high + 1))]).to(kind).view(2, 1, 1)
    shift = own.new_tensor([0.0, 1 / (high + 1) - 1]).to(kind).view(2, 1, 1)
    result = torch.empty(channels, height, width, dtype=panorama.dtype, device=panorama.device)
    threads = torch.get_num_threads() if panorama.device.type == "cpu" else 1
    # grid_sample shares a batch among threads, not the rows of a picture: a tile is a batch of pieces
    for first in range(0, height, tile):
        last = min(first + tile, height)
        back, y, z = (torch.addcmul(upright[k, first:last], flat[first:last, None], around[k]) for k in range(3))
        grid = torch.empty(2, last - first, width, dtype=kind, device=panorama.device)
        torch.atan2(y, back, out=grid[0])
        torch.atan2(torch.hypot(back, y, out=back), z, out=grid[1])
        torch.addcmul(shift, grid, scale, out=grid)
        pieces = threads if (last - first) % threads == 0 else 1
        parts = grid.unflatten(1, (pieces, -1)).permute(1, 2, 3, 0)
        values = F.grid_sample(source.expand(pieces, -1, -1, -1), parts, "bilinear", "border", align_corners=True)
        values = values.movedim(0, 1).flatten(1, 2)
        result[:, first:last] = values if result.is_floating_point() else values.round_()
    return result


def _framed_copy(panorama: Tensor, kind: torch.dtype) -> Tensor:
    """The frame of one panorama (1, C, H + 2, W + 2), written into place: there is no second copy."""
    channels, height, width = panorama.shape
    source = torch.empty(1, channels, height + 2, width + 2, dtype=kind, device=panorama.device)
    inner, half = source[0, :, :, 1:-1], width // 2
    inner[:, 1:-1] = panorama
    for row, edge in ((0, 0), (-1, -1)):
        inner[:, row, :half], inner[:, row, half:] = panorama[:, edge, half:], panorama[:, edge, :half]
    source[..., 0], source[..., -1] = source[..., -2], source[..., 1]
    return source


def view_directions(side: int, field: float, like: Tensor) -> Tensor:
    """Directions (side, side, 3) of the pixels of a square picture that looks along x with y to the left, of a field of
    view in degrees below 180."""
    if side < 1 or not 0 < field < 180:
        raise ValueError(f"a view has 1 or more pixels and a field above 0 and below 180 degrees, got {side}, {field}")
    reach = math.tan(math.radians(field) / 2)
    at = ((torch.arange(side, dtype=like.dtype, device=like.device) + 0.5) * (2 / side) - 1) * reach
    down, right = torch.meshgrid(at, at, indexing="ij")
    return torch.stack([torch.ones_like(down), -right, -down], -1)


def perspective(panoramas: Tensor, rotations: Tensor, field: float, side: int) -> Tensor:
    """Square perspective pictures (B, C, side, side) of panoramas (B, C, H, W), by cameras whose axes (forward, left,
    up) are the columns of rotations (3, 3) or (B, 3, 3)."""
    own = rotations.to(panoramas) if rotations.dim() == 3 else rotations.to(panoramas).unsqueeze(0)
    directions = view_directions(side, field, panoramas).flatten(0, 1)
    return sample(panoramas, (directions @ own.mT).unflatten(1, (side, side)))


def cube_rotations(like: Tensor) -> Tensor:
    """Rotations (6, 3, 3) of the faces of a cube, by :func:`perspective`'s axes: four around, then up and down."""
    faces: Sequence[tuple[tuple[float, ...], ...]] = (
        ((1, 0, 0), (0, 1, 0)), ((0, 1, 0), (-1, 0, 0)), ((-1, 0, 0), (0, -1, 0)), ((0, -1, 0), (1, 0, 0)),
        ((0, 0, 1), (0, 1, 0)), ((0, 0, -1), (0, 1, 0)),
    )  # fmt: skip
    forward, left = (like.new_tensor([face[k] for face in faces]) for k in (0, 1))
    return torch.stack([forward, left, torch.linalg.cross(forward, left)], -1)


def cube_faces(panoramas: Tensor, side: int) -> Tensor:
    """The six faces (B, 6, C, side, side) of a cube around the viewer, each of 90 degrees, in one ``grid_sample``."""
    directions = view_directions(side, 90.0, panoramas)
    turned = torch.einsum("fij,yxj->fyxi", cube_rotations(panoramas), directions)
    flat = sample(panoramas, turned.flatten(0, 1).unsqueeze(0))
    return flat.unflatten(2, (6, side)).movedim(2, 1)


# Maps -----------------------------------------------------------------------------------------------------------------


def caps(axes: Tensor, height: int, width: int, radius: float) -> Tensor:
    """Whether pixels (B, H, W) are within ``radius`` degrees of axes (B, 3), at either end."""
    directions = pixel_directions(height, width, axes).flatten(0, 1)
    return ((axes @ directions.mT).abs() > math.cos(math.radians(radius))).unflatten(1, (height, width))


def circle_votes(normals: Tensor, height: int, width: int, reach: float, weights: Tensor | None = None) -> Tensor:
    """The number of great circles (H, W) that pass each pixel: of normals n (N, 3), those with ``|n · d| < sin reach``
    in degrees (Eq. 3), counted with ``weights`` (N,).

    In one row, a circle's pixels are at most two runs of columns: the cost is N H instead of N H W.
    """
    votes = normals.new_zeros(height, width + 1)
    if not len(normals):
        return votes[:, :width]
    weights = normals.new_ones(len(normals)) if weights is None else weights.to(normals)
    near = math.sin(math.radians(reach))
    colatitude = math.pi * (torch.arange(height, dtype=normals.dtype, device=normals.device) + 0.5) / height
    # n · d = sin λ ρ cos(φ − ψ) + cos λ n_z: near 0 where the cosine is between two bounds
    scale = torch.hypot(normals[:, 0], normals[:, 1]).unsqueeze(1) * colatitude.sin()
    middle = torch.atan2(normals[:, 1], normals[:, 0]).unsqueeze(1)
    level = normals[:, 2:] * colatitude.cos()
    safe = scale.clamp(min=torch.finfo(scale.dtype).tiny)
    inner, outer = (torch.acos(((side - level) / safe).clamp(-1, 1)) for side in (near, -near))
    for low, high in ((middle + inner, middle + outer), (middle - outer, middle - inner)):
        _add_runs(votes, low, high, weights)
    # where both bounds are outside -1 .. 1 on opposite sides, the two runs are the whole circle and meet
    return votes[:, :width].cumsum(1)


def _add_runs(votes: Tensor, low: Tensor, high: Tensor, weights: Tensor) -> None:
    """Add weights (N,) to the pixels whose longitude is between two others (N, H), as differences along the row."""
    height, wide = votes.shape
    width = wide - 1
    # column x has longitude φ where x = (2π − φ) W / 2π − ½: from the highest longitude on, to the lowest
    first = ((TURN - high) * (width / TURN) - 0.5).ceil()
    last = ((TURN - low) * (width / TURN) - 0.5).ceil()  # exclusive
    length = (last - first).clamp(0, width)
    start = first.remainder(width)
    end = start + length
    own = weights.unsqueeze(1).expand_as(start) * (length > 0)
    rows = torch.arange(height, device=votes.device) * wide
    flat = votes.view(-1)
    flat.index_add_(0, (rows + start.long()).flatten(), own.flatten())
    flat.index_add_(0, (rows + end.clamp(max=width).long()).flatten(), -own.flatten())
    beyond = (end - width).clamp(min=0)  # runs that continue in the first column
    again = own * (beyond > 0)
    flat.index_add_(0, rows.expand_as(start).flatten(), again.flatten())
    flat.index_add_(0, (rows + beyond.long()).flatten(), -again.flatten())
