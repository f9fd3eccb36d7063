"""The report: one file that needs nothing else, and says what was measured."""

import base64
import itertools
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from helpers import short, start
from vergence import catalogue
from vergence.contract.claims import Claim, Judgement
from vergence.contract.inputs import Artifact
from vergence.core.progress import Progress
from vergence.engine.execute import execute
from vergence.report import build
from vergence.report.build import write_report
from vergence.report.charts import line_chart, ticks
from vergence.runs.versions import Environment
from vergence.studies.ledger import Entry
from vergence.studies.subject import Subject


class Page(HTMLParser):
    """Collects links and checks that every tag is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.links, self.ids, self.text = [], [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.links += [found[k] for k in ("href", "src") if k in found]
        self.ids |= {found["id"]} if "id" in found else set()
        if tag not in ("meta", "img", "br", "line", "link", "polyline"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in ("line",):
            return
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_data(self, data):
        self.text.append(data)


CLAIM = Claim("id", "A <b>bold</b> statement.", "Eq. 1", "empirical", lambda _: 0.0, 1.0, "at least", "points", "+2")
MADE = Environment(date="2026-05-04T10:00:00+00:00", commit="abc", seeds=(3, 5))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    system = catalogue.load("snl")
    made = {}
    for variant in ("none", "snl"):
        config = short(system, 2, {"data.count": 60, "train.batch": 8}, variant=variant)
        made[variant] = [start("snl", config, root, variant)]
        execute(made[variant][0], Progress())
    entries = [
        Entry("snl", CLAIM, Judgement("does not hold", 0.5, 0.2, 0.8, (0.4, 0.6)), "stale", environment=MADE),
        Entry("snl", CLAIM),
    ]
    path = write_report(Subject(system, "tiny", made, entries, ["vergence run snl"]), root / "out", Progress())
    return path.read_text(), made


def test_it_is_whole_and_needs_no_network(page):
    parsed = Page(page[0])
    assert parsed.open == []
    beside = {f"../snl/{run.folder.name}/" for runs in page[1].values() for run in runs}
    for link in parsed.links:
        assert link.startswith(("#", "data:")) or link in beside
        assert not link.startswith("#") or link[1:] in parsed.ids
    assert beside <= set(parsed.links)
    assert not re.search(r"""url\(|@import|https?://(?!www\.w3\.org)""", page[0].split("</style>")[0])
    assert len(page[0]) < 1_000_000


def test_it_shows_what_was_measured_beside_the_papers_own_figures(page):
    text, made = page
    for variant, (run,) in made.items():
        assert f"{run.metrics['top1']:.2f}" in text, variant
    assert "76.41" in text
    assert "Table 1: CIFAR-100" in text
    assert "another data set" in text
    assert "96.77" not in text  # the paper's NL was not run here


def test_it_shows_claims_with_their_verdict_interval_and_age_and_escapes_them(page):
    text = " ".join(Page(page[0]).text)
    assert "does not hold" in text
    assert "90 % interval 0.2 to 0.8 over 2 seeds" in text
    assert "stored results of 2026-05-04, commit abc, 2 seeds (3, 5)" in text
    assert "stale: the code computes something else now" in text
    assert "not measured yet" in text
    assert "<b>bold</b>" in text  # as text, not as markup


def test_it_shows_costs_curves_pictures_and_how_to_repeat_it(page):
    text = page[0]
    assert "23,402" in text  # parameters of tiny SNL
    assert "<polyline" in text
    assert "data:image/png;base64," in text
    assert "vergence run snl" in text


def test_a_page_with_large_pictures_stays_under_a_megabyte_and_links_to_them(tmp_path):
    noise = np.random.default_rng(0)
    artifacts = []
    for number, side in enumerate((500, 20, 500)):
        pixels = noise.integers(0, 256, (side, side, 3), dtype=np.uint8)
        path = tmp_path / "pictures" / f"a b{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(path)
        artifacts.append(Artifact("image", path, str(number)))
    shown = build._pictures(artifacts, tmp_path)
    assert [picture["caption"] for picture in shown] == ["0", "1", "2"]
    assert [picture["link"] for picture in shown] == ["pictures/a%20b0.png", "", "pictures/a%20b2.png"]
    assert sum(len(picture["uri"]) for picture in shown) < build.LARGEST * 1.4
    assert base64.b64decode(shown[1]["uri"].split(",")[1]) == artifacts[1].path.read_bytes()


def test_a_chart_of_nothing_is_nothing():
    assert line_chart({}, "x", "y") == ""
    assert line_chart({"a": [(0, float("nan"))]}, "x", "y") == ""


def test_a_chart_thins_long_lines_and_escapes_names():
    svg = line_chart({"<a>": [(i, i * i) for i in range(5000)]}, "x", "y")
    assert "<a>" not in svg
    drawn, steps, values = (re.search(rf' {name}="([^"]*)"', svg.split("<polyline")[1]).group(1).split()
                            for name in ("points", "data-x", "data-y"))  # fmt: skip
    assert len(drawn) == len(steps) == len(values) <= 200
    assert (steps[0], values[0]) == ("12", "196")  # means of the first 25 points


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-3, 7.2), (0.001, 0.0012), (5, 5), (0, 0), (1e6, 1e7), (-1e-9, 1e-9)]
)
def test_ticks_cover_their_range_in_round_steps(low, high):
    found = ticks(low, high)
    step = found[1] - found[0]
    assert found[0] <= low <= high <= found[-1]
    assert 2 <= len(found) <= 8
    assert found[0] > low - 1.01 * step - 1e-12 or low == high
    assert [b - a for a, b in itertools.pairwise(found)] == pytest.approx([step] * (len(found) - 1))
