"""``vergence data check``: a whole data set is said to be whole, and everything wrong in another is named."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from recognition.snl.fixtures import cifar10_binary, cifar10_python, class_folders
from vergence import catalogue
from vergence.cli.main import main
from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.recognition.data import read_class_folders
from vergence.tools import datacheck


def checked(capsys, *args):
    code = main(["data", "check", *map(str, args), "--json", "--quiet"])
    return code, json.loads(capsys.readouterr().out)


def test_a_whole_data_set_is_counted(here, capsys):
    cifar10_python(here / "data")
    code, found = checked(capsys, "cifar10:data")
    assert code == 0
    assert found["whole"]
    (reader,) = found["readers"]
    assert "snl" in reader["systems"]
    assert reader["rooms"] == ["recognition", "robustness"]
    train, val, test = reader["splits"]
    assert (train["samples"], val["samples"], test["samples"]) == (20, 4, 4)
    assert train["classes"] == 10
    assert train["per_class"] == [0, 5]
    assert train["parts"] == {"0": "uint8 (3, 32, 32)", "1": "integers from 0 to 9"}


def test_sizes_that_differ_are_a_range(here, capsys):
    class_folders(here / "data")
    _, found = checked(capsys, "data")
    train, val, test = found["readers"][0]["splits"]
    assert train["parts"]["0"] == "uint8 (3, 33 to 40, 52 to 64)"
    assert train["per_class"] == [2, 2]
    assert test["same_as"] == val["split"] == "val"  # the folder has no val, so test stands for it: read once


@pytest.mark.parametrize("workers", [0, 2])
def test_every_bad_file_is_named_and_the_others_are_read(workers, here, capsys):
    class_folders(here / "data")
    bad = [here / "data" / "train" / "cat" / "one.png", here / "data" / "test" / "dog" / "two.jpg"]
    for path in bad:
        path.write_bytes(path.read_bytes()[:50])
    code, found = checked(capsys, "folder:data", "--workers", workers)
    assert code == 2
    assert len(found["problems"]) == 2
    for path, problem in zip(bad, found["problems"], strict=True):
        assert str(path.relative_to(here)) in problem
    assert found["readers"][0]["splits"][0]["samples"] == 4


@pytest.mark.parametrize("write", [cifar10_python, cifar10_binary])
def test_every_bad_part_of_a_data_set_in_few_files_is_named(write, here, capsys):
    write(here / "data")
    files = sorted(path for path in (here / "data").rglob("data_batch_*"))
    for path in files[1:4]:
        path.write_bytes(path.read_bytes()[:100])
    code, found = checked(capsys, "cifar10:data")
    assert code == 2
    assert [any(path.name in problem for problem in found["problems"]) for path in files] == [0, 1, 1, 1, 0]
    assert "wrong: " in (main(["data", "check", "cifar10:data", "--quiet"]), capsys.readouterr().out)[1]


def test_every_class_without_pictures_is_named(here, capsys):
    class_folders(here / "data")
    for name in ("emu", "fox"):
        (here / "data" / "train" / name).mkdir()
    code, found = checked(capsys, "data")
    assert code == 2
    assert sum("holds no pictures" in problem for problem in found["problems"]) == 2


def test_readers_that_do_not_know_this_data_do_not_spoil_it(here, capsys):
    class_folders(here / "data")
    code, found = checked(capsys, "folder:data")
    assert code == 0
    assert ["fake-ruler"] in [reader["systems"] for reader in found["others"]]
    code, found = checked(capsys, "folder:data", "--system", "fake-ruler")
    assert code == 2


def test_the_layout_of_a_plain_path_is_guessed(here, capsys):
    class_folders(here / "data")
    code, found = checked(capsys, "data")
    assert code == 0
    assert (found["guessed"], found["layout"], found["others"]) == (True, "folder", [])
    (reader,) = found["readers"]
    assert {"snl", "patchwise"} <= set(reader["systems"])
    cifar10_python(here / "other")
    code, found = checked(capsys, "other")
    assert (code, found["layout"]) == (0, "cifar10")


def test_a_folder_that_nothing_opens_is_reported_against_the_nearest_layout(here, capsys):
    class_folders(here / "data")
    (here / "data" / "train").rename(here / "data" / "training")
    code, found = checked(capsys, "data", "--system", "snl")
    assert (code, found["layout"]) == (2, "folder")
    assert "data has no folder 'train'" in found["problems"][0]
    (here / "notes").mkdir()
    (here / "notes" / "a.doc").write_text("nothing")
    assert main(["data", "check", "notes"]) == 2
    assert "looks like no layout" in capsys.readouterr().err


def test_flat_class_folders_are_split_by_name_and_it_says_so(here, capsys):
    for name in ("cat", "dog"):
        (here / "flat" / name).mkdir(parents=True)
        for number in range(40):
            Image.new("RGB", (8, 8)).save(here / "flat" / name / f"{name}{number}.png")
    code, found = checked(capsys, "flat")
    assert code == 0
    splits = {split["split"]: split for split in found["readers"][0]["splits"]}
    assert sum(split["samples"] for split in splits.values()) == 80
    assert all("split by a hash of their names" in split["note"] for split in splits.values())
    before = {split: set(read_class_folders(here / "flat", split).paths) for split in splits}
    assert 0.5 < len(before["train"]) / 80 < 0.85
    Image.new("RGB", (8, 8)).save(here / "flat" / "cat" / "another.png")
    for split, paths in before.items():  # a file stays where it was
        assert set(read_class_folders(here / "flat", split).paths) >= paths
    assert main(["data", "check", "flat", "--quiet"]) == 0
    assert "split by a hash" in capsys.readouterr().out


def fake_layout(monkeypatch, read):
    system = type("Fake", (), {"layouts": {"fake": Layout(read, "fake data")}})()
    monkeypatch.setattr(catalogue, "names", lambda: ["snl"])
    monkeypatch.setattr(catalogue, "load", lambda name: system)


def test_values_that_are_not_numbers_are_named(here, monkeypatch):
    clouds = [torch.zeros(4, 3), torch.tensor([[0.0, float("nan"), 1.0]]), np.array([[np.inf, 0, 0]])]
    fake_layout(monkeypatch, lambda path, split: [{"points": cloud} for cloud in clouds])
    found = datacheck.check(f"fake:{here}")
    assert [p for p in found.problems if "'train'" in p] == [
        "sample 1 of 'train' has values that are not finite (points)",
        "sample 2 of 'train' has values that are not finite (points)",
    ]


def test_a_reader_that_fails_in_its_own_way_is_one_sentence_a_sample(here, monkeypatch):
    class Broken:
        def __len__(self):
            return 3

        def __getitem__(self, index):
            if index == 1:
                raise ZeroDivisionError("division by zero\nand more")
            return index

    fake_layout(monkeypatch, lambda path, split: Broken())
    found = datacheck.check(f"fake:{here}")
    assert found.problems[0] == "sample 1 of 'train' cannot be read: ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "needs a subcommand"),
        (["chek"], "vergence data has no 'chek' (did you mean 'check'?)"),
        (["check", "cifar9:x"], "no layout 'cifar9'"),
        (["check", "cifar10:nowhere"], "nowhere does not exist; expected cifar-10-batches-py or -bin"),
        (["check", "embedded"], "embedded data is generated, not read"),
        (["check", "x", "--system", "sln"], "no system 'sln'"),
        (["check", "cifar10:x", "--system", "fake-game"], "fake-game has no layout 'cifar10'"),
        (["check", "cifar10:x", "--workers", "-1"], "workers is a number"),
        (["check", "cifar10:\0"], "has a zero byte in it"),
        (["check", "cifar10:~nobody-of-this-name/x"], "does not exist"),
    ],
)
def test_what_cannot_be_checked_is_one_sentence(args, said, here, capsys):
    assert main(["data", *args]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_it_is_a_python_call_too(here):
    import vergence

    cifar10_binary(here / "data")
    assert vergence.check_data("cifar10:data").whole
    with pytest.raises(VergenceError, match="does not exist"):
        vergence.check_data("cifar10:nowhere")
