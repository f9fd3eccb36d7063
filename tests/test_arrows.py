"""Arrows point one way: every layer knows only those below it, and no system knows another."""

import ast
from functools import cache
from pathlib import Path

import pytest

import vergence

ROOT = Path(vergence.__file__).parent
ROOMS = {p.parent.parent.name for p in ROOT.glob("*/*/system.py")}
BELOW = {
    "_version": set(),
    "core": set(),
    "reading": {"core"},
    "ops": set(),
    "metrics": {"core", "ops"},
    "nn": {"core", "ops"},
    "search": {"core", "reading", "ops", "metrics"},
    "reference": {"core", "ops"},
    "contract": {"core", "reading"},
    "data": {"core", "reading", "contract", "ops", "metrics"},
    "drawing": {"core", "contract", "data"},
    "rendering": {"core", "data"},
    "room": {
        "core",
        "reading",
        "contract",
        "ops",
        "metrics",
        "nn",
        "search",
        "reference",
        "data",
        "drawing",
        "rendering",
        "room",
    },
    "catalogue": {"core", "reading", "contract"},
    "runs": {"_version", "core", "reading", "contract", "catalogue"},
    "engine": {"_version", "core", "reading", "contract", "catalogue", "runs"},
    "studies": {"_version", "core", "reading", "contract", "catalogue", "runs", "engine"},
    "report": {"_version", "core", "reading", "contract", "catalogue", "runs", "engine", "studies", "drawing"},
    "tools": {"_version", "core", "reading", "contract", "catalogue", "runs", "engine", "data", "drawing"},
}
BELOW["api"] = {*BELOW["studies"], "studies", "report", "tools", "nn"}
BELOW["app"] = {*BELOW["api"], "api", "data"}
BELOW["cli"] = {*BELOW["app"], "app"}
"""What each layer may import besides itself; rooms are one layer, whose systems are apart."""


def modules():
    return sorted(p for p in ROOT.rglob("*.py") if p.name != "__main__.py")


@cache
def nodes(path):
    """All of a file's syntax, parsed once."""
    return list(ast.walk(ast.parse(path.read_text())))


def imported(path):
    """The Vergence modules a file names in imports, lazy ones too (not those for type checkers)."""
    found = set()
    skipped = {
        id(node)
        for block in nodes(path)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test)
        for node in ast.walk(block)
    }
    for node in nodes(path):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {tuple(name.split(".")[1:]) for name in found if name.startswith("vergence.")}


def layer(module):
    return "room" if module[0] in ROOMS else module[0]


def may_import(importer, imported):
    """Whether the arrow from one module (as parts below vergence) to another is allowed."""
    own, other = layer(importer), layer(imported)
    if own == "room" and other == "room":
        to_system = len(imported) > 2 and (ROOT / imported[0] / imported[1] / "system.py").exists()
        return not to_system or (len(importer) > 2 and imported[:2] == importer[:2])
    return own == other or other in BELOW[own]


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_follow_the_arrows(path):
    importer = path.relative_to(ROOT).with_suffix("").parts
    bad = [".".join(name) for name in imported(path) if importer != ("__init__",) and not may_import(importer, name)]
    assert bad == []


@pytest.mark.parametrize(
    ("importer", "target", "allowed"),
    [
        (("ops", "affinity"), ("core", "errors"), False),
        (("engine", "fit"), ("recognition", "snl", "system"), False),
        (("engine", "fit"), ("cli", "main"), False),
        (("contract", "system"), ("engine", "fit"), False),
        (("recognition", "data"), ("recognition", "snl", "model"), False),
        (("recognition", "snl", "system"), ("points", "flot", "model"), False),
        (("report", "build"), ("cli", "show"), False),
        (("studies", "results"), ("report", "build"), False),
        (("app", "demo"), ("cli", "use"), False),
        (("recognition", "snl", "system"), ("recognition", "snl", "model"), True),
        (("recognition", "snl", "system"), ("reid", "data"), True),
        (("cli", "gallery"), ("app", "server"), True),
    ],
)
def test_the_check_itself_can_fail(importer, target, allowed):
    assert may_import(importer, target) is allowed


DECODERS = {
    "PIL.Image.open", "Image.open", "np.load", "np.fromfile", "np.loadtxt", "np.genfromtxt", "torch.load", "json.load",
    "json.loads", "pickle.load", "pickle.loads", "pickle.Unpickler", "zipfile.ZipFile", "tarfile.open", "gzip.open",
    "gzip.decompress", "gzip.GzipFile", "csv.reader", "csv.DictReader", "av.open", "loadmat", "load_file", "safe_open",
    "nx.read_graphml", "ElementTree.parse", "ElementTree.fromstring", "faiss.read_index", "deserialize_index",
}  # fmt: skip
"""Calls that decode bytes, which only the reading layer makes."""
OWN_BYTES = {
    "core/progress.py": {"json.loads"},  # lines of our own processes
    "engine/memory.py": {"json.loads"},
    "tools/doctor.py": {"json.loads"},
    "tools/exporting.py": {"json.loads"},  # metadata just written
    "data/video.py": {"av.open"},  # writes
    "app/server.py": {"zipfile.ZipFile"},  # writes
    "rendering/documents/paper.py": {"Image.open"},  # what it has just compressed
    "documents/tables.py": {"Image.open"},  # likewise
}


def decoders(syntax):
    """The decoding calls of a file, as they are written; a bare name counts as the end of a dotted one."""
    for node in syntax:
        if isinstance(node, ast.Call):
            written = ast.unparse(node.func)
            yield from (call for call in DECODERS if written == call or written.endswith(f".{call}"))


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_only_the_reading_layer_decodes(path):
    place = path.relative_to(ROOT).as_posix()
    if not place.startswith("reading/"):
        assert set(decoders(nodes(path))) - OWN_BYTES.get(place, set()) == set()


def test_the_check_for_decoders_can_fail():
    assert set(decoders(ast.walk(ast.parse("x = scipy.io.loadmat(path)")))) == {"loadmat"}
    assert set(decoders(ast.walk(ast.parse("import numpy as np\nnp.load(path)")))) == {"np.load"}
    assert set(decoders(ast.walk(ast.parse("catalogue.load(name)")))) == set()


def test_layers_have_an_order_and_every_module_is_in_one():
    order = list(BELOW)
    assert all(order.index(below) <= order.index(own) for own, some in BELOW.items() for below in some)
    assert {layer(p.relative_to(ROOT).with_suffix("").parts) for p in modules()} <= {*BELOW, "__init__"}
