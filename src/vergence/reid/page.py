"""Ranked matches drawn as rows of panels and as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from vergence.data.images import scaled
from vergence.drawing import page
from vergence.drawing.grid import Panel
from vergence.drawing.inline import data_uri, thumbnail

RIGHT, WRONG = (0.1, 0.65, 0.2), (0.85, 0.15, 0.15)


@dataclass(frozen=True)
class Match:
    """One ranked match: its picture (3, H, W) if it is still there, its name and its distance."""

    picture: Tensor | None
    name: str
    distance: float


@dataclass(frozen=True)
class Matches:
    """A query with its matches, nearest first, and pictures that explain them."""

    picture: Tensor
    name: str
    found: Sequence[Match]
    explained: Sequence[tuple[str, Path]] = ()


def framed(picture: Tensor, colour: tuple[float, float, float], share: float = 0.04) -> Tensor:
    """A picture (3, H, W) with a coloured frame; ``share`` is its width as a share of the height."""
    canvas = scaled(picture).clone()
    edge = max(round(share * canvas.shape[-2]), 1)
    paint = canvas.new_tensor(colour)[:, None, None]
    for side in (canvas[:, :edge], canvas[:, -edge:], canvas[:, :, :edge], canvas[:, :, -edge:]):
        side.copy_(paint.expand_as(side))
    return canvas


def row(query: Tensor, title: str, found: Sequence[tuple[Tensor, float, bool | None]]) -> list[Panel]:
    """A query and its matches as panels, framed green (right) or red (wrong) where the identity is known."""
    panels = [Panel(query, title)]
    for picture, distance, right in found:
        shown = picture if right is None else framed(picture, RIGHT if right else WRONG)
        panels.append(Panel(shown, f"{distance:.2f}"))
    return panels


_BODY = """
{% for query in queries %}
<h2>{{ query.name }}</h2>
<ol class="row">
<li><figure class="query"><img src="{{ query.uri }}" alt="the query"><figcaption><b>query</b></figcaption></figure></li>
{% for match in query.found %}
<li><figure>{% if match.uri %}<img src="{{ match.uri }}" alt="match {{ loop.index }}">{% else %}<div class="gone"></div>
{% endif %}<figcaption><b>{{ loop.index }}. {{ match.distance }}</b><br>{{ match.name }}</figcaption></figure></li>
{% endfor %}
</ol>
{% for caption, uri in query.explained %}
<figure><img src="{{ uri }}" alt="{{ caption }}"><figcaption>{{ caption }}</figcaption></figure>
{% endfor %}
{% endfor %}
"""


def write_page(path: Path, title: str, note: str, lists: Sequence[Matches]) -> Path:
    """Writes one self-contained HTML file."""
    queries = [
        {
            "name": query.name,
            "uri": _small(query.picture),
            "found": [{"name": m.name, "distance": f"{m.distance:.3f}", "uri": _small(m.picture)} for m in query.found],
            "explained": [(caption, data_uri("png", file.read_bytes())) for caption, file in query.explained],
        }
        for query in lists
    ]
    return page.write_page(path, title, note, _BODY, queries=queries)


def _small(picture: Tensor | None) -> str:
    return "" if picture is None else thumbnail(picture, 192)
