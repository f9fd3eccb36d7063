"""Stored results as Markdown: the ledger of all claims, tables, and the catalogue (costs: ``costs.py``).

``python docs/render.py`` writes the files kept in the repository: ``docs/claims.md`` and the table of systems in
``README.md``. The site's pages are generated when it is built (``docs/hooks.py``). No measured value is typed by hand.
"""

from __future__ import annotations

import html
import statistics
import sys
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from vergence import catalogue
from vergence.cli.show import measured
from vergence.contract.config import documented
from vergence.contract.settings import Metric
from vergence.runs.versions import Environment
from vergence.studies import results
from vergence.studies.ledger import Entry, latest

ROOT = Path(__file__).parents[1]
LEDGER = ROOT / "docs" / "claims.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- systems: python docs/render.py -->\n", "<!-- end of systems -->\n"
SIGNS = {
    "holds": ("✓", "holds"),
    "does not hold": ("✗", "fails"),
    "not resolved at this scale": ("~", "open"),
    "cannot be judged here": ("–", "none"),
    "not measured yet": ("–", "none"),
}
"""A sign that is readable without colour, and its CSS class."""
SAID = {
    "holds": ("holds", "hold"),
    "does not hold": ("does not hold", "do not hold"),
    "not resolved at this scale": ("is not resolved", "are not resolved"),
    "cannot be judged here": ("could not be judged", "could not be judged"),
    "not measured yet": ("is not measured yet", "are not measured yet"),
}
"""Singular and plural."""
UPRIGHT = 7
"""Maximum number of columns; a wider table is transposed."""


def own() -> list[str]:
    """The systems of this repository, without third-party ones."""
    return [name for name, module in catalogue.modules().items() if module.startswith("vergence.")]


# Claims ---------------------------------------------------------------------------------------------------------------


def ledger(ages: bool = False) -> str:
    """All claims of all systems with their stored results; with ``ages``, also whether the code computes the same now
    (left out of the file kept in the repository, which would change with every line of code)."""
    entries = {name: latest(name, root=None) for name in own()}
    everything = [entry for found in entries.values() for entry in found]
    parts = [
        "# Claims\n",
        f"What the papers say and what was measured here: {summary(everything)}.\n",
        "A *claim* is a statement of the paper. It has a verdict and may be false: *exact* ones are decided by a "
        "computation, *empirical* ones by training, *cost* by timing. A *check* is a statement about this "
        "implementation (an identity, a count, an invariance) and must hold: tests demand it. They are counted "
        "apart.\n",
        "A comparison holds if the 90 % "
        "interval of its mean difference over paired seeds is beyond a threshold that was written before the first "
        "run; it is not resolved if the interval reaches over the threshold. Comparisons are of `tiny` presets on "
        "embedded data unless a claim says otherwise: they test the mechanism, not the paper's figures, which stand "
        "beside them. A result is shown only beside the threshold, the seeds and the variants it was judged by.\n",
        "This page is written by `python docs/render.py` from the systems' stored results. "
        "`vergence claims NAME --kind all` measures them again, and `vergence claims --known` says which were measured "
        "with older code.\n",
    ]
    for name, found in entries.items():
        parts.append(f"## {name}\n")
        parts.append(f"*{catalogue.about(name).title}*: {summary(found)}.\n")
        parts += [claims_table(found, ages), checks_table(found, ages)]
    return "\n".join(parts)


def summary(entries: Sequence[Entry]) -> str:
    """The number of claims of the papers and of checks, in total and per verdict."""
    groups = zip(split(entries), (("claim", "claims"), ("check of the implementation",
                 "checks of the implementation")), strict=True)  # fmt: skip
    return "; and ".join(_counted(group, nouns[len(group) > 1]) for group, nouns in groups if group)


def _counted(entries: Sequence[Entry], noun: str) -> str:
    verdicts = [verdict(entry) for entry in entries]
    counts = [f"{verdicts.count(v)} {SAID[v][verdicts.count(v) > 1]}" for v in SIGNS if v in verdicts]
    return f"{len(entries)} {noun}, of which " + ", ".join(counts)


def split(entries: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """Claims of the paper, and checks of the implementation."""
    checks = [entry for entry in entries if entry.claim.kind == "check"]
    return [entry for entry in entries if entry.claim.kind != "check"], checks


def claims_table(entries: Sequence[Entry], ages: bool = False) -> str:
    """The claims of the paper, one row each: comparisons first, then costs, then what a computation decides."""
    claims = [entry for kind in ("empirical", "cost", "exact") for entry in entries if entry.claim.kind == kind]
    return _entries_table("claim", claims, ages) if claims else ""


def checks_table(entries: Sequence[Entry], ages: bool = False) -> str:
    """The checks of the implementation, folded."""
    checks = split(entries)[1]
    if not checks:
        return ""
    held = sum(verdict(entry) == "holds" for entry in checks)
    title = f"Checks of the implementation: {held} of {len(checks)} hold"
    table = _entries_table("check", checks, ages)
    return f'<details markdown="1"><summary>{title}</summary>\n\n{table}\n</details>\n'


def _entries_table(noun: str, entries: Sequence[Entry], ages: bool) -> str:
    """One row per entry; environments shared by several are listed once."""
    makers = list(dict.fromkeys(maker(entry) for entry in entries if entry.judgement))
    rows = []
    for entry in entries:
        claim = entry.claim
        old = f"<br>{entry.old}" if ages and entry.judgement and entry.old else ""
        why = f"<br>{cell(entry.judgement.reason)}" if entry.judgement and entry.judgement.reason else ""
        number = f"<sup>{makers.index(maker(entry)) + 1}</sup>" if entry.judgement and len(makers) > 1 else ""
        rows.append(
            [
                f"{sign(entry)}{old}{why}",
                f'<span class="said">{cell(claim.statement)} ({cell(claim.source)}; {claim.kind})</span>',
                expected(entry),
                f"{measured(entry)}{number}",
            ]
        )
    made = "\n".join(small(maker, f"{n}. " if len(makers) > 1 else "") for n, maker in enumerate(makers, 1))
    return f"{table(['verdict', noun, 'expected', 'measured'], rows)}\n{made}"


def maker(entry: Entry) -> str:
    return made_with(entry.command, entry.environment)


def made_with(command: str, made: Environment) -> str:
    """The command, the date and the versions."""
    packages = ", ".join(f"{name} {version}" for name, version in made.packages.items() if version)
    commit = f" at {made.commit}" if made.commit else ""
    seeds = f", {len(made.seeds)} seeds" if len(made.seeds) > 1 else ""
    return (
        f"`{command}`{seeds}, {made.date[:10]}, Vergence {made.version}{commit}, Python {made.python}, {packages}, "
        f"{made.machine}"
    )


def small(made: str, number: str = "") -> str:
    """A footnote on how something was made."""
    return f'<small class="made">{number}Made with {made}.</small>\n'


def verdict(entry: Entry) -> str:
    return entry.judgement.verdict if entry.judgement else "not measured yet"


def sign(entry: Entry) -> str:
    mark, style = SIGNS[verdict(entry)]
    return f'<span class="{style}">{mark} {verdict(entry).removesuffix(" at this scale").removesuffix(" here")}</span>'


def expected(entry: Entry) -> str:
    claim = entry.claim
    paper = f"<br>paper: {cell(claim.paper)}" if claim.paper else ""
    return cell(claim.expected) + paper


def open_claims() -> str:
    """Every claim and check that was not found to hold, with its single values."""
    entries = [entry for name in own() for entry in latest(name, root=None)]
    groups = {
        "does not hold": "## Does not hold\n\nThe whole interval lies on the wrong side of the threshold.\n",
        "not resolved at this scale": "## Not resolved\n\nThe interval contains the threshold: these seeds at this "
        "size do not decide the claim.\n",
        "cannot be judged here": "## Not judged\n\nA requirement was missing when they were measured.\n",
        "not measured yet": "## Not measured yet\n",
    }
    parts = [summary(entries) + ".\n"]
    for name, heading in groups.items():
        matching = [entry for entry in entries if verdict(entry) == name]
        if matching:
            parts += [heading, *map(_open_claim, matching)]
    return "\n".join(parts)


def _open_claim(entry: Entry) -> str:
    claim, found = entry.claim, entry.judgement
    facts = [("kind", claim.kind), ("expected", cell(claim.expected))]
    if claim.paper:
        facts.append(("the paper's figure", cell(claim.paper)))
    if found and found.measured is not None:
        facts.append(("measured", f"**{found.measured:.3g}** {cell(claim.unit)}"))
    if found and len(found.values) > 1 and found.low is not None and found.high is not None:
        facts.append(("90 % interval of the mean", f"{found.low:.3g} to {found.high:.3g}"))
        facts.append(("one by one", ", ".join(f"{value:.3g}" for value in found.values)))
    if found and found.reason:
        facts.append(("why", cell(found.reason)))
    if found:
        facts.append(("made with", maker(entry) + (f" ({entry.old})" if entry.old else "")))
    else:
        facts.append(("to measure it", f"`vergence claims {entry.system} --only {claim.id}`"))
    place = f'<div class="claim" id="{entry.system}-{claim.id}" markdown="1">'
    source = f"[{entry.system}](systems/{entry.system}.md), {cell(claim.source)}"
    lines = "\n".join(f"- {name}: {value}" for name, value in facts)
    return f"{place}\n\n{sign(entry)} **{cell(claim.statement)}** {source}\n\n{lines}\n\n</div>\n"


# Inputs and results ---------------------------------------------------------------------------------------------------


def results_tables() -> str:
    """Inputs and results of each system, field by field."""
    parts = []
    for name in own():
        system = catalogue.load(name)
        if system.settings.inputs is None:
            continue
        hooks = [task.infer for task in system.tasks] or [system.infer]
        kinds = dict.fromkeys(typing.get_type_hints(hook)["return"] for hook in hooks)
        parts.append(f"\n## {name}\n")
        for title, kind in [("takes", system.settings.inputs), *((f"gives `{k.__name__}`", k) for k in kinds)]:
            rows = [[f"`{field}`", cell(text)] for field, text in documented(kind).items()]
            parts.append(f"{title.capitalize()}:\n\n{table(['field', 'what'], rows)}\n")
    return "\n".join(parts)


# Tables and costs -----------------------------------------------------------------------------------------------------


def run_table(name: str) -> str:
    """The paper's table as measured here, then the paper's own figures, or nothing."""
    stored = results.run(name)
    if stored is None:
        return ""
    system = catalogue.load(name)
    labels = {v: system.variants[v].label if v in system.variants else v for v in stored.rows}
    found = {v: row.metrics for v, row in stored.rows.items()}
    seeds = len(stored.environment.seeds)
    spread = f"mean and standard deviation of {seeds} seeds" if seeds > 1 else "one seed"
    parts = [
        f"Preset `{stored.preset}`, test data, {spread}. {_sentence(stored.data)}\n",
        _metrics(system.metrics, labels, found),
        small(made_with(stored.command, stored.environment) + note_on_age(name, stored)),
    ]
    for reported in system.settings.reported:
        theirs = {v: {m: (x,) for m, x in row.items()} for v, row in reported.rows.items() if v in labels}
        if theirs and (not reported.presets or stored.preset in reported.presets):
            parts += [f"The paper's figures, {cell(reported.where)}:\n", _metrics(system.metrics, labels, theirs)]
    return "\n".join(parts)


def note_on_age(name: str, stored: results.StoredRun | results.StoredBench) -> str:
    """A note if something was measured with other code; only on pages that are not kept in the repository."""
    old = results.age(name, stored)
    return f" ({old})" if old else ""


def _sentence(data: str) -> str:
    """The description of the data as a sentence."""
    return cell(data).rstrip(".") + "." if " " in data else f"Data: `{data}`."


def _metrics(
    metrics: Mapping[str, Metric],
    labels: Mapping[str, str],
    found: Mapping[str, Mapping[str, Sequence[float | None]]],
) -> str:
    shown = [m for m in metrics if any(m in row for row in found.values())]
    body = [[_values(row.get(m, ()), metrics[m]) for m in shown] for row in found.values()]
    return turned([labels[v] for v in found], [_headed(metrics[m]) for m in shown], body)


def _headed(metric: Metric) -> str:
    return cell(f"{metric.label} {metric.unit}".strip())


def _values(values: Iterable[float | None], metric: Metric) -> str:
    found = [value for value in values if value is not None]
    if not found:
        return "–"
    spread = f" ± {statistics.stdev(found):.{metric.digits}f}" if len(found) > 1 else ""
    return f"{statistics.fmean(found):.{metric.digits}f}{spread}"


# The catalogue --------------------------------------------------------------------------------------------------------


def systems_table() -> str:
    """One row per system, for the front page of the repository."""
    rows = []
    for name in own():
        about, link = catalogue.about(name), f"[{name}]({catalogue.folder(name).relative_to(ROOT)}/README.md)"
        paper, tasks = cell(f"{about.title}, {about.venue}"), cell(", ".join(about.tasks))
        claims, checks = split(latest(name, root=None))
        held = sum(verdict(entry) == "holds" for entry in checks)
        rows.append([link, paper, tasks, tally(claims), f"{held} of {len(checks)}"])
    return table(["name", "paper", "tasks", "claims", "checks"], rows)


def tally(entries: Sequence[Entry]) -> str:
    """Verdicts in a few signs: ``9 ✓ 2 ✗ 1 ~``."""
    verdicts = [verdict(entry) for entry in entries]
    counts: dict[str, int] = {}
    for v, (mark, _) in SIGNS.items():
        if v in verdicts:
            counts[mark] = counts.get(mark, 0) + verdicts.count(v)
    return " ".join(f"{count} {mark}" for mark, count in counts.items()) or "–"


def wall(style: str = "wall") -> str:
    """One card per system: picture, name and tasks."""
    cards = []
    for name in own():
        about = catalogue.about(name)
        shown = f'<img src="systems/{name}-tile.png" alt="" loading="lazy">' if catalogue.picture(name) else ""
        cards.append(
            f'<a class="card" href="systems/{name}.html"><span class="shot">{shown}</span><b>{name}</b>'
            f"<span>{html.escape(', '.join(about.tasks))}</span><small>{html.escape(about.title)}, "
            f"{html.escape(about.venue)}</small></a>"
        )
    return f'<div class="{style}">\n' + "\n".join(cards) + "\n</div>\n"


def with_systems(readme: str) -> str:
    """The README with its table of systems regenerated."""
    before, rest = readme.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}{systems_table()}{END}{after}"


# Markdown -------------------------------------------------------------------------------------------------------------


def cell(text: str) -> str:
    """Escape plain text for use in a table."""
    for sign in "\\|*_<[`":
        text = text.replace(sign, "&lt;" if sign == "<" else f"\\{sign}")
    return " ".join(text.split())


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def turned(labels: Sequence[str], columns: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table with one row per label, transposed if it has too many columns and fewer labels."""
    if len(columns) > UPRIGHT and len(labels) < len(columns):
        return table(["", *map(cell, labels)], [[c, *(row[n] for row in body)] for n, c in enumerate(columns)])
    return table(["", *columns], [[cell(label), *row] for label, row in zip(labels, body, strict=True)])


def main() -> int:
    """Write the files kept in the repository, or with ``--check`` report which are out of date."""
    made = {LEDGER: ledger(), README: with_systems(README.read_text(encoding="utf-8"))}
    old = [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in old:
        print(f"{path.relative_to(ROOT)} is {'out of date' if '--check' in sys.argv else 'written'}")
        if "--check" not in sys.argv:
            path.write_text(made[path], encoding="utf-8")
    return 1 if old and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
