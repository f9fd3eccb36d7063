"""Small valid files for the coverage-guided fuzzer to begin with."""

import gzip
import io
import json
import tarfile
import zipfile

import numpy as np
import torch
from PIL import Image

POINTS = np.arange(12, dtype=np.float32).reshape(4, 3)
XYZ = b"property float x\nproperty float y\nproperty float z\n"
PLY = b"ply\nformat ascii 1.0\nelement vertex 1\n" + XYZ + b"end_header\n1 2 3\n"
PCD = b"FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nPOINTS 4\nDATA binary\n" + POINTS.tobytes()
GRAPHML = (
    '<graphml><key id="x" for="node" attr.name="x" attr.type="double"/><key id="y" for="node" attr.name="y" '
    'attr.type="double"/><graph><node id="a"><data key="x">0</data><data key="y">0</data></node><node id="b">'
    '<data key="x">9</data><data key="y">9</data></node><edge source="a" target="b"/></graph></graphml>'
)


def _image(path):
    Image.new("RGB", (9, 7), (9, 99, 200)).save(path, path.suffix[1:].replace("jpg", "jpeg"))


def _mat(path):
    from scipy.io import savemat

    savemat(path, {"X": POINTS, "Q": POINTS}, do_compression=True)


def _zip(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/b.txt", "hello " * 20)


def _tar(path):
    with tarfile.open(path, "w:gz") as archive:
        entry = tarfile.TarInfo("a/b.txt")
        entry.size = 5
        archive.addfile(entry, io.BytesIO(b"hello"))


def _video(path):
    from vergence.data.video import write_video

    write_video(path, (np.full((32, 32, 3), 40 * n, np.uint8) for n in range(4)), fps=10)


def _index(path):
    from vergence.search.index import Index

    Index(torch.from_numpy(POINTS), ("a", "b", "c", "d"), "x", "hnsw").save(path)


WRITERS = {
    "opcodes": {"a": lambda p: p.write_bytes(bytes(range(50)))},
    "image": {"a.png": _image, "a.jpg": _image, "a.bmp": _image, "a.webp": _image, "a.tiff": _image, "a.gif": _image},
    "npy": {"a.npy": lambda p: np.save(p, POINTS)},
    "npz": {"a.npz": lambda p: np.savez_compressed(p, points=POINTS)},
    "ply": {"a.ply": lambda p: p.write_bytes(PLY)},
    "off": {"a.off": lambda p: p.write_text("OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n")},
    "obj": {"a.obj": lambda p: p.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")},
    "xyz": {"a.xyz": lambda p: p.write_text("1 2 3\n4 5 6\n")},
    "pcd": {"a.pcd": lambda p: p.write_bytes(PCD)},
    "mat": {"a.mat": _mat},
    "gzip": {"a.gz": lambda p: p.write_bytes(gzip.compress(b"hello" * 20))},
    "zip": {"a.zip": _zip},
    "tar": {"a.tar.gz": _tar},
    "json": {"a.json": lambda p: p.write_text(json.dumps({"a": [1, 2.5, None, "x"]}))},
    "rows": {"a.csv": lambda p: p.write_text('a,b\n1,"x y"\n')},
    "graph": {"a.graph": lambda p: p.write_text("0 0\n9 9\n\n0 1\n1 0\n")},
    "geojson": {"a.geojson": lambda p: p.write_text('{"type": "LineString", "coordinates": [[0, 0], [9, 9]]}')},
    "graphml": {"a.graphml": lambda p: p.write_text(GRAPHML)},
    "video": {"a.mp4": _video},
    "index": {"i.safetensors": _index},
}


def write(target, folder):
    """The seeds of a target, written into a folder."""
    for name, writer in WRITERS.get(target, {}).items():
        writer(folder / name)
        yield folder / name
