"""A tour: every system that is ready for use, on its own example, on one page.

A system is ready if it needs no training or has starter weights, and brings an example (a folder ``example`` beside its
code). The others show their stored picture.
"""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from vergence import catalogue
from vergence.contract.inputs import FILES, SEVERAL, Artifact, kinds, make_inputs
from vergence.core.errors import VergenceError
from vergence.core.progress import Progress
from vergence.data.images import read_image
from vergence.drawing.inline import thumbnail
from vergence.drawing.page import write_page
from vergence.engine.choose import choose
from vergence.engine.use import infer
from vergence.runs.machine import Machine

NOTE = (
    "Every system that is ready for use, on its own example. Each command and each line of Python makes what is shown, "
    "from the folder where the tour was started."
)
HEIGHT, WIDTH = 420, 1100
_BODY = """
{% for stop in stops %}
<section id="{{ stop.name }}"><h2>{{ stop.title }}</h2>
<p>{{ stop.about }}{% if stop.used %} <i>{{ stop.used }}.</i>{% endif %}</p>
{% for picture in stop.pictures %}<figure><img src="{{ picture }}" alt="{{ stop.name }}"></figure>{% endfor %}
{% if stop.numbers %}<table>{% for name, value in stop.numbers %}<tr><th>{{ name }}</th><td>{{ value }}</td></tr>
{% endfor %}</table>{% endif %}
<p class="how">{% if stop.seconds is not none %}{{ "%.1f" | format(stop.seconds) }} s:{% endif %}
<code>{{ stop.command }}</code>{% if stop.python %}<br><code>{{ stop.python }}</code>{% endif %}</p>
{% if stop.more %}<p class="how">{{ stop.more }}</p>{% endif %}</section>
{% endfor %}
"""
_STYLE = """
section { border-top: 1px solid #ddd; padding: .4rem 0 1.2rem; } section h2 { margin: 1rem 0 .3rem; }
.how { font-size: .85rem; color: #555; } code { background: #f3f1ec; padding: .1rem .3rem; overflow-wrap: anywhere; }
section table { font-size: .85rem; margin: .5rem 0; }
"""


@dataclass(frozen=True)
class Stop:
    """A system on the tour."""

    name: str
    title: str
    about: str
    command: str
    python: str = ""
    used: str = ""
    """Which weights were used."""
    pictures: tuple[str, ...] = ()
    """Data URIs."""
    numbers: tuple[tuple[str, str], ...] = ()
    seconds: float | None = None
    """Duration of the prediction; None if the stored picture is shown."""
    more: str = ""
    files: tuple[Artifact, ...] = field(default=(), repr=False)


def tour(folder: Path, names: Sequence[str] = (), progress: Progress | None = None) -> tuple[Path, list[Stop]]:
    """Visit systems (all, if none is named) and write ``index.html`` with their files below ``folder``."""
    shown = progress or Progress()
    stops = [_stop(name, folder, shown) for name in shown.track(list(names or catalogue.names()), "tour")]
    stops.sort(key=lambda stop: stop.seconds is None)
    return write_page(folder / "index.html", "A tour of Vergence", NOTE, _BODY, _STYLE, stops=stops), stops


def _stop(name: str, folder: Path, progress: Progress) -> Stop:
    about = catalogue.about(name)
    given = catalogue.example(name)
    if given is not None:
        try:
            return _visited(name, given, folder / name)
        except VergenceError as error:
            progress.say(f"{name}: {error}")
    picture = catalogue.picture(name)
    pictures = (thumbnail(read_image(picture), HEIGHT, WIDTH),) if picture is not None else ()
    return Stop(
        name, about.title, about.summary, f"vergence run {name}", pictures=pictures,
        more="It needs training first: the command trains it with its baselines and writes a report.",
    )  # fmt: skip


def _visited(name: str, given: Mapping[str, Any], folder: Path) -> Stop:
    system, about = catalogue.load(name), catalogue.about(name)
    kind: Any = catalogue.settings(name).inputs
    (inputs,) = make_inputs(kind, given, f"the example of {name}")
    chosen = choose(system, needed=system.needs_model(inputs), spare=system.does_without(inputs))
    began = time.monotonic()
    (result,) = infer(system, chosen.identity, chosen.model, [inputs], Machine(), Progress())
    seconds = time.monotonic() - began
    files = tuple(result.save(folder))
    given = _copied(name, given, folder / "input")
    return Stop(
        name,
        about.title,
        about.summary,
        shlex.join(command_line(name, given)),
        f"vergence.load({name!r}).predict({', '.join(_arguments(given))})",
        chosen.origin,
        tuple(_pictures(files)),
        tuple((key, _shown(value)) for key, value in result.summary().items()),
        seconds,
        files=files,
    )


def _pictures(files: Iterable[Artifact]) -> Iterable[str]:
    """The first picture of a result."""
    first = next((a.path for a in files if a.kind == "image" and a.path.suffix in (".png", ".jpg")), None)
    return () if first is None else (thumbnail(read_image(first), HEIGHT, WIDTH),)


def _copied(name: str, given: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The example with its files copied below ``folder``, so that its command runs as it stands: one path, several
    paths, or a folder of files."""
    known = kinds(catalogue.settings(name).inputs)  # type: ignore[arg-type]
    copied = dict(given)
    for field_name, value in given.items():
        if known[field_name] in FILES:
            several = isinstance(value, list)
            place = folder / field_name if several and known[field_name] not in SEVERAL else folder
            place.mkdir(parents=True, exist_ok=True)
            paths = [Path(shutil.copy(each, place)) for each in (value if several else [value])]
            copied[field_name] = place if place != folder else paths if several else paths[0]
    return copied


def command_line(name: str, given: Mapping[str, Any]) -> list[str]:
    """The words of the command that predicts on inputs: required ones by position, others by flag."""
    inputs: Any = catalogue.settings(name).inputs
    required = [f.name for f in fields(inputs) if f.default is MISSING and f.default_factory is MISSING]
    words = ["vergence", "predict", name]
    for field_name in (*required, *(each for each in given if each not in required)):
        value = given[field_name]
        flag = [] if field_name in required else [f"--{field_name.replace('_', '-')}"]
        words += [*flag, *map(_word, value if isinstance(value, list) else [value])]
    return words


def _word(value: Any) -> str:
    return ",".join(f"{number:g}" for number in value) if isinstance(value, list) else str(value)


def _arguments(given: Mapping[str, Any]) -> Iterable[str]:
    for field_name, value in given.items():
        if isinstance(value, list) and isinstance(value[0], Path):
            value = list(map(str, value))
        yield f"{field_name}={(str(value) if isinstance(value, Path) else value)!r}"


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_shown(inner)}" for key, inner in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)
