"""Readers of boxes: what they read, what they count and leave out, and what they refuse in which words."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from vergence.core.errors import VergenceError
from vergence.detection import layouts
from vergence.detection.data import Chosen


def picture(path, height=60, width=80):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.zeros((height, width, 3), np.uint8)).save(path)


def table(root, rows, heading="file,class,xmin,ymin,xmax,ymax"):
    picture(root / "a.png")
    picture(root / "b.png")
    for name in ("train", "test"):
        (root / f"{name}.csv").write_text("\n".join([heading, *rows]) + "\n")
    return root


def xml(objects, size=(80, 60)):
    rows = "".join(
        f"<object><name>{n}</name><difficult>{d}</difficult><bndbox><xmin>{a}</xmin><ymin>{b}</ymin><xmax>{c}</xmax>"
        f"<ymax>{e}</ymax></bndbox></object>"
        for n, d, (a, b, c, e) in objects
    )
    return f"<annotation><size><width>{size[0]}</width><height>{size[1]}</height></size>\n{rows}</annotation>"


def voc(root, content, name="000001"):
    (root / "ImageSets" / "Main").mkdir(parents=True)
    (root / "Annotations").mkdir()
    picture(root / "JPEGImages" / f"{name}.jpg")
    for split in ("trainval", "test"):
        (root / "ImageSets" / "Main" / f"{split}.txt").write_text(f"{name}\n")
    (root / "Annotations" / f"{name}.xml").write_text(content)
    return root


def test_pixels_of_voc_are_counted_from_one_and_difficult_objects_are_marked(tmp_path):
    found = layouts.voc(voc(tmp_path, xml([("dog", 0, (1, 1, 80, 60)), ("cat", 1, (11, 21, 20, 40))])), "train")
    assert found[0].boxes.tolist() == [[0, 0, 80, 60], [10, 20, 20, 40]]
    assert found[0].aside.tolist() == [False, True]
    assert [found.classes[n - 1] for n in found[0].labels] == ["dog", "cat"]


def test_of_voc_the_six_classes_that_watercolor_has_are_read(tmp_path):
    voc(tmp_path, xml([("dog", 0, (1, 1, 40, 40)), ("sofa", 0, (1, 1, 40, 40))]))
    assert layouts.LAYOUTS["watercolor"].read(tmp_path, "test")[0].labels.tolist() == [5]


def test_other_names_of_classes_come_from_a_file(tmp_path):
    voc(tmp_path, xml([("lorry", 0, (1, 1, 40, 40))]))
    with pytest.raises(VergenceError, match=r"000001\.xml has the class 'lorry'"):
        layouts.voc(tmp_path, "train")
    (tmp_path / "classes.txt").write_text("lorry\nvan\n")
    assert layouts.voc(tmp_path, "train").classes == ("lorry", "van")


def test_damaged_xml_and_json_are_refused_with_line_and_reason(tmp_path):
    root = voc(tmp_path / "voc", xml([("dog", 0, (1, 1, 40, 40))]).replace("</object>", "</objekt>"))
    with pytest.raises(VergenceError, match=r"000001\.xml is not .*mismatched tag: line 2"):
        layouts.voc(root, "train")
    (tmp_path / "coco").mkdir()
    (tmp_path / "coco" / "train.json").write_text('{"images": [\n{"id": 1,}\n]}')
    with pytest.raises(VergenceError, match=r"train\.json is not .*line 2"):
        layouts.coco(tmp_path / "coco", "train")


def test_a_list_that_names_a_missing_annotation_is_refused(tmp_path):
    root = voc(tmp_path, xml([]))
    (root / "ImageSets" / "Main" / "test.txt").write_text("000002\n")
    with pytest.raises(VergenceError, match=r"test\.txt names '000002', for which there is no"):
        layouts.voc(root, "test")


def test_boxes_are_cut_and_those_without_area_counted_and_left_out(tmp_path):
    good = [f"a.png,dog,{n},1,{n + 20},30" for n in range(0, 50, 2)]
    bad = [
        "a.png,dog,50,50,40,55",
        "a.png,dog,10,10,10,30",
        "a.png,dog,200,10,300,30",
        "a.png,dog,70,50,95,75",
        "b.png,,,,,",
    ]
    found = layouts.table(table(tmp_path, [*good, *bad]), "train")
    assert len(found) == 2
    assert len(found[0].boxes) == 26
    assert found[0].boxes[-1].tolist() == [70, 50, 80, 60]
    assert found[1].boxes.shape == (0, 4)
    told = ("1 inverted boxes left out", "1 boxes without area left out", "1 boxes outside of their pictures left out",
            "1 boxes cut to their pictures", "1 pictures without objects")  # fmt: skip
    assert found.note == ", ".join(told)


@pytest.mark.parametrize("swapped", [False, True])
def test_boxes_in_the_other_convention_are_found_by_their_number(tmp_path, swapped):
    boxes = [(40 + n, 30 + n, 60 + n, 50 + n) for n in range(8)]
    rows = [",".join(map(str, ("a.png", "dog", *box))) for box in boxes]
    sides = [",".join(map(str, ("a.png", "dog", a, b, c - a, d - b))) for a, b, c, d in boxes]
    heading = {False: "file,class,xmin,ymin,xmax,ymax", True: "file,class,x,y,width,height"}[swapped]
    assert len(layouts.table(table(tmp_path, sides if swapped else rows, heading), "train")[0].boxes) == 8
    table(tmp_path, rows if swapped else sides, heading)
    with pytest.raises(VergenceError, match=r"train\.csv: 8 of 8 boxes do not fit .* 0 as left, top, (right|width)"):
        layouts.table(tmp_path, "train")


def test_a_table_says_which_row_is_wrong(tmp_path):
    with pytest.raises(VergenceError, match=r"train\.csv, row 3: xmin, ymin, xmax, ymax are numbers"):
        layouts.table(table(tmp_path, ["a.png,dog,1,2,30,40", "a.png,dog,1,two,30,40"]), "train")
    with pytest.raises(VergenceError, match=r"it has no column 'class'"):
        layouts.table(table(tmp_path, ["a.png,1,2,3,4"], "file,xmin,ymin,xmax,ymax"), "train")


def test_coco_has_sides_crowds_and_gaps_in_its_ids(tmp_path):
    picture(tmp_path / "a.png")
    content = {
        "images": [{"id": 7, "file_name": "a.png", "height": 60, "width": 80}],
        "categories": [{"id": 90, "name": "toothbrush"}, {"id": 1, "name": "person"}],
        "annotations": [{"image_id": 7, "category_id": 90, "bbox": [10, 20, 30, 15]},
                        {"image_id": 7, "category_id": 1, "bbox": [0, 0, 80, 60], "iscrowd": 1}],
    }  # fmt: skip
    (tmp_path / "train.json").write_text(json.dumps(content))
    found = layouts.coco(tmp_path, "train")
    assert found.classes == ("person", "toothbrush")
    assert found[0].boxes.tolist() == [[10, 20, 40, 35], [0, 0, 80, 60]]
    assert found[0].labels.tolist() == [2, 1]
    assert found[0].aside.tolist() == [False, True]
    for change, words in (({"image_id": 8}, "annotation 0 is of picture 8"), ({"category_id": 5}, "category_id 5")):
        content["annotations"][0] = {"image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4]} | change
        (tmp_path / "train.json").write_text(json.dumps(content))
        with pytest.raises(VergenceError, match=words):
            layouts.coco(tmp_path, "train")


def test_polygons_of_cityscapes_become_tight_boxes_cut_to_the_picture(tmp_path):
    picture(tmp_path / "leftImg8bit_foggy" / "val" / "ulm" / "ulm_0_0_leftImg8bit_foggy_beta_0.01.png")
    file = tmp_path / "gtFine" / "val" / "ulm" / "ulm_0_0_gtFine_polygons.json"
    file.parent.mkdir(parents=True)
    objects = [{"label": "bus", "polygon": [[-4, 10], [30, 12], [20, 33]]}, {"label": "busgroup", "polygon": [[0, 0]]}]
    file.write_text(json.dumps({"imgHeight": 60, "imgWidth": 80, "objects": objects}))
    found = layouts.cityscapes(tmp_path, "test", beta=0.01)
    assert found[0].boxes.tolist() == [[0, 10, 30, 33]]
    assert found.classes[int(found[0].labels) - 1] == "bus"
    with pytest.raises(VergenceError, match=r"no pictures \*_leftImg8bit_foggy_beta_0.02"):
        layouts.LAYOUTS["foggy"].read(tmp_path, "test")
    assert len(layouts.read_domain(f"foggy:{tmp_path}", "test", 0.01, list)) == 1


@pytest.mark.parametrize(
    "names", ["names: [cat, 'dog']", "names:\n  0: cat\n  1: dog\n", "nc: 2\nnames:\n- cat\n- dog\n"]
)
def test_yolo_reads_shares_of_the_picture_and_names_in_every_form(tmp_path, names):
    picture(tmp_path / "images" / "train" / "a.png")
    picture(tmp_path / "images" / "train" / "b.png")
    (tmp_path / "labels" / "train").mkdir(parents=True)
    (tmp_path / "labels" / "train" / "a.txt").write_text("1 0.5 0.5 0.25 0.5\n")
    (tmp_path / "data.yaml").write_text(names)
    found = layouts.yolo(tmp_path, "train")
    assert found.classes == ("cat", "dog")
    assert found[0].boxes.tolist() == [[30, 15, 50, 45]]
    assert found.note == "1 pictures without objects"
    for line, words in (("2 0.5 0.5 0.1 0.1", "class 2 is outside 0 to 1"), ("0 40 30 20 10", "shares of the picture"),
                        ("0 0.5 0.5", "expected class x y width height")):  # fmt: skip
        (tmp_path / "labels" / "train" / "a.txt").write_text(f"{line}\n")
        with pytest.raises(VergenceError, match=rf"a\.txt, line 1: .*{words}"):
            layouts.yolo(tmp_path, "train")


def test_classes_are_chosen_and_numbered_anew_and_negatives_kept_or_not(tmp_path):
    found = layouts.table(
        table(tmp_path, ["a.png,dog,1,2,30,40", "a.png,cat,5,6,30,40", "b.png,cat,1,2,30,40"]), "train"
    )
    chosen = Chosen(found, ("dog", "bird"), shortest=30, longest=100)
    assert len(chosen) == 2
    assert chosen[0].labels.tolist() == [1]
    assert chosen[0].picture.shape == (3, 30, 40)
    assert chosen[0].boxes.tolist() == [[0.5, 1, 15, 20]]
    assert chosen[1].boxes.shape == (0, 4)
    assert len(Chosen(found, ("dog", "bird"), negatives=False)) == 1


def test_a_mirrored_picture_takes_its_boxes_along(tmp_path):
    found = layouts.table(table(tmp_path, ["a.png,dog,1,2,30,40"]), "train")
    chosen = Chosen(found, ("dog",), flip=True)
    drawn = [chosen.draw(0, torch.Generator().manual_seed(n)).boxes.tolist()[0] for n in range(8)]
    assert [1, 2, 30, 40] in drawn
    assert [50, 2, 79, 40] in drawn


def test_a_folder_of_pictures_has_no_classes(tmp_path):
    picture(tmp_path / "deep" / "a.png")
    found = layouts.folder(tmp_path, "test")
    assert found.classes == ()
    assert found.note == "pictures without annotations"
