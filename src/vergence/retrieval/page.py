"""A self-contained HTML page: search results before and after expansion, and the weight of each neighbour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torch import Tensor

from vergence.drawing import page
from vergence.drawing.inline import thumbnail


@dataclass(frozen=True)
class Hit:
    """One result: its name, cosine similarity, rank before expansion and weight in the expansion, if it has them."""

    name: str
    similarity: float
    before: int | None = None
    weight: float | None = None


@dataclass(frozen=True)
class Answer:
    """A query with its results before and after expansion."""

    name: str
    before: Sequence[Hit]
    after: Sequence[Hit]
    weighed: Sequence[Hit]
    """The weighted neighbours, by rank."""
    own: float
    """The weight of the query itself."""


_STYLE = """
.bars { display: flex; align-items: center; gap: 2px; height: 6rem; border-bottom: 1px solid #ccc; }
.bars span { flex: 1 1 0; max-width: 1rem; align-self: flex-end; background: #3b6fb6; min-height: 1px; }
.bars span.minus { background: #b23a48; }
.up, .down { margin-left: .4em; } .up { color: #18803a; } .down { color: #b23a2a; }
"""
_BODY = """
{% if skipped %}<p><b>{{ skipped|length }} files were skipped:</b></p><ul>
{% for why in skipped %}<li>{{ why }}</li>{% endfor %}</ul>{% endif %}
{% macro figure(hit, number) %}
<li><figure>{% if hit.uri %}<img src="{{ hit.uri }}" alt="{{ hit.name }}">{% else %}<div class="gone"></div>{% endif %}
<figcaption><b>{{ number }}. {{ hit.similarity }}</b>{% if hit.moved %}
<span class="{{ hit.way }}">{{ hit.moved }}</span>{% endif %}
{% if hit.weight %}<br>weight {{ hit.weight }}{% endif %}<br>
<span title="{{ hit.name }}">{{ hit.short }}</span></figcaption></figure></li>
{% endmacro %}
{% for answer in answers %}
<h2 title="{{ answer.name }}">{{ answer.short }}</h2>
<ol class="row"><li><figure class="query">{% if answer.uri %}<img src="{{ answer.uri }}" alt="the query">
{% else %}<div class="gone"></div>{% endif %}<figcaption><b>query</b></figcaption></figure></li></ol>
<h3>Before expansion</h3><ol class="row">{% for hit in answer.before %}{{ figure(hit, loop.index) }}{% endfor %}</ol>
<h3>After expansion</h3><ol class="row">{% for hit in answer.after %}{{ figure(hit, loop.index) }}{% endfor %}</ol>
{% if answer.weighed %}
<h3>Weight of each neighbour (of the query: {{ answer.own }})</h3>
<div class="bars" role="img" aria-label="weights by rank">{% for hit in answer.weighed %}
<span{% if hit.minus %} class="minus"{% endif %} style="height: {{ hit.height }}%"
title="{{ loop.index }}. {{ hit.name }}: {{ hit.weight }}"></span>{% endfor %}</div>
<details><summary>as a table</summary><table>{% for hit in answer.weighed %}
<tr><td>{{ loop.index }}</td><td>{{ hit.weight }}</td><td>{{ hit.name }}</td></tr>{% endfor %}</table></details>
{% endif %}
{% endfor %}
"""


def write_page(
    path: Path,
    title: str,
    note: str,
    answers: Sequence[Answer],
    skipped: Sequence[str],
    picture: Callable[[str], Tensor | None],
) -> Path:
    """Writes one self-contained HTML file; ``picture`` returns the picture of a name, if there is one."""

    @cache  # a picture is in many lists
    def draw(name: str) -> str:
        shown = picture(name)
        return "" if shown is None else thumbnail(shown, 320, 160)

    shown = []
    for answer in answers:
        most = max([abs(hit.weight or 0) for hit in answer.weighed], default=0) or 1
        weighed = [
            {
                "name": hit.name,
                "weight": f"{hit.weight or 0:.3f}",
                "height": f"{100 * abs(hit.weight or 0) / most:.1f}",
                "minus": (hit.weight or 0) < 0,
            }
            for hit in answer.weighed
        ]
        shown.append(
            {
                "name": answer.name,
                "short": Path(answer.name).name,
                "uri": draw(answer.name),
                "before": [_hit(hit, draw) for number, hit in enumerate(answer.before, 1)],
                "after": [_hit(hit, draw, number) for number, hit in enumerate(answer.after, 1)],
                "weighed": weighed,
                "own": f"{answer.own:.3f}",
            }
        )
    return page.write_page(path, title, note, _BODY, _STYLE, answers=shown, skipped=skipped)


def _hit(hit: Hit, draw: Callable[[str], str], rank: int | None = None) -> dict[str, str]:
    """Template values of a result; with ``rank``, also how many places it has moved."""
    moved, way = "", ""
    if rank is not None:
        gained = None if hit.before is None else hit.before - rank
        moved = "new" if gained is None else f"↑{gained}" if gained > 0 else f"↓{-gained}" if gained < 0 else ""
        way = "down" if gained is not None and gained < 0 else "up"
    weight = "" if hit.weight is None else f"{hit.weight:.3f}"
    return {
        "name": hit.name,
        "short": Path(hit.name).name,
        "similarity": f"{hit.similarity:.3f}",
        "uri": draw(hit.name),
        "moved": moved,
        "way": way,
        "weight": weight,
    }
