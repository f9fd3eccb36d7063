"""What can be chosen: the network, the data, how it is trained, how responses are read; and the presets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from vergence.contract.data import EMBEDDED
from vergence.contract.inputs import Boxes, Video
from vergence.contract.settings import Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.tracking.pairs import Augmentation
from vergence.tracking.sesiam.tracker import Inference
from vergence.tracking.synth import Scene, World


@dataclass(frozen=True)
class Model:
    """The network."""

    name: Literal["siamfc", "siamfc+", "se-siamfc"] = "se-siamfc"
    """Plain and shallow (AlexNet's at the size otb), plain and residual (otb alone; siamfc at the others), or with
    scale-convolutions."""
    size: Literal["tiny", "mnist", "otb"] = "otb"
    """The supplement's Table 2 (otb), its Table 1 (mnist), or a quarter of the width with half of the pixels (tiny)."""
    connection: Literal["own", "correlation", "scale-convolution"] = "own"
    """How features meet: own is that of the paper's tables, which for se-siamfc is the scale-convolution; the released
    network has correlation."""
    width: float = 1.0
    """So many times the channels."""
    outer_pooling: Literal["max", "first", "none"] = "max"
    """se-siamfc: what becomes of the scales before the connection."""
    extent: int = 2
    """se-siamfc at otb: scales that the first 1x1 kernel reaches."""
    stem_size: int = 9
    """se-siamfc at otb: the stem's largest kernel; from 13 on an ordinary 7x7 stem can be taken over whole."""
    borders: tuple[Literal["zeros", "circular"], Literal["zeros", "circular"]] = ("circular", "zeros")
    """What lies beyond the border of maps, in training and in use."""
    radius: float = 2.0
    """Cells of the response within which the target counts as found, along both axes together."""
    start_from: str = ""
    """se-siamfc: a weights file of the ordinary network of this size to start from."""

    def __post_init__(self) -> None:
        if not (0 < self.width <= 16 and self.extent >= 1 and self.stem_size >= 3 and self.radius >= 0):
            raise VergenceError(
                "a network has a width above 0 and up to 16, an extent of 1 or more, a stem of 3 or more and a radius "
                f"of 0 or more; got {self.width:g}, {self.extent}, {self.stem_size} and {self.radius:g}"
            )


@dataclass(frozen=True)
class Sequences:
    """What is looked at."""

    source: Annotated[str, tyro.conf.arg(aliases=["--data"])] = EMBEDDED
    """embedded, got10k:PATH, otb2013:PATH, otb50:PATH, otb100:PATH, vot2016:PATH, vot2017:PATH, vot2018:PATH,
    vot:PATH, lasot:PATH, folder:PATH, or a plain PATH to frames with a groundtruth.txt."""
    world: World = "t-mnist"
    """embedded: what is trained on. Digits that move, digits that move and change their size (both are judged on both),
    or things cut from photographs."""
    scene: Scene = Scene()
    """embedded: what it looks like."""
    sequences: int = 1000
    """embedded: sequences to train on."""
    tests: int = 100
    """embedded: sequences of each world to judge on; half as many to validate."""
    most: int = 0
    """Of other data: judge on so many sequences at most (0: all)."""
    pairs: Augmentation = Augmentation()

    def __post_init__(self) -> None:
        if self.sequences < 1 or self.tests < 1 or self.most < 0:
            raise VergenceError(
                f"sequences and tests are at least 1 and most at least 0, got {self.sequences}, {self.tests} and "
                f"{self.most}"
            )


@dataclass(frozen=True)
class Config:
    """SE-SiamFC: network, sequences, training, inference."""

    model: Model = Model()
    data: Sequences = Sequences()
    train: Training = Training()
    inference: Inference = Inference()
    seed: int = 0
    """Decides everything random."""


@dataclass(frozen=True)
class Inputs:
    """A video and what to follow in it."""

    video: Video
    """A video file, a folder of frames, or a camera's number."""
    box: tyro.conf.UseAppendAction[Boxes] = ()
    """A target in the first frame, as x,y,width,height in pixels; again for every other target. If none is given, a
    window opens to draw boxes in, where there is a display."""
    frames: int = 0
    """Stop after so many frames (0: at the end; of a camera, at Ctrl-C)."""


ORIGINAL = Inference(step=1.0375, damping=0.59, penalty=0.9745, window=0.176)
"""SiamFC's own settings, which the paper's T/S-MNIST experiment follows."""


def _decaying(first: float, last: float, units: int) -> Schedule:
    """From one rate to another, by the same factor an epoch."""
    return Schedule("exponential", unit="epoch", gamma=(last / first) ** (1 / (units - 1)))


def _quick(steps: int, batch: int) -> Training:
    schedule = Schedule("exponential", warmup=20, gamma=0.03 ** (1 / steps))
    optimiser = Optimiser("adamw", lr=2e-3, weight_decay=1e-4, clip=10.0, schedule=schedule)
    return Training(steps=steps, batch=batch, evaluate_every=0, optimiser=optimiser)


TINY = Config(
    Model(size="tiny", radius=1.0),
    Sequences(
        scene=Scene(size=160, digit=26, frames=40),
        sequences=300,
        tests=10,
        pairs=Augmentation(pairs=4800, reach=40, shift=16.0),
    ),
    _quick(200, 8),
    ORIGINAL,
)
PRESETS = {
    "tiny": TINY,
    "natural": Config(
        Model(size="tiny", radius=1.0),
        Sequences(
            world="natural",
            scene=Scene(size=240, digit=48, frames=60),
            sequences=1000,
            tests=12,
            pairs=Augmentation(pairs=16_000, reach=30, shift=16.0, stretch=0.1, jitter=0.15),
        ),
        _quick(1500, 8),
        Inference(),
    ),
    "paper": Config(
        Model(),
        Sequences("got10k:data"),
        Training(
            epochs=50,
            batch=24,
            evaluate_every=0,
            optimiser=Optimiser("sgd", 1e-2, weight_decay=1e-4, clip=10.0, schedule=_decaying(1e-2, 1e-5, 50)),
        ),
    ),
    "paper-mnist": Config(
        Model(size="mnist"),
        Sequences(pairs=Augmentation(pairs=50_000)),
        Training(
            epochs=50,
            batch=8,
            evaluate_every=0,
            optimiser=Optimiser("sgd", 1e-2, weight_decay=5e-4, schedule=_decaying(1e-2, 1e-5, 50)),
        ),
        ORIGINAL,
    ),
}

_PLAIN, _SCALE = {"model.name": "siamfc+"}, {"model.name": "se-siamfc"}
AXIS = {"inference.reading": "axis", "inference.damping": 0.1}
"""A step of the axis is several of the pyramid's, so a frame follows less of it."""
_T, _S = {"data.world": "t-mnist"}, {"data.world": "s-mnist"}
VARIANTS = {
    "siamfc-t": Variant("SiamFC, trained on T", _PLAIN | _T),
    "se-siamfc-t": Variant("SE-SiamFC, trained on T", _SCALE | _T),
    "siamfc-s": Variant("SiamFC, trained on S", _PLAIN | _S),
    "se-siamfc-s": Variant("SE-SiamFC, trained on S", _SCALE | _S),
    "siamfc": Variant("SiamFC (SiamFC+ at the size otb)", _PLAIN, headline=False),
    "se-siamfc": Variant("SE-SiamFC", _SCALE, headline=False),
    "alexnet": Variant("SiamFC, AlexNet at the size otb", {"model.name": "siamfc"}, headline=False),
    "se-released": Variant("SE-SiamFC as released", _SCALE | {"model.connection": "correlation"}, headline=False),
    "se-axis": Variant("SE-SiamFC, size from its own axis", _SCALE | AXIS, headline=False),
    "se-unpooled": Variant("SE-SiamFC, scales kept", _SCALE | {"model.outer_pooling": "none"}, headline=False),
    "se-one-tap": Variant("SE-SiamFC, i = 1", _SCALE | {"model.extent": 1}, headline=False),
    "se-zero": Variant("SE-SiamFC, zero padding", _SCALE | {"model.borders": ("zeros", "zeros")}, headline=False),
    "siamfc-9": Variant("SiamFC, nine crops", _PLAIN | {"inference.scales": 9}, headline=False),
}
