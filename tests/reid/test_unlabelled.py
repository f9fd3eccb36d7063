"""Folders without identities, and folders that turn out to have some."""

import pytest

from reid.picture_layouts import one_plain_folder, picture, three_plain_folders
from vergence.contract.data import told_by
from vergence.core.errors import VergenceError
from vergence.reid.unlabelled import UNLABELLED, has_identities


def crops(folder, count=5):
    for seed in range(count):
        picture(folder / "deep" / f"IMG {seed}.png", seed)


def test_every_picture_below_a_folder_is_read_whatever_its_name(tmp_path):
    crops(tmp_path)
    picture(tmp_path / "anna_1_x.jpg")
    for split in ("train", "test"):
        data = UNLABELLED["unlabelled"].read(tmp_path, split)
        assert len(data) == 6
        assert data.queries == 0
        assert not has_identities(data)


def test_a_plain_folder_has_identities_where_names_tell_them(tmp_path):
    one_plain_folder(tmp_path / "named")
    three_plain_folders(tmp_path / "three")
    for name in ("named", "three"):
        assert has_identities(UNLABELLED["folder"].read(tmp_path / name, "train"))


def test_a_plain_folder_with_other_names_is_read_without_and_says_so(tmp_path):
    crops(tmp_path)
    picture(tmp_path / "IMG 9.png")
    data = UNLABELLED["folder"].read(tmp_path, "train")
    assert not has_identities(data)
    assert "is read without identities" in told_by(data, "note")


def test_too_few_pictures_and_no_folder_are_refused(tmp_path):
    crops(tmp_path, 3)
    with pytest.raises(VergenceError, match="holds 3 pictures: expected at least 4"):
        UNLABELLED["unlabelled"].read(tmp_path, "train")
    with pytest.raises(VergenceError, match="nowhere is not a folder"):
        UNLABELLED["unlabelled"].read(tmp_path / "nowhere", "train")
