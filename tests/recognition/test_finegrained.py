"""Fine-grained pictures: labels and classes as the published files say, and what is damaged in one sentence."""

import json

import numpy as np
import pytest
from scipy.io import savemat

from recognition.vtn.fixtures import CARS, _names, _records, aircraft, cars_annos, cars_devkit, inaturalist
from vergence.core.errors import VergenceError
from vergence.recognition.finegrained import read_aircraft, read_cars, read_inaturalist


@pytest.mark.parametrize(
    ("write", "train", "test"), [(cars_devkit, [0, 1, 2, 0], [0, 1, 2, 0]), (cars_annos, [0, 1, 2], [1, 2])]
)
def test_cars_have_their_labels_in_both_releases(write, train, test, tmp_path):
    write(tmp_path)
    for split, labels in (("train", train), ("test", test), ("val", test)):
        data = read_cars(tmp_path, split)
        assert list(data.labels) == labels
        assert data.classes == tuple(CARS)
        assert data[0][0].shape == (3, 40, 52)
    train_paths = set(read_cars(tmp_path, "train").paths)
    assert not train_paths & set(read_cars(tmp_path, "test").paths)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: (p / "cars_train" / "00002.jpg").unlink(), r"00002.jpg does not exist, but cars_train_annos.mat"),
        (lambda p: (p / "devkit" / "cars_meta.mat").unlink(), r"cars_meta.mat does not exist: expected Stanford Cars"),
        (
            lambda p: savemat(p / "devkit" / "cars_train_annos.mat", {"annotations": np.ones((2, 2))}),
            "no list 'annotations'",
        ),
        (lambda p: savemat(p / "devkit" / "cars_train_annos.mat", {"other": 1}), "no list 'annotations'"),
        (lambda p: savemat(p / "devkit" / "cars_meta.mat", {"class_names": np.ones(3)}), "no list 'class_names'"),
        (
            lambda p: savemat(p / "devkit" / "cars_train_annos.mat", {"annotations": _records(("class",), [(1,)])}),
            "record 1 has no 'fname'",
        ),
        (
            lambda p: savemat(
                p / "devkit" / "cars_train_annos.mat",
                {"annotations": _records(("class", "fname"), [(4, "00001.jpg")])},
            ),
            "has the class 4, but there are 3",
        ),
        (
            lambda p: savemat(
                p / "devkit" / "cars_train_annos.mat",
                {"annotations": _records(("class", "fname"), [(1, "00001.jpg")])},
            ),
            "'Acura RL Sedan 2012' .* has no training pictures",
        ),
        (
            lambda p: savemat(
                p / "devkit" / "cars_train_annos.mat",
                {"annotations": _records(("class", "fname"), [(np.ones((2, 2)), "00001.jpg")])},
            ),
            "record 1 has no 'fname' and 'class'",
        ),
    ],
)
def test_damaged_cars_are_one_sentence(change, said, tmp_path):
    cars_devkit(tmp_path)
    change(tmp_path)
    with pytest.raises(VergenceError, match=said):
        read_cars(tmp_path, "train")


def test_records_with_accents_keep_them(tmp_path):
    names = _names()
    names[0, 0] = "Citroën C4"
    cars_devkit(tmp_path)
    savemat(tmp_path / "devkit" / "cars_meta.mat", {"class_names": names})
    assert read_cars(tmp_path, "train").classes[0] == "Citroën C4"


def test_aircraft_variants_may_have_spaces(tmp_path):
    aircraft(tmp_path)
    data = read_aircraft(tmp_path, "train")
    assert (list(data.labels), data.classes[2]) == ([0, 1, 2], "Boeing 717")
    assert read_aircraft(tmp_path / "data", "test").paths[0].name == "1000003.jpg"
    (tmp_path / "data" / "images_variant_test.txt").write_text("1000003 Concorde\n")
    with pytest.raises(VergenceError, match=r"line 1 of .*images_variant_test.txt is not a picture and a variant"):
        read_aircraft(tmp_path, "test")


def test_species_are_numbered_in_the_order_of_their_ids(tmp_path):
    inaturalist(tmp_path)
    data = read_inaturalist(tmp_path, "test")
    assert data.classes == ("Amanita muscaria", "Parus major")
    assert list(data.labels) == [1, 0, 1]
    content = json.loads((tmp_path / "val2017.json").read_text())
    del content["annotations"][0]
    (tmp_path / "val2017.json").write_text(json.dumps(content))
    with pytest.raises(VergenceError, match=r"val2017.json is not of iNaturalist 2017: .* there is no 10"):
        read_inaturalist(tmp_path, "val")
