"""Affine correspondences as a system: the compared methods and trackers on rendered and real pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vergence.contract.config import override
from vergence.contract.context import Context
from vergence.contract.data import First, Spread
from vergence.contract.inputs import Artifact
from vergence.contract.settings import NoFacts
from vergence.contract.system import System
from vergence.core.errors import Cancelled, VergenceError
from vergence.core.seeding import generator
from vergence.data.layouts import read
from vergence.matching.affinecorr import pictures, predict
from vergence.matching.affinecorr.claims import CLAIMS
from vergence.matching.affinecorr.model import Estimate, estimate
from vergence.matching.affinecorr.predict import OrientedPoints
from vergence.matching.affinecorr.settings import BARE, SETTINGS, TRACKERS, Config, Inputs, Shots
from vergence.matching.data import LAYOUTS, Shot, Windows, motorcycle
from vergence.matching.photographs import detected_patches, grey, matched_tracks
from vergence.matching.protocol import Judged, judge, summary
from vergence.matching.synth import Exact, Film, places, shots, sphere
from vergence.matching.tracks import Observed, observe, settle
from vergence.ops.photoconsistency import Pictures

Ctx = Context[Config, NoFacts]
TRIALS = 1000
"""Tracks of a sample of `sphere`."""


@dataclass(frozen=True)
class Spheres:
    """Samples of the paper's synthetic set-up."""

    count: int
    views: int
    seed: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Exact:
        return sphere(TRIALS, self.views, generator("sphere", self.seed, range(self.count)[index]))


@dataclass(frozen=True)
class Case:
    """Tracks of a sample, their true planes, and the pictures."""

    tracks: Observed
    truth: Tensor
    """(B, 3), NaN where it is unknown."""
    pictures: Pictures | None


Data = Spheres | Spread | First | Sequence[Shot]


class AffineCorrespondences(System[Config, NoFacts, None, Data, OrientedPoints]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    def data(self, ctx: Ctx, split: str) -> Data:
        asked = ctx.config.data
        photos = read(asked.source, self.layouts, split, embedded=lambda: None)
        if photos is not None:
            return Spread(Windows(photos, asked.views, asked.stride), asked.count)
        return _embedded(asked, ctx.config.seed)

    def slice(self, data: Data) -> Data:
        return First(data, 1)

    def evaluate(self, ctx: Ctx, model: None, data: Data) -> Mapping[str, float]:
        method = ctx.config.model.method
        judged = []
        for index in ctx.progress.track(range(len(data)), "scenes"):
            if ctx.cancelled():
                raise Cancelled("cancelled")
            judged.append(judged_case(ctx.config, data[index], index)[2])
        asked = ctx.config.data
        return summary(judged, method in TRACKERS, asked.scene == "wall" or asked.source.startswith("tum:"))

    def infer(self, ctx: Ctx, model: None, inputs: Inputs) -> OrientedPoints:
        return predict.oriented_points(ctx, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: OrientedPoints) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, None], data: Data) -> Sequence[Artifact]:
        """Draws the oriented points of the first scene by each method, and how their errors are distributed."""
        variants = [name for name in ctx.measured if name in self.variants] or [self.settings.default_variant("tiny")]
        drawn = []
        for variant in variants:
            config = override(ctx.config, self.variants[variant].changes)
            own = self.data(replace(ctx, config=config), "test")
            sample = own[0]
            case, found, judged = judged_case(config, sample, 0)
            shot = sample if isinstance(sample, Shot) else None
            drawn.append(
                pictures.Drawn(self.settings.label(variant), shot, case.tracks, found.plane, case.truth, judged)
            )
        return pictures.of_variants(ctx.folder, drawn)


def _embedded(asked: Shots, seed: int) -> Data:
    if asked.scene == "sphere":
        return Spheres(asked.count, asked.views, seed)
    if asked.scene == "motorcycle":
        return [motorcycle()]
    moving = asked.scene != "still"
    contrast = asked.contrast if moving else 1.0
    film = Film(asked.views, moving, contrast, asked.scene == "wall", asked.pixel_noise)
    return shots(asked.count, film, (seed,))


def judged_case(config: Config, sample: Shot | Exact, index: int) -> tuple[Case, Estimate, Judged]:
    """Tracks of a sample, their planes by the config's method, and the errors of these."""
    case = case_of(config, sample, index)
    found = estimate(case.tracks, case.pictures, config.model.method, config.model.patch)
    return case, found, judge(case.tracks, found.plane, found.y, found.A, found.good, case.truth)


def case_of(config: Config, sample: Shot | Exact, index: int) -> Case:
    """Tracks of a sample as the config asks for them."""
    source = generator("tracks", config.seed, index)
    if isinstance(sample, Exact):
        if config.model.method not in BARE:
            raise VergenceError(f"the scene sphere has no pictures to align: method {config.model.method!r} needs some")
        return Case(_noisy(sample.tracks, config.data, source), sample.plane, None)
    stack = Pictures.of([grey(picture) for picture in sample.pictures], blur=config.model.patch.blur)
    tracking = config.model.method in TRACKERS
    if config.data.frames == "noisy" and sample.depths is not None:
        exact = places(sample, config.data.points, source, config.model.patch.least)
        if tracking:
            return Case(exact.tracks, exact.plane, stack)
        settled = settle(_noisy(exact.tracks, config.data, source), away=6 * max(config.data.point_noise, 0.1))
        return Case(settled.tracks, exact.plane[settled.kept], stack)
    tracks = _found(config, sample, tracking)
    if not len(tracks):
        raise VergenceError(f"{sample.name}: no patch was found in {config.data.views} pictures")
    unknown = torch.full((len(tracks), 3), torch.nan, dtype=torch.float64)
    truth = unknown if sample.surface is None else sample.surface.planes(tracks.pixels()[0])
    return Case(tracks, truth, stack)


def _found(config: Config, shot: Shot, tracking: bool) -> Observed:
    """Tracks from SIFT: matched in all pictures, or only found in the first one."""
    simulate = config.data.frames == "affine"
    if tracking:
        return detected_patches(shot.pictures[0], shot.cameras, simulate, config.data.features)
    tracks = matched_tracks(shot.pictures, shot.cameras, simulate, config.data.features, config.data.views)
    return settle(observe(shot.cameras, tracks.rows((tracks.picture[:, 0] == 0).nonzero().squeeze(1)))).tracks


def _noisy(tracks: Observed, asked: Shots, source: torch.Generator) -> Observed:
    """Gaussian noise on affinities and on points."""

    def noise(like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=source, dtype=like.dtype)

    focal = tracks.K1[:, 0, :1]
    return replace(
        tracks,
        A=tracks.A + asked.noise * noise(tracks.A),
        x=tracks.x + asked.point_noise / focal * noise(tracks.x),
        y=tracks.y + asked.point_noise / focal.unsqueeze(-1) * noise(tracks.y),
    )


SYSTEM = AffineCorrespondences()
