"""Tables of a report: shown on the page, and as CSV and LaTeX for other programs."""

from __future__ import annotations

import base64
import csv
import io
import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vergence.contract.settings import Metric

Style = Literal["ours", "stored", "theirs"]
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "–": "--",
          "−": "$-$", **{c: f"\\{c}" for c in "&%$#_{}"}}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One value as text, and as numbers for the CSV file."""

    text: str = "–"
    value: float | None = None
    spread: float | None = None
    """Standard deviation over seeds."""
    best: bool = False

    @classmethod
    def of(cls, values: Sequence[float], metric: Metric, best: float | None = None) -> Cell:
        """Mean and standard deviation of one value per seed."""
        if not values:
            return cls()
        middle = mean(values)
        spread = statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None
        text = f"{middle:.{metric.digits}f}" + (f" ± {spread:.{metric.digits}f}" if spread is not None else "")
        return cls(text, middle, spread, middle == best)


@dataclass(frozen=True)
class Group:
    """Columns that come from one source."""

    heading: str
    columns: tuple[str, ...]
    style: Style = "ours"


@dataclass(frozen=True)
class Row:
    label: str
    cells: tuple[Cell, ...]
    note: str = ""


@dataclass(frozen=True)
class Table:
    """One row per variant; the cells of a row follow the columns of all groups."""

    name: str
    """File name of the downloads, without suffix."""
    groups: tuple[Group, ...]
    rows: tuple[Row, ...]
    note: str = ""

    @property
    def columns(self) -> list[tuple[Group, str]]:
        return [(group, column) for group in self.groups for column in group.columns]

    @property
    def downloads(self) -> list[tuple[str, str, str]]:
        """Label, file name and data URI of each format."""
        return [
            ("CSV", f"{self.name}.csv", _uri("text/csv", self.csv())),
            ("LaTeX", f"{self.name}.tex", _uri("application/x-tex", self.latex())),
        ]

    def csv(self) -> str:
        """Numbers in full precision; the standard deviation over seeds in a column of its own."""
        spread = [any(row.cells[i].spread is not None for row in self.rows) for i in range(len(self.columns))]
        named = [f"{group.heading}: {column}".removeprefix(": ") for group, column in self.columns]
        pairs = zip(named, spread, strict=True)
        head = [name for title, wide in pairs for name in [title, f"{title}, standard deviation"][: 1 + wide]]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["", *head])
        for row in self.rows:
            both = [[c.value, c.spread][: 1 + wide] for c, wide in zip(row.cells, spread, strict=True)]
            numbers = [number for each in both for number in each]
            writer.writerow([row.label, *("" if number is None else repr(number) for number in numbers)])
        return text.getvalue()

    def latex(self) -> str:
        """A ``tabular`` with the rules of the package booktabs; the best values are bold."""
        lines = [rf"\begin{{tabular}}{{l{'r' * len(self.columns)}}}", r"\toprule"]
        if len(self.groups) > 1:
            heads = [rf"\multicolumn{{{len(g.columns)}}}{{c}}{{{_latex(g.heading)}}}" for g in self.groups]
            lines.append(" & ".join(["", *heads]) + r" \\")
        lines += [" & ".join(["", *(_latex(column) for _, column in self.columns)]) + r" \\", r"\midrule"]
        for row in self.rows:
            cells = [rf"\textbf{{{_latex(c.text)}}}" if c.best else _latex(c.text) for c in row.cells]
            lines.append(" & ".join([_latex(row.label), *cells]) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def best(means: Sequence[float], metric: Metric) -> float | None:
    """The best of several; None if there is nothing to compare."""
    known = [value for value in means if math.isfinite(value)]
    if len(known) < 2:
        return None
    return max(known) if metric.higher_is_better else min(known)


def _latex(text: str) -> str:
    return re.sub(r"[\\~^&%$#_{}±–−]", lambda match: _LATEX[match[0]], text)


def _uri(kind: str, text: str) -> str:
    return f"data:{kind};charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"
