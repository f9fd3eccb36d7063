"""Generated pages: one per system from its README and stored results, all claims, costs, and the reference.

``<!-- made: NAME -->`` in a written page is replaced by the part with that name in ``MADE``.
"""

from __future__ import annotations

import ast
import io
import re
from pathlib import Path

import costs
import render
from mkdocs.structure.files import File
from wall import tile

from vergence import catalogue
from vergence.studies import results
from vergence.studies.ledger import latest

SOURCE = catalogue.ROOT
REFERENCE = {
    "ops": (
        "Operators",
        "Functions of tensors, batched, with shapes in every docstring: `from vergence.ops import ...`.",
    ),
    "nn": (
        "Layers and backbones",
        "Layers with weights, and networks: `from vergence.nn import ...`.",
    ),
    "metrics": ("Metrics", "Metrics shared by several kinds of systems."),
    "search": ("Search", "Nearest-neighbour search among descriptors."),
    "data": ("Reading data", "Images, videos, clouds and archives from files."),
    "drawing": ("Drawing", "Figures, grids of pictures, pages and viewers."),
}
"""Packages with their own page, which lists every module."""
PYTHON = ("api.models", "api.work", "nn.attach", "tools.datacheck", "studies.comparison", "tools.exporting")
CONTRACT = (
    "settings", "system", "context", "training", "data", "inputs", "result", "claims", "evidence", "benchmark",
    "assets", "config", "about",
)  # fmt: skip
MADE = {
    "wall": lambda: render.wall("wall compact"),
    "open": render.open_claims,
    "results": render.results_tables,
    "costs": costs.cost_table,
    "cost claims": costs.cost_claims,
    "bench": costs.bench_table,
    "engine": costs.engine_table,
}


def on_config(config):
    """Add the pages of systems and of the reference to the navigation."""
    reference = [{"From Python": "reference/python.md"}]
    reference += [{title: f"reference/{name}.md"} for name, (title, _) in REFERENCE.items()]
    reference += [{"Rooms": "reference/rooms.md"}, {"The contract": "reference/contract.md"}]
    systems = ["systems/index.md", *({name: f"systems/{name}.md"} for name in render.own())]
    for entry in config.nav:
        for title, pages in entry.items():
            if pages == "systems":
                entry[title] = systems
            elif pages == "reference":
                entry[title] = reference
    return config


def on_files(files, config):
    """Add the generated pages."""
    root = SOURCE.parents[1]
    pages = {
        "contributing.md": (root / "CONTRIBUTING.md").read_text(encoding="utf-8"),
        "changelog.md": (root / "CHANGELOG.md").read_text(encoding="utf-8"),
        "examples.md": examples_page(root / "examples"),
        "claims.md": _linked_ledger(render.ledger(ages=True)),
        "systems/index.md": "# Systems\n\n" + render.wall().replace('"systems/', '"'),
    }
    pages |= {f"systems/{name}.md": system_page(name) for name in render.own()}
    pages |= reference_pages()
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    for name in render.own():
        if (path := catalogue.picture(name)) is not None:
            files.append(File.generated(config, f"systems/{name}.png", content=path.read_bytes()))
            small = io.BytesIO()
            tile(path).save(small, format="PNG")
            files.append(File.generated(config, f"systems/{name}-tile.png", content=small.getvalue()))
    return files


def on_page_markdown(markdown, page, config, files):
    """Fill in the generated parts of written pages."""
    return re.sub(r"<!-- made: ([\w ]+) -->", lambda found: MADE[found[1]](), markdown)


def system_page(name: str) -> str:
    """A system's page: summary, picture, README, table, and claims with results."""
    about = catalogue.about(name)
    heading, _, rest = catalogue.readme(name).partition("\n")
    parts = [
        heading,
        f"*{about.title}*. {', '.join(about.authors)}. {about.venue}.\n{{ .paper }}\n",
        f"{about.summary}\n",
        _picture(name),
        rest,
        "\n## Results\n",
        render.run_table(name) or f"No run is stored yet: `vergence run {name}` makes one.\n",
        "\n## Claims\n",
        f"{render.summary(latest(name, root=None))}. [How they are judged](../claims.md).\n",
        render.claims_table(latest(name, root=None), ages=True),
        render.checks_table(latest(name, root=None), ages=True),
        "\n## Citation\n",
        f"```bibtex\n{about.citation.strip()}\n```\n",
        f"Licence of this implementation: {about.licence}. {about.intended_use}\n",
    ]
    return "\n".join(part for part in parts if part)


def _picture(name: str) -> str:
    shown = results.picture(name)
    if shown is None or catalogue.picture(name) is None:
        return ""
    caption, made = render.cell(shown.caption), render.small(render.made_with(shown.command, shown.environment))
    return f"![{caption}]({name}.png)\n\n{caption}\n\n{made}"


def examples_page(folder: Path) -> str:
    """The example scripts with their docstrings."""
    parts = ["# Examples\n\nScripts in the repository's `examples/` that run as they are.\n"]
    for path in sorted(folder.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        title, _, said = (ast.get_docstring(tree) or path.stem).partition("\n\n")
        code = "\n".join(text.splitlines()[tree.body[0].end_lineno :]).strip()
        parts.append(f"## {title.rstrip('.')}\n\n{said}\n\n```python\n# {path.name}\n{code}\n```\n")
    return "\n".join(parts)


def reference_pages() -> dict[str, str]:
    """The reference, from docstrings."""
    pages = {
        "reference/python.md": _reference(
            "From Python", "The commands as function calls: `vergence.create`, `vergence.load`, ...",
            [f"vergence.{name}" for name in PYTHON]),
        "reference/contract.md": _reference(
            "The contract", "The interface between systems and the engine.",
            [f"vergence.contract.{name}" for name in CONTRACT]),
        "reference/rooms.md": _reference(
            "Rooms", "What the systems of one task share: samples, readers of public layouts, metrics.",
            [m for room in sorted({catalogue.folder(n).parent for n in render.own()}) for m in _modules(room)]),
    }  # fmt: skip
    for name, (title, text) in REFERENCE.items():
        pages[f"reference/{name}.md"] = _reference(title, text, _modules(SOURCE / name))
    return pages


def _reference(title: str, text: str, modules: list[str]) -> str:
    return f"# {title}\n\n{text}\n\n" + "\n\n".join(f"::: {module}" for module in modules) + "\n"


def _modules(folder: Path) -> list[str]:
    """The modules of a package, without those of systems."""
    found = [p for p in folder.rglob("*.py") if not any((q / "system.py").exists() for q in [p.parent])]
    names = [".".join(("vergence", *p.relative_to(SOURCE).with_suffix("").parts)) for p in sorted(found)]
    return [name for name in names if not name.rsplit(".", 1)[1].startswith("_")]


def _linked_ledger(text: str) -> str:
    """Link names of systems to their pages."""
    return re.sub(r"^## (\w+)$", r"## [\1](systems/\1.md)", text, flags=re.M)
