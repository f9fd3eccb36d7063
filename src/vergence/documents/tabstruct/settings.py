"""Settings of TabStruct-Net: configs, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Boxes, Images
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.documents.tabstruct import ABOUT


@dataclass(frozen=True)
class ModelConfig:
    """The network; the defaults are the published one."""

    pixels: Literal["rgb", "ink"] = "rgb"
    """What the network sees: colours, or grey with paper at 0 and ink at 1."""
    body: Literal["resnet", "small"] = "resnet"
    """A ResNet with frozen norms, or a small residual network."""
    depths: tuple[int, int, int, int] = (3, 4, 23, 3)
    """resnet: blocks of its four stages; 3, 4, 23, 3 is ResNet-101."""
    widths: tuple[int, int, int, int] = (16, 32, 64, 96)
    """small: channels of its four stages."""
    pyramid: Literal["two-way", "top-down"] = "two-way"
    """The paper's pyramid, or the usual one."""
    channels: int = 256
    """Of every level of the pyramid."""
    smoothing: Literal["dilated", "plain"] = "dilated"
    """two-way: 2x2 convolutions with a dilation of 2 (the paper), or 3x3 (the public code)."""
    far: bool = False
    """two-way: add 7x7 convolutions with a dilation of 2 to every level."""
    detector: bool = True
    """Find cells; without it, boxes must be given."""
    dilated: bool = True
    """Dilate the first convolution of the proposals."""
    proposing: int = 512
    """Channels of the proposals' first convolution."""
    anchors: tuple[float, float, float, float, float] = (8.0, 16.0, 32.0, 64.0, 128.0)
    """Sizes of anchors in pixels, one for each level."""
    ratios: tuple[float, ...] = (0.5, 1.0, 2.0)
    """Heights of anchors by their widths."""
    before: tuple[int, int] = (6000, 6000)
    """Proposals per level before suppression, in training and in use."""
    after: tuple[int, int] = (2000, 2000)
    """Proposals per picture after it."""
    thinned: float = 0.75
    """Overlap from which proposals suppress each other."""
    sampled: tuple[int, int] = (2014, 512)
    """Anchors and regions of a picture that are trained on."""
    share: float = 0.75
    """Share of those regions that are cells, at most."""
    bins: tuple[int, int] = (7, 2)
    """Rows and columns that regions are pooled to, and points per bin along each."""
    head: int = 1024
    """Units of the two layers that see regions."""
    masks: bool = True
    """Predict masks, too."""
    overlap: float = 0.1
    """Overlap from which detections suppress each other."""
    most: int = 2000
    """Detections per picture."""
    structure: Literal["graph", "boxes", "none"] = "graph"
    """How relations are predicted: by the graph network, by a network that sees nothing but boxes, or not at all."""
    source: Literal["p2", "own"] = "p2"
    """graph: features from the finest level of the pyramid, or from convolutions of its own (as TIES)."""
    visual: Literal["lstm", "centre"] = "lstm"
    """graph: features along the lines through a cell's centre, or at its centre."""
    hidden: int = 128
    """lstm: units."""
    points: int = 32
    """lstm: points along a line."""
    extent: Literal["cell", "picture"] = "cell"
    """lstm: lines as long as the cell (the paper), or as the picture (the public code)."""
    split: bool = False
    """lstm: rows see the horizontal line alone, and columns the vertical one, as in the public code."""
    edges: int = 128
    """graph: width of edge convolutions."""
    dense: int = 64
    """graph: width of the layers between them."""
    convolutions: int = 4
    """graph: number of edge convolutions."""
    neighbours: int = 40
    """graph: nearest cells in feature space that a cell sees, itself included."""
    outputs: int = 256
    """graph: features per cell."""
    classifier: tuple[int, ...] = (512, 256, 256)
    """Widths of the classifier of pairs."""
    pairs: int = 6
    """Partners per cell that are trained on."""
    relation: Literal["shares", "contains"] = "shares"
    """Cells belong together if they share a row, or if the rows of one contain those of the other (the public code)."""

    def __post_init__(self) -> None:
        sizes = (*self.depths, *self.widths, self.channels, self.proposing, *self.before, *self.after, *self.sampled,
                 self.head, self.most, self.hidden, self.points, self.edges, self.dense, self.convolutions,
                 self.neighbours, self.outputs, *self.classifier, self.pairs,
                 *self.bins)  # fmt: skip
        if min(sizes) < 1 or max(sizes) > 100_000:
            raise VergenceError(f"sizes of a model are from 1 to 100000, got one of {min(sizes)} to {max(sizes)}")
        if not self.ratios or min(*self.anchors, *self.ratios) <= 0:
            raise VergenceError(f"anchors have sizes and ratios above 0, got {self.anchors} and {self.ratios}")
        if not all(0 <= v <= 1 for v in (self.thinned, self.share, self.overlap)):
            raise VergenceError("thinned, share and overlap are from 0 to 1")
        if not self.detector and self.structure == "none":
            raise VergenceError("a model has a detector, a structure network or both")


@dataclass(frozen=True)
class LossConfig:
    """The losses of Eq. 2; the others have a weight of 1."""

    alignment: float = 1.0
    """Weight of the alignment loss (Eq. 1)."""
    mean: bool = True
    """Alignment is the mean over pairs, in pixels of stride 4; otherwise the sum of the paper."""
    overlap: float = 0.5
    """Intersection over union with a cell from which a detection trains the structure network."""

    def __post_init__(self) -> None:
        if not 0 <= self.alignment <= 1e6 or not 0 <= self.overlap <= 1:
            raise VergenceError(
                f"alignment is from 0 to 1000000 and overlap from 0 to 1, got {self.alignment} and {self.overlap}"
            )


@dataclass(frozen=True)
class TableData:
    """Pictures of tables for training and test."""

    source: Source = EMBEDDED
    """embedded, scitsr:PATH, icdar13:PATH, ctdar:PATH, unlv:PATH, pubtabnet:PATH, tabstruct:PATH, folder:PATH, or a
    plain PATH to a folder with a JSON file beside each picture."""
    given: Literal["nothing", "content", "cells"] = "nothing"
    """Boxes that the structure network gets instead of detections: none (S-A), those of what stands in cells, or those
    of cells (S-B)."""
    longest: int = 1536
    """Longer side of pictures in pixels."""
    em: float = 0.0
    """Where the size of fonts is known or can be measured, resize them to this many pixels (0: `longest` decides)."""
    jitter: float = 0.0
    """Share by which sizes vary in training."""
    flip: bool = False
    """Mirror pictures at random while training."""
    rows: tuple[int, int] = (3, 8)
    """embedded: fewest and most rows."""
    columns: tuple[int, int] = (3, 6)
    """embedded: fewest and most columns."""
    sizes: tuple[int, int] = (13, 24)
    """embedded: sizes of fonts in pixels."""
    count: int = 400
    """embedded: tables for training; a quarter as many for validation and for test."""
    fresh: bool = False
    """embedded: render other tables in every epoch."""
    wear: float = 0.5
    """embedded: strength of blur, noise, uneven light, missing ink and compression."""

    def __post_init__(self) -> None:
        if not 32 <= self.longest <= 8192 or not 0 <= self.em <= 200 or not 0 <= self.jitter <= 2:
            raise VergenceError(
                f"longest is from 32 to 8192, em from 0 to 200 and jitter from 0 to 2, got {self.longest}, {self.em} "
                f"and {self.jitter}"
            )
        for name in ("rows", "columns"):
            low, high = getattr(self, name)
            if not 2 <= low <= high <= 60:
                raise VergenceError(f"{name} are from 2 to 60, the fewest first, got {low} and {high}")
        if not 6 <= self.sizes[0] <= self.sizes[1] <= 100:
            raise VergenceError(f"sizes of fonts are from 6 to 100, the smallest first, got {self.sizes}")
        if self.count < 4 or not 0 <= self.wear <= 2:
            raise VergenceError(f"data has 4 or more tables and wear from 0 to 2, got {self.count} and {self.wear}")


@dataclass(frozen=True)
class Config:
    """TabStruct-Net: network, losses, data, training."""

    model: ModelConfig = ModelConfig()
    loss: LossConfig = LossConfig()
    data: TableData = TableData()
    pretrained: str = ""
    """Weights of a Mask R-CNN with the same body to begin with: a file with the names of torchvision or detectron2."""
    train: Training = Training()
    finish: Training = Training()
    """A second phase with more anchors and regions (0 steps: none)."""
    finish_sampled: tuple[int, int] = (3072, 2048)
    """Anchors and regions of a picture in the second phase."""
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Inputs:
    """Pictures of one table each."""

    images: Images
    """The pictures: scans, screenshots, photographs of printed tables, cut out of their pages."""
    cells: Boxes = ()
    """Boxes of the cells or of their texts, if they are known (left,top,width,height in pixels; for a single picture):
    then only rows and columns are predicted."""
    text: Literal["auto", "varctc", "tesseract", "none"] = "auto"
    """Who reads the cells: the recogniser that comes with the library, or Tesseract, if it is installed."""
    assist: Literal["ink", "none"] = "ink"
    """ink: use what can be seen without a network: cells without ink go, text that no cell covers becomes one."""
    score: float = 0.5
    """Detections with a lower score are left out."""
    deskew: float = 5.0
    """Pictures are turned upright by up to this many degrees (0: not at all)."""

    def __post_init__(self) -> None:
        if not self.images:
            raise VergenceError("no picture given to look for tables in")
        if not 0 <= self.score <= 1:
            raise VergenceError(f"score is from 0 to 1, got {self.score}")
        if not 0 <= self.deskew <= 30:
            raise VergenceError(f"deskew is from 0 to 30 degrees, got {self.deskew}")
        if self.cells and len(self.images) != 1:
            raise VergenceError(f"boxes of cells are given with one picture, got {len(self.images)}")


# Presets and variants -------------------------------------------------------------------------------------------------

SMALL = ModelConfig(
    pixels="ink", body="small", widths=(24, 32, 48, 64), channels=40, proposing=32,
    anchors=(20.0, 32.0, 56.0, 96.0, 160.0), ratios=(0.25, 0.5, 1.0), before=(300, 300), after=(200, 200),
    sampled=(256, 128), share=0.5, bins=(7, 1), head=192, masks=False, overlap=0.3, most=400, hidden=32, points=12,
    edges=32, dense=32, convolutions=2, neighbours=8, outputs=32, classifier=(64, 32),
)  # fmt: skip
_PUBLISHED = Optimiser("sgd", lr=1e-3, momentum=0.9, weight_decay=1e-4, clip=5.0)


def _adam(steps: int, lr: float, batch: int = 4) -> Training:
    schedule = Schedule("cosine", warmup=20, floor=0.02)
    optimiser = Optimiser("adam", lr=lr, weight_decay=1e-5, clip=5.0, schedule=schedule)
    return Training(steps=steps, batch=batch, evaluate_every=0, log_every=20, optimiser=optimiser)


TINY = Config(SMALL, LossConfig(alignment=0.05), TableData(longest=256), train=_adam(260, 3e-3, batch=2))
PRESETS = {
    "tiny": TINY,
    "tiny-boxes": replace(
        TINY, model=replace(SMALL, detector=False), data=replace(TINY.data, given="content"), train=_adam(220, 4e-3)
    ),
    "paper": Config(
        data=TableData("scitsr:data", flip=True),
        pretrained="data/mask_rcnn_R_101_FPN_3x.pkl",
        train=Training(steps=57_500, batch=1, evaluate_every=0, optimiser=_PUBLISHED),
        finish=Training(steps=5_000, batch=1, evaluate_every=0, optimiser=_PUBLISHED),
    ),
    "starter": Config(
        replace(SMALL, widths=(24, 40, 56, 80), proposing=40, head=84, sampled=(256, 192), before=(600, 1000),
                after=(400, 1000), most=1000),
        LossConfig(alignment=0.02),
        TableData(longest=768, em=12.0, jitter=0.35, rows=(2, 16), columns=(2, 9), sizes=(11, 18), count=800,
                  fresh=True, wear=0.8),
        train=_adam(1500, 3e-3),
    ),
}  # fmt: skip
_PLAIN = {"model.pyramid": "top-down"}
_ALONE = {"loss.alignment": 0.0}
_TIES = {"model.source": "own", "model.visual": "centre"}
_P2 = {"model.visual": "centre"}
VARIANTS = {
    "tabstruct": Variant("TabStruct-Net"),
    "no-alignment": Variant("without alignment loss", dict(_ALONE)),
    "one-way": Variant("without alignment, top-down pyramid", _PLAIN | _ALONE),
    "p2": Variant("P2 at centres, no LSTM", dict(_P2)),
    "ties": Variant("DGCNN with features of its own (TIES)", dict(_TIES)),
    "boxes": Variant("boxes alone", {"model.structure": "boxes"}),
    "overlap": Variant("overlaps alone", {"model.structure": "none"}),
    "mask-rcnn": Variant("Mask R-CNN, DGCNN", _PLAIN | _ALONE | _TIES, headline=False),
    "mask-rcnn-p2": Variant("Mask R-CNN, DGCNN, P2", _PLAIN | _ALONE | _P2, headline=False),
    "no-alignment-ties": Variant("without alignment loss, TIES", _ALONE | _TIES, headline=False),
    "no-alignment-p2": Variant("without alignment loss, P2", _ALONE | _P2, headline=False),
    "code": Variant(
        "as the public code",
        {"model.smoothing": "plain", "model.dilated": False, "model.extent": "picture", "model.split": True,
         "model.relation": "contains", "loss.overlap": 0.25},
        headline=False,
    ),
}  # fmt: skip
METRICS = {
    "f1": Metric("F1 of relations", "%"),
    "precision": Metric("precision", "%"),
    "recall": Metric("recall", "%"),
    "f1_micro": Metric("F1, all tables together", "%"),
    "cells": Metric("F1 of cells", "%"),
    "cells50": Metric("at IoU 0.5", "%"),
    "cells70": Metric("at IoU 0.7", "%"),
    "cells80": Metric("at IoU 0.8", "%"),
    "cells90": Metric("at IoU 0.9", "%"),
    "spans": Metric("spans", "%"),
    "merged": Metric("spans of merged cells", "%"),
    "pairs": Metric("F1 of pairs, boxes given", "%"),
    "pairs_merged": Metric("of merged cells", "%"),
    "teds": Metric("TEDS, structure", "%"),
    "bleu": Metric("BLEU of tags", "%"),
}
_SCORES = ("precision", "recall", "f1")
_ABLATION = ("cells", "f1")
REPORTED = (
    Reported.table(
        "Table 6: ICDAR-2013, image alone, trained on SciTSR", _ABLATION,
        {"mask-rcnn": (88.7, 86.5), "mask-rcnn-p2": (88.9, 87.0), "one-way": (90.1, 88.2),
         "no-alignment-ties": (89.7, 87.5), "no-alignment-p2": (89.8, 87.8), "no-alignment": (90.7, 88.8),
         "ties": (90.8, 88.5), "p2": (91.7, 89.5), "tabstruct": (92.4, 90.6)},
        ("tiny", "paper"),
    ),
    Reported.table(
        "Table 6: ICDAR-2013, boxes given, trained on SciTSR", _SCORES,
        {"ties": (97.2, 98.3, 97.7), "p2": (97.3, 98.3, 97.8), "tabstruct": (97.6, 98.5, 98.1)},
        ("tiny-boxes", "paper"),
    ),
    Reported.table("Table 2: SciTSR, image alone", _SCORES, {"tabstruct": (92.7, 91.3, 92.0)}, ("paper",)),
    Reported.table("Table 2: SciTSR-COMP, image alone", _SCORES, {"tabstruct": (90.9, 88.2, 89.5)}, ("paper",)),
    Reported.table("Table 2: UNLV-partial, image alone", _SCORES, {"tabstruct": (84.9, 82.8, 83.9)}, ("paper",)),
    Reported.table("Table 5: ICDAR-2013, cells by IoU", ("cells50", "cells", "cells70", "cells80", "cells90"),
                   {"tabstruct": (93.8, 92.3, 81.7, 64.5, 29.2)}, ("paper",)),
    Reported.table("Table 3: PubTabNet, trained on SciTSR", ("teds",), {"tabstruct": (90.1,)}, ("paper",)),
)  # fmt: skip

# Counted by hand; exact.py has the arithmetic of every part. ResNet-101 without norms and classifier, pyramid,
# proposals, regions, masks; LSTMs, two graph networks, two classifiers of pairs.
_DETECTOR = 42_394_816 + 2_231_040 + 1_187_855 + 13_905_930 + 2_623_234
_STRUCTURE = 395_264 + 2 * 544_072 + 2 * 463_370
SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    inputs=Inputs,
    embedded=(
        "Embedded: rendered tables of 3 to 8 rows and 3 to 6 columns, set with real fonts, with lines around cells, "
        "between rows or columns, as in books, or none; grouped headers, merged cells, empty cells and cells of "
        "several lines; blurred, noisy and unevenly lit. Test tables are set in font families that training does not "
        "have."
    ),
    reported=REPORTED,
    published={
        "paper": Published(
            {},
            {"anchors": (1, 589_248), "shifts": (1, 589_248, 4), "logits": (6, 2), "codes": (6, 2, 4),
             "rows": (1, 6, 6), "columns": (1, 6, 6)},
            _DETECTOR + _STRUCTURE,
        ),
    },
    learns=Learns(
        "rpn_score", steps=8, share=0.9,
        changes={"data.count": 4, "data.rows": (3, 3), "data.columns": (3, 3), "data.longest": 96, "train.batch": 2,
                 "model.channels": 8, "model.widths": (8, 8, 8, 8), "model.head": 16, "model.hidden": 8,
                 "model.sampled": (64, 16), "model.before": (40, 40), "model.after": (20, 20),
                 "train.optimiser.lr": 1e-2, "train.optimiser.schedule.warmup": 0},
    ),
    starters={
        "tables": Starter(
            "tables of print, from a scan or a screenshot",
            data="rendered tables of 2 to 16 rows and 2 to 9 columns, others in every step",
            tried=(
                "fifteen tables by Matplotlib and Pillow in other fonts, four of them as bad scans: mean TEDS of "
                "structure 96.5 %, all spans right in eleven; see the README"
            ),
        ),
    },
    minutes=1.0,
)  # fmt: skip
