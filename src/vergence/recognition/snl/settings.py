"""What can be set: the network, what it looks at (pictures, clips or tracklets), and how it is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from vergence.contract.data import EMBEDDED
from vergence.contract.inputs import Folder, Images, Points, Videos
from vergence.contract.settings import Variant
from vergence.contract.training import Training
from vergence.core.errors import VergenceError
from vergence.data.classes import Classes
from vergence.data.layouts import Missing
from vergence.recognition.data import View as PictureView
from vergence.recognition.snl.model import ForClips, ForPictures, ForTracklets, Model
from vergence.recognition.synth import LEAST
from vergence.reid.data import View as TrackletView
from vergence.video.data import View as ClipView
from vergence.video.synth import Scene


@dataclass(frozen=True)
class Pictures(PictureView):
    """Pictures to classify, and how they are cut."""

    source: Annotated[str, tyro.conf.arg(aliases=["--data"])] = "embedded"
    """embedded, cifar10:PATH, cifar100:PATH, cub:PATH, folder:PATH, or a plain PATH to class folders."""
    missing: Missing = "refuse"
    """cub: a picture that the lists name and that is not there: refuse, or leave it out (named and counted)."""
    scene: Literal["relation", "sizes"] = "relation"
    """embedded: marks of one size, or small marks in one half of the pictures and large ones in the other."""
    count: int = 4800
    """embedded: pictures to train on; a quarter as many to validate and to test."""
    noise: float = 0.15
    """embedded: grain of the ground."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count < 24 or not self.noise >= 0:
            raise VergenceError(f"embedded data has count >= 24 and noise >= 0, got {self.count} and {self.noise}")
        if self.source == EMBEDDED and self.size < (LEAST if self.scene == "relation" else 41):
            raise VergenceError(f"embedded pictures have a size of at least {LEAST} (41 for sizes), got {self.size}")


@dataclass(frozen=True)
class Footage(ClipView):
    """Videos to classify, and how clips are cut of them."""

    source: Annotated[str, tyro.conf.arg(aliases=["--data"])] = "embedded"
    """embedded, ucf101:PATH, hmdb51:PATH, videos:PATH, or a plain PATH to class folders of videos or of folders of
    frames."""
    fold: Literal[1, 2, 3] = 1
    """ucf101, hmdb51: which of the three ways to split."""
    damaged: Literal["refuse", "skip-training", "skip"] = "refuse"
    """A video that is missing or cannot be read: refuse to go on, take another one in training (it is named and
    counted), or leave it out of evaluation too (the number that was is reported)."""
    count: int = 1600
    """embedded: clips to train on; a quarter as many to validate and to test."""
    clip: Scene = Scene()
    """embedded: what the clips are like."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count < 16:
            raise VergenceError(f"embedded data has a count of at least 16, got {self.count}")
        if self.source == EMBEDDED:
            self.clip.check(self.frames, self.size)


@dataclass(frozen=True)
class Tracklets(TrackletView):
    """Tracklets of people to find again, and how clips are cut of them."""

    source: Annotated[str, tyro.conf.arg(aliases=["--data"])] = "embedded"
    """embedded, mars:PATH, ilids-vid:PATH, prid2011:PATH, tracklets:PATH, or a plain PATH to folders of tracklets."""
    frames: int = 4
    """Frames of a clip."""
    most: int = 0
    """Testing: clips of a tracklet at most, evenly spread (0: all, as published)."""
    fold: int = 1
    """ilids-vid, prid2011: which of the ten ways to split."""
    missing: Missing = "refuse"
    """A tracklet that a list names and that is not there: refuse to go on, or leave it out (named and counted)."""
    each: int = 4
    """Tracklets of an identity in a batch."""
    people: int = 128
    """embedded: people to train on; half as many to validate and to test."""
    length: int = 8
    """embedded: frames of a tracklet."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.people <= 10_000 or not 1 <= self.length <= 1000:
            raise VergenceError(
                f"embedded data has 2 to 10000 people in tracklets of 1 to 1000 frames, got {self.people} and "
                f"{self.length}"
            )
        if not 1 <= self.frames <= 1024 or self.most < 0 or self.each < 1:
            raise VergenceError(
                f"clips have 1 to 1024 frames, tracklets 0 (all) or more clips, and batches at least 1 tracklet of an "
                f"identity; got {self.frames}, {self.most} and {self.each}"
            )


@dataclass(frozen=True)
class Objective:
    """What is minimised: cross-entropy, and what goes with it."""

    smoothing: float = 0.0
    """Share of a label that is spread over all classes."""
    margin: float = 0.0
    """tracklets: margin of the triplet loss with the hardest examples of a batch (0: without it)."""

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing < 1 or not self.margin >= 0:
            raise VergenceError(
                f"an objective's smoothing is from 0 to below 1 and its margin at least 0, got {self.smoothing} and "
                f"{self.margin}"
            )


@dataclass(frozen=True)
class Config:
    """SNL: network, data, training."""

    model: Model = Model()
    data: tyro.conf.AvoidSubcommands[Pictures | Footage | Tracklets] = Pictures()
    """Pictures, videos or tracklets: the preset decides which."""
    objective: Objective = Objective()
    pretrained: str = ""
    """Weights that the backbone starts from: a file with the usual names (.safetensors, or .pth of plain tensors)."""
    train: Training = Training()
    seed: int = 0
    """Decides everything random."""

    def __post_init__(self) -> None:
        if isinstance(self.data, Pictures):
            self.model.check(ForPictures, "pictures")
        elif isinstance(self.data, Footage):
            self.model.check(ForClips, "clips")
        else:
            self.model.check(ForTracklets, "tracklets")


Facts = Classes


@dataclass(frozen=True)
class Inputs:
    """Pictures or videos to label, or a tracklet to find again; and places whose attention to draw."""

    images: Images
    """Picture files, for weights of a network that classifies pictures."""
    videos: Videos = ()
    """Video files or folders of frames, for weights of one that classifies videos."""
    query: Folder | None = None
    """A tracklet (a folder of pictures of one person), for weights of one that finds people again."""
    gallery: Folder | None = None
    """A folder of tracklets, each a folder of pictures, to look in."""
    top: int = 10
    """How many matches of the query to show."""
    points: Points = ()
    """Places to draw the attention of, as x,y in pixels of the picture or frame; if none is given, three in it."""


HEADLINE = {
    "none": "no block",
    "nl": "NL, embedded Gaussian",
    "ns": "NS",
    "snl": "SNL",
}
OTHERS = {
    "nl-gaussian": "NL, Gaussian",
    "nl-dot": "NL, dot product",
    "nl-concatenation": "NL, concatenation",
    "a2": "A2",
    "cgnl": "CGNL, RBF",
    "cgnl-dot": "CGNL, dot product",
    "cc": "CC",
    "cc-twice": "CC, twice",
    "gsnl": "gSNL",
    "chebysnl": "ChebySNL, order 2",
    "cayleysnl": "CayleySNL (Eq. 22)",
    "cayleysnl-relu": "CayleySNL (Eq. 22), ReLU affinity",
    "cayleyexact": "CayleyExact (Eq. 20)",
}
"""Blocks that `run` leaves out unless asked for all."""


def variants() -> dict[str, Variant]:
    """By name, those that `run` compares first."""
    made = {name: Variant(label, {"model.block": name}) for name, label in HEADLINE.items()}
    return made | {name: Variant(label, {"model.block": name}, headline=False) for name, label in OTHERS.items()}
