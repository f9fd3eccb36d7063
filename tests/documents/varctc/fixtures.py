"""Small data sets of words and lines in the public layouts, written with Pillow, SciPy and plain text, and a page."""

from __future__ import annotations

import matplotlib
import scipy.io
from PIL import Image, ImageDraw, ImageFont

FONT = f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans.ttf"


def picture(path, text, size=20, width=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    font = ImageFont.truetype(FONT, size)
    own = Image.new("L", (width or int(font.getlength(text)) + 12, size + 12), 235)
    ImageDraw.Draw(own).text((6, 4), text, 20, font)
    own.save(path)


def synth90k(path):
    for split, word, number in (("train", "Lube", 45484), ("val", "Coffee", 14700), ("test", "barring", 6220)):
        lines = []
        for k in (1, 2):
            name = f"2425/{k}/115_{word}_{number}.jpg"
            picture(path / name, word)
            lines.append(f"./{name} {number}\n")
        (path / f"annotation_{split}.txt").write_text("".join(lines))


def iiit5k(path):
    import numpy as np

    for split in ("train", "test"):
        rows = []
        for k, word in enumerate(("Hotel", "24HRS")):
            name = f"{split}/{k}_1.png"
            picture(path / name, word)
            rows.append((name, word.upper(), np.array(["A"], object), np.array(["B"], object)))
        kind = [(n, object) for n in ("ImgName", "GroundTruth", "smallLexi", "mediumLexi")]
        scipy.io.savemat(path / f"{split}data.mat", {f"{split}data": np.array([rows], kind)})


def svt(path):
    for split in ("train", "test"):
        picture(path / "svt1" / "img" / f"{split}_00.jpg", "GRAND HOTEL", 24)
        rectangles = "".join(
            f'<taggedRectangle height="30" width="{w}" x="{x}" y="2"><tag>{tag}</tag></taggedRectangle>'
            for tag, x, w in (("GRAND", 2, 90), ("HOTEL", 95, 85))
        )
        (path / "svt1" / f"{split}.xml").write_text(
            f'<?xml version="1.0" encoding="UTF-8" ?>\n<tagset><image><imageName>img/{split}_00.jpg</imageName>'
            "<address>1 Main Street</address><lex>GRAND,HOTEL,BANK</lex>"
            f'<Resolution x="1280" y="880"/><taggedRectangles>{rectangles}</taggedRectangles></image></tagset>\n'
        )


def icdar03(path):
    for part in ("TrialTrain", "TrialTest"):
        rows = []
        for k, word in enumerate(("self", "STAFF", "it's")):
            picture(path / part / "word" / "1" / f"{k}.jpg", word)
            rows.append(f'<image file="word/1/{k}.jpg" tag="{word}" />')
        (path / part / "word.xml").write_text(
            '<?xml version="1.0" encoding="UTF-8"?>\n<imagelist>\n' + "\n".join(rows) + "\n</imagelist>\n"
        )


def icdar13(path):
    for folder, own in (
        ("Challenge2_Training_Task3_Images_GT", "Challenge2_Training_Task3_Images_GT/gt.txt"),
        ("Challenge2_Test_Task3_Images", "Challenge2_Test_Task3_GT.txt"),
    ):
        rows = []
        for k, word in enumerate(("Tiredness", "kills", "A"), 1):
            picture(path / folder / f"word_{k}.png", word)
            rows.append(f'word_{k}.png, "{word}"')
        (path / own).write_text("\ufeff" + "\r\n".join(rows))


def enctc(path):
    for k, word in enumerate(("private", "salutes", "of")):
        picture(path / "test" / f"1002_{k}.png", word)
    (path / "annotation.txt").write_text("".join(f"./test/1002_{k}.png {k}\n" for k in range(3)))
    (path / "lexicon.txt").write_text("private\nsalutes\nof\n")


def iam_words(path):
    forms = {"a01-000u": "train", "b02-013": "test"}
    rows = [(f"{form}-00-0{k}", word) for form in forms for k, word in enumerate(("MOVE", "Gaitskell"))]
    for name, text in rows:
        form = name.rsplit("-", 2)[0]
        picture(path / "words" / name[:3] / form / f"{name}.png", text)
    lines = [f"{name} ok 154 408 768 27 51 AT {text}" for name, text in rows]
    lines.append("b02-013-00-02 err 154 408 768 27 51 AT lost")
    (path / "words.txt").write_text("#--- words.txt ---#\n" + "\n".join(lines))
    (path / "trainset.txt").write_text("a01-000u-00\na01-000u-01\n")
    (path / "testset.txt").write_text("b02-013-00\nb02-013-01\n")


def iam_lines(path):
    rows = [(f"{form}-0{k}", "A|MOVE|to|stop") for form in ("a01-000u", "b02-013") for k in range(2)]
    for name, text in rows:
        form = name.rsplit("-", 1)[0]
        picture(path / "lines" / name[:3] / form / f"{name}.png", text.replace("|", " "))
    for folder in ("ascii", "splits"):
        (path / folder).mkdir()
    table = [f"{name} ok 154 19 408 746 1661 89 {text}" for name, text in rows]
    (path / "ascii" / "lines.txt").write_text("#--- lines.txt ---#\n" + "\n".join(table))
    (path / "splits" / "train.uttlist").write_text("a01-000u\n")
    (path / "splits" / "test.uttlist").write_text("b02-013\n")


def parted(path):
    for split in ("train", "test"):
        picture(path / split / "a.png", "2040")
        picture(path / split / "scanned-invoice-of-april.png", "invoice")
        (path / split / "labels.csv").write_text("file,text\na.png,2040\nscanned-invoice-of-april.png,invoice\n")


def whole(path):
    rows = [(f"{k}.png", f"word{k}", ("train", "val", "test")[k % 3]) for k in range(6)]
    for name, text, _ in rows:
        picture(path / name, text)
    (path / "labels.csv").write_text("file,text,split\n" + "".join(f"{','.join(row)}\n" for row in rows))


layouts = {
    "folder": {"parted": parted, "whole": whole},
    "synth90k": synth90k,
    "iiit5k": iiit5k,
    "svt": svt,
    "icdar03": icdar03,
    "icdar13": icdar13,
    "enctc": enctc,
    "iam-words": iam_words,
    "iam-lines": iam_lines,
}


def page(path, lines=("Invoice 2040", "Total 17.50 EUR", "due in April"), size=22):
    font = ImageFont.truetype(FONT, size)
    own = Image.new("L", (340, 40 + 40 * len(lines)), 240)
    for k, text in enumerate(lines):
        ImageDraw.Draw(own).text((20, 20 + 40 * k), text, 10, font)
    own.save(path)


def prediction(folder):
    page(folder / "page.png")
    picture(folder / "line.png", "Hello world")
    return ["page.png", "line.png"]
