"""Pictures of tables with their cells, rendered or read from files, and the batches that networks take."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from vergence.core.seeding import generator as seeded
from vergence.data.images import resized, scaled
from vergence.data.rendered import rendered
from vergence.documents.ink import inked
from vergence.documents.lines import grey
from vergence.documents.table_ink import letter_size
from vergence.nn.rcnn import batched
from vergence.ops.boxes import area
from vergence.ops.table_relations import aligned_borders, gridded
from vergence.rendering.documents.fonts import HELD_OUT, TRAINING, Face
from vergence.rendering.documents.paper import Wear, turned, worn
from vergence.rendering.documents.random_tables import random_table
from vergence.rendering.documents.tables import Table
from vergence.rendering.things import choice

Pixels = Literal["ink", "rgb"]
"""Grey with paper at 0 and ink at 1, whatever their colours; or colours, normalised as for ImageNet."""
CODE = ("vergence.documents.tables", "vergence.rendering.documents", "vergence.ops.table_relations")
TIMES = tuple(face for face in HELD_OUT if face.file.startswith("STIX"))
"""Held-out faces that tables for starter weights use: with them, the narrow sans serif alone is held out."""
OUTER = 0.3
"""Distance of the outer border from the ink of a table without lines, in sizes of the font."""
SHARP = 20.0
"""Size of a font in pixels from which blur has its full strength."""
LEVEL = 0.15
"""Share of the skew of worn pages that stays in tables: pages are turned upright before their cells are looked for."""
MULTIPLE = 32
"""Pixels that sides of a batch are multiples of."""
POOL = 32
"""Batches among which fresh tables are sorted by their rows."""
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class TableSample(NamedTuple):
    """A picture of a table, and its cells."""

    name: str
    picture: Tensor
    """Bytes (channels, H, W)."""
    cells: Tensor
    """(N, 4): left, top, right, bottom of the cells, which touch their neighbours."""
    content: Tensor
    """(N, 4): of what stands in them; without area for empty cells."""
    spans: Tensor
    """(N, 4): first row, last row, first column, last column."""
    texts: tuple[str, ...] = ()
    em: float = 0.0
    """Size of the font in pixels; 0 if it is not known."""

    @property
    def filled(self) -> Tensor:
        """(N,): which cells are not empty."""
        return area(self.content) > 0


class Cells(NamedTuple):
    """The cells of a table that are not empty."""

    cells: Tensor
    """(N, 4)."""
    content: Tensor
    """(N, 4)."""
    spans: Tensor
    """(N, 4)."""


class TableBatch(NamedTuple):
    """Tables of any sizes together."""

    pictures: Tensor
    """(B, channels, H, W), padded with zeros."""
    sizes: Tensor
    """(B, 2): heights and widths."""
    tables: list[Cells]


# Rendered tables ------------------------------------------------------------------------------------------------------


class Recipe(NamedTuple):
    """What tables to render."""

    rows: tuple[int, int] = (3, 8)
    columns: tuple[int, int] = (3, 6)
    wear: float = 0.5
    """Strength of blur, noise, uneven light, missing ink and compression."""
    longest: int = 256
    """Larger pictures are reduced to this longer side."""
    sizes: tuple[int, int] = (13, 24)
    """Sizes of fonts in pixels."""
    skewed: bool = False
    """Whether they are slightly turned."""
    times: bool = False
    """Whether Times-like faces are for training, too."""


def render(recipe: Recipe, source: torch.Generator, split: str, name: str, shape: tuple[int, int]) -> TableSample:
    """A random table of so many rows and columns as a worn, grey picture; faces of the test are not those of
    training."""
    training: tuple[Face, ...] = (*TRAINING, *TIMES, *TIMES) if recipe.times else TRAINING
    faces = tuple(face for face in HELD_OUT if face not in training) if split == "test" else training
    table = random_table(source, shape, least=shape, faces=faces, sizes=recipe.sizes)
    height, width = table.image.shape[:2]
    share = min(recipe.longest / max(height, width), 1.0)
    size = (max(round(width * share), 1), max(round(height * share), 1))
    sides = torch.tensor([size[0] / width, size[1] / height] * 2)
    small = Image.fromarray(table.image).convert("L")
    small = small.resize(size, Image.Resampling.BOX if share < 0.6 else Image.Resampling.BICUBIC)
    wear, em = Wear.drawn(source, recipe.wear), table.look.size * share
    skew = LEVEL * wear.skew if recipe.skewed else 0.0
    picture = _worn(small, replace(wear, skew=skew, blur=wear.blur * min(em / SHARP, 1.0)), source)
    cells, content, spans = _boxes(table)
    cells, content = (_turned(boxes * sides, skew, (size[1], size[0])) for boxes in (cells, content))
    texts = tuple(cell.text for cell in table.cells)
    return TableSample(name, torch.from_numpy(picture)[None], cells, content, spans, texts, em)


def _worn(picture: Image.Image, wear: Wear, source: torch.Generator) -> NDArray[np.uint8]:
    """A grey picture (H, W), worn: as :func:`worn`, for one channel."""
    if wear.skew:
        paper = int(np.median(np.asarray(picture)))
        picture = picture.rotate(wear.skew, Image.Resampling.BILINEAR, expand=True, fillcolor=paper)
    done = worn(np.asarray(picture)[..., None], replace(wear, skew=0.0, quality=100), source)[..., 0]
    if wear.quality == 100:
        return done.copy()
    file = io.BytesIO()
    Image.fromarray(done).save(file, "JPEG", quality=wear.quality)
    return np.array(Image.open(file))


def _boxes(table: Table) -> tuple[Tensor, Tensor, Tensor]:
    """Cells, their ink and their spans. A border that is not drawn is what can be told from the ink: the middle of the
    gap between rows, or between columns."""
    content = torch.tensor([cell.ink or (0.0,) * 4 for cell in table.cells])
    spans = torch.tensor([(c.start_row, c.end_row, c.start_column, c.end_column) for c in table.cells])
    look, heads = table.look, 1 + max((c.end_row for c in table.cells if c.header), default=-1)
    plain = look.rules == "none" and not look.zebra and look.head is None
    x, y = aligned_borders(content, spans, OUTER * look.size)
    for borders, starts, every in ((x, (0, 2), look.rules in ("all", "columns")),
                                   (y, (1, 0), look.rules in ("all", "rows") or look.zebra)):  # fmt: skip
        side, first = starts
        for number, cell in enumerate(table.cells):
            for border, at in (
                (int(spans[number, first]), cell.box[side]),
                (int(spans[number, first + 1]) + 1, cell.box[side + 2]),
            ):
                outer = border in (0, len(borders) - 1) or (side == 1 and border == heads)
                if every or (outer and not plain):
                    borders[border] = at
    return gridded(x, y, spans), content, spans


def _turned(boxes: Tensor, degrees: float, shape: tuple[int, ...]) -> Tensor:
    """Boxes whose centres follow a slight turn of a picture of this height and width."""
    if not degrees:
        return boxes
    centres = ((boxes[:, :2] + boxes[:, 2:]) / 2).double().numpy()
    moved = torch.from_numpy(turned(centres, degrees, shape[0], shape[1])).float()
    half = (boxes[:, 2:] - boxes[:, :2]) / 2
    return torch.cat([moved - half, moved + half], 1)


@dataclass(frozen=True)
class RenderedTables:
    """Rendered tables: the same ones in every epoch, or, with ``fresh``, others."""

    recipe: Recipe
    split: str
    count: int
    fresh: bool = False
    _tensors: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> TableSample:
        index = range(self.count)[index]
        name = f"{self.split}-{index:04d}"
        if self.fresh and self.split == "train":
            return render(self.recipe, seeded("table", self.split, index), self.split, name, self.shape(index))
        own = self._all()
        height, width = own["sizes"][index].tolist()
        picture = own["images"][index][: height * width].reshape(1, height, width)
        return TableSample(name, picture, own["cells"][index], own["content"][index], own["spans"][index],
                           em=float(own["em"][index]))  # fmt: skip

    def draw(self, index: int, generator: torch.Generator) -> TableSample:
        if not self.fresh:
            return self[index]
        return render(self.recipe, generator, self.split, f"{self.split}-{index:04d}", self.shape(index))

    def shape(self, index: int) -> tuple[int, int]:
        """Rows and columns of the table at a place, so that batches can be made of similar ones."""
        source = seeded("shape", self.split, index)
        rows, columns = (low + choice(source, high - low + 1) for low, high in (self.recipe.rows, self.recipe.columns))
        return rows, columns

    def _all(self) -> dict[str, Any]:
        if not self._tensors:
            asked = {"recipe": tuple(self.recipe), "split": self.split, "count": self.count}
            drawn = rendered("tables", asked, CODE, self._render)
            counts = drawn["counts"].tolist()
            parts = {name: drawn[name].split(counts) for name in ("cells", "content", "spans")}
            images = drawn["images"].split(drawn["sizes"].prod(1).tolist())
            self._tensors.update(drawn, images=images, **parts)
        return self._tensors

    def _render(self) -> dict[str, Tensor]:
        places = range(self.count)
        samples = [render(self.recipe, seeded("table", self.split, n), self.split, "", self.shape(n)) for n in places]
        return {
            "images": torch.cat([s.picture.flatten() for s in samples]),
            "sizes": torch.tensor([s.picture.shape[-2:] for s in samples]),
            "counts": torch.tensor([len(s.spans) for s in samples]),
            "em": torch.tensor([s.em for s in samples]),
            **{name: torch.cat([getattr(s, name) for s in samples]) for name in ("cells", "content", "spans")},
        }


# What networks take ---------------------------------------------------------------------------------------------------


def as_ink(picture: Tensor) -> Tensor:
    """A picture of bytes as grey floats (1, H, W): paper is 0 and ink about 1, whatever their colours."""
    values = grey(picture)
    values = values.median() - values
    if values.mean() < 0:  # most of a picture is paper: ink that is lighter draws the mean below it
        values = -values
    contrast = torch.quantile(values.abs().flatten()[:: max(values.numel() // 20_000, 1)], 0.98)
    return (values / contrast.clamp(min=32.0)).clamp(-1.5, 1.5)


def as_rgb(picture: Tensor) -> Tensor:
    """A picture of bytes as normalised colours (3, H, W)."""
    values = scaled(picture).expand(3, -1, -1)
    return (values - values.new_tensor(MEAN).view(3, 1, 1)) / values.new_tensor(DEVIATION).view(3, 1, 1)


def resized_by(picture: Tensor, share: float) -> Tensor:
    """A float picture reduced or enlarged by a factor."""
    height, width = picture.shape[-2:]
    return resized(picture, max(round(height * share), 1), max(round(width * share), 1))


@dataclass(frozen=True)
class Fitted:
    """Tables as networks take them, from any data of :class:`TableSample`.

    ``longest`` is the longer side that pictures are resized to; with ``em``, fonts are resized to that many pixels
    instead, and only larger pictures to the longer side. ``jitter`` varies the size in training.
    """

    data: Any
    pixels: Pixels
    longest: int
    em: float = 0.0
    jitter: float = 0.0
    flip: bool = False

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> TableSample:
        return self._fitted(self.data[index], 1.0)

    def draw(self, index: int, generator: torch.Generator) -> TableSample:
        sample = self.data.draw(index, generator) if hasattr(self.data, "draw") else self.data[index]
        u, v = torch.rand(2, generator=generator).tolist()
        sample = self._fitted(sample, (1 + self.jitter) ** (2 * u - 1))
        return mirrored(sample) if self.flip and v < 0.5 else sample

    def batches(self, size: int, generator: torch.Generator) -> list[list[int]]:
        """Batches of one epoch; of fresh tables, those with similar numbers of rows, which waste less padding."""
        order = torch.randperm(len(self), generator=generator).tolist()
        if getattr(self.data, "fresh", False):
            pool = POOL * size
            pools = [order[k : k + pool] for k in range(0, len(order), pool)]
            order = [i for some in pools for i in sorted(some, key=self.data.shape)]
        found = [order[k : k + size] for k in range(0, len(order), size)]
        found = found[:-1] if len(found) > 1 and len(found[-1]) < size else found
        return [found[k] for k in torch.randperm(len(found), generator=generator).tolist()]

    def _fitted(self, sample: TableSample, factor: float) -> TableSample:
        height, width = sample.picture.shape[-2:]
        most = self.longest / max(height, width)
        em = (sample.em or letter_size(inked(sample.picture))) if self.em else 0.0
        share = min(self.em / em, most) if em else most
        values = as_ink(sample.picture) if self.pixels == "ink" else as_rgb(sample.picture)
        values = resized_by(values, min(share * factor, most))
        sides = torch.tensor([values.shape[-1] / width, values.shape[-2] / height] * 2)
        return sample._replace(picture=values, cells=sample.cells * sides, content=sample.content * sides)

    def collate(self, samples: Sequence[TableSample]) -> TableBatch:
        return collated(samples)


def mirrored(sample: TableSample) -> TableSample:
    """The sample seen in a mirror: first and last columns change places."""
    width, columns = sample.picture.shape[-1], int(sample.spans[:, 3].max())
    boxes = [
        torch.stack([width - b[:, 2], b[:, 1], width - b[:, 0], b[:, 3]], 1) for b in (sample.cells, sample.content)
    ]
    top, bottom, left, right = sample.spans.unbind(1)
    spans = torch.stack([top, bottom, columns - right, columns - left], 1)
    return sample._replace(picture=sample.picture.flip(-1), cells=boxes[0], content=boxes[1], spans=spans)


def collated(samples: Sequence[TableSample]) -> TableBatch:
    """Samples as a batch."""
    pictures, sizes = batched([sample.picture for sample in samples], MULTIPLE)
    tables = [Cells(s.cells[s.filled], s.content[s.filled], s.spans[s.filled]) for s in samples]
    return TableBatch(pictures, sizes, tables)
