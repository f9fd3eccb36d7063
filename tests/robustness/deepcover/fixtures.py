"""Small data sets in the public layouts, written from their published names with NumPy and Pillow alone."""

from __future__ import annotations

import numpy as np
from PIL import Image

from robustness.patchwise.fixtures import class_folders

XML = """<annotation>
\t<folder>val</folder>
\t<filename>{name}</filename>
\t<source>
\t\t<database>ILSVRC_2012</database>
\t</source>
\t<size>
\t\t<width>{width}</width>
\t\t<height>{height}</height>
\t\t<depth>3</depth>
\t</size>
\t<segmented>0</segmented>
\t<object>
\t\t<name>n01751748</name>
\t\t<pose>Unspecified</pose>
\t\t<truncated>0</truncated>
\t\t<difficult>0</difficult>
\t\t<bndbox>
\t\t\t<xmin>{left}</xmin>
\t\t\t<ymin>{top}</ymin>
\t\t\t<xmax>{right}</xmax>
\t\t\t<ymax>{bottom}</ymax>
\t\t</bndbox>
\t</object>
</annotation>
"""


def _picture(seed, shape=(32, 40, 3)):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def ilsvrc(path):
    pictures, annotations = (path / "ILSVRC" / part / "CLS-LOC" / "val" for part in ("Data", "Annotations"))
    for number in (1, 2):
        _boxed(pictures, annotations, f"ILSVRC2012_val_{number:08d}", number)


def beside(path):
    for number in (1, 2):
        _boxed(path, path, f"test-{number}", number)


def _boxed(pictures, annotations, name, seed):
    for folder in (pictures, annotations):
        folder.mkdir(parents=True, exist_ok=True)
    _picture(seed).save(pictures / f"{name}.JPEG", format="jpeg")
    text = XML.format(name=name, width=40, height=32, left=4, top=8, right=30, bottom=28)
    (annotations / f"{name}.xml").write_text(text)


def roaming(path):
    path.mkdir(parents=True)
    for number in (12, 345):
        _picture(number, (224, 224, 3)).save(path / f"{number}.JPEG", format="jpeg")
    lines = "12.JPEG 20 30 100 110\n345.JPEG 0 0 80 80\n"
    (path / "roaming_panda_groundtruth_vgg16_mobilenet.csv").write_text(lines)


layouts = {"ilsvrc": {"official": ilsvrc, "beside": beside}, "roaming": roaming, "folder": class_folders}


def prediction(folder):
    _picture(0, (28, 24, 3)).save(folder / "a.png")
    _picture(1, (20, 20)).save(folder / "grey.png")
    return ["a.png", "grey.png", "--method", "rise,deepcover,gradcam", "--queries", "12", "--curves", "4"]
