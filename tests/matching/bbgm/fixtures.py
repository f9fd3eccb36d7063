"""Small data sets in the public layouts, written from their published names with NumPy, SciPy and Pillow alone."""

from __future__ import annotations

import json

import numpy as np
from PIL import Image
from scipy.io import savemat

VOC = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip


def picture(path, seed, size=(40, 30)):
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(0, 255, (size[1] // 5, size[0] // 5, 3), dtype=np.uint8)
    Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC).save(path)


def _voc_object(truncated=0):
    return (
        f"<object><name>cat</name><truncated>{truncated}</truncated><occluded>0</occluded><difficult>0</difficult>"
        "<bndbox><xmin>3</xmin><ymin>2</ymin><xmax>35</xmax><ymax>28</ymax></bndbox></object>"
    )


def voc(path):
    lists = {"train": [[] for _ in VOC], "test": [[] for _ in VOC]}
    for number in range(6):
        name = f"2008_00000{number}"
        picture(path / "VOC2011" / "JPEGImages" / f"{name}.jpg", number)
        marks = path / "VOC2011" / "Annotations" / f"{name}.xml"
        marks.parent.mkdir(parents=True, exist_ok=True)
        size = "<size><width>40</width><height>30</height><depth>3</depth></size>"
        marks.write_text(f"<annotation>{size}{_voc_object(truncated=1)}{_voc_object()}</annotation>")
        for thing in (1, 2):  # the first is truncated
            own = path / "annotations" / "cat" / f"{name}_{thing}.xml"
            own.parent.mkdir(parents=True, exist_ok=True)
            points = {"Nose": (12 + number, 8), "L_Eye": (20, 6 + number), "TailBase": (30, 20), "R_F_Paw": (8, 25)}
            rows = "".join(f'<keypoint name="{k}" visible="1" x="{x}" y="{y}" z="0"/>' for k, (x, y) in points.items())
            outside = '<keypoint name="Throat" visible="1" x="39" y="29" z="0"/>'
            bounds = '<visible_bounds height="26" width="32" xmin="3" ymin="2"/>'
            own.write_text(
                f"<annotation><image>{name}</image><voc_id>{thing}</voc_id><category>cat</category>{bounds}"
                f"<keypoints>{rows}{outside}</keypoints></annotation>"
            )
            lists["train" if number < 3 else "test"][7].append(f"cat/{name}_{thing}.xml")
    arrays = {}
    for split, own in lists.items():
        arrays[split] = np.empty(len(VOC), dtype=object)
        arrays[split][:] = own
    np.savez(path / "voc2011_pairs.npz", **arrays)


def spair(path):
    root = path / "SPair-71k"
    for number in range(2):
        picture(root / "JPEGImages" / "bird" / f"2009_00000{number}.jpg", number)
    for split in ("trn", "test"):
        names = [f"00000{n}-2009_00000{n}-2009_00000{n + 1}:bird" for n in range(2)]
        (root / "Layout" / "large").mkdir(parents=True, exist_ok=True)
        (root / "Layout" / "large" / f"{split}.txt").write_text("\n".join(names[:1]) + "\n")
        (root / "PairAnnotation" / split).mkdir(parents=True)
        for number, name in enumerate(names[:1]):
            content = {
                "pair_id": number, "category": "bird", "viewpoint_variation": 1, "kps_ids": ["0", "3", "4", "7"],
                "src_imname": f"2009_00000{number}.jpg", "trg_imname": f"2009_00000{number + 1}.jpg",
                "src_imsize": [40, 30, 3], "trg_imsize": [40, 30, 3],
                "src_kps": [[5, 6], [20, 9], [33, 15], [10, 22]], "trg_kps": [[8, 5], [22, 8], [30, 18], [12, 20]],
            }  # fmt: skip
            (root / "PairAnnotation" / split / f"{name}.json").write_text(json.dumps(content))


def willow(path):
    for kind in ("Car", "Duck"):
        for number in range(22):
            file = path / "WILLOW-ObjectClass" / kind / f"{kind}_{number:03d}.png"
            picture(file, number, (20, 20))
            points = np.random.default_rng(number).uniform(1, 19, (2, 10))
            savemat(file.with_suffix(".mat"), {"pts_coord": points})


def folder(path):
    for split in ("train", "test"):
        for number in range(3):
            file = path / split / "cup" / f"cup{number}.png"
            picture(file, number)
            points = {"handle": [8 + number, 12], "rim": [20, 5], "foot": [18, 26], "other rim": [30, 6]}
            if number == 1:
                file.with_suffix(".json").write_text(json.dumps(points))
            else:
                rows = [f"{name},{x},{y}" for name, (x, y) in points.items()]
                file.with_suffix(".csv").write_text("name,x,y\n" + "\n".join(rows) + '\n"spout",25,9')


layouts = {"voc": voc, "spair": spair, "willow": willow, "folder": folder}


def prediction(folder):
    for number, name in enumerate(("one.png", "two.png")):
        picture(folder / name, number, (60, 50))
    (folder / "one.csv").write_text("name,x,y\nnose,10,12\ntail,50,20\npaw,30,45\near,22,8\n")
    (folder / "two.json").write_text(json.dumps([[12, 10], [48, 22], [28, 44]]))
    return ["one.png", "two.png", "--points-a", "one.csv", "--points-b", "two.json"]
