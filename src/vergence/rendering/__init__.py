"""A small ray caster: textured solids, lights and cameras, with the exact depth and motion of every pixel.

Embedded data of several rooms is rendered with it. Axes are right, down, forward, as in a camera; lengths are metres.
"""

from vergence.rendering.cameras import Panorama, Pinhole, look_at
from vergence.rendering.scenes import Light, Scene, SceneBuilder, Surfaces
from vergence.rendering.solids import BOX, CONE, CYLINDER, ELLIPSOID, Hits, Solids, cast
from vergence.rendering.textures import Atlas, photographic
from vergence.rendering.views import Motion, View, exposed, motion, render

__all__ = [
    "BOX",
    "CONE",
    "CYLINDER",
    "ELLIPSOID",
    "Atlas",
    "Hits",
    "Light",
    "Motion",
    "Panorama",
    "Pinhole",
    "Scene",
    "SceneBuilder",
    "Solids",
    "Surfaces",
    "View",
    "cast",
    "exposed",
    "look_at",
    "motion",
    "photographic",
    "render",
]
