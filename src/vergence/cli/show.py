"""Output of results: tables, or one JSON document."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from vergence.contract.settings import Metric
from vergence.core.files import finite
from vergence.studies.ledger import Entry

if TYPE_CHECKING:
    from rich.console import Console

UPRIGHT = 8
"""Maximum number of metrics side by side."""
SIGNS = {
    "holds": "[green]holds[/]",
    "does not hold": "[red]does not hold[/]",
    "not resolved at this scale": "[yellow]not resolved[/]",
    "cannot be judged here": "[dim]cannot be judged[/]",
}


def console() -> Console:
    """Standard output, in colour on a terminal."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # handled in main: the output pipe was closed

    return Plain()


def document(value: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(finite(value), indent=1))


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> None:
    """A table on standard output."""
    from rich.table import Table

    shown = Table(header_style="bold")
    shown.caption, shown.caption_justify = escape(caption), "left"
    short = all(len(row[0]) <= 30 for row in rows if row)  # names stay whole; sentences must leave room for numbers
    for number, column in enumerate(columns):
        shown.add_column(escape(column), overflow="fold", no_wrap=number == 0 and short)
    for row in rows:
        shown.add_row(*map(escape, row))
    out = console()
    if title:
        out.print(f"[italic]{escape(title)}[/]", highlight=False)
    out.print(shown)


def metrics_table(title: str, metrics: Mapping[str, Metric], rows: Mapping[str, Mapping[str, float]]) -> None:
    """One row per variant and one column per metric; a single variant with many metrics is shown as a column."""
    shown = [name for name in metrics if any(name in row for row in rows.values())]
    body = [[label, *(number(row.get(m), metrics[m]) for m in shown)] for label, row in rows.items()]
    if len(body) == 1 and len(shown) > UPRIGHT:
        names = [f"{metrics[m].label} {metrics[m].unit}".strip() for m in shown]
        return table(title, ["", body[0][0]], list(zip(names, body[0][1:], strict=True)))
    table(title, ["", *(f"{metrics[m].label} {metrics[m].unit}".strip() for m in shown)], body)


def claims_table(entries: Sequence[Entry]) -> None:
    """The paper's claims, then the checks of the implementation: verdict and statement, with the figures below."""
    for title, checks in (("Claims of the paper", False), ("Checks of the implementation", True)):
        group = [entry for entry in entries if (entry.claim.kind == "check") == checks]
        if group:
            held = sum(e.judgement is not None and e.judgement.verdict == "holds" for e in group)
            _claims(f"{title}: {held} of {len(group)} hold", group)


def _claims(title: str, entries: Sequence[Entry]) -> None:
    from rich.table import Table

    shown = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    shown.add_column(min_width=14, max_width=22)
    shown.add_column()
    for entry in entries:
        claim = entry.claim
        figures = f"{entry.system} {claim.id} · {claim.source} · {claim.kind} · expected {claim.expected}"
        figures += f" · measured {measured(entry)}"
        shown.add_row(verdict(entry), f"{escape(claim.statement)}\n[dim]{escape(figures)}[/]")
    console().print(f"[bold]{title}[/]", shown, highlight=False)


def measured(entry: Entry) -> str:
    """The measured value, with its interval if there is one."""
    judgement = entry.judgement
    if judgement is None or judgement.measured is None:
        return "–"
    if len(judgement.values) > 1 and judgement.low is not None and judgement.high is not None:
        return f"{judgement.measured:.3g} [{judgement.low:.3g}, {judgement.high:.3g}]"
    return f"{judgement.measured:.3g}"


def verdict(entry: Entry) -> str:
    """The verdict in colour, with its age unless current."""
    if entry.judgement is None:
        return "[dim]not measured yet[/]"
    old = "" if entry.age == "current" else f" [dim]({entry.age})[/]"
    why = f" [dim]({escape(entry.judgement.reason)})[/]" if entry.judgement.reason else ""
    return SIGNS[entry.judgement.verdict] + why + old


def number(value: float | None, metric: Metric) -> str:
    """A metric's value with its number of digits."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.{metric.digits}f}"
