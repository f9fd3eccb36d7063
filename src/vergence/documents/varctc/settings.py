"""Settings of variational CTC: configs, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Images
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Phase, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.documents.alphabets import ALPHANUMERIC, PRINT
from vergence.documents.varctc import ABOUT


@dataclass(frozen=True)
class ModelConfig:
    """The recogniser; the defaults are the published CRNN with variational CTC."""

    alphabet: str = ALPHANUMERIC
    """The symbols that are read, one character each; without capitals, case is ignored."""
    trunk: Literal["crnn", "resnet"] = "crnn"
    """The seven convolutions of CRNN, or a residual network of 25 layers."""
    channels: tuple[int, ...] = (64, 128, 256, 256, 512, 512, 512)
    """crnn: of the seven convolutions."""
    stages: tuple[int, ...] = (32, 64, 128, 256, 512)
    """resnet: channels of the five stages, of 2, 2, 3, 3 and 2 blocks."""
    hidden: int = 256
    """Units of each direction of the two recurrent layers."""
    dropout: float = 0.1
    """crnn: after the second to the sixth convolution."""
    norms: Literal["published", "all"] = "published"
    """crnn: batch norms after the third, the fifth and the last convolution, or after all: small networks learn faster
    with them."""
    padded: bool = False
    """crnn: pad the last two pools by one column, as the public code of CRNN does: 26 steps instead of 22."""
    biases: Literal[1, 2] = 1
    """Biases of each gate of the recurrent layers: 1 as published, 2 as PyTorch has them."""
    head: Literal["ctc", "mml", "var"] = "var"
    """ctc: one softmax over symbols and blank; mml: first the blank, then the symbol (Eq. 6); var: the same, with a
    posterior of the blank that knows the label (Eq. 8) and is used in training alone."""
    embedding: int = 50
    """Numbers per symbol of the label's embedding."""
    calibrated: bool = False
    """Learn a temperature of the logits on validation data, in a second phase."""

    def __post_init__(self) -> None:
        sizes = (*self.channels, *self.stages, self.hidden, self.embedding)
        if min(sizes) < 1 or len(self.channels) != 7 or len(self.stages) != 5:
            raise VergenceError(
                "a recogniser has seven channels, five stages, and sizes of at least 1, got channels "
                f"{self.channels}, stages {self.stages}, hidden {self.hidden}, embedding {self.embedding}"
            )
        if not self.alphabet or len(set(self.alphabet)) != len(self.alphabet):
            raise VergenceError(f"an alphabet has one or more characters, each once, got {self.alphabet!r}")
        if not 0 <= self.dropout < 1:
            raise VergenceError(f"dropout is from 0 to below 1, got {self.dropout}")


@dataclass(frozen=True)
class LossConfig:
    """The loss; the defaults are those of the paper."""

    kl: float = 1.0
    """Weight of the divergence of the posterior from the prior."""
    entropy: float = 0.0
    """β of EnCTC: weight of the entropy of the paths, which is made large."""
    spacing: float = 0.0
    """τ of EsCTC: only paths are summed over whose symbols take at most τ times about their mean number of steps; 0
    sums over all."""
    smoothing: float = 0.0
    """Share of label smoothing: of the divergence from uniform symbols at every step."""

    def __post_init__(self) -> None:
        if min(self.kl, self.entropy, self.spacing) < 0 or not 0 <= self.smoothing < 1:
            raise VergenceError(
                "weights of a loss are at least 0, and smoothing is below 1, got "
                f"kl {self.kl}, entropy {self.entropy}, spacing {self.spacing}, smoothing {self.smoothing}"
            )


@dataclass(frozen=True)
class Texts:
    """Pictures of text for training and test."""

    source: Source = EMBEDDED
    """embedded, synth90k:PATH, iiit5k:PATH, svt:PATH, icdar03:PATH, icdar13:PATH, enctc:PATH, iam-words:PATH,
    iam-lines:PATH, folder:PATH, or a plain PATH to a folder with a file labels.csv."""
    height: int = 32
    """Rows that pictures are resized to."""
    width: int = 100
    """Columns that pictures are resized to; 0 keeps their proportions."""
    unknown: Literal["refuse", "skip", "remove"] = "skip"
    """Texts with characters outside the alphabet: refuse them, skip them, or remove the characters."""
    augment: bool = False
    """Stretch, shift and add noise at random while training."""
    embedded: Literal["numbers", "words", "lines"] = "numbers"
    """embedded: numbers of 2 to 6 digits, words and codes of 2 to 8 characters, or lines."""
    count: int = 3000
    """embedded: rendered pictures for training."""
    held_out: int = 1000
    """embedded: rendered pictures for validation, and for test."""
    wide: int = 416
    """embedded: columns of the longest line."""
    fonts: Literal["own", "more"] = "own"
    """embedded lines: fonts that always come along, or also those of the packages of `vergence[fonts]`."""
    wear: float = 1.0
    """embedded: strength of blur, noise, uneven light, missing ink and compression."""

    def __post_init__(self) -> None:
        if self.height != 32:
            raise VergenceError(f"the trunks take pictures of 32 rows, got {self.height}")
        if not (self.width == 0 or 32 <= self.width <= 4096) or not 32 <= self.wide <= 4096:
            raise VergenceError(f"a width is 0 or from 32 to 4096, got {self.width} and {self.wide}")
        if min(self.count, self.held_out) < 1 or not 0 <= self.wear <= 2:
            raise VergenceError(
                f"data has 1 or more pictures and wear from 0 to 2, got {self.count}, {self.held_out} and {self.wear}"
            )


@dataclass(frozen=True)
class Calibration(Phase):
    """Training of the temperature alone."""

    temperature: Optimiser = Optimiser("adam", lr=0.05)


@dataclass(frozen=True)
class Config:
    """Variational CTC: recogniser, loss, data, training."""

    model: ModelConfig = ModelConfig()
    loss: LossConfig = LossConfig()
    data: Texts = Texts()
    train: Training = Training()
    calibrate: Calibration = Calibration(steps=60, batch=64, evaluate_every=0)
    """Runs with `model.calibrated` only."""
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Inputs:
    """Pictures of lines, words or pages."""

    images: Images
    """The pictures: scans, screenshots, photographs of print."""
    layout: Literal["auto", "line", "page"] = "auto"
    """Read each picture as one line, look for lines in it, or decide by its shape."""
    check: float = 0.8
    """Words with a confidence below this are marked to be checked by a person."""
    decode: Literal["greedy", "beam"] = "greedy"
    """The most probable path, or the most probable label by a search over prefixes."""
    lexicon: str = ""
    """A text file with one word per line: every word is read as the most probable of them."""
    deskew: float = 5.0
    """Pages are turned upright by up to this many degrees (0: not at all)."""

    def __post_init__(self) -> None:
        if not self.images:
            raise VergenceError("no picture given to read")
        if not 0 <= self.check <= 1:
            raise VergenceError(f"check is a confidence from 0 to 1, got {self.check}")
        if not 0 <= self.deskew <= 30:
            raise VergenceError(f"deskew is from 0 to 30 degrees, got {self.deskew}")


SMALL = ModelConfig(alphabet="0123456789", channels=(8, 16, 32, 32, 48, 48, 64), hidden=48, dropout=0.0, norms="all")
STARTER = ModelConfig(alphabet=PRINT, channels=(16, 32, 64, 64, 96, 96, 128), hidden=64, dropout=0.0, norms="all")
_CLIPPED = Optimiser("adam", lr=5e-4, clip=5.0)
PRESETS = {
    "tiny": Config(
        SMALL,
        data=Texts(),
        train=Training(steps=450, batch=32, evaluate_every=0, log_every=20,
                       optimiser=Optimiser("adam", lr=4e-3, clip=5.0, schedule=Schedule("cosine", warmup=40,
                                                                                        floor=0.02))),
    ),
    "paper": Config(
        data=Texts("synth90k:data"),
        train=Training(steps=1_600_000, batch=256, keep="best", optimiser=_CLIPPED),
    ),
    "paper-iam": Config(
        replace(ModelConfig(), trunk="resnet"),
        data=Texts("iam-words:data"),
        train=Training(steps=20_000, batch=256, keep="best", optimiser=_CLIPPED),
    ),
    "starter": Config(
        STARTER,
        data=Texts(width=0, embedded="lines", count=16_000, held_out=300, wide=320, augment=True, unknown="refuse",
                   fonts="more"),
        train=Training(steps=6_000, batch=24, evaluate_every=0, log_every=20,
                       optimiser=Optimiser("adam", lr=3e-3, clip=5.0, schedule=Schedule("cosine", warmup=100,
                                                                                        floor=0.02))),
    ),
}  # fmt: skip
_PLAIN = {"model.head": "ctc"}
VARIANTS = {
    "var": Variant("Var-CTC", {}),
    "mml": Variant("Mml-CTC", {"model.head": "mml"}),
    "ctc": Variant("CTC", dict(_PLAIN)),
    "enctc": Variant("EnCTC", {**_PLAIN, "loss.entropy": 0.2}, headline=False),
    "enesctc": Variant("EnEs-CTC", {**_PLAIN, "loss.entropy": 0.2, "loss.spacing": 1.5}, headline=False),
    "smoothed": Variant("CTC, label smoothing", {**_PLAIN, "loss.smoothing": 0.05}, headline=False),
    "temperature": Variant("CTC, temperature", {**_PLAIN, "model.calibrated": True}, headline=False),
}
METRICS = {
    "accuracy": Metric("accuracy", "%"),
    "ap": Metric("AP", "%"),
    "recall98": Metric("recall at 98 %", "%", digits=1),
    "alignment": Metric("alignment", "%"),
    "cer": Metric("CER", "%", higher_is_better=False),
    "wer": Metric("WER", "%", higher_is_better=False),
    "ece": Metric("calibration error", "%", higher_is_better=False),
}
_SETS = ("IC03", "IC13", "IIIT5K", "SVT")
_ACCURACY = {
    "ctc": (89.7, 89.6, 79.4, 81.6), "mml": (88.6, 89.4, 81.3, 81.8), "var": (90.0, 88.7, 78.7, 80.8),
    "enesctc": (92.0, 90.6, 82.0, 80.6),
}  # fmt: skip
_RECALL = {"ctc": (58.0, 78.5, 30.2, 34.3), "mml": (78.5, 83.2, 68.7, 57.7), "var": (90.3, 92.1, 66.4, 85.1)}
REPORTED = (
    *(
        Reported.table(f"Tables 1 and 2: {name}, trained on Synth90K", ("accuracy", "recall98"),
                       {v: tuple(part[v][k] for part in (_ACCURACY, _RECALL) if v in part) for v in _ACCURACY},
                       ("tiny", "paper") if name == "SVT" else ("paper",))
        for k, name in enumerate(_SETS)
    ),
    Reported.table("Table 3: seven sets, ResNet of ASTER", ("accuracy", "ap", "recall98"),
                   {"ctc": (82.37, 98.01, 67.57), "mml": (83.83, 98.59, 77.21), "var": (81.65, 98.64, 81.92)},
                   ("tiny", "paper")),
    Reported.table("Table 4: IAM", ("wer", "cer"),
                   {"ctc": (23.8, 9.53), "mml": (23.6, 9.35), "var": (24.0, 9.52)}, ("paper-iam",)),
)  # fmt: skip

SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    inputs=Inputs,
    embedded=(
        "Embedded: numbers of 2 to 6 digits, set with real fonts and worn by blur, noise, uneven light, missing ink, "
        "skew and compression. Test numbers are set with font families that training does not have."
    ),
    reported=REPORTED,
    published={
        "paper": Published({}, (22, 1, 37), 8_747_765),
        "paper-iam": Published({}, (25, 1, 37), 15_861_781),
    },
    learns=Learns(
        "likelihood",
        steps=24,
        share=0.92,
        changes={
            "data.count": 24, "data.held_out": 8, "train.batch": 8, "model.channels": (4, 4, 8, 8, 8, 8, 16),
            "model.hidden": 8, "train.optimiser.schedule.warmup": 0, "train.optimiser.lr": 0.01,
        },
    ),
    starters={
        "print": Starter(
            "printed lines of Latin letters, digits and punctuation",
            data=(
                "16,000 rendered lines of 1 to 7 words, invented words, numbers, dates and symbols, in DejaVu, "
                "Computer Modern, STIX, Lato, Manrope, Source Sans, Source Serif and Caladea, worn; test lines are "
                "set in Computer Modern Sans, which training has not"
            ),
            tried=(
                "scikit-image's page (character errors 0.3 %), screenshots in Liberation, Open Sans and Roboto from 12 "
                "to 40 pixels (0 to 3.5 %), beside Tesseract: see the README"
            ),
        ),
    },
    minutes=1.0,
)  # fmt: skip
