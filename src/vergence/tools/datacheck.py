"""Check a data set: read every split and sample, and list every error."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from vergence import catalogue
from vergence.contract.data import EMBEDDED, Layout, told_by
from vergence.contract.settings import SPLITS
from vergence.core.errors import Several, VergenceError, did_you_mean, reason
from vergence.core.progress import Progress
from vergence.data.archives import is_archive, unpacked
from vergence.data.images import SUFFIXES
from vergence.data.layouts import PLAIN, find, is_named, parse, there
from vergence.data.video import SUFFIXES as VIDEOS

if TYPE_CHECKING:
    from pathlib import Path

BATCH = 16
MOST_FILES = 2000
"""Files that are looked at to guess what a folder holds."""
Known = dict[str, list[tuple[Layout, list[str]]]]
"""Readers by name of the layout, each with the systems that share it."""


@dataclass(frozen=True)
class SplitCheck:
    """Result of checking one split."""

    split: str
    samples: int = 0
    same_as: str = ""
    """Another split with the same files, which were checked there."""
    classes: int | None = None
    per_class: tuple[int, int] | None = None
    """Samples of the rarest and of the most frequent class."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Contents of a sample: type and range of sizes, by place."""
    note: str = ""
    """What the reader says about its files, such as how they were split."""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReaderCheck:
    """Result of checking the data with one reader of the layout."""

    systems: tuple[str, ...]
    """The systems that use this reader."""
    rooms: tuple[str, ...]
    expects: str
    splits: tuple[SplitCheck, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """All errors without duplicates: a file may be in two splits."""
        return tuple(dict.fromkeys(text for split in self.splits for text in split.problems))

    @property
    def opens(self) -> bool:
        """Whether it could read any split."""
        return any(split.samples for split in self.splits)


@dataclass(frozen=True)
class DataCheck:
    """Result of checking a data set with its readers."""

    layout: str
    path: Path
    readers: tuple[ReaderCheck, ...]
    """Readers that could open it, with the fewest problems; if none could, all readers of the layout."""
    others: tuple[ReaderCheck, ...] = ()
    """Readers of a layout of this name that cannot open this data, or find more wrong with it: it is not for them."""
    guessed: bool = False
    """Whether the layout was guessed from the files."""
    also: tuple[str, ...] = ()
    """Other layouts that could be meant, each with its systems."""

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for reader in self.readers for text in reader.problems))

    @property
    def whole(self) -> bool:
        return not self.problems


def check(source: str, system: str = "", workers: int = 0, progress: Progress | None = None) -> DataCheck:
    """Read all of ``LAYOUT:PATH`` with every reader of that layout, or with the reader of one system; the layout of a
    plain ``PATH`` is guessed."""
    shown = progress or Progress()
    if source == EMBEDDED:
        raise VergenceError("embedded data is generated, not read: there is nothing to check")
    name, path = parse(source)
    known = _layouts([system] if system else catalogue.names(), shown)
    if not is_named(source):
        return _guess(path, known, workers, shown)
    if name not in known:
        whose = f"{system} has" if system else "there is"
        raise VergenceError(f"{whose} no layout {name!r} to read {source!r} with{did_you_mean(name, known)}")
    groups = known[name]
    if not there(path):
        raise VergenceError(f"{path} does not exist; expected {' or '.join(layout.about for layout, _ in groups)}")
    readers = []
    for layout, systems in groups:
        located = find(source, {name: layout})  # the same path as in training
        assert located is not None
        readers.append(_read(layout, systems, located[1], workers, shown))
    opened = [reader for reader in readers if reader.opens]
    if not opened:
        return DataCheck(name, path, tuple(readers))
    fewest = min(len(reader.problems) for reader in opened)  # a reader of other things finds more
    suited = tuple(reader for reader in opened if len(reader.problems) == fewest)
    return DataCheck(name, path, suited, tuple(reader for reader in readers if reader not in suited))


def _guess(path: Path, known: Known, workers: int, progress: Progress) -> DataCheck:
    """Check a path with the layout that it looks like most."""
    if not there(path):
        raise VergenceError(f"{path} does not exist")
    root = unpacked(path) if is_archive(path) else path
    listed = [(name, layout, systems) for name, groups in known.items() for layout, systems in groups]
    ranked, holds = [], _contents(root)
    for name, layout, systems in progress.track(listed, "layouts"):
        opened = sum(_opened(layout, root, split)[0] is not None for split in SPLITS)
        likeness = (opened > 0, names_found(layout.about, root), opened, name == PLAIN, holds in layout.about)
        ranked.append((likeness, name, layout, systems))
    ranked.sort(key=lambda each: each[0], reverse=True)
    likeness, name, layout, systems = ranked[0]
    if not any((likeness[0], likeness[1] >= 1, likeness[4])):
        raise VergenceError(f"{path} looks like no layout that is known here: vergence train NAME --help lists them")
    also = tuple(f"{n} ({', '.join(s)})" for each, n, _, s in ranked[1:] if each[0] and each[2] == likeness[2])
    return DataCheck(name, path, (_read(layout, systems, root, workers, progress),), (), True, also)


def names_found(about: str, root: Path) -> float:
    """How many of the names in a layout's description are those of files or folders in a folder; the names of splits,
    which many layouts have, count little."""
    names = {word.rstrip(".-/") for word in re.findall(r"[\w.-]+", about)}
    present = [name for name in names if len(name) > 2 and there(root / name)] if root.is_dir() else []
    return sum(0.1 if name in SPLITS else 1.0 for name in present)


def _contents(root: Path) -> str:
    """What a folder holds, by the suffixes of its first files, in the word that descriptions of layouts use."""
    suffixes = Counter(p.suffix.lower() for p in islice(root.rglob("*"), MOST_FILES) if p.is_file())
    words = dict.fromkeys(SUFFIXES, "picture") | dict.fromkeys(VIDEOS, "video")
    counts: Counter[str] = Counter()
    for suffix, count in suffixes.items():
        counts[words.get(suffix, suffix or "?")] += count
    return counts.most_common(1)[0][0] if counts else "?"


def layouts() -> dict[str, tuple[str, ...]]:
    """The names of all layouts, and the systems that know each."""
    known = _layouts(catalogue.names(), Progress())
    return {name: tuple(s for _, systems in known[name] for s in systems) for name in sorted(known)}


def _layouts(names: list[str], progress: Progress) -> Known:
    """Readers by name of the layout, each with the systems that share it."""
    known: Known = {}
    for name in names:
        try:
            layouts = catalogue.load(name).layouts
        except VergenceError as error:  # a third-party system that fails to import must not hide the others
            if len(names) == 1:
                raise
            progress.say(f"{error}")
            continue
        for layout_name, layout in layouts.items():
            groups = known.setdefault(layout_name, [])
            for shared, systems in groups:
                if shared == layout:
                    systems.append(name)
                    break
            else:
                groups.append((layout, [name]))
    return known


def _read(layout: Layout, systems: list[str], path: Path, workers: int, progress: Progress) -> ReaderCheck:
    done: dict[str, Any] = {}
    splits: list[SplitCheck] = []
    for split in SPLITS:
        data, problems = _opened(layout, path, split)
        if data is None:
            splits.append(SplitCheck(split, problems=problems))
            continue
        twin = next((other for other, files in done.items() if _same_files(files, data)), "")
        done[split] = data
        if twin:
            splits.append(SplitCheck(split, len(data), same_as=twin))
        else:
            splits.append(_walk(data, split, workers, progress))
    rooms = tuple(dict.fromkeys(catalogue.room(name) for name in systems))
    return ReaderCheck(tuple(systems), rooms, layout.about, tuple(splits))


def _opened(layout: Layout, path: Path, split: str) -> tuple[Any, tuple[str, ...]]:
    try:
        data = layout.read(path, split)
        if not len(data):
            return None, (f"{path} has no samples in {split!r}",)
        return data, ()
    except Several as error:
        return None, error.each
    except VergenceError as error:
        return None, (str(error),)
    except Exception as error:  # an unexpected error of the reader: report it and go on
        return None, (f"{path} cannot be read ({split}): {_told(error)}",)


def _same_files(a: Any, b: Any) -> bool:
    paths = getattr(a, "paths", None)
    return paths is not None and type(a) is type(b) and bool(paths == getattr(b, "paths", None))


def _walk(data: Any, split: str, workers: int, progress: Progress) -> SplitCheck:
    """Read every sample, with ``workers`` processes."""
    from vergence.contract.loader import InOrder

    parts: dict[str, _Part] = {}
    counts: dict[str, Counter[int]] = {}
    problems: list[str] = []
    loader = InOrder(_Looked(data, split), range(len(data)), BATCH, workers)
    for batch in progress.track(loader, f"reading {split}"):
        for look in batch:
            problems += look.problems
            for place, kind, shape in look.tensors:
                parts.setdefault(place, _Part(kind)).add(kind, shape)
            for place, value in look.numbers:
                counts.setdefault(place, Counter())[value] += 1
    classes, per_class = _classes(data, counts)
    described = {place: part.text() for place, part in parts.items()}
    described |= {place: f"integers from {min(c)} to {max(c)}" for place, c in counts.items()}
    found = tuple(dict.fromkeys(problems))
    return SplitCheck(split, len(data), "", classes, per_class, described, told_by(data, "note"), found)


def _classes(data: Any, counts: Mapping[str, Counter[int]]) -> tuple[int | None, tuple[int, int] | None]:
    named = getattr(data, "classes", None)
    classes = len(named) if isinstance(named, list | tuple) else None
    labels = next(iter(counts.values()), None)
    if classes and labels and min(labels) >= 0 and max(labels) < classes:
        per_class = [labels[number] for number in range(classes)]
        return classes, (min(per_class), max(per_class))
    return classes, None


@dataclass(frozen=True)
class _Look:
    """Summary of a sample, small enough to send between processes."""

    tensors: tuple[tuple[str, str, tuple[int, ...]], ...] = ()
    numbers: tuple[tuple[str, int], ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Looked:
    """A data set of :class:`_Look` summaries; an error in one sample does not stop the others."""

    data: Any
    split: str

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> _Look:
        try:
            sample = self.data[index]
        except VergenceError as error:
            return _Look(problems=error.each if isinstance(error, Several) else (str(error),))
        except Exception as error:
            return _Look(problems=(f"{self.where(index)} cannot be read: {_told(error)}",))
        tensors: list[tuple[str, str, tuple[int, ...]]] = []
        numbers: list[tuple[str, int]] = []
        bad = _take(sample, "", tensors, numbers)
        problems = tuple(f"{self.where(index)} has values that are not finite ({place})" for place in bad)
        return _Look(tuple(tensors), tuple(numbers), problems)

    def where(self, index: int) -> str:
        paths = getattr(self.data, "paths", None)
        return str(paths[index]) if paths is not None else f"sample {index} of {self.split!r}"

    @staticmethod
    def collate(looks: list[_Look]) -> list[_Look]:
        return looks


def _take(value: Any, at: str, tensors: list[Any], numbers: list[Any]) -> list[str]:
    """Append tensors and numbers of a sample to the lists; returns the places with values that are not finite."""
    import numpy as np
    import torch

    place = at or "sample"
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        value = torch.from_numpy(np.ascontiguousarray(value))
    if isinstance(value, torch.Tensor):
        tensors.append((place, str(value.dtype).removeprefix("torch."), tuple(value.shape)))
        return [] if not value.is_floating_point() or bool(value.isfinite().all()) else [place]
    if isinstance(value, bool | str | bytes) or value is None:
        return []
    if isinstance(value, int):
        numbers.append((place, value))
        return []
    if isinstance(value, float):
        return [] if math.isfinite(value) else [place]
    if isinstance(value, Mapping):
        items: Any = value.items()
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        items = zip(value._fields, value, strict=True)
    elif isinstance(value, list) and value and all(isinstance(v, int | float) for v in value):
        tensors.append((place, "list", (len(value),)))
        return [] if all(math.isfinite(v) for v in value) else [place]
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    else:
        items = vars(value).items() if hasattr(value, "__dict__") else ()
    return [bad for key, part in items for bad in _take(part, f"{at}.{key}" if at else str(key), tensors, numbers)]


@dataclass
class _Part:
    """Types and range of sizes at one place of the samples."""

    kind: str
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    ranks: set[int] = field(default_factory=set)

    def add(self, kind: str, shape: tuple[int, ...]) -> None:
        if kind not in self.kind.split("/"):
            self.kind += f"/{kind}"
        self.ranks.add(len(shape))
        if len(self.ranks) == 1:
            self.low = tuple(map(min, self.low or shape, shape))
            self.high = tuple(map(max, self.high or shape, shape))

    def text(self) -> str:
        if len(self.ranks) > 1:
            return f"{self.kind} of {' or '.join(map(str, sorted(self.ranks)))} dimensions"
        sizes = [str(a) if a == b else f"{a} to {b}" for a, b in zip(self.low, self.high, strict=True)]
        return f"{self.kind} ({', '.join(sizes)})"


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {reason(error)}" if str(error).strip() else type(error).__name__
