"""Small data sets in the public layouts, written from their published names with PyAV, Pillow and plain text."""

from __future__ import annotations

import json

import av
import numpy as np
from PIL import Image

SIDE = 48
FRAMES = 6


def video(path, seed=0, count=FRAMES, height=SIDE, width=SIDE + 16, rate=25):
    """A few frames of noise in the form that the suffix says."""
    form, codec = {".mp4": ("mp4", "mpeg4"), ".avi": ("avi", "mpeg4"), ".webm": ("webm", "libvpx")}[path.suffix]
    path.parent.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    with av.open(str(path), "w", format=form) as container:
        stream = container.add_stream(codec, rate=rate)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for _ in range(count):
            pixels = random.integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def frames(folder, seed=0, count=3):
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    for number in range(1, count + 1):
        pixels = random.integers(0, 256, (SIDE, SIDE + 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"img_{number:05d}.png")


def kinetics_annotations(path):
    path.mkdir()
    for number, split in enumerate(("train", "val")):
        lines = ["label,youtube_id,time_start,time_end,split,is_cc"]
        for index, label in enumerate(("abseiling", "zumba dancing")):
            name = f"{split[0]}{index}-_bcdefgh"
            lines.append(f"{label},{name},{7 + index},{17 + index},{split},0")
            video(path / split / label / f"{name}_{7 + index:06d}_{17 + index:06d}.mp4", number + index)
        (path / f"{split}.csv").write_text("\n".join(lines))


def kinetics_lists(path):
    path.mkdir()
    for number, split in enumerate(("train", "val")):
        lines = []
        for index in range(2):
            name = f"{split}/{'x' * (20 - 9 * index)}{index}.mp4"  # so that half of a list ends within a line
            lines.append(f"{name} {index}")
            video(path / name, number + index)
        (path / f"{split}.csv").write_text("\n".join(lines))


def kinetics_folders(path):
    for split in ("train", "val"):
        for index, name in enumerate(("abseiling", "zumba dancing")):
            video(path / split / name / f"{'y' * 11}_000001_000011.mp4", index)


def something(path):
    path.mkdir()
    labels = {"Holding something": "0", "Pushing something from left to right": "1"}
    (path / "something-something-v2-labels.json").write_text(json.dumps(labels))
    templates = ["Pushing [something] from left to right", "Holding [something]"]
    for number, split in enumerate(("train", "validation")):
        entries = []
        for index, template in enumerate(templates):
            name = str(100 * number + index)
            entries.append({"id": name, "label": "pushing a cup", "template": template, "placeholders": ["a cup"]})
            video(path / "20bn-something-something-v2" / f"{name}.webm", index)
        (path / f"something-something-v2-{split}.json").write_text(json.dumps(entries))


def ucf101(path):
    lists = path / "ucfTrainTestlist"
    lists.mkdir(parents=True)
    classes = ("ApplyEyeMakeup", "YoYo")
    (lists / "classInd.txt").write_text("".join(f"{n} {name}\n" for n, name in enumerate(classes, 1)).strip())
    for group, split in (("08", "train"), ("01", "test")):
        lines = []
        for number, name in enumerate(classes, 1):
            file = f"{name}/v_{name}_g{group}_c01.avi"
            lines.append(f"{file} {number}" if split == "train" else file)
            video(path / "UCF-101" / file, number)
        (lists / f"{split}list01.txt").write_text("\n".join(lines))


def hmdb51(path):
    lists = path / "testTrainMulti_7030_splits"
    lists.mkdir(parents=True)
    for number, name in enumerate(("brush_hair", "wave")):
        lines = []
        for use in (1, 2):
            file = f"April_09_{name}_u_nm_np1_ba_goo_{use}.avi"
            lines.append(f"{file} {use}")
            video(path / "hmdb51_org" / name / file, number + use)
        (lists / f"{name}_test_split1.txt").write_text("\n".join(lines))


def class_folders(path):
    for split in ("train", "test"):
        for index, name in enumerate(("run", "walk")):
            video(path / split / name / "one.mp4", index)
            frames(path / split / name / "two", index)


layouts = {
    "kinetics": {"annotations": kinetics_annotations, "lists": kinetics_lists, "folders": kinetics_folders},
    "something": something,
    "ucf101": ucf101,
    "hmdb51": hmdb51,
    "folder": class_folders,
}


def prediction(folder):
    video(folder / "a.mp4", 0, 30)
    return ["a.mp4", "--window", "0.5"]
