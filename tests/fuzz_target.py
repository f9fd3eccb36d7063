"""What the coverage-guided fuzzer runs, in a process of its own: ``python fuzz_target.py TARGET CORPUS [OPTIONS]``."""

import json
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import atheris
import torch

with atheris.instrument_imports(include=["vergence"]):
    import vergence.contract.config
    import vergence.reading.weights
    import vergence.runs.folder
    import vergence.studies.ledger
    from vergence.cli.completion import complete
    from vergence.core.errors import VergenceError
    from vergence.data.clouds import read_cloud
    from vergence.data.images import read_image
    from vergence.data.meshes import read_surface
    from vergence.data.video import open_video
    from vergence.engine.weights import identify, load_model
    from vergence.maps.data import read_map
    from vergence.reading.archives import unpack
    from vergence.reading.arrays import read_gzip, read_npy, read_npz
    from vergence.reading.budget import budget
    from vergence.reading.matlab import read_mat
    from vergence.reading.pickles import read_pickle
    from vergence.reading.tables import read_json, read_rows
    from vergence.search.index import Index


def on_file(name, *readers):
    """Each reader gets the input as a file."""
    path = Path(name)  # in the working folder, which the test gives and removes

    def run(content):
        path.write_bytes(content)
        for read in readers:
            with suppress(VergenceError):
                read(path)

    return run


read_pickle_file = on_file("p", read_pickle)


def line(content):
    words = content.decode("utf-8", "replace").split("\n")
    with suppress(VergenceError):
        complete(words or [""])


OPCODES = [
    b"(", b".", b"0", b"1", b"2", b"N", b"]", b"}", b")", b"a", b"e", b"s", b"u", b"t", b"l", b"d", b"b", b"R", b"o",
    b"\x81", b"\x85", b"\x86", b"\x87", b"\x88", b"\x89", b"\x8f", b"\x90", b"\x91", b"\x94", b"K\x00", b"K\x07",
    b"J\xff\xff\xff\xff", b"M\xff\xff", b"\x8a\x09" + b"\x7f" * 9, b"q\x00", b"h\x00", b"q\x01", b"h\x01", b"I01\n",
    b"U\x02f4", b"U\x01<", b"U\x02O8", b"X\x02\x00\x00\x00u1", b"C\x04\x00\x01\x02\x03", b"S'i8'\n", b"cnumpy\ndtype\n",
    b"cnumpy\nndarray\n", b"cnumpy.core.multiarray\n_reconstruct\n", b"cnumpy._core.numeric\n_frombuffer\n",
    b"c_codecs\nencode\n", b"X\x06\x00\x00\x00latin1", b"cos\nsystem\n", b"c__builtin__\neval\n",
]  # fmt: skip
"""Parts of pickles: what is fuzzed is their order, so that the reader's machine gets far."""


def opcodes(content):
    """Each byte is an instruction of the pickle machine."""
    read_pickle_file(b"\x80\x02" + b"".join(OPCODES[byte % len(OPCODES)] for byte in content) + b".")


def unpacked(path):
    with tempfile.TemporaryDirectory(dir=".") as folder, budget(unpacked_bytes=10**7):
        unpack(path, Path(folder) / "content")


def surface(path):
    read_surface(path, 10, torch.Generator())


def frames(path):
    for _ in zip(open_video(path), range(3), strict=False):
        pass


def config(path):
    order = vergence.runs.order.Order.read(path)
    assert vergence.contract.config.from_json(
        type(order.config), json.loads(json.dumps(vergence.contract.config.to_json(order.config)))
    )


TARGETS = {
    "config": on_file("config.json", config),
    "tensors": on_file("w.safetensors", vergence.reading.weights.load_tensors, identify, load_model),
    "archive": on_file("a.pt", vergence.reading.weights.load_archive),
    "pickle": on_file("p", read_pickle),
    "opcodes": opcodes,
    "image": on_file("a.png", read_image, lambda path: read_image(path, longest=64)),
    "npy": on_file("a.npy", read_npy, read_cloud),
    "npz": on_file("a.npz", read_npz, read_cloud),
    "ply": on_file("a.ply", read_cloud, surface),
    "off": on_file("a.off", surface),
    "obj": on_file("a.obj", surface),
    "xyz": on_file("a.xyz", surface),
    "pcd": on_file("a.pcd", read_cloud),
    "mat": on_file("a.mat", lambda path: read_mat(path, ("X", "Q"))),
    "gzip": on_file("a.gz", read_gzip),
    "zip": on_file("a.zip", unpacked),
    "tar": on_file("a.tar.gz", unpacked),
    "json": on_file("a.json", read_json),
    "rows": on_file("a.csv", read_rows),
    "graph": on_file("a.graph", read_map),
    "geojson": on_file("a.geojson", read_map),
    "graphml": on_file("a.graphml", read_map),
    "video": on_file("a.mp4", frames),
    "index": on_file("i.safetensors", Index.load),
    "metrics": on_file("metrics.jsonl", lambda path: vergence.runs.folder.Run(path.parent).records()),
    "claims": on_file("claims.json", lambda path: vergence.studies.ledger._items(path)),
    "line": line,
}


if __name__ == "__main__":
    atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[sys.argv[1]])
    atheris.Fuzz()
