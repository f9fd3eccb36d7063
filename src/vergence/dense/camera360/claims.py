"""The paper's claims, as tests that can fail: geometry, counts, costs, and verticals within some degrees."""

from __future__ import annotations

from typing import Any

import torch

from vergence.contract.claims import Claim, above, compared, compared_models, faster, lighter, parameter_counts
from vergence.contract.evidence import ROUNDING
from vergence.dense.camera360 import exact
from vergence.dense.camera360.model import verticals
from vergence.dense.camera360.settings import SETTINGS
from vergence.dense.panorama_data import Rendered
from vergence.dense.verticals import Centroid, network_input, tilted_again
from vergence.metrics.angles import axis_errors, shares_within

COUNTS = {
    "paper": 26_266_511,
    "paper/no-votes": 26_094_658,
    "paper/regression": 21_791_715,
    "paper/coarse-to-fine": 43_685_880,
}
SEEDS = 3


def tilt_gain(model: Any, centroid: Centroid) -> float:
    """The gain of the test-time tilt: percentage of test panoramas near level whose vertical is within 3 degrees."""
    data = SETTINGS.configure("tiny").data
    level = Rendered.of(data.scenes, data.held_out, data.height, "test").tensors[1]
    pictures, votes = level["image"], level["votes"]

    def find(some: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return verticals(model, *network_input(some, own, data.height), centroid)[0]

    plain = find(pictures, votes)
    tilted = tilted_again(find, pictures, plain, 20.0, 10.0)
    before, after = (shares_within(axis_errors(found, level["up"]), (3.0,))[0] for found in (plain, tilted))
    return after - before


CLAIMS = (
    parameter_counts("parameters", "Parameters of the network, without votes, and of both baselines, counted by hand.",
                     "Sec. 2.2", COUNTS),
    Claim("parts", "Every part of the network has the parameters counted by hand, and InceptionV3 those of its public "
          "weights.", "Sec. 2.2", "check", exact.parts_have_their_counts, 0, unit="parameters off"),
    Claim("coordinates", "Pixels to the sphere, to vectors and back are the identity, by the definition.",
          "Eq. 1, corrected", "check", exact.coordinates_return, 1e-9, unit="px"),
    Claim("areas", "Pixel areas are those between circles of latitude, and sum to the sphere.", "Sec. 2.4", "check",
          exact.areas_are_the_sphere, ROUNDING),
    Claim("points", "Means over the 16,384 points are integrals over the sphere.", "Sec. 2.4", "check",
          exact.points_are_uniform, 1e-5),
    Claim("rotation", "Rotation in one grid_sample is the sum of four neighbours by hand, forward and backward, also "
          "by tiles.", "Eq. 2", "check", exact.rotation_is_its_definition, ROUNDING),
    Claim("yaw", "A turn about the vertical by whole columns rolls the picture.", "Sec. 2.4", "check",
          exact.yaw_is_a_roll, ROUNDING),
    Claim("round-trip", "A rotation and its inverse return a smooth picture of 256 x 128 pixels.", "Eq. 2", "check",
          exact.round_trip, 60.0, "at least", "dB"),
    Claim("views", "Cube faces and perspective views show a smooth function at their directions, within the bound of "
          "interpolation.", "Sec. 2.1", "check", exact.views_see_their_directions, 1.0, unit="times the bound"),
    Claim("cap-area", "Spots cover 1 - cos 5° of the sphere at every pose, up to pixels at 1024 x 512 (relative).",
          "Sec. 2.2", "check", exact.caps_have_their_area, 0.04),
    Claim("votes", "Votes by runs of columns are those of Eq. 3, the same for n and -n.", "Eq. 3", "check",
          exact.votes_are_their_definition, ROUNDING),
    Claim("parallel", "Circles of parallel lines meet in the pixel of their direction.", "Sec. 2.3", "check",
          exact.parallel_lines_meet, 1.0, unit="px"),
    Claim("dice", "The dice is 0 for a perfect map and has its closed form for an empty and a random one.", "Sec. 2.4",
          "check", exact.dice_has_closed_forms, ROUNDING),
    Claim("dice-pose", "The dice on the sphere does not change if both maps are turned.", "Sec. 2.4", "check",
          exact.dice_ignores_the_pose, 1e-4),
    Claim("axis", "The axis of a perfect spot is exact at every pose, by the spherical centroid.", "Sec. 2.5", "check",
          exact.axis_of_a_perfect_spot, 0.05, unit="°"),
    Claim("oracle", "The test-time tilt does not move the vertical of a method that is right.", "Sec. 2.5", "check",
          exact.tilting_an_oracle_changes_nothing, 1e-4, unit="°"),
    Claim("levelling", "Levelling undoes a known tilt, and pitch and roll give the vertical back.", "Sec. 2.4", "check",
          exact.levelling_undoes_a_known_tilt, ROUNDING),
    Claim("rolls", "The segmentation rolls with the picture: there is no seam.", "our form", "check",
          exact.segmentation_rolls_with_the_picture, ROUNDING),
    Claim("means", "Regression from means with circular padding cannot tell yaw: its output does not change.",
          "our form", "check", exact.means_cannot_tell_yaw, ROUNDING),
    Claim("printed", "The longitudes of Eq. 1 as printed cover the whole circle (share of it).", "Eq. 1", "exact",
          exact.printed_longitudes, 0.999, "at least"),
    Claim("polar-pixels", "Pixels over-sample the poles: the spots of a level picture have 20 times the pixels of "
          "those on the equator.", "Sec. 2.4", "exact", exact.pixels_of_a_cap, 20.0, "at least", "times"),
    Claim("pixel-centroid", "The centroid of pixels of a perfect spot is the vertical of a level picture to 1°.",
          "Sec. 2.5", "exact", exact.pixel_centroid_of_level, 1.0, unit="°"),
    Claim("pixel-centroid-tilted", "The same for a picture tilted by 20°, which is why near-level pictures are tilted.",
          "Sec. 2.5", "exact", exact.pixel_centroid_of_tilted, 1.0, unit="°"),
    faster("rotation-time", "Rotating 8192 x 4096 pixels, coordinates included, takes at most 1.5 times as long as "
           "grid_sample with its grid ready.", "our form", "rotation", "grid_sample, grid ready", threshold=1 / 1.5),
    lighter("rotation-memory", "By tiles, rotation takes at most half the memory of the whole at once.", "our form",
            "tiles", "whole", threshold=2.0),
    above("votes-help", "Segmentation with votes finds more verticals to 3° than without.", "Table 1",
          better="gscnn", worse="no-votes", metric="within_3", seeds=SEEDS, unit="%", paper="80.5 and 57.0"),
    above("segmentation", "Segmentation without votes finds more verticals to 3° than regression with the same "
          "backbone.", "Table 1", better="no-votes", worse="regression", metric="within_3", seeds=SEEDS, unit="%",
          paper="57.0 and 34.8"),
    above("both", "Segmentation with votes finds more verticals to 3° than regression.", "Table 1", better="gscnn",
          worse="regression", metric="within_3", seeds=SEEDS, unit="%", paper="80.5 and 34.8"),
    above("sphere-dice", "Near level, the dice on the sphere finds more verticals to 3° than that in the plane.",
          "Sec. 2.4", better="gscnn", worse="plane", metric="level_3", seeds=SEEDS, unit="%"),
    above("against-votes", "Segmentation with votes finds more verticals to 5° than votes alone.", "Table 1",
          better="gscnn", worse="votes", metric="within_5", seeds=SEEDS, unit="%", paper="94.7 and 1.7"),
    compared_models("tilt-pixel", "With the centroid of pixels, as in the paper, the test-time tilt finds more of the "
                    "verticals near level to 3°.", "Sec. 2.5", {"run": "gscnn"},
                    lambda of: tilt_gain(of["run"], "pixel"), seeds=SEEDS, unit="%"),
    compared_models("tilt-spherical", "With the spherical centroid, the test-time tilt still does.", "Sec. 2.5",
                    {"run": "gscnn"}, lambda of: tilt_gain(of["run"], "spherical"), seeds=SEEDS, unit="%"),
    compared("noise-rotated", "A network reads the tilt of rotated white noise from the traces of interpolation: its "
             "mean error is at most half of that of no turn.", "Sec. 3.2", {"run": "rotated-noise"},
             lambda of: of["run"]["error"] / of["run"]["error_constant"], threshold=0.5, sense="at most", seeds=SEEDS),
    compared("noise-sampled", "Of white noise that was not rotated it reads nothing: its mean error is at least 0.85 "
             "times that of no turn.", "Sec. 3.2", {"run": "sampled-noise"},
             lambda of: of["run"]["error"] / of["run"]["error_constant"], threshold=0.85, sense="at least",
             seeds=SEEDS),
)  # fmt: skip
