"""What a person looks at: lists of matches as rows of panels, and as one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment
from torch import Tensor

from vergence.core.files import write_text
from vergence.data.images import scaled
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


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1c1c1e; }
h2 { font-size: 1.05rem; margin: 2.2rem 0 .6rem; overflow-wrap: anywhere; }
ol, .query { display: flex; flex-wrap: wrap; gap: .8rem; padding: 0; margin: 0; list-style: none; }
figure { margin: 0; width: 6.5rem; } figure img { width: 100%; border-radius: 4px; display: block; }
figure.wide { width: auto; max-width: 100%; } .gone { height: 9rem; background: #eee; border-radius: 4px; }
figcaption { font-size: .75rem; overflow-wrap: anywhere; color: #555; } figcaption b { color: #1c1c1e; }
.first img { outline: 3px solid #3b6fd4; }
</style>
<h1>{{ title }}</h1>
<p>{{ note }}</p>
{% for query in queries %}
<h2>{{ query.name }}</h2>
<ol>
<li><figure class="first"><img src="{{ query.uri }}" alt="the query"><figcaption><b>query</b></figcaption></figure></li>
{% for match in query.found %}
<li><figure>{% if match.uri %}<img src="{{ match.uri }}" alt="match {{ loop.index }}">{% else %}<div class="gone"></div>
{% endif %}<figcaption><b>{{ loop.index }}. {{ match.distance }}</b><br>{{ match.name }}</figcaption></figure></li>
{% endfor %}
</ol>
{% for caption, uri in query.explained %}
<figure class="wide"><img src="{{ uri }}" alt="{{ caption }}"><figcaption>{{ caption }}</figcaption></figure>
{% endfor %}
{% endfor %}
</html>
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
    template = Environment(autoescape=True, trim_blocks=True).from_string(_PAGE)
    write_text(path, template.render(title=title, note=note, queries=queries))
    return path


def _small(picture: Tensor | None) -> str:
    return "" if picture is None else thumbnail(picture, 192)
