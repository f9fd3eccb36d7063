"""Tables of a report: what the page, the CSV file and the LaTeX file say."""

import base64
import csv
import io

import pytest

from vergence.contract.settings import Metric
from vergence.report.tables import Cell, Group, Row, Table, best

METRIC = Metric("EPE", "m", higher_is_better=False, digits=2)
TABLE = Table(
    "flot-tiny",
    (Group("this run", ("EPE m", "AS %")), Group("the paper", ("EPE m",), "theirs")),
    (
        Row("a_b & c", (Cell.of([1.0, 3.0], METRIC, best=2.0), Cell("7", 7.0), Cell())),
        Row("d", (Cell.of([5.0], METRIC), Cell(), Cell("1,000", 1000.0))),
    ),
)


def test_a_cell_has_mean_and_sample_deviation_and_no_deviation_of_one_value():
    assert Cell.of([1.0, 3.0], METRIC) == Cell("2.00 ± 1.41", 2.0, pytest.approx(2**0.5))
    assert Cell.of([5.0], METRIC) == Cell("5.00", 5.0)
    assert Cell.of([], METRIC).text == "–"
    assert Cell.of([1.0, float("nan")], METRIC).text == "nan"


def test_the_best_is_the_lowest_where_lower_is_better_and_nan_is_never_best():
    assert best([2.0, 1.0, float("nan")], METRIC) == 1.0
    assert best([2.0, 1.0], Metric("top1")) == 2.0
    assert best([2.0], METRIC) is None


def test_the_csv_file_holds_full_numbers_with_a_column_for_the_deviation_where_there_is_one():
    rows = list(csv.reader(io.StringIO(TABLE.csv())))
    assert rows[0] == [
        "",
        "this run: EPE m",
        "this run: EPE m, standard deviation",
        "this run: AS %",
        "the paper: EPE m",
    ]
    assert rows[1] == ["a_b & c", "2.0", repr(2**0.5), "7.0", ""]
    assert rows[2] == ["d", "5.0", "", "", "1000.0"]


def test_the_latex_file_escapes_marks_the_best_and_has_as_many_cells_as_columns():
    lines = TABLE.latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lrrr}"
    assert r" & \multicolumn{2}{c}{this run} & \multicolumn{1}{c}{the paper} \\" in lines
    assert r"a\_b \& c & \textbf{2.00 $\pm$ 1.41} & 7 & -- \\" in lines
    assert r" & EPE m & AS \% & EPE m \\" in lines


def test_downloads_are_the_files_themselves():
    (_, name, uri), (_, other, tex) = TABLE.downloads
    assert (name, other) == ("flot-tiny.csv", "flot-tiny.tex")
    assert base64.b64decode(uri.split("base64,")[1]).decode() == TABLE.csv()
    assert base64.b64decode(tex.split("base64,")[1]).decode() == TABLE.latex()
