"""What a report's runs measured: metrics beside stored results and the paper's figures, and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vergence.contract.settings import Metric
from vergence.core.progress import clock
from vergence.engine.cost import count
from vergence.engine.weights import identify
from vergence.report.tables import Cell, Group, Row, Style, Table, best, mean
from vergence.report.verdicts import interval, seeds_text, stored_text
from vergence.runs.folder import Result, Run
from vergence.studies import agreement
from vergence.studies.results import StoredRun
from vergence.studies.subject import Subject

Source = Mapping[str, Mapping[str, Sequence[float]]]
"""By variant and metric, one value per seed."""
Part = tuple[Group, dict[str, tuple[Cell, ...]]]
"""Columns of a table, and their cells by variant."""


def metrics_table(subject: Subject) -> Table | None:
    """Metrics of the runs, beside stored results over more seeds (where there are) and the paper's figures."""
    metrics = subject.system.metrics
    sources: list[tuple[str, Style, Source]] = [(f"this run, {_seeds(subject)}", "ours", _own(subject))]
    stored = agreement.more_seeds(subject)
    if stored is not None:
        sources.append((stored_text(stored.environment), "stored", _stored(stored)))
    for reported in subject.system.settings.reported:
        if not reported.presets or subject.preset in reported.presets:
            rows = {v: {m: (value,) for m, value in row.items()} for v, row in reported.rows.items()}
            sources.append((f"the paper, {reported.where}", "theirs", rows))
    parts = [_part(*source, list(subject.runs), metrics) for source in sources]
    if not parts[0][0].columns:
        return None
    parts = [part for part in parts if part[0].columns]
    counts = {len(runs) for runs in subject.runs.values()}
    rows_shown = tuple(
        Row(
            subject.label(variant),
            tuple(cell for _, cells in parts for cell in cells[variant]),
            _count(len(runs)) if len(counts) > 1 else "",
        )
        for variant, runs in subject.runs.items()
    )
    name = f"{subject.system.about.name}-{subject.preset}"
    return Table(
        name, tuple(group for group, _ in parts), rows_shown, _note(subject.first.measured_on, max(counts), parts)
    )


def _part(heading: str, style: Style, source: Source, variants: Sequence[str], metrics: Mapping[str, Metric]) -> Part:
    """The columns of one source, for the variants that were run."""
    rows = {variant: source.get(variant, {}) for variant in variants}
    shown = [name for name in metrics if any(row.get(name) for row in rows.values())]
    top = {name: best([mean(row[name]) for row in rows.values() if row.get(name)], metrics[name]) for name in shown}
    labels = tuple(f"{metrics[name].label} {metrics[name].unit}".strip() for name in shown)
    cells = {v: tuple(Cell.of(row.get(n, ()), metrics[n], top[n]) for n in shown) for v, row in rows.items()}
    return Group(heading, labels, style), cells


def _own(subject: Subject) -> Source:
    values: dict[str, dict[str, list[float]]] = {}
    for variant, runs in subject.runs.items():
        for run in runs:
            for name, value in run.metrics.items():
                values.setdefault(variant, {}).setdefault(name, []).append(value)
    return values


def _stored(stored: StoredRun) -> Source:
    return {
        variant: {name: [value for value in values if value is not None] for name, values in row.metrics.items()}
        for variant, row in stored.rows.items()
    }


def _seeds(subject: Subject) -> str:
    return seeds_text(sorted({run.order.config.seed for runs in subject.runs.values() for run in runs}))


def _count(seeds: int) -> str:
    return "1 seed" if seeds == 1 else f"{seeds} seeds"


def _note(where: str, seeds: int, parts: Sequence[Part]) -> str:
    styles = {group.style for group, _ in parts}
    note = [f"{where[:1].upper()}{where[1:]}. "]
    note[0] += "Values of one seed." if seeds == 1 else "Mean ± standard deviation over seeds."
    if "stored" in styles:
        note.append("Stored results are means ± standard deviations over more seeds of the same preset and data.")
    if "theirs" in styles:
        note.append(
            "The figures in italics are the paper's own, on another data set and at another size: compare the order "
            "of the rows, not the numbers."
        )
    return " ".join(note)


def warnings(subject: Subject) -> list[str]:
    """One sentence for each point in which stored results over more seeds disagree with this run."""
    sentences = []
    for one in agreement.disagreements(subject):
        entry = one.entry
        assert entry.judgement is not None  # only judged claims can disagree
        sentences.append(
            f"“{entry.claim.statement}” This run alone ({seeds_text(one.seeds)}) gives "
            f"{one.mean:.3g} {entry.claim.unit}".rstrip()
            + f"; {stored_text(entry.environment)}, give {interval(entry)}: {entry.judgement.verdict}."
        )
    return sentences + _other_winner(subject)


def _other_winner(subject: Subject) -> list[str]:
    """A sentence if another variant is the best one over more seeds, by the metric that chooses checkpoints."""
    stored = agreement.more_seeds(subject)
    name = subject.system.judged_by(subject.first.order.config)
    if stored is None or name not in subject.system.metrics:
        return []
    metric, winners = subject.system.metrics[name], []
    for source in (_own(subject), _stored(stored)):
        means = {v: mean(source[v][name]) for v in subject.runs if source.get(v, {}).get(name)}
        top = best(list(means.values()), metric)
        winners.append([v for v, value in means.items() if value == top])
    if not all(winners) or set(winners[0]) & set(winners[1]):
        return []
    here, there = (" and ".join(map(subject.label, won)) for won in winners)
    return [f"Best {metric.label} in this run: {here}; in {stored_text(stored.environment)}: {there}."]


# Costs ----------------------------------------------------------------------------------------------------------------


def costs_table(subject: Subject) -> Table | None:
    """Parameters, multiply-adds, time and memory of the first seed of each variant."""
    rows, threads = [], set()
    for variant, runs in subject.runs.items():
        threads.add((runs[0].result or Result({})).threads)
        rows.append(Row(subject.label(variant), _costs(subject, runs[0])))
    columns = ("parameters", "multiply-adds", "per step", "whole run", "evaluated per second", "peak memory")
    counted = sorted(number for number in threads if number)
    used = f" with {', '.join(map(str, counted))} {'thread' if counted == [1] else 'threads'}" if counted else ""
    note = (
        "Parameters and multiply-adds are counted on meta tensors for one sample; time and memory were measured in the "
        f"training process{used}, for the first seed. The CSV file has seconds and bytes."
    )
    return Table(f"{subject.system.about.name}-{subject.preset}-cost", (Group("", columns),), tuple(rows), note)


def _costs(subject: Subject, run: Run) -> tuple[Cell, ...]:
    result = run.result or Result({})
    counted = None
    if run.weights is not None:
        counted = count(subject.system, run.order.config, identify(run.weights).facts)
    step, rate, memory = result.seconds_a_step, result.samples_a_second, result.peak_memory
    return (
        Cell(f"{counted.parameters:,}", counted.parameters) if counted else Cell(),
        Cell(_short(counted.macs), counted.macs) if counted else Cell(),
        Cell(f"{step * 1000:.0f} ms", step) if step else Cell(),
        Cell(clock(result.seconds), result.seconds),
        Cell(f"{rate:,.0f}", rate) if rate else Cell(),
        Cell(f"{memory / 2**20:,.0f} MiB", memory) if memory else Cell(),
    )


def _short(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:g}"
