"""Pages that are made, not written: the front page, one a system from the READMEs, the ledger from stored results."""

from __future__ import annotations

import re

from mkdocs.structure.files import File

from saccade import catalogue
from saccade.cli.show import measured
from saccade.ledger import AGES, known


def on_files(files, config):
    """Add the generated pages."""
    root = catalogue.ROOT.parents[1]
    pages = {
        "index.md": _linked((root / "README.md").read_text(encoding="utf-8")),
        "contributing.md": (root / "CONTRIBUTING.md").read_text(encoding="utf-8"),
        "claims.md": "# Claims\n\n" + "\n".join(_ledger(name) for name in catalogue.names()),
    }
    for name in catalogue.names():
        pages[f"systems/{name}.md"] = f"{catalogue.readme(name)}\n\n{_ledger(name)}\n"
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def _linked(readme: str) -> str:
    """Links into the tree become links into the site."""
    readme = re.sub(r"\]\(src/saccade/\w+/(\w+)/README\.md\)", r"](systems/\1.md)", readme)
    return readme.replace("](CONTRIBUTING.md)", "](contributing.md)")


def _ledger(name: str) -> str:
    lines = [
        f"## Claims of {name}, as measured",
        "",
        "| verdict | claim | expected | measured | made with |",
        "|---|---|---|---|---|",
    ]
    for entry in known(name, root=None):
        claim, found = entry.claim, entry.judgement
        how = (
            f"`{entry.command}`, {entry.environment.date[:10]} {AGES[entry.age]}"
            if found
            else f"`saccade claims {name}`"
        )
        expected = f"{claim.sense} {claim.threshold:g} {claim.unit}" + (
            f" (paper: {claim.paper})" if claim.paper else ""
        )
        verdict = found.verdict if found else "not measured yet"
        lines.append(f"| {verdict} | {claim.statement} ({claim.source}) | {expected} | {measured(entry)} | {how} |")
    return "\n".join(lines) + "\n"
