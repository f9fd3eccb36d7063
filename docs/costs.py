"""Stored costs as Markdown: runs, cost claims, benchmarks, and what the engine adds to a step."""

from __future__ import annotations

from math import log10

from render import cell, expected, made_with, maker, note_on_age, own, sign, small, table

from vergence import catalogue
from vergence.cli.show import measured
from vergence.studies import results
from vergence.studies.ledger import latest


def cost_table() -> str:
    """The cost of each stored run, by variant."""
    parts = []
    for name in own():
        stored = results.run(name)
        if stored is None:
            continue
        system = catalogue.load(name)
        rows = []
        for variant, row in stored.rows.items():
            cost = row.cost
            rows.append(
                [
                    cell(system.variants[variant].label if variant in system.variants else variant),
                    f"{cost.parameters:,}" if cost.parameters is not None else "–",
                    short(cost.macs) if cost.macs is not None else "–",
                    f"{cost.seconds_a_step * 1000:.3g} ms" if cost.seconds_a_step else "–",
                    f"{cost.seconds:.3g} s" if cost.seconds else "–",
                    f"{cost.peak_memory / 2**20:,.0f} MiB" if cost.peak_memory else "–",
                ]
            )
        columns = ["", "parameters", "multiply-adds", "a step", "whole run", "peak memory"]
        made = made_with(stored.command, stored.environment) + note_on_age(name, stored)
        parts += [f"### {name}, `{stored.preset}`\n", table(columns, rows), small(made)]
    return "\n".join(parts) if parts else "No run is stored yet.\n"


def cost_claims() -> str:
    """Cost claims of all systems."""
    entries = [entry for name in own() for entry in latest(name, root=None) if entry.claim.kind == "cost"]
    rows = [
        [
            f"[{e.system}](systems/{e.system}.md)",
            sign(e),
            f'<span class="said">{cell(e.claim.statement)}</span>',
            expected(e),
            measured(e),
        ]
        for e in entries
    ]
    makers = dict.fromkeys(maker(e) + (f" ({e.old})" if e.old else "") for e in entries if e.judgement)
    made = "\n".join(map(small, makers))
    return f"{table(['system', 'verdict', 'claim', 'expected', 'measured'], rows)}\n{made}"


def bench_table() -> str:
    """Results of ``vergence bench --store``, with speed-ups as bars."""
    parts = []
    for name in own():
        stored = results.bench(name)
        if stored is None or not stored.contests:
            continue
        rows = []
        for found in stored.contests:
            held = found.get("memory")
            rows.append(
                [
                    cell(found["contest"]),
                    cell(found["rival"]),
                    f"{bar(found['ratio'])} {found['ratio']:.3g} ({found['low']:.3g} to {found['high']:.3g})",
                    f"{held['ratio']:.3g}" if held else "–",
                ]
            )
        made = made_with(stored.command, stored.environment) + note_on_age(name, stored)
        columns = ["what", "against", "speed-up (quartiles)", "times as small"]
        parts += [f"### {name}\n", table(columns, rows), small(made)]
    return "\n".join(parts) if parts else "No benchmark is stored yet: `vergence bench NAME --store` stores one.\n"


def engine_table() -> str:
    """What the engine adds to a training step, from the same stored benchmarks."""
    rows = []
    for name in own():
        stored = results.bench(name)
        for step in stored.steps if stored else ():
            added, lowest, highest = (milliseconds(s) for s in (step["added"], min(step["extra"]), max(step["extra"])))
            within = step["added"] <= step["allowed"]
            rows.append(
                [
                    f"[{name}](systems/{name}.md)",
                    milliseconds(step["bare"]),
                    f"{added} ({lowest} to {highest})",
                    milliseconds(step["allowed"]),
                    f'<span class="{"holds" if within else "fails"}">{"✓ within" if within else "✗ too much"}</span>',
                    stored.environment.date[:10] + note_on_age(name, stored),
                ]
            )
    columns = ["system", "bare step", "the engine adds (lowest to highest round)", "allowed", "", "measured"]
    return table(columns, rows) if rows else "No step is stored yet: `vergence bench NAME --store` stores one.\n"


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


def bar(ratio: float) -> str:
    """A speed-up as a bar on a logarithmic scale; 100 fills it."""
    width = max(2, min(100, round(50 * log10(max(ratio, 1.0)))))
    return f'<span class="bar{"" if ratio >= 1 else " slower"}" style="width: {width}px"></span>'


def short(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:g}"
