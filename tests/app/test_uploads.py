"""What visitors send is looked at by content, bounded, and never leads outside its folder."""

from __future__ import annotations

import io
import os
import re
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vergence.app import uploads
from vergence.app.form import Field
from vergence.app.limits import Limits
from vergence.app.uploads import check, inside, place, sweep
from vergence.contract.inputs import Kind
from vergence.core.errors import VergenceError

LIMITS = Limits(upload_mb=1, files=3, megapixels=1, video_seconds=2, cloud_points=100)


def field(kind, name="given"):
    return Field(name, kind)


def png(path, size=(8, 6), form="PNG"):
    Image.new("RGB", size, "red").save(path, form)
    return path


def zipped(path, entries):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def bytes_of_png(size=(8, 6)):
    made = io.BytesIO()
    Image.new("RGB", size, "blue").save(made, "PNG")
    return made.getvalue()


def refused(kind, paths, folder, match, limits=LIMITS):
    with pytest.raises(VergenceError, match=match):
        check(field(kind), paths, folder, limits)


# Where they lie -------------------------------------------------------------------------------------------------------


def test_a_file_outside_the_upload_folder_is_not_used_however_it_is_reached(tmp_path):
    uploads, secret = tmp_path / "uploads", png(tmp_path / "secret.png")
    uploads.mkdir()
    (uploads / "link.png").symlink_to(secret)
    for path in (secret, uploads / ".." / "secret.png", uploads / "link.png", "/etc/passwd"):
        with pytest.raises(VergenceError, match="only files that were uploaded here"):
            inside(path, uploads)
    for path in (uploads / "gone.png", "\0", "a" * 5000):
        with pytest.raises(VergenceError, match="no longer exists"):
            inside(path, uploads)
    assert inside(png(uploads / "own.png"), uploads) == (uploads / "own.png").resolve()


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(VergenceError, match="only files"):
        inside(tmp_path, tmp_path.parent)


# Pictures -------------------------------------------------------------------------------------------------------------


def test_a_picture_is_known_by_its_content_and_gets_the_ending_it_has(tmp_path):
    path = png(tmp_path / "photo.txt", form="JPEG")
    (found,) = check(field(Kind.IMAGE), [path], tmp_path, LIMITS)
    assert (found.suffix, found.about) == (".jpg", "8 × 6")
    copy = place(field(Kind.IMAGE), [found], tmp_path / "job", LIMITS)
    assert copy == tmp_path / "job" / "given" / "photo.jpg"
    assert copy.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "content",
    [b"hello", b"\x89PNG\r\n\x1a\n", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"<svg xmlns='http://www.w3.org/2000/svg'/>"],
)
def test_what_is_no_picture_is_refused_whatever_its_name(tmp_path, content):
    path = tmp_path / "photo.png"
    path.write_bytes(content)
    refused(Kind.IMAGE, [path], tmp_path, "photo.png is not a readable picture .PNG, ")


def test_a_picture_cut_short_is_refused(tmp_path):
    whole = bytes_of_png((60, 60))
    (tmp_path / "half.png").write_bytes(whole[: len(whole) // 2])
    refused(Kind.IMAGE, [tmp_path / "half.png"], tmp_path, "half.png is not a readable picture")


def test_a_small_file_that_says_it_is_a_huge_picture_is_refused_before_it_is_decoded(tmp_path):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 5000, 5000, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(75_005_000), 9))
    (tmp_path / "bomb.png").write_bytes(bomb)
    assert len(bomb) < 10**5
    refused(
        Kind.IMAGE,
        [tmp_path / "bomb.png"],
        tmp_path,
        "bomb.png has 25,000,000 pixels, more than the limit of 1,000,000$",
    )


def test_several_pictures_in_one_jpeg_file_are_a_picture(tmp_path):
    first, second = (Image.new("RGB", (8, 6), colour) for colour in ("red", "blue"))
    first.save(tmp_path / "phone.jpg", "MPO", save_all=True, append_images=[second])
    (found,) = check(field(Kind.IMAGE), [tmp_path / "phone.jpg"], tmp_path, LIMITS)
    assert (found.suffix, found.about) == (".jpg", "8 × 6")


def test_size_and_count_are_bounded(tmp_path):
    big = tmp_path / "big.png"
    big.write_bytes(bytes(1_000_001))
    refused(Kind.IMAGE, [big], tmp_path, "big.png has 1,000,001 bytes, more than the limit of 1,000,000$")
    (tmp_path / "none.png").touch()
    refused(Kind.IMAGE, [tmp_path / "none.png"], tmp_path, "none.png is empty")
    refused(Kind.IMAGES, [png(tmp_path / f"{n}.png") for n in range(4)], tmp_path, "4 files are more than the 3")
    refused(Kind.IMAGE, [png(tmp_path / f"{n}.png") for n in range(2)], tmp_path, "a picture is expected, not 2 files")


def test_names_of_visitors_become_plain_names(tmp_path):
    names = ["..hid den;$(x).png", "ü.png", "a" * 200 + ".png"]
    found = check(field(Kind.IMAGES), [png(tmp_path / name) for name in names], tmp_path, LIMITS)
    copies = place(field(Kind.IMAGES), found, tmp_path / "job", LIMITS)
    assert [c.name for c in copies] == ["hid-den-x.png", "file.png", f"{'a' * 40}.png"]
    assert {c.parent for c in copies} == {tmp_path / "job" / "given"}


# Videos ---------------------------------------------------------------------------------------------------------------


def video(path, frames=5, fps=10.0):
    from vergence.data.video import write_video

    return write_video(path, [np.full((32, 48, 3), 9 * n % 255, np.uint8) for n in range(frames)], fps)


def test_a_video_is_known_by_its_content(tmp_path):
    made = video(tmp_path / "a.mp4").rename(tmp_path / "film.png")
    (found,) = check(field(Kind.VIDEO), [made], tmp_path, LIMITS)
    assert (found.suffix, found.about) == (".mp4", "48 × 32, 0.5 s")


def test_a_video_that_lasts_too_long_is_refused(tmp_path):
    refused(Kind.VIDEO, [video(tmp_path / "long.mp4", 25)], tmp_path, r"long.mp4 lasts 2 seconds, more than the 2")


def test_a_list_that_names_other_files_is_no_video(tmp_path):
    other = video(tmp_path / "other.mp4")
    for name, text in {
        "a.mp4": f"ffconcat version 1.0\nfile '{other}'\n",
        "b.mp4": f"#EXTM3U\n#EXTINF:1,\n{other}\n",
        "c.mp4": "hello",
    }.items():
        (tmp_path / name).write_text(text)
        refused(Kind.VIDEO, [tmp_path / name], tmp_path, f"{name} is not a video that can be read")


def test_a_damaged_video_is_a_sentence_without_paths(tmp_path):
    (tmp_path / "bad.mp4").write_bytes(b"\0\0\0\x18ftypisom" + bytes(300))
    with pytest.raises(VergenceError, match="bad.mp4 is not a readable video") as error:
        check(field(Kind.VIDEO), [tmp_path / "bad.mp4"], tmp_path, LIMITS)
    assert str(tmp_path) not in str(error.value)


# Clouds and graphs ----------------------------------------------------------------------------------------------------


def test_a_cloud_is_known_by_its_content(tmp_path):
    points = np.zeros((7, 3), np.float32)
    np.save(tmp_path / "a.npy", points)
    np.savez(tmp_path / "b.npz", points=points)
    (tmp_path / "c.ply").write_text(
        "ply\nformat ascii 1.0\nelement vertex 1\n"
        "property float x\nproperty float y\nproperty float z\nend_header\n1 2 3\n"
    )
    (tmp_path / "d.bin").write_bytes(np.zeros((5, 4), "<f4").tobytes())
    for name, (suffix, count) in {
        "a.npy": (".npy", 7), "b.npz": (".npz", 7), "c.ply": (".ply", 1), "d.bin": (".bin", 5)
    }.items():  # fmt: skip
        (found,) = check(field(Kind.CLOUD), [tmp_path / name], tmp_path, LIMITS)
        assert (found.suffix, found.about) == (suffix, f"{count} points")
    (tmp_path / "a.npy").rename(tmp_path / "cloud.dat")
    (found,) = check(field(Kind.CLOUD), [tmp_path / "cloud.dat"], tmp_path, LIMITS)
    assert found.suffix == ".npy"
    assert not list(tmp_path.glob(".*"))  # the look at it left nothing


def test_clouds_that_are_none_or_too_large_or_would_run_code_are_refused(tmp_path):
    (tmp_path / "a.npy").write_text("hello")
    refused(Kind.CLOUD, [tmp_path / "a.npy"], tmp_path, "a.npy is not a point cloud that can be read: expected .npy")
    np.save(tmp_path / "b.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    refused(Kind.CLOUD, [tmp_path / "b.npy"], tmp_path, "b.npy")
    np.save(tmp_path / "c.npy", np.zeros((101, 3)))
    refused(Kind.CLOUD, [tmp_path / "c.npy"], tmp_path, "c.npy has 101 points, more than the limit of 100$")
    np.save(tmp_path / "d.npy", np.zeros((1, 3)))
    lie = (tmp_path / "d.npy").read_bytes().replace(b"(1, 3), }          ", b"(99999999, 3), }   ")
    (tmp_path / "d.npy").write_bytes(lie)
    refused(
        Kind.CLOUD, [tmp_path / "d.npy"], tmp_path, "d.npy is not a complete .npy file of numbers: its header promises"
    )


def test_a_graph_is_known_by_its_content(tmp_path):
    (tmp_path / "a.txt").write_text("0 0\n1.5 -2e1\n\n0 1\n")
    (tmp_path / "b.txt").write_text('{"type": "FeatureCollection", "features": []}')
    (tmp_path / "c.txt").write_text('<?xml version="1.0"?>\n<graphml><graph><node id="a"/></graph></graphml>')
    png(tmp_path / "d.txt")
    endings = [check(field(Kind.GRAPH), [tmp_path / f"{n}.txt"], tmp_path, LIMITS)[0].suffix for n in "abcd"]
    assert endings == [".graph", ".geojson", ".graphml", ".png"]


@pytest.mark.parametrize(
    "content", [b"hello there\n", b"[1, 2]", b"{", b"<html></html>", b"\x80\x04\x95pickle", b"{" * 100_000,
     b'{"type": "FeatureCollection", "features": 7}']
)  # fmt: skip
def test_what_is_no_graph_is_refused(tmp_path, content):
    (tmp_path / "a.graph").write_bytes(content)
    refused(Kind.GRAPH, [tmp_path / "a.graph"], tmp_path, "a.graph is not a graph that can be read")


def test_a_graph_that_declares_entities_is_refused(tmp_path):
    text = '<?xml version="1.0"?><!DOCTYPE g [<!ENTITY x SYSTEM "file:///etc/passwd">]><graphml>&x;</graphml>'
    (tmp_path / "a.graphml").write_text(text)
    refused(Kind.GRAPH, [tmp_path / "a.graphml"], tmp_path, "contains declarations that a graph does not need")


# Folders --------------------------------------------------------------------------------------------------------------


def test_a_zip_becomes_a_folder_of_its_pictures(tmp_path):
    entries = {"all/x/1.png": bytes_of_png(), "all/y z/2.gif": bytes_of_png(), "all/readme.txt": b"hello"}
    found = check(field(Kind.FOLDER), [zipped(tmp_path / "a.zip", entries)], tmp_path, LIMITS)
    folder = place(field(Kind.FOLDER), found, tmp_path / "job", LIMITS)
    assert sorted(str(p.relative_to(folder)) for p in folder.rglob("*.*")) == ["x/1.png", "y-z/2.png"]


def unpacked(tmp_path, *zips):
    found = check(field(Kind.FOLDER), [zipped(tmp_path / name, entries) for name, entries in zips], tmp_path, LIMITS)
    folder = place(field(Kind.FOLDER), found, tmp_path / "job", LIMITS)
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*.*"))


def test_a_folder_that_names_its_pictures_stays_though_all_lie_in_it(tmp_path):
    entries = {f"people/anna/{n}.png": bytes_of_png() for n in (1, 2)}
    assert unpacked(tmp_path, ("a.zip", entries)) == ["anna/1.png", "anna/2.png"]


@pytest.mark.parametrize("beside", ["readme.txt", "__MACOSX/people/anna/._1.png"])
def test_what_is_no_picture_does_not_say_where_folders_begin(tmp_path, beside):
    entries = {"people/anna/1.png": bytes_of_png(), "people/bert/1.png": bytes_of_png(), beside: b"hello"}
    assert unpacked(tmp_path, ("a.zip", entries)) == ["anna/1.png", "bert/1.png"]


def test_each_of_several_zips_is_a_folder_of_its_own(tmp_path):
    first, second = {"1.png": bytes_of_png()}, {"frames/1.png": bytes_of_png()}
    assert unpacked(tmp_path, ("anna.zip", first), ("bert k.zip", second)) == ["anna/1.png", "bert-k/1.png"]


def test_files_of_one_name_all_stay(tmp_path):
    entries = {"x/a.png": bytes_of_png(), "x/a.jpg": bytes_of_png(), "x/a-2.png": bytes_of_png()}
    found = check(field(Kind.FOLDER), [zipped(tmp_path / "a.zip", entries)], tmp_path, LIMITS)
    folder = place(field(Kind.FOLDER), found, tmp_path / "job", LIMITS)
    assert sorted(p.name for p in folder.iterdir()) == ["a-2-2.png", "a-2.png", "a.png"]


def test_single_pictures_become_a_folder_too(tmp_path):
    found = check(field(Kind.FOLDER), [png(tmp_path / "a.png"), png(tmp_path / "b.png")], tmp_path, LIMITS)
    folder = place(field(Kind.FOLDER), found, tmp_path / "job", LIMITS)
    assert sorted(p.name for p in folder.iterdir()) == ["a.png", "b.png"]


@pytest.mark.parametrize("name", ["../x.png", "/x.png", "a/../../x.png", "..\\x.png", "C:/x.png", "~/x.png"])
def test_a_zip_that_leads_outside_is_refused(tmp_path, name):
    path = zipped(tmp_path / "a.zip", {name: bytes_of_png()})
    refused(Kind.FOLDER, [path], tmp_path, "a.zip is refused: its entry")


def test_a_zip_with_a_link_is_refused(tmp_path):
    entry = zipfile.ZipInfo("x.png")
    entry.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(entry, "/etc/passwd")
    refused(
        Kind.FOLDER,
        [tmp_path / "a.zip"],
        tmp_path,
        "a.zip is refused: its entry 'x.png' is neither a file nor a folder",
    )


def test_a_zip_with_a_password_or_a_nameless_entry_is_refused(tmp_path):
    path = zipped(tmp_path / "a.zip", {"1.png": bytes_of_png()})
    content = bytearray(path.read_bytes())
    content[6] |= 1  # the flag of its header, then that of its listing
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    refused(Kind.FOLDER, [path], tmp_path, "a.zip is locked with a password")
    path = zipped(tmp_path / "b.zip", {"NAME": b"x"})
    path.write_bytes(path.read_bytes().replace(b"NAME", b"\0AME"))
    refused(Kind.FOLDER, [path], tmp_path, "b.zip is refused: it has an entry named ''")


def test_a_zip_packed_in_a_way_that_is_not_known_is_a_sentence(tmp_path):
    path = zipped(tmp_path / "a.zip", {"1.png": bytes_of_png()})
    content = path.read_bytes()
    listed = content.index(b"PK\x01\x02")
    odd = struct.pack("<H", 77)
    path.write_bytes(content[:8] + odd + content[10 : listed + 10] + odd + content[listed + 12 :])
    found = check(field(Kind.FOLDER), [path], tmp_path, LIMITS)
    with pytest.raises(VergenceError, match="a.zip is not a complete zip: .* not supported"):
        place(field(Kind.FOLDER), found, tmp_path / "job", LIMITS)


def test_only_the_reading_layer_decodes():
    """Uploads reach no decoder but through ``vergence.reading``."""
    for path in Path(uploads.__file__).parent.glob("*.py"):
        direct = r"Image\.open|ZipFile\((?!target, \"w\")|np\.load|json\.loads?\(|csv\.reader|import (json|csv|pickle)"
        assert not re.search(direct, path.read_text()), path


def test_a_zip_that_grows_too_much_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.png", bytes(1_100_000))
    assert (tmp_path / "a.zip").stat().st_size < 5000
    refused(
        Kind.FOLDER,
        [tmp_path / "a.zip"],
        tmp_path,
        "a.zip has 1,100,000 bytes when unpacked, more than the limit of 1,000,000$",
    )


def test_a_zip_that_lies_about_its_size_is_found_out(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.png", bytes(1_100_000))
    content = (tmp_path / "a.zip").read_bytes().replace(struct.pack("<I", 1_100_000), struct.pack("<I", 100))
    (tmp_path / "a.zip").write_bytes(content)
    found = check(field(Kind.FOLDER), [tmp_path / "a.zip"], tmp_path, LIMITS)
    with pytest.raises(VergenceError, match="a.zip"):
        place(field(Kind.FOLDER), found, tmp_path / "job", LIMITS)


def test_a_zip_of_a_kind_to_come_is_told_from_a_damaged_one(tmp_path):
    path = zipped(tmp_path / "a.zip", {"1.png": bytes_of_png()})
    content = path.read_bytes()
    listed = content.index(b"PK\x01\x02")  # then the version that made it, and the one that is needed
    path.write_bytes(content[: listed + 6] + struct.pack("<H", 99) + content[listed + 8 :])
    refused(Kind.FOLDER, [path], tmp_path, "a.zip is not a complete zip: zip file version 9.9")
    path.write_bytes(content[:listed] + b"XXXX" + content[listed + 4 :])
    refused(Kind.FOLDER, [path], tmp_path, "a.zip is not a complete zip: Bad magic number")


def test_a_zip_with_too_many_files_or_none_is_refused(tmp_path):
    refused(Kind.FOLDER, [zipped(tmp_path / "a.zip", {f"{n}": b"x" for n in range(4)})], tmp_path, "holds 4 files")
    refused(Kind.FOLDER, [zipped(tmp_path / "b.zip", {})], tmp_path, "holds no file")
    found = check(field(Kind.FOLDER), [zipped(tmp_path / "c.zip", {"a.txt": b"x"})], tmp_path, LIMITS)
    with pytest.raises(VergenceError, match="no picture in c.zip"):
        place(field(Kind.FOLDER), found, tmp_path / "job", LIMITS)


def test_what_is_old_is_removed_and_what_is_new_stays(tmp_path):
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.png").touch()
    for path in (tmp_path / "old", tmp_path / "old" / "a.png"):
        os.utime(path, (0, 0))
    sweep(tmp_path, minutes=30)
    assert [p.name for p in tmp_path.iterdir()] == ["new"]
