"""Line charts as inline SVG, so that the page's own colours (light, dark, print) apply to them; ``charts.js`` shows the
values under the pointer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 12, 40
MOST_POINTS = 200

Points = Sequence[tuple[float, float]]


def line_chart(series: Mapping[str, Points], x_label: str, y_label: str) -> str:
    """One line per name, with a legend; values that are not finite are left out."""
    lines = {name: _thinned([p for p in points if all(map(math.isfinite, p))]) for name, points in series.items()}
    lines = {name: points for name, points in lines.items() if points}
    if not lines:
        return ""
    xs = [x for points in lines.values() for x, _ in points]
    ys = [y for points in lines.values() for _, y in points]
    x_ticks, y_ticks = ticks(min(xs), max(xs)), ticks(min(ys), max(ys))
    x_span, y_span = (x_ticks[0], x_ticks[-1]), (y_ticks[0], y_ticks[-1])

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - x_span[0]) / (x_span[1] - x_span[0])
        up = (y - y_span[0]) / (y_span[1] - y_span[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" data-x="{escape(x_label)}" '
             f'aria-label="{escape(y_label)} over {escape(x_label)}">']  # fmt: skip
    for value in y_ticks:
        _, y = place(x_span[0], value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for value in x_ticks:
        x, _ = place(value, y_span[0])
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{value:g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 4}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(f'<line class="cursor" x1="{LEFT}" x2="{LEFT}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
    for number, (name, points) in enumerate(lines.items()):
        places = [place(*point) for point in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        values = f'data-x="{_listed(x for x, _ in points)}" data-y="{_listed(y for _, y in points)}"'
        parts.append(f'<polyline class="line s{number % 8}" data-name="{escape(name)}" {values} points="{path}"/>')
        if len(points) == 1:
            x, y = places[0]
            parts.append(f'<circle class="dot s{number % 8}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
    parts.append("</svg>")
    legend = "".join(f'<span class="key s{n % 8}">{escape(name)}</span>' for n, name in enumerate(lines))
    heading = f'<p class="legend"><b>{escape(y_label)}</b></p>'
    return f'<div class="chart">{heading}{"".join(parts)}<p class="tip" hidden></p><p class="legend">{legend}</p></div>'


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers that cover ``low`` to ``high``."""
    if high - low < 1e-12 * max(abs(low), abs(high), 1e-300):  # one value: give it some room
        room = abs(low) * 0.1 or 1.0
        low, high = low - room, high + room
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(n * step, 12) for n in range(first, last + 1)]


def _listed(values: Iterable[float]) -> str:
    return " ".join(f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}" for value in values)


def _thinned(points: Points) -> list[tuple[float, float]]:
    """At most ``MOST_POINTS`` points, each the mean of its neighbours."""
    size = -(-len(points) // MOST_POINTS) if points else 1
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    return [(sum(x for x, _ in g) / len(g), sum(y for _, y in g) / len(g)) for g in groups]
