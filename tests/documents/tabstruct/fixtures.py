"""Small tables in the public layouts, drawn with Pillow and annotated with plain text; and pictures to predict on."""

from __future__ import annotations

import json

import matplotlib
from PIL import Image, ImageDraw, ImageFont

FONT = f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans.ttf"
TEXTS = (("Name", "2019", "2020"), ("Alpha", "12", "31"), ("Beta", "7", "450"))
X, Y = (10, 90, 150, 210), (8, 34, 60, 86)
"""Borders of columns and rows."""


def cells():
    """Texts with spans and boxes."""
    for row, line in enumerate(TEXTS):
        for column, text in enumerate(line):
            yield text, (row, row, column, column), (X[column], Y[row], X[column + 1], Y[row + 1])


def picture(path, shift=(0, 0), size=(220, 96), dpi=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new("L", size, 245)
    draw = ImageDraw.Draw(image)
    font = ImageFont.truetype(FONT, 13)
    for text, _, box in cells():
        left, top, right, bottom = (v + shift[k % 2] for k, v in enumerate(box))
        draw.rectangle((left, top, right, bottom), outline=60)
        draw.text((left + 6, top + 5), text, 10, font)
    image.save(path, **({"dpi": dpi} if dpi else {}))


def ink(text, box):
    """About where a text stands."""
    wide = ImageFont.truetype(FONT, 13).getlength(text)
    return (box[0] + 6, box[1] + 8, box[0] + 6 + wide, box[1] + 18)


def scitsr(path):
    for split, names in (("train", ("0704.1", "0704.2")), ("test", ("0801.7",))):
        for name in names:
            picture(path / split / "img" / f"{name}.png")
            structure, chunks = [], []
            for number, (text, (a, b, c, d), box) in enumerate(cells()):
                structure.append({"id": number, "tex": text, "content": text.split(), "start_row": a, "end_row": b,
                                  "start_col": c, "end_col": d})  # fmt: skip
                left, top, right, bottom = (v * 72 / 150 for v in ink(text, box))
                chunks.append({"pos": [100 + left, 100 + right, 700 - bottom, 700 - top], "text": text})
            structure.append({"id": 99, "tex": "", "content": [], "start_row": 3, "end_row": 3, "start_col": 0,
                              "end_col": 0})  # fmt: skip
            for folder, suffix, content in (
                ("structure", "json", {"cells": structure}),
                ("chunk", "chunk", {"chunks": chunks}),
            ):
                (path / split / folder).mkdir(parents=True, exist_ok=True)
                (path / split / folder / f"{name}.{suffix}").write_text(json.dumps(content))


def scitsr_comp(path):
    scitsr(path)
    (path / "SciTSR-COMP.list").write_text("0801.7\n")


def icdar13(path):
    path.mkdir(parents=True)
    for name in ("us-001", "eu-004", "us-017", "eu-021", "us-033"):
        picture(path / f"{name}-1.png", (30, 40), (300, 200), dpi=(144, 144))
        rows = []
        for number, (text, (a, _, c, _), box) in enumerate(cells()):
            left, top, right, bottom = ((v + (30, 40)[k % 2]) / 2 for k, v in enumerate(ink(text, box)))
            rows.append(
                f"<cell id='{number}' start-row='{a}' start-col='{c}'><bounding-box x1='{left:.1f}' "
                f"y1='{100 - bottom:.1f}' x2='{right:.1f}' y2='{100 - top:.1f}'/><content>{text}</content></cell>"
            )
        (path / f"{name}-str.xml").write_text(
            f"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<document filename='{name}.pdf'><table id='1'>"
            f"<region id='1' page='1' col-increment='0' row-increment='0'>{''.join(rows)}</region></table></document>\n"
        )


def ctdar(path):
    for split, name in (("training", "cTDaR_t00021"), ("test", "cTDaR_t10047")):
        picture(path / split / f"{name}.jpg", (30, 40), (300, 200))
        rows = []
        for _, (a, b, c, d), box in cells():
            left, top, right, bottom = (v + (30, 40)[k % 2] for k, v in enumerate(box))
            points = f"{left},{top} {left},{bottom} {right},{bottom} {right},{top}"
            rows.append(
                f'<cell start-row="{a}" end-row="{b}" start-col="{c}" end-col="{d}"><Coords points="{points}"/></cell>'
            )
        (path / split / f"{name}.xml").write_text(
            f"<?xml version='1.0' encoding='UTF-8'?>\n<document filename=\"{name}.jpg\"><table>"
            f'<Coords points="40,48 40,126 240,126 240,48"/>{"".join(rows)}</table></document>\n'
        )


def unlv(path):
    for name in ("0110_099", "0113_013", "0140_007", "0146_281", "0147_090"):
        picture(path / f"{name}.png", (30, 40), (300, 200))
        rows = []
        for _, (a, b, c, d), box in cells():
            x0, y0, x1, y1 = (v + (30, 40)[k % 2] for k, v in enumerate(box))
            rows.append(f'<Cell x0="{x0}" y0="{y0}" x1="{x1}" y1="{y1}" startRow="{a}" endRow="{b}" startCol="{c}" '
                        f'endCol="{d}" dontCare="false">(0,0,0)</Cell>')  # fmt: skip
        rows.append(
            '<Cell x0="1" y0="1" x1="9" y1="9" startRow="0" endRow="0" startCol="1" endCol="1" dontCare="true"/>'
        )
        (path / f"{name}.xml").write_text(
            f'<?xml version="1.0"?>\n<GroundTruth InputFile="{name}.png"><Tables><Table x0="40" y0="48" x1="240" '
            f'y1="126" orientation="Horizontal"><Row x0="40" y0="74" x1="240" y1="74"/>{"".join(rows)}'
            "</Table></Tables></GroundTruth>\n"
        )


def pubtabnet(path):
    lines = []
    for number, (split, name) in enumerate((("train", "PMC1_004_00.png"), ("val", "PMC2_003_01.png"))):
        picture(path / split / name)
        tokens, listed = ["<thead>"], []
        for row, texts in enumerate(TEXTS):
            tokens += ["<tr>", *["<td>", "</td>"] * len(texts), "</tr>", *(["</thead>", "<tbody>"] if row == 0 else [])]
        for text, _, box in cells():
            listed.append({"tokens": ["<b>", *text, "</b>"], "bbox": [round(v) for v in ink(text, box)]})
        tokens += ["<tr>", "<td", ' colspan="3"', ">", "</td>", "</tr>", "</tbody>"]
        listed.append({"tokens": []})
        lines.append({"filename": name, "split": split, "imgid": number,
                      "html": {"structure": {"tokens": tokens}, "cells": listed}})  # fmt: skip
    (path / "PubTabNet_2.0.0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def coco(path):
    (path / "annotations").mkdir(parents=True)
    for split in ("train", "val"):
        picture(path / f"{split}2014" / "0110_099.jpg")
        rows = []
        for number, (_, (a, b, c, d), (left, top, right, bottom)) in enumerate(cells()):
            spans = {"start_row": a, "end_row": b, "start_col": c, "end_col": d}
            box = [left, top, right - left, bottom - top]
            rows.append({"id": number, "image_id": 7, "category_id": 1, "bbox": box} | spans)
        document = {"images": [{"id": 7, "file_name": "0110_099.jpg", "width": 220, "height": 96}], "annotations": rows}
        (path / "annotations" / f"instances_{split}2014.json").write_text(json.dumps(document))


def _annotated(path):
    picture(path.with_suffix(".png"))
    rows = [{"text": text, "box": list(box), "start_row": a, "end_row": b, "start_col": c, "end_col": d}
            for text, (a, b, c, d), box in cells()]  # fmt: skip
    path.with_suffix(".json").write_text(json.dumps({"cells": rows}))


def parted(path):
    for split in ("train", "test"):
        _annotated(path / split / "invoice")
        _annotated(path / split / "results")


layouts = {
    "folder": parted,
    "scitsr": scitsr,
    "scitsr-comp": scitsr_comp,
    "icdar13": icdar13,
    "icdar13-partial": icdar13,
    "ctdar": ctdar,
    "unlv": unlv,
    "unlv-partial": unlv,
    "pubtabnet": pubtabnet,
    "tabstruct": coco,
}


def prediction(folder):
    picture(folder / "table.png")
    return ["table.png", "--score", "0.1"]
