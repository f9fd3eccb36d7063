"""Files of detections, good ones and bad ones."""

import json

import numpy as np
import pytest

from vergence.agents.detections import as_objects, class_of, read_detections
from vergence.core.errors import VergenceError
from vergence.data import coco

VOCABULARY = ("person", "cup", "dining table")
BOX = [10, 20, 30, 40]


def _json(folder, content):
    (folder / "d.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder / "d.json"


def _row(**changes):
    return {"image_id": 1, "category_id": 47, "bbox": BOX, "score": 0.9} | changes


def test_cocos_ids_are_the_published_ones():
    assert (len(coco.NAMES), coco.BY_ID[1], coco.BY_ID[47], coco.BY_ID[90]) == (80, "person", "cup", "toothbrush")


def test_results_have_boxes_as_corner_and_size_and_cocos_ids(tmp_path):
    found = read_detections(_json(tmp_path, [_row(), _row(category_id=67)]), "photo.jpg")
    assert found.names == ("cup", "dining table")
    assert found.boxes.tolist() == [[10, 20, 40, 60]] * 2
    objects = as_objects(found, VOCABULARY, 100, 100)
    assert objects.labels.tolist() == [1, 2]
    np.testing.assert_allclose(objects.chances.sum(1), 1)


def test_of_several_pictures_the_named_one_is_taken(tmp_path):
    images = [{"id": 5, "file_name": "a/photo.jpg"}, {"id": 6, "file_name": "other.jpg"}]
    rows = [_row(image_id=5, category_id=3), _row(image_id=6, category_id=3)]
    content = {"images": images, "annotations": rows, "categories": [{"id": 3, "name": "cup"}]}
    found = read_detections(_json(tmp_path, content), "photo.jpg")
    assert found.names == ("cup",)
    assert read_detections(_json(tmp_path, [_row(image_id=139), _row(image_id=7)]), "000000000139.jpg").names == (
        "cup",
    )
    with pytest.raises(VergenceError, match="none of them nothing.jpg"):
        read_detections(_json(tmp_path, content), "nothing.jpg")


def test_instances_of_detectron_have_corners_features_and_probabilities(tmp_path):
    values = {"pred_boxes": [[10, 20, 40, 60]], "scores": [0.5], "pred_classes": [41]}
    assert read_detections(_json(tmp_path, {"instances": values}), "p").names == ("cup",)
    names = np.array(["cup", "dog"])
    np.savez(
        tmp_path / "d.npz", boxes=np.array([[10.0, 20, 40, 60]]), scores=np.array([0.5]), classes=np.array([0]),
        features=np.ones((1, 4, 7, 7)), probabilities=np.array([[0.6, 0.4]]), names=names,
    )  # fmt: skip
    objects = as_objects(read_detections(tmp_path / "d.npz", "p"), VOCABULARY, 100, 100)
    assert objects.features.shape == (1, 4, 7, 7)
    np.testing.assert_allclose(objects.chances, [[0, 0.6, 0]])  # a dog is nothing here


def test_boxes_are_cut_to_the_picture_and_low_scores_left_out(tmp_path):
    rows = [_row(bbox=[-5, -5, 50, 50]), _row(score=0.1)]
    objects = as_objects(read_detections(_json(tmp_path, rows), "p"), VOCABULARY, 40, 30, least=0.3)
    assert objects.boxes.tolist() == [[0, 0, 30, 40]]


def test_names_are_found_whatever_their_spelling():
    assert [class_of(name, VOCABULARY) for name in ("Dining_Table", "mug", "table", "zebra")] == [2, 1, 2, -1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[{", "d.json is not detections"),
        ("", "d.json is not detections"),
        ('{"x": 1}', "has no pred_boxes"),
        ("[1, 2]", "expected a list of objects"),
        ([_row(bbox=[1, 2, 3])], "detection 0 has no bbox of four numbers"),
        ([_row(bbox=[1, 2, 3, "x"])], "bbox expects a number"),
        ("[" + json.dumps(_row()).replace("0.9", "NaN") + "]", "scores of its detections are not all finite"),
        ([_row(score=7)], "scores are from 0 to 1, got 7"),
        ([_row(category_id=12)], "category_id 12 is none of COCO's ids"),
        ([{"bbox": BOX}], "neither a category_id nor a category"),
        ({"pred_boxes": [[1, 2, 3]], "pred_classes": [0]}, "not an array of numbers"),
        ({"pred_boxes": [[1, 2, 30, 40]], "pred_classes": [99]}, "class 99 is outside its vocabulary of 80"),
        ({"pred_boxes": [[1, 2, 30, 40]], "pred_classes": [0, 1]}, "boxes have the shape"),
    ],
)
def test_bad_files_are_refused_in_a_sentence(content, said, tmp_path):
    with pytest.raises(VergenceError, match=said) as refusal:
        read_detections(_json(tmp_path, content), "photo.jpg")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (_row(category_id=17), "'cat' is not a class that the weights know"),
        (_row(bbox=[200, 0, 10, 10]), r"box 1 \(200, 0, 210, 10\) has no area inside the picture of 100 x 100"),
        (_row(bbox=[5, 5, 0, 10]), "box 1 .* has no area"),
        (_row(bbox=[5, 5, -4, 10]), "box 1 .* has no area"),
    ],
)
def test_bad_objects_are_refused_in_a_sentence(row, said, tmp_path):
    found = read_detections(_json(tmp_path, [row]), "p")
    with pytest.raises(VergenceError, match=said):
        as_objects(found, VOCABULARY, 100, 100)


def test_nan_features_are_refused(tmp_path):
    features = np.full((1, 2, 7, 7), np.nan)
    np.savez(tmp_path / "d.npz", boxes=np.array([[1.0, 2, 9, 9]]), classes=np.array([0]), features=features)
    with pytest.raises(VergenceError, match="the features of its detections are not all finite numbers"):
        read_detections(tmp_path / "d.npz", "p")


def test_unknown_classes_can_be_skipped(tmp_path):
    found = read_detections(_json(tmp_path, [_row(category_id=17), _row()]), "p")
    assert as_objects(found, VOCABULARY, 100, 100, unknown="skip").labels.tolist() == [1]
