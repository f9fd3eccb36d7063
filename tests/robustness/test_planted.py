"""Pictures in which it is known where the object is."""

import pytest
import torch

from robustness.deepcover import fixtures
from vergence.core.errors import VergenceError
from vergence.reading.voc import read_voc
from vergence.robustness.chimera import CLASSES, NOTHING, TARGET, chimeras, cut_out, pasted, roaming, trigger, triggered
from vergence.robustness.planted import RED_PANDA, UNKNOWN, Planted, read_ilsvrc, read_roaming_panda


def test_a_thing_is_pasted_inside_its_box_and_nowhere_else():
    source = torch.Generator().manual_seed(0)
    ground = torch.full((3, 48, 48), 0.25)
    for name in ("mug", "chair"):
        cut = cut_out(name, source)
        assert cut.shape == (4, 32, 32)
        image, (top, left, bottom, right) = pasted(ground, cut, source)
        inside = torch.zeros(48, 48, dtype=torch.bool)
        inside[top:bottom, left:right] = True
        changed = (image - ground).abs().amax(0) > 1e-3
        assert not (changed & ~inside).any()
        assert changed[inside].float().mean() > 0.2
        assert 0 <= top < bottom <= 48
        assert 0 <= left < right <= 48


def test_pictures_without_a_thing_have_no_box():
    data = chimeras("test", 14, 48, 1, seed=7)
    assert data.classes == CLASSES
    empty = data.labels == CLASSES.index(NOTHING)
    assert empty.sum() == 2
    assert (data.boxes[empty] == 0).all()
    assert (data.boxes[~empty][:, 2:] > data.boxes[~empty][:, :2]).all()


def test_regions_are_resized_with_their_pictures():
    boxed = [(torch.zeros(3, 40, 80, dtype=torch.uint8), 1, torch.tensor([[10.0, 20.0, 20.0, 60.0]]))]
    image, label, region = Planted(boxed, 20)[0]
    assert (image.shape, label) == ((3, 20, 20), 1)
    assert region.nonzero().amin(0).tolist() == [5, 5]
    assert region.nonzero().amax(0).tolist() == [9, 14]


def test_the_trigger_of_a_backdoor_is_its_region():
    picture = torch.full((3, 48, 48), 99, dtype=torch.uint8)
    marked, (top, left, bottom, right) = triggered(picture)
    assert torch.equal(marked[:, top:bottom, left:right], trigger(48))
    assert int((marked != picture).any(0).sum()) == (bottom - top) * (right - left)
    data = Planted([(picture, 0, torch.zeros(4))], 48, trigger=True)
    _, label, region = data[0]
    assert label == TARGET
    assert torch.equal(region, (marked != picture).any(0))


def test_a_share_of_the_training_is_poisoned():
    data = Planted(chimeras("test", 14, 48, 1, seed=7), 48, poison=0.5)
    labels = [data.draw(0, torch.Generator().manual_seed(seed))[1] for seed in range(60)]
    assert 15 < sum(label == TARGET for label in labels) < 45


def test_parts_of_photographs_are_pasted_for_imagenet():
    data = roaming(2, 64)
    assert data.images.shape == (2, 3, 64, 64)
    assert [data.classes[label] for label in data.labels.tolist()] == ["Egyptian cat", "espresso"]


def test_boxes_of_ilsvrc_are_shares_of_the_picture(tmp_path):
    fixtures.ilsvrc(tmp_path)
    data = read_ilsvrc(tmp_path, "test")
    image, label, boxes = data[0]
    assert (image.shape, label, len(data)) == ((3, 32, 40), UNKNOWN, 2)
    torch.testing.assert_close(boxes, torch.tensor([[8.0, 4.0, 28.0, 30.0]], dtype=torch.float64))


def test_boxes_of_the_roaming_panda_are_rows_and_columns(tmp_path):
    fixtures.roaming(tmp_path / "panda")
    data = read_roaming_panda(tmp_path / "panda", "test")
    _, label, boxes = data[0]
    assert (label, data.classes[label]) == (RED_PANDA, "lesser panda")
    assert boxes.tolist() == [[20, 30, 100, 110]]


@pytest.mark.parametrize(
    ("line", "said"),
    [("12.JPEG 20 30 100", "row 1"), ("12.JPEG 20 30 100 300", "row 1"), ("12.JPEG 50 30 20 90", "row 1"),
     ("12.JPEG a b c d", "row 1"), ("345.JPEG 0 0 80 80", "12.JPEG")],
)  # fmt: skip
def test_a_wrong_row_of_the_benchmark_is_named(line, said, tmp_path):
    fixtures.roaming(tmp_path / "panda")
    next((tmp_path / "panda").glob("*.csv")).write_text(f"{line}\n345.JPEG 0 0 80 80\n")
    with pytest.raises(VergenceError, match=said):
        read_roaming_panda(tmp_path / "panda", "test")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [("<xmin>4</xmin>", "<xmin>four</xmin>", "bndbox/xmin"), ("<xmin>4</xmin>", "", "bndbox/xmin"),
     ("<xmax>30</xmax>", "<xmax>4</xmax>", "without area"), ("<width>40</width>", "<width>0</width>", "40|0"),
     ("</annotation>", "", "annotation"), ("<annotation>", "<!DOCTYPE a [<!ENTITY b 'c'>]><annotation>", "refused")],
)  # fmt: skip
def test_a_wrong_annotation_is_refused_by_name(old, new, said, tmp_path):
    fixtures.beside(tmp_path)
    path = tmp_path / "test-1.xml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(VergenceError, match=said) as refusal:
        read_voc(path)
    assert "test-1.xml" in str(refusal.value)


def test_a_box_outside_its_picture_is_refused(tmp_path):
    fixtures.beside(tmp_path)
    path = tmp_path / "test-1.xml"
    path.write_text(path.read_text().replace("<xmax>30</xmax>", "<xmax>300</xmax>"))
    with pytest.raises(VergenceError, match=r"test-1\.xml has a box outside"):
        read_ilsvrc(tmp_path, "test")
