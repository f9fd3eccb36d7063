"""Pages say what is stored: every claim, every number, nothing left out and nothing broken by the signs in it."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from vergence import catalogue
from vergence.contract.claims import Claim, Judgement
from vergence.studies import results
from vergence.studies.ledger import Entry, latest

DOCS = Path(__file__).parents[2] / "docs"


def script(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


render = script("render")
sys.modules.setdefault("render", render)  # as docs/ is on the path when the site is built
costs = script("costs")


def stored_claims(name):
    path = catalogue.folder(name) / "results" / "claims.json"
    return json.loads(path.read_text()) if path.exists() else []


def entry(verdict=None, statement="A claim.", kind="empirical", **values):
    claim = Claim("id", statement, "Eq. 1", kind, lambda _: 0.0, 1.0, "at least", "points", "+2")
    return Entry("snl", claim, Judgement(verdict, **values) if verdict else None, command="vergence claims snl")


@pytest.fixture(scope="module")
def ledger():
    return render.ledger()


@pytest.mark.parametrize("name", render.own())
def test_the_ledger_has_every_stored_verdict(name, ledger):
    known = {found.claim.id for found in latest(name, root=None) if found.judgement}
    stored = stored_claims(name)
    section = ledger.split(f"\n## {name}\n")[1].split("\n## ")[0]
    for verdict, (mark, _) in render.SIGNS.items():
        count = sum(item["judgement"]["verdict"] == verdict for item in stored if item["id"] in known)
        if verdict != "not measured yet":
            assert section.count(f"{mark} {verdict.split(' at this')[0].split(' here')[0]}</span>") == count


def test_what_does_not_hold_is_listed_with_its_values_and_what_holds_is_not():
    stored = [item for name in render.own() for item in stored_claims(name)]
    page = render.open_claims()
    answered = {(e.system, e.claim.id) for name in render.own() for e in latest(name, root=None) if e.judgement}
    for item in stored:
        listed = f'id="{item["system"]}-{item["id"]}"' in page
        if (item["system"], item["id"]) not in answered:
            continue
        if item["judgement"]["verdict"] == "holds":
            assert not listed
        else:
            assert listed
            assert ", ".join(f"{float(v):.3g}" for v in item["judgement"]["values"]) in page


def test_counts_are_said_in_words():
    several = [entry("holds"), entry("holds"), entry("does not hold"), entry()]
    assert render.summary(several) == "4 claims, of which 2 hold, 1 does not hold, 1 is not measured yet"
    assert render.tally(several) == "2 ✓ 1 ✗ 1 –"


def test_claims_and_checks_are_counted_and_shown_apart():
    both = [entry("holds"), entry("does not hold"), entry("holds", "A check.", kind="check")]
    assert render.summary(both).endswith("; and 1 check of the implementation, of which 1 holds")
    assert render.summary(both).startswith("2 claims, of which 1 holds, 1 does not hold;")
    assert "A check." not in render.claims_table(both)
    assert render.claims_table(both).count("A claim.") == 2
    assert "A check." in render.checks_table(both)
    assert "A claim." not in render.checks_table(both)
    assert "1 of 1 hold" in render.checks_table(both)
    assert render.checks_table(both[:2]) == ""
    columns = render.systems_table().splitlines()[0].split("|")
    assert [c.strip() for c in columns][-3:-1] == ["claims", "checks"]


def test_signs_of_markdown_in_a_statement_stay_signs():
    line = render.claims_table([entry("holds", "|x| < y_i * z_i [see `A`]", measured=1.0)]).splitlines()[2]
    assert r"\|x\| &lt; y\_i \* z\_i \[see \`A\`]" in line
    assert line.replace(r"\|", "").count("|") == 5


def test_what_was_measured_together_is_said_once():
    table = render.claims_table([entry("holds", measured=1.0), entry("holds", measured=2.0)])
    assert table.count("Made with") == 1


def test_a_table_with_no_room_for_its_columns_is_laid_on_its_side():
    columns = [f"c{n}" for n in range(9)]
    made = render.turned(["a", "b"], columns, [["1"] * 9, ["2"] * 9]).splitlines()
    assert made[0] == "|  | a | b |"
    assert made[2] == "| c0 | 1 | 2 |"
    assert render.turned(["a"], ["c"], [["1"]]).splitlines()[2] == "| a | 1 |"


def test_bars_grow_with_the_ratio_and_slower_ones_are_marked():
    assert "width: 50px" in costs.bar(10.0)  # half of a hundred pixels: ten is half of a hundred, in logarithms
    assert "width: 100px" in costs.bar(1000.0)
    assert "slower" in costs.bar(0.5)


def test_the_page_of_costs_says_what_the_engine_adds_and_whether_that_is_allowed(monkeypatch):
    def bench(name):
        added = {"snl": 0.4e-3, "flot": 1.1e-3}.get(name)
        step = (
            {"bare": 0.0198, "extra": [added - 1e-4, added + 1e-4], "added": added, "allowed": 0.6e-3}
            if added
            else None
        )
        environment = results.Environment("2026-11-16T19:37:47", "0.1.0")
        return results.StoredBench((), (step,) if step else (), f"vergence bench {name}", environment)

    monkeypatch.setattr(costs.results, "bench", bench)
    monkeypatch.setattr(costs.results, "age", lambda name, stored: "")
    rows = {line.split("](")[0]: line for line in costs.engine_table().splitlines() if line.startswith("| [")}
    assert list(rows) == ["| [flot", "| [snl"]
    assert "| 19.80 ms | 0.40 ms (0.30 ms to 0.50 ms) | 0.60 ms |" in rows["| [snl"]
    assert "✓ within" in rows["| [snl"]
    assert "✗ too much" in rows["| [flot"]
    monkeypatch.setattr(costs.results, "bench", lambda name: None)
    assert costs.engine_table().startswith("No step is stored yet")


@pytest.mark.skipif(importlib.util.find_spec("griffe") is None, reason="needs the extra docs (make docs)")
def test_docstrings_become_markdown():
    as_markdown = script("docstrings").as_markdown
    assert (
        as_markdown("See :class:`Index` and :func:`~vergence.ops.assign`.") == "See `Index` and `vergence.ops.assign`."
    )
    table = "=====  =====\na      b\n=====  =====\n1      2\n=====  =====\n\nText."
    assert as_markdown(table) == f"```text\n{table[:-7]}\n```\n\nText."
    assert as_markdown("So::\n\n    x = 1\n") == "So:\n\n    x = 1\n"


def test_checking_says_what_is_out_of_date_and_changes_nothing(tmp_path, monkeypatch, capsys):
    old = tmp_path / "claims.md"
    old.write_text("old")
    monkeypatch.setattr(render, "LEDGER", old)
    monkeypatch.setattr(render, "ROOT", tmp_path)
    monkeypatch.setattr(render, "ledger", lambda: "new")
    monkeypatch.setattr(render, "README", tmp_path / "README.md")
    monkeypatch.setattr(render, "systems_table", lambda: "| a |\n")
    (tmp_path / "README.md").write_text(f"x\n{render.BEGIN}| a |\n{render.END}y\n")
    monkeypatch.setattr(sys, "argv", ["render.py", "--check"])
    assert render.main() == 1
    assert capsys.readouterr().out == "claims.md is out of date\n"
    assert old.read_text() == "old"
    monkeypatch.setattr(sys, "argv", ["render.py"])
    assert render.main() == 0
    assert old.read_text() == "new"
    assert render.main() == 0
