"""What is special to TabStruct-Net: its losses, its tables from real files, and what it says of bad ones."""

import csv
import io
import json
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image

from documents.tabstruct import fixtures
from vergence.core.errors import VergenceError
from vergence.documents.reader import Read
from vergence.documents.table_files import RecognisedTable, TableCell, write_csv, write_html, write_xlsx
from vergence.documents.tables import Fitted, Recipe, RenderedTables, collated
from vergence.documents.tabstruct.model import build
from vergence.documents.tabstruct.settings import SETTINGS, VARIANTS, Inputs, LossConfig

QUICK = {"model.widths": (8, 8, 8, 8), "model.channels": 8, "model.head": 16, "model.hidden": 8, "data.longest": 128}
RECIPE = Recipe((3, 4), (3, 4), 0.2, 128)


@pytest.fixture(scope="module")
def batch():
    data = Fitted(RenderedTables(RECIPE, "train", 2), "ink", 128)
    return collated([data[0], data[1]])


@pytest.mark.parametrize(("preset", "variant"), [("tiny", v) for v in VARIANTS] + [("tiny-boxes", "tabstruct")])
def test_every_loss_has_finite_gradients(preset, variant, batch):
    config = SETTINGS.configure(preset, variant, QUICK)
    torch.manual_seed(0)
    net = build(config.model)
    losses = net.losses(batch, config.loss, config.data.given, torch.Generator().manual_seed(0))
    sum(losses.values()).backward()
    bad = [name for name, p in net.named_parameters() if p.grad is not None and not p.grad.isfinite().all()]
    assert bad == []
    named = {"rpn_score", "rpn_box", "class", "box"} if config.model.detector else set()
    named |= {"alignment"} if config.model.detector and config.loss.alignment else set()
    named |= {"rows", "columns"} if config.model.structure != "none" else set()
    assert set(losses) == named


def test_the_mask_head_learns_rectangles(batch):
    config = SETTINGS.configure("tiny", "tabstruct", QUICK | {"model.masks": True})
    net = build(config.model)
    losses = net.losses(batch, LossConfig(), "nothing", torch.Generator().manual_seed(0))
    losses["mask"].backward()
    assert all(p.grad is not None for p in net.detector.roi_heads.mask_head.parameters())


def test_a_table_of_one_cell_trains_and_is_recognised(batch):
    """Batch norms have a single row then, and nobody has a partner but itself."""
    config = SETTINGS.configure("tiny-boxes", "tabstruct", QUICK)
    net = build(config.model)
    cell = type(batch.tables[0])(*(own[:1] for own in batch.tables[0]))
    one = batch._replace(pictures=batch.pictures[:1], sizes=batch.sizes[:1], tables=[cell])
    losses = net.losses(one, LossConfig(), "content", torch.Generator().manual_seed(0))
    assert all(bool(v.isfinite()) for v in losses.values())
    found = net.eval().recognise(one.pictures, one.sizes, [one.tables[0].cells])[0]
    assert found.rows.shape == (1, 1)
    nothing = net.recognise(one.pictures, one.sizes, [one.tables[0].cells[:0]])[0]
    assert nothing.rows.shape == (0, 0)


def test_titles_that_stand_between_their_columns_cover_them():
    """Texts alone: a title over two columns whose text touches neither, and one that is shorter than the first."""
    from vergence.ops.table_relations import related
    from vergence.ops.table_spans import assigned_spans

    spans = torch.tensor([[0, 0, 0, 1], [1, 1, 0, 0], [1, 1, 1, 1], [2, 2, 0, 0], [2, 2, 1, 1]])
    lower = [(10, 20, 40, 30), (60, 20, 90, 30), (10, 40, 30, 50), (60, 40, 80, 50)]
    for title in ((45, 0, 55, 10), (10, 0, 16, 10)):
        boxes = torch.tensor([title, *lower], dtype=torch.float64)
        rows, columns = related(spans, "rows").double(), related(spans, "columns").double()
        assert assigned_spans(boxes, rows, columns, texts=True).tolist() == spans.tolist()
        alone = assigned_spans(boxes, rows, 0 * columns, texts=True)
        assert alone[0].tolist() != spans[0].tolist(), "without a relation, a text covers what is below it"


def test_the_second_phase_samples_more(batch, tmp_path):
    from vergence import catalogue
    from vergence.contract.context import Context

    system = catalogue.load("tabstruct")
    config = system.configure("tiny", changes=QUICK | {"finish.steps": 1, "finish_sampled": (300, 40)})
    assert list(system.phases(config, None)) == ["train", "finish"]
    net = system.build(config, None)
    for phase, expected in (("train", (256, 128)), ("finish", (300, 40))):
        system.losses(Context(config, tmp_path, phase=phase, generator=torch.Generator()), net, batch)
        assert (net.detector.rpn.sampled, net.detector.roi_heads.sampled) == expected


def test_weights_of_a_mask_rcnn_begin_the_detector():
    from vergence import catalogue
    from vergence.nn.detectors import resnet_fpn

    system = catalogue.load("tabstruct")
    config = system.configure("paper", changes={"model.depths": (1, 1, 1, 1)})
    with torch.device("meta"):
        shapes, net = resnet_fpn(3, True, (1, 1, 1, 1)).state_dict(), system.build(config, None)
    theirs = {name: torch.full(own.shape, float(number)) for number, (name, own) in enumerate(shapes.items())}
    net = net.to_empty(device="cpu")
    said = system.load_pretrained(config, net, theirs)
    assert "torchvision" in said
    own = net.detector.state_dict()
    for name in (
        "backbone.body.layer1.0.conv2.weight",
        "roi_heads.box_head.fc6.weight",
        "roi_heads.mask_head.2.0.bias",
    ):
        assert torch.equal(own[name], theirs[name])
    with pytest.raises(VergenceError, match="not a Mask R-CNN's"):
        system.load_pretrained(config, net, {"fc.weight": torch.zeros(1)})


# Files ----------------------------------------------------------------------------------------------------------------

TABLE = RecognisedTable(3, 3, (
    TableCell("a & <b>", (0, 0, 20, 10), 0, 0, 0, 1), TableCell("=1+1", (20, 0, 30, 20), 0, 1, 2, 2),
    TableCell("x, y", (0, 10, 10, 20), 1, 1, 0, 0), TableCell('"q"\n', (0, 20, 10, 30), 2, 2, 0, 0),
))  # fmt: skip


def test_html_has_spans_and_escapes_texts(tmp_path):
    page = write_html(tmp_path / "t.html", "t<1>", TABLE).read_text()
    rows = ElementTree.fromstring(TABLE.html()).findall("tr")
    assert [[(c.text or "", c.get("rowspan"), c.get("colspan")) for c in row] for row in rows] == [
        [("a & <b>", None, "2"), ("=1+1", "2", None)],
        [("x, y", None, None), ("", None, None)],
        [('"q"\n', None, None), ("", None, None), ("", None, None)],
    ]
    assert "<title>t&lt;1&gt;</title>" in page


def test_csv_and_spreadsheet_say_the_same(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    rows = list(csv.reader(io.StringIO(write_csv(tmp_path / "t.csv", TABLE).read_text(), newline="")))
    assert rows == [["a & <b>", "", "=1+1"], ["x, y", "", ""], ['"q"\n', "", ""]]
    sheet = openpyxl.load_workbook(write_xlsx(tmp_path / "t.xlsx", TABLE)).active
    assert {str(r) for r in sheet.merged_cells.ranges} == {"A1:B1", "C1:C2"}
    assert sheet["C1"].value == "=1+1"
    assert sheet["C1"].data_type == "s", "a text must not become a formula"
    assert sheet["A2"].value == "x, y"


def test_xml_is_the_form_of_icdar_and_json_is_read_again(tmp_path):
    from vergence.documents.table_layouts import folder

    root = ElementTree.fromstring(TABLE.xml("t\x00.png"))
    first = root.find("table/region/cell")
    assert (first.get("end-col"), first.find("bounding-box").get("x2"), first.findtext("content")) == (
        "1",
        "20",
        "a & <b>",
    )
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "t.json").write_text(json.dumps(TABLE.json("t.png")))
    Image.new("L", (40, 40), 255).save(tmp_path / "test" / "t.png")
    sample = folder(tmp_path, "test")[0]
    assert sample.spans.tolist() == [[0, 0, 0, 1], [0, 1, 2, 2], [1, 1, 0, 0], [2, 2, 0, 0]]
    assert sample.texts[1] == "=1+1"


# Prediction -----------------------------------------------------------------------------------------------------------


class Fake:
    """A reader that says how wide a picture is."""

    def read(self, ctx, pictures):
        return [Read(f"w{picture.shape[-1]}", 0.5) for picture in pictures]


def predicted(monkeypatch, tmp_path, **inputs):
    from vergence import catalogue
    from vergence.contract.context import Context

    monkeypatch.setattr("vergence.documents.table_text.PRINT", type("Asset", (), {"find": lambda self: tmp_path})())
    monkeypatch.setattr("vergence.documents.table_text.Reader.for_print", lambda ctx: Fake())
    system = catalogue.load("tabstruct")
    config = system.configure("tiny", changes=QUICK)
    torch.manual_seed(0)
    net = system.build(config, None).eval().requires_grad_(False)
    ctx = Context(config, tmp_path / "out")
    given = Inputs(**inputs)
    return ctx, system, given, system.infer(ctx, net, given)


def boxes_of_cells():
    from vergence.contract.inputs import Box

    return tuple(Box(b[0], b[1], b[2] - b[0], b[3] - b[1]) for _, _, b in fixtures.cells())


def test_given_boxes_become_the_table(monkeypatch, tmp_path):
    """Exact boxes on a grid need no training: extents decide where chances do not."""
    fixtures.picture(tmp_path / "table.png")
    ctx, system, given, result = predicted(
        monkeypatch, tmp_path, images=(tmp_path / "table.png",), cells=boxes_of_cells()
    )
    (table,) = result.tables
    assert (table.rows, table.columns, len(table.cells)) == (3, 3, 9)
    assert [(c.start_row, c.start_column) for c in table.cells] == [(r, c) for r in range(3) for c in range(3)]
    assert all(c.text.startswith("w") for c in table.cells)
    files = {a.path.name: a for a in system.render(ctx, given, result)}
    assert {"table.html", "table.csv", "table.json", "table.xml", "table.xlsx", "table-structure.png"} <= set(files)
    assert Image.open(files["table-structure.png"].path).width > 200


def test_overlapping_boxes_are_repaired_and_said(monkeypatch, tmp_path):
    fixtures.picture(tmp_path / "table.png")
    doubled = (*boxes_of_cells(), boxes_of_cells()[4])
    *_, result = predicted(monkeypatch, tmp_path, images=(tmp_path / "table.png",), cells=doubled)
    assert len(result.tables[0].cells) == 9
    assert any("became a part of cell" in sentence for sentence in result.repairs[0])
    assert "1 repair" in result.summary()["table.png"]


def test_an_empty_picture_has_no_table(monkeypatch, tmp_path):
    Image.new("L", (200, 100), 240).save(tmp_path / "blank.png")
    ctx, system, given, result = predicted(monkeypatch, tmp_path, images=(tmp_path / "blank.png",))
    assert result.tables[0].cells == ()
    assert "no cells found in blank.png" in result.note
    assert all(a.path.stat().st_size for a in system.render(ctx, given, result) if a.path.suffix != ".csv")


def test_wrong_boxes_are_named(monkeypatch, tmp_path):
    from vergence.contract.inputs import Box

    fixtures.picture(tmp_path / "table.png")
    for cells, words in (
        ((Box(0, 0, 10, 0),), "widths and heights above 0"),
        ((Box(900, 0, 10, 10),), "box 1 .* outside"),
    ):
        with pytest.raises(VergenceError, match=words):
            predicted(monkeypatch, tmp_path, images=(tmp_path / "table.png",), cells=cells)
    with pytest.raises(VergenceError, match="one picture"):
        Inputs((tmp_path / "a.png", tmp_path / "b.png"), (Box(0, 0, 1, 1),))


def test_a_network_without_a_detector_asks_for_boxes(tmp_path):
    from vergence import catalogue
    from vergence.contract.context import Context

    fixtures.picture(tmp_path / "table.png")
    system = catalogue.load("tabstruct")
    config = system.configure("tiny-boxes", changes=QUICK)
    with pytest.raises(VergenceError, match="no detector"):
        system.infer(Context(config, tmp_path), system.build(config, None).eval(), Inputs((tmp_path / "table.png",)))


def test_a_skewed_picture_is_turned_upright(monkeypatch, tmp_path):
    fixtures.picture(tmp_path / "table.png")
    Image.open(tmp_path / "table.png").rotate(-3, expand=True, fillcolor=245).save(tmp_path / "turned.png")
    *_, result = predicted(monkeypatch, tmp_path, images=(tmp_path / "turned.png",))
    assert result.skew[0] == pytest.approx(3, abs=0.4)
    assert np.asarray(result.upright[0]).shape[2] > 220
