"""Archives are unpacked atomically and only below their own folder."""

import io
import stat
import tarfile
import zipfile

import pytest

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.data.archives import unpacked
from vergence.data.layouts import find


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    place = tmp_path / "home"
    monkeypatch.setenv("VERGENCE_HOME", str(place))
    return place


def make(path, entries):
    """An archive with entries by name: bytes, or None for a link to the outside."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in entries.items():
                info = zipfile.ZipInfo(name)
                if content is None:
                    info.external_attr = (stat.S_IFLNK | 0o777) << 16
                archive.writestr(info, content if content is not None else "../../outside")
        return path
    with tarfile.open(path, "w:gz") as archive:
        for name, content in entries.items():
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.linkname = tarfile.SYMTYPE, "../../outside"
            else:
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content or b""))
    return path


@pytest.fixture(params=["data.zip", "data.tar.gz"])
def archive(request, tmp_path):
    return lambda **entries: make(tmp_path / request.param, {k.replace("__", "/"): v for k, v in entries.items()})


def test_it_is_unpacked_once_and_a_single_folder_in_it_is_the_data(archive, home):
    path = archive(set__a=b"1", set__sub__b=b"2")
    folder = unpacked(path)
    assert (folder / "a").read_bytes() == b"1"
    assert (folder / "sub" / "b").read_bytes() == b"2"
    made = folder.stat().st_mtime_ns
    assert unpacked(path) == folder
    assert folder.stat().st_mtime_ns == made
    assert not list((home / "unpacked").glob(".partial*"))


def test_a_layout_takes_the_archive_it_is_handed_out_as(archive, tmp_path):
    path = archive(set__a=b"1")
    _, folder = find(f"plain:{path}", {"plain": Layout(lambda p, s: [], "anything")})
    assert (folder / "a").read_bytes() == b"1"


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "set/../../outside", "C:/outside", "..\\outside"])
@pytest.mark.parametrize("kind", ["bad.zip", "bad.tar.gz"])
def test_an_entry_that_leads_outside_is_refused_and_nothing_is_written(name, kind, tmp_path, home):
    path = make(tmp_path / kind, {"first": b"1", name: b"2"})
    with pytest.raises(VergenceError, match=r"would be written outside its folder$"):
        unpacked(path)
    assert list((home / "unpacked").iterdir()) == []
    assert not list(tmp_path.rglob("outside"))


@pytest.mark.parametrize("kind", ["bad.zip", "bad.tar.gz"])
def test_a_link_is_refused(kind, tmp_path, home):
    with pytest.raises(VergenceError, match="'link' is neither a file nor a folder"):
        unpacked(make(tmp_path / kind, {"first": b"1", "link": None}))
    assert list((home / "unpacked").iterdir()) == []


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_an_archive_cut_short_is_one_sentence_and_leaves_nothing(share, archive, home):
    path = archive(a=bytes(range(256)) * 40, b=b"2" * 3000)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(VergenceError, match=f"{path.name} is (not a complete archive|an empty archive)"):
        unpacked(path)
    assert list((home / "unpacked").iterdir()) == []
