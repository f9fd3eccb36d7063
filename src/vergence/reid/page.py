"""What a person looks at: lists of matches as rows of panels, and as one page that needs nothing else."""

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
    """One of a list: a picture (3, H, W) if there still is one, a name, and how far away it is."""

    picture: Tensor | None
    name: str
    distance: float


@dataclass(frozen=True)
class Matches:
    """A query with its list, nearest first, and pictures that explain it."""

    picture: Tensor
    name: str
    found: Sequence[Match]
    explained: Sequence[tuple[str, Path]] = ()


def framed(picture: Tensor, colour: tuple[float, float, float], share: float = 0.04) -> Tensor:
    """A picture (3, H, W) with a frame."""
    made = scaled(picture).clone()
    edge = max(round(share * made.shape[-2]), 1)
    paint = made.new_tensor(colour)[:, None, None]
    for side in (made[:, :edge], made[:, -edge:], made[:, :, :edge], made[:, :, -edge:]):
        side.copy_(paint.expand_as(side))
    return made


def row(query: Tensor, title: str, found: Sequence[tuple[Tensor, float, bool | None]]) -> list[Panel]:
    """A query and its list as panels: framed green or red where it is known who is right."""
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
    """One HTML file with everything in it."""
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
