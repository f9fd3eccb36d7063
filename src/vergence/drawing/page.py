"""Self-contained HTML pages in one style."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vergence.core.files import write_text

_FRAME = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 74rem; padding: 0 1rem; color: #1c1c1e; }
h2 { font-size: 1.1rem; margin: 2.3rem 0 .5rem; overflow-wrap: anywhere; }
h3 { font-size: .95rem; margin: 1rem 0 .4rem; }
ol.row { display: flex; flex-wrap: wrap; gap: .8rem; padding: 0; margin: 0; list-style: none; }
figure { margin: 0; } .row figure { width: 7rem; } figure img { max-width: 100%; border-radius: 4px; display: block; }
.row figure img { width: 100%; } .gone { height: 5rem; background: #eee; border-radius: 4px; }
figcaption { font-size: .75rem; overflow-wrap: anywhere; color: #555; } figcaption b { color: #1c1c1e; }
.query img, .query .gone { outline: 3px solid #3b6fb6; }
table { border-collapse: collapse; } td, th { padding: .1rem .9rem .1rem 0; text-align: left; }
td.num, th.num { text-align: right; font-variant-numeric: tabular-nums; }
details { margin-top: .6rem; font-size: .85rem; }
{{ style }}
</style>
<h1>{{ title }}</h1>
{% if note %}<p>{{ note }}</p>{% endif %}
"""


def write_page(path: Path, title: str, note: str, body: str, style: str = "", **values: Any) -> Path:
    """Write one HTML file: a title, a note, and a body that is a Jinja2 template filled with ``values``.

    Text in ``values`` is escaped; pictures are data URIs from :mod:`vergence.drawing.inline`.
    """
    from jinja2 import Environment
    from markupsafe import Markup

    template = Environment(autoescape=True, trim_blocks=True).from_string(_FRAME + body + "</html>\n")
    write_text(path, template.render(title=title, note=note, style=Markup(style), **values))
    return path
