"""The site is built without a warning, needs nothing from elsewhere, and has no broken link."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("site"),
    pytest.mark.skipif(not (find_spec("mkdocs") and find_spec("material")), reason="needs the extra docs (make docs)"),
]


class Page(HTMLParser):
    """Links, the places that can be linked to, and what is loaded."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value for key, value in attrs if value}
        if "id" in found:
            self.ids.add(found["id"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload", "modulepreload", "preconnect"):
            self.loaded.append(found.get("href", ""))
        elif tag in ("img", "script", "iframe", "source", "video") and "src" in found:
            self.loaded.append(found["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages of a fresh build, by path."""
    folder = tmp_path_factory.mktemp("site")
    order = ["-m", "mkdocs", "build", "--strict", "--quiet", "-f", str(ROOT / "docs" / "mkdocs.yml"), "-d", str(folder)]
    done = subprocess.run([sys.executable, *order], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder, {path.relative_to(folder): Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}


def test_nothing_is_loaded_from_elsewhere(site):
    assert {url for page in site[1].values() for url in page.loaded if urlsplit(url).netloc} == set()


def test_every_link_and_every_picture_leads_somewhere(site):
    folder, pages = site
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":  # its links are from the root of a server
            continue
        for url in [*page.links, *page.loaded]:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (folder / path).parent / unquote(parts.path) if parts.path else folder / path
            if not target.resolve().is_file():
                broken.append(f"{path}: {url}")
            elif parts.fragment and target.suffix == ".html":
                there = pages[target.resolve().relative_to(folder.resolve())].ids
                if unquote(parts.fragment) not in there | {"__skip"}:
                    broken.append(f"{path}: {url} (no such place)")
    assert broken == []


def test_every_system_has_a_page_with_its_claims(site):
    from vergence import catalogue
    from vergence.studies.ledger import latest

    folder = site[0]
    for name, module in catalogue.modules().items():
        if module.startswith("vergence."):
            text = (folder / "systems" / f"{name}.html").read_text(encoding="utf-8")
            assert text.count('<span class="holds">') >= sum(
                e.judgement is not None and e.judgement.verdict == "holds" for e in latest(name, root=None)
            )


def test_the_examples_are_shown_whole(site):
    shown = html.unescape(re.sub(r"<[^>]+>", "", (site[0] / "examples.html").read_text(encoding="utf-8")))
    for path in (ROOT / "examples").glob("*.py"):
        code = path.read_text(encoding="utf-8").split('"""\n', 1)[1].strip()
        assert code in shown, path.name
