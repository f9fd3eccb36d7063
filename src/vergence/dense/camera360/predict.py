"""A user's panorama set upright: its vertical, the picture at full size, angles for other programs, and pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.contract.settings import NoFacts
from vergence.core.errors import VergenceError
from vergence.core.files import replacing, write_json, write_text
from vergence.dense.camera360.model import Network, verticals
from vergence.dense.camera360.pictures import rows_of_panoramas, with_horizon
from vergence.dense.camera360.settings import Config, Inputs
from vergence.dense.panorama_data import read_panorama
from vergence.dense.vanishing import as_bytes, line_normals, refined_axis
from vergence.dense.verticals import network_input, pitch_roll, tilted_again, upright
from vergence.ops.sphere import circle_votes, rotate_tiles

Ctx = Context[Config, NoFacts]
LINES = 512
"""Height at which line segments are found."""
SHOWN = 720
"""Height of the pictures before and after."""
TILT = 20.0
"""Degrees of the test-time tilt, where the config has none."""
WITHIN, FARTHEST = 14.0, 12.0
"""Degrees within which lines are taken for vertical ones, and by which they may turn the network's vertical."""


@dataclass(frozen=True, eq=False)
class Levelled(Result):
    """A panorama set upright."""

    panorama: Tensor
    """The picture as it was given, bytes (3, H, W)."""
    upright: Tensor
    """The picture set upright, bytes (3, H, W)."""
    up: tuple[float, float, float]
    """The vertical in the given picture: x towards the middle of its back (the seam), y to the right, z up."""
    pitch: float
    """Elevation of the picture's middle above the true horizon, in degrees."""
    roll: float
    """Roll of the camera in degrees, positive if its right side is lower."""
    tilt: float
    """The angle between the picture's vertical and the true one, in degrees."""
    network: tuple[float, float, float]
    """The vertical before lines refined it."""
    refined: bool
    """Whether lines refined it."""
    lines: int
    """Line segments that were found."""
    spots: Tensor | None
    """Probability (h, w) of the vertical's two ends, of the network's size; None for a method that segments nothing."""
    votes: Tensor
    """Votes (h, w) for vanishing points, bytes."""
    rotation: tuple[tuple[float, float, float], ...]
    """R: the upright picture shows in direction d what the given one shows at R d."""
    hint: str
    """What seems to be wrong with the picture; empty if nothing."""

    def summary(self) -> Mapping[str, Any]:
        told = {
            "pixels": f"{self.panorama.shape[2]} x {self.panorama.shape[1]}",
            "tilt, degrees": round(self.tilt, 2),
            "pitch, degrees": round(self.pitch, 2),
            "roll, degrees": round(self.roll, 2),
            "refined by lines": "yes" if self.refined else "no",
        }
        return told | ({"hint": self.hint} if self.hint else {})


def levelled(ctx: Ctx, model: Network, inputs: Inputs) -> Levelled:
    """The panorama of a user, set upright."""
    panorama = read_panorama(inputs.panorama)
    height, width = panorama.shape[-2:]
    ctx.need(12.0 * (height + 2) * (width + 2) + 6.0 * height * width, f"rotating {width} x {height} pixels")
    aim, size = ctx.config.objective, ctx.config.data.height
    small = _reduced(panorama, min(max(LINES, size), max(height - height % 2, 32)))

    def find(pictures: Tensor, votes: Tensor) -> Tensor:
        return verticals(model, *network_input(pictures, votes, size), aim.centroid)[0]

    normals, lengths = line_normals(small)
    high, wide = small.shape[-2:]
    votes = as_bytes(circle_votes(normals, high, wide, 1.0))
    images = network_input(ctx.to_device(small)[None], ctx.to_device(votes)[None], size)
    axes, maps = verticals(model, *images, aim.centroid)
    tilt = aim.tilt or TILT if inputs.again == "tilted" else 0.0
    axes = tilted_again(find, ctx.to_device(small)[None], axes, tilt, aim.level)
    found = axes[0].double().cpu()
    axis, refined = _refined(found, normals, lengths) if inputs.refine == "lines" else (found, False)
    hint = _hint(small, maps, len(normals))
    if hint:
        ctx.progress.say(hint)
    turn = upright(axis)
    level = rotate_tiles(panorama, turn)
    pitch, roll = (float(angle) for angle in pitch_roll(axis))
    off = math.degrees(math.atan2(float(axis[:2].norm()), float(axis[2])))
    spots = None if maps is None else maps[0].float().cpu()
    return Levelled(
        panorama, level, _plain(axis), pitch, roll, off, _plain(found), refined, len(normals), spots, votes,
        tuple(_plain(row) for row in turn), hint,
    )  # fmt: skip


def _plain(vector: Tensor) -> tuple[float, float, float]:
    x, y, z = vector.tolist()
    return x, y, z


def _reduced(panorama: Tensor, height: int) -> Tensor:
    """A panorama of bytes at a height, by parts of its rows: huge ones are never floats as a whole."""
    own = panorama.shape[-2]
    factor = max(own // (2 * height), 1)
    if factor > 1:
        rows = own - own % factor
        parts = [F.avg_pool2d(part.float(), factor) for part in panorama[:, :rows].split(64 * factor, 1)]
        panorama = torch.cat(parts, 1)
    small = F.interpolate(
        panorama[None].float(), (height, 2 * height), mode="bilinear", antialias=True, align_corners=False
    )
    return small[0].round().clamp(0, 255).to(torch.uint8)


def _refined(axis: Tensor, normals: Tensor, lengths: Tensor) -> tuple[Tensor, bool]:
    better = refined_axis(axis, normals, lengths, WITHIN) if len(normals) else None
    if better is None or math.degrees(math.acos(min(float(better @ axis), 1.0))) > FARTHEST:
        return axis, False
    return better * (1 if better[2] >= 0 else -1), True


def _hint(picture: Tensor, maps: Tensor | None, lines: int) -> str:
    if int(picture.amax()) - int(picture.amin()) < 8:
        return "the picture is nearly of one colour: nothing in it says where the vertical is"
    if maps is not None and float(maps.max()) < 0.5:
        return "the network is not sure where the vertical is: look at the picture before you use it"
    return ""


# Files ----------------------------------------------------------------------------------------------------------------

XMP = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about="" xmlns:GPano="http://ns.google.com/photos/1.0/panorama/">
   <GPano:ProjectionType>equirectangular</GPano:ProjectionType>
   <GPano:UsePanoramaViewer>True</GPano:UsePanoramaViewer>
   <GPano:PosePitchDegrees>{pitch:.4f}</GPano:PosePitchDegrees>
   <GPano:PoseRollDegrees>{roll:.4f}</GPano:PoseRollDegrees>
   <GPano:FullPanoWidthPixels>{width}</GPano:FullPanoWidthPixels>
   <GPano:FullPanoHeightPixels>{height}</GPano:FullPanoHeightPixels>
   <GPano:CroppedAreaImageWidthPixels>{width}</GPano:CroppedAreaImageWidthPixels>
   <GPano:CroppedAreaImageHeightPixels>{height}</GPano:CroppedAreaImageHeightPixels>
   <GPano:CroppedAreaLeftPixels>0</GPano:CroppedAreaLeftPixels>
   <GPano:CroppedAreaTopPixels>0</GPano:CroppedAreaTopPixels>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>
"""


def metadata(pitch: float, roll: float, width: int, height: int) -> str:
    """An XMP packet with GPano's angles of a panorama."""
    return XMP.format(pitch=pitch + 0.0, roll=roll + 0.0, width=width, height=height)


def render(ctx: Ctx, inputs: Inputs, result: Levelled) -> Sequence[Artifact]:
    """Writes the upright panorama with its metadata, the angles, and the picture before and after."""
    stem = inputs.panorama.stem
    height, width = result.panorama.shape[-2:]
    before = _before_after(ctx.folder / f"{stem}-horizon.png", result)
    level = _saved(ctx.folder / f"{stem}-upright{'.jpg' if inputs.quality else '.png'}", result, inputs.quality)
    angles = ctx.folder / f"{stem}-angles.json"
    names = ("pitch", "roll", "tilt", "up", "network", "refined", "lines", "rotation", "hint")
    write_json(angles, {"file": inputs.panorama.name, "width": width, "height": height}
               | {name: getattr(result, name) for name in names})  # fmt: skip
    sidecar = ctx.folder / f"{stem}.xmp"
    write_text(sidecar, metadata(result.pitch, result.roll, width, height))
    return [
        Artifact("image", before, "As given, with the horizon and the ends of the vertical that were found; upright."),
        Artifact("image", level, f"The upright panorama, {width} x {height} pixels, with its metadata."),
        Artifact("json", angles, "Pitch, roll, tilt and rotation."),
        Artifact("text", sidecar, "Pitch and roll of the panorama as it was given, as GPano metadata for viewers."),
    ]


def _saved(path: Path, result: Levelled, quality: int) -> Path:
    from PIL import Image

    height, width = result.upright.shape[-2:]
    if quality and max(height, width) > 65_500:
        raise VergenceError(f"JPEG ends at 65,500 pixels and the panorama has {width}: --quality 0 writes PNG")
    picture = Image.fromarray(result.upright.permute(1, 2, 0).numpy())
    packet = metadata(0.0, 0.0, width, height).encode()
    with replacing(path) as partial:
        if quality:
            picture.save(partial, "JPEG", quality=quality, xmp=packet)
        else:
            picture.save(partial, "PNG")
    return path


def _before_after(path: Path, result: Levelled) -> Path:
    rows = min(SHOWN, result.panorama.shape[-2])
    up = torch.tensor(result.up)
    panels = [(with_horizon(_reduced(result.panorama, rows), up), f"as given: tilted by {result.tilt:.1f}°")]
    level = with_horizon(_reduced(result.upright, rows), torch.tensor([0.0, 0.0, 1.0]))
    panels.append((level, "upright"))
    if result.spots is not None:
        spots = (result.spots.clamp(0, 1) * 255).to(torch.uint8).expand(3, -1, -1)
        panels += [(spots, "ends of the vertical, by the network"), (result.votes.expand(3, -1, -1), "votes")]
    return rows_of_panoramas(path, [panels[k : k + 2] for k in range(0, len(panels), 2)], 5.5)
