"""Pictures of foreground search: pages and sheets of composites, and the report of the trained variants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.data.images import fitted, resized, scaled
from vergence.drawing import page as html
from vergence.drawing.figure import figure, saved
from vergence.drawing.grid import Panel, grid
from vergence.drawing.inline import thumbnail
from vergence.retrieval.cutouts import on_white, pasted
from vergence.retrieval.foregrounds import Box, Pairs, shown_cutout, shown_query
from vergence.retrieval.fos_protocol import cosines

if TYPE_CHECKING:
    from vergence.retrieval.fosearch.predict import Fits

YELLOW, GREEN, RED = (1.0, 0.83, 0.1), (0.1, 0.65, 0.2), (0.85, 0.15, 0.15)
SHOWN = 7
"""Composites on a sheet."""


def outlined(picture: Tensor, box: Box, colour: tuple[float, float, float] = YELLOW) -> Tensor:
    """A picture (3, H, W), from 0 to 1, with the outline of a box on a dark rim."""
    out = scaled(picture).clone()
    high, wide = out.shape[-2:]
    line = max(round(max(high, wide) / 220), 2)
    x, y, w, h = box
    for grow, paint in ((line, (0.05, 0.05, 0.05)), (0, colour)):
        left, top = max(round(x) - grow, 0), max(round(y) - grow, 0)
        right, bottom = min(round(x + w) + grow, wide), min(round(y + h) + grow, high)
        ink = out.new_tensor(paint).view(3, 1, 1)
        thick = line + 2 * grow
        out[:, top : top + thick, left:right] = ink
        out[:, max(bottom - thick, 0) : bottom, left:right] = ink
        out[:, top:bottom, left : left + thick] = ink
        out[:, top:bottom, max(right - thick, 0) : right] = ink
    return out


def around(picture: Tensor, box: Box, least: float = 0.45) -> Tensor:
    """The part of a picture (3, H, W) around a box, in which the box can be seen well: the whole picture if the box is
    large in it."""
    high, wide = picture.shape[-2:]
    x, y, w, h = box
    share = max(min(max(1.25 * w / wide, h / high) / least, 1.0), 0.05)
    tall, across = max(round(high * share), 1), max(round(wide * share), 1)
    left = round(min(max(x + w / 2 - across / 2, 0), wide - across))
    top = round(min(max(y + h / 2 - tall / 2, 0), high - tall))
    return picture[:, top : top + tall, left : left + across]


def sheet(path: Path, result: Fits) -> Path:
    """The query and the best composites as one picture, 4 in a row."""
    panels = [Panel(fitted(outlined(result.background, result.box), 720), f"the box; {result.searched} cut-outs")]
    for number, (hit, picture) in enumerate(zip(result.hits[:SHOWN], result.composites, strict=False), 1):
        panels.append(Panel(fitted(around(picture, result.box), 720), f"{number}. {_short(hit.pattern)}"))
    columns = min(len(panels), 4)
    rows = -(-len(panels) // columns)
    high, wide = result.background.shape[-2:]
    drawn = figure(3.0 * columns, (3.0 * min(high / wide, 1.6) + 0.32) * rows)
    for axis, panel in zip_longest(drawn.subplots(rows, columns, squeeze=False).flat, panels):
        axis.set_axis_off()
        if panel is not None:
            axis.imshow(scaled(panel.picture).clamp(0, 1).permute(1, 2, 0).numpy())
            axis.set_title(panel.title, fontsize=10)
    return saved(drawn, path)


def _short(text: str, most: int = 34) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


_STYLE = """
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); gap: 1.1rem; padding: 0; margin: 0;
  list-style: none; }
.grid figure { position: relative; } .grid img.scene { width: 100%; border-radius: 6px; }
.grid img.cut { position: absolute; right: .4rem; top: .4rem; width: 3.4rem; height: 3.4rem; border-radius: 5px;
  box-shadow: 0 1px 4px #0006; background: #fff; }
.asked img { max-height: 26rem; width: auto; border-radius: 6px; }
.score { color: #3b6fb6; font-variant-numeric: tabular-nums; }
"""
_BODY = """
<figure class="asked"><img src="{{ query }}" alt="the picture with its box"></figure>
{% if skipped %}<p><b>Files that could not be used: {{ skipped|length }}</b></p><ul>
{% for why in skipped %}<li>{{ why }}</li>{% endfor %}</ul>{% endif %}
{% macro figure(hit) %}<li><figure>
<img class="scene" src="{{ hit.scene }}" alt="{{ hit.short }} in the box">
<img class="cut" src="{{ hit.cut }}" alt="{{ hit.short }}">
<figcaption><b>{{ hit.rank }} <span class="score">{{ hit.similarity }}</span></b> {{ hit.pattern }}<br>
<span title="{{ hit.name }}">{{ hit.short }}</span></figcaption></figure></li>{% endmacro %}
<h2>Best cut-outs</h2><ol class="grid">{% for hit in hits %}{{ figure(hit) }}{% endfor %}</ol>
{% for group in groups %}
<h2>Pattern {{ loop.index }}: {{ group.name }} <span class="score">{{ group.similarity }}</span></h2>
<p>{{ group.members }} of the gallery's cut-outs.</p>
<ol class="grid">{% for hit in group.best %}{{ figure(hit) }}{% endfor %}</ol>
{% endfor %}
"""


def page(path: Path, result: Fits, cutout: Callable[[str], Tensor]) -> Path:
    """One self-contained HTML file: the query, the best cut-outs in the picture, and the best patterns."""

    @cache
    def drawn(name: str) -> tuple[str, str]:
        found = cutout(name)
        scene = around(pasted(result.background, found, result.box), result.box)
        return thumbnail(scene, 420, 560), thumbnail(on_white(found, 96), 96)

    def values(hit: Any, rank: str) -> dict[str, str]:
        scene, cut = drawn(hit.name)
        return {"name": hit.name, "short": Path(hit.name).name, "similarity": f"{hit.similarity:.3f}", "rank": rank,
                "pattern": hit.pattern, "scene": scene, "cut": cut}  # fmt: skip

    groups = [
        {"name": group.name, "similarity": f"{group.similarity:.3f}", "members": group.members,
         "best": [values(hit, "") for hit in group.best]}
        for group in result.patterns
    ]  # fmt: skip
    note = f"The best of {result.searched} cut-outs for the yellow box, by cosine of their embedding with the query's."
    return html.write_page(
        path, "Cut-outs that fit", note, _BODY, _STYLE, query=thumbnail(outlined(result.background, result.box), 640),
        hits=[values(hit, f"{number}.") for number, hit in enumerate(result.hits[:48], 1)], groups=groups,
        skipped=result.skipped,
    )  # fmt: skip


def of_variants(
    ctx: Context[Any, Any], models: Mapping[str, Any], data: Pairs, label: Callable[[str], str]
) -> Sequence[Artifact]:
    """Held-out queries, with the cut-out that each variant puts first pasted into the box: framed green if it fits."""
    chosen = _chosen(data)
    fits, view = data.relevance(), ctx.config.data
    best: dict[str, list[int]] = {}
    for name, model in models.items():
        gallery = torch.cat([
            model.foreground(torch.stack([shown_cutout(view, data.cutouts[i]) for i in part.tolist()]).to(ctx.device))
            for part in torch.arange(len(data.patterns)).split(64)
        ])  # fmt: skip
        asked = [shown_query(view, data.backgrounds[q], data.box(q)) for q in chosen]
        queries = model.query(*(torch.stack(each).to(ctx.device) for each in zip(*asked, strict=True)))
        best[name] = cosines(queries.float().cpu(), gallery.float().cpu()).argmax(1).tolist()
    rows = []
    for row, query in enumerate(chosen):
        background, box = data.backgrounds[query], data.box(query)
        titles = ("query", *(label(name) for name in models)) if row == 0 else ("",) * (1 + len(models))
        panels = [Panel(outlined(_larger(background), _scaled_box(box, background)), titles[0])]
        for places, title in zip(best.values(), titles[1:], strict=True):
            right = bool(fits[query, places[row]])
            picture = pasted(_larger(background), data.cutouts[places[row]], _scaled_box(box, background))
            panels.append(Panel(_framed(picture, GREEN if right else RED), _folded(title)))
        rows.append(panels)
    caption = (
        "Held-out queries, and the cut-out that each variant ranks first, in the box: green if it fits, red if not."
    )
    return [Artifact("image", grid(ctx.folder / "composites.png", rows, side=1.6), caption)]


def _chosen(data: Pairs, count: int = 6) -> list[int]:
    """Queries spread over the data, half of them with the cue inside the box where that is known."""
    if data.where is None:
        return torch.linspace(0, len(data.boxes) - 1, min(count, len(data.boxes))).long().tolist()
    some = []
    for place, number in ((1, count // 2), (0, count - count // 2 - 1), (-1, 1)):
        queries = (data.where == place).nonzero()[:, 0]
        if len(queries):
            some += queries[torch.linspace(0, len(queries) - 1, number).long()].tolist()
    return some


LARGE = 256


def _larger(picture: Tensor) -> Tensor:
    """A small picture enlarged to at least 256 pixels, for drawing."""
    factor = max(LARGE / max(picture.shape[-2:]), 1.0)
    size = [round(side * factor) for side in picture.shape[-2:]]
    large = resized(scaled(picture), size[0], size[1])
    return (large.clamp(0, 1) * 255).round().to(torch.uint8)


def _scaled_box(box: Box, picture: Tensor) -> Box:
    factor = max(LARGE / max(picture.shape[-2:]), 1.0)
    x, y, w, h = (value * factor for value in box)
    return x, y, w, h


def _framed(picture: Tensor, colour: tuple[float, float, float], width: int = 10) -> Tensor:
    """A picture (3, H, W), from 0 to 1, with a border that can be seen when it is small."""
    out = scaled(picture).clone()
    inside = out[:, width:-width, width:-width].clone()
    out[:] = out.new_tensor(colour).view(3, 1, 1)
    out[:, width:-width, width:-width] = inside
    return out


def _folded(text: str, width: int = 22) -> str:
    """A title in lines of about this many letters."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)
