"""Cut-outs, queries, readers and rendered scenes of foreground search."""

from __future__ import annotations

import itertools
from pathlib import Path

import fosearch_fixtures as fixtures
import numpy as np
import pytest
import torch
from PIL import Image

from vergence.contract.inputs import InMemory
from vergence.core.errors import VergenceError
from vergence.retrieval import coco_pairs
from vergence.retrieval.cutouts import filled, inpainted, on_white, pasted, read_cutout
from vergence.retrieval.foregrounds import Cutouts, Pairs, Triplets, jittered, shown_query
from vergence.retrieval.fos_layouts import LAYOUTS, held_out
from vergence.retrieval.fos_settings import ForegroundView

VIEW = ForegroundView(size=16)


def random_pairs(queries=4, each=3, patterns=2):
    """Pairs of noise; every query's own cut-out is the first of its pattern."""
    source = torch.Generator().manual_seed(0)
    kinds = torch.arange(patterns).repeat_interleave(each)
    pictures = torch.randint(0, 256, (queries, 3, 20, 30), generator=source, dtype=torch.uint8)
    cutouts = torch.randint(0, 256, (len(kinds), 4, 9, 6), generator=source, dtype=torch.uint8)
    cutouts[:, 3] = 255
    own = torch.arange(queries) % patterns * each
    boxes = torch.tensor([[5.0, 4.0, 8.0, 10.0]]).expand(queries, 4)
    return Pairs(pictures, boxes, cutouts, own, kinds, tuple(f"p{n}" for n in range(patterns)))


# Cut-outs -------------------------------------------------------------------------------------------------------------


def test_a_cutout_is_trimmed_to_what_is_seen(tmp_path):
    pixels = np.zeros((20, 30, 4), dtype=np.uint8)
    pixels[5:12, 8:11] = (200, 100, 50, 255)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    found = read_cutout(tmp_path / "a.png")
    assert found.shape == (4, 7, 3)
    assert found[:, 0, 0].tolist() == [200, 100, 50, 255]
    for value in (pixels, torch.from_numpy(pixels).permute(2, 0, 1), Image.fromarray(pixels), pixels / 255.0):
        assert torch.equal(read_cutout(InMemory("a.png", value)), found)


def test_an_object_on_a_plain_ground_gets_its_alpha_from_it(tmp_path):
    pixels = np.full((20, 30, 3), 255, dtype=np.uint8)
    pixels[5:20, 8:14] = (20, 100, 50)  # cut by the lower border
    Image.fromarray(pixels).save(tmp_path / "white.png")
    found = read_cutout(tmp_path / "white.png")
    assert found.shape == (4, 15, 6)
    assert (found[3] == 255).all()


@pytest.mark.parametrize(
    ("pixels", "why"),
    [
        (
            np.random.default_rng(0).integers(0, 256, (20, 20, 3), dtype=np.uint8),
            "no alpha channel and no plain ground",
        ),
        (np.full((20, 20, 3), 90, dtype=np.uint8), "no alpha channel and no plain ground"),
        (np.zeros((20, 20, 4), dtype=np.uint8), "wholly transparent"),
        (np.pad(np.full((1, 1, 4), 255, np.uint8), ((3, 3), (3, 3), (0, 0))), "shows 1 x 1 pixels"),
    ],
)
def test_what_is_no_cutout_is_refused_in_a_sentence(pixels, why, tmp_path):
    Image.fromarray(pixels).save(tmp_path / "bad.png")
    with pytest.raises(VergenceError, match=why) as refusal:
        read_cutout(tmp_path / "bad.png")
    assert "bad.png" in str(refusal.value)


def test_on_white_keeps_the_shape_and_the_middle():
    red = torch.tensor([255, 0, 0, 255], dtype=torch.uint8).view(4, 1, 1).expand(4, 8, 4)
    square = on_white(red, 8)
    assert (square[:, :, :2] == 1).all()
    assert (square[:, :, 6:] == 1).all()
    assert square[:, 4, 4].tolist() == [1, 0, 0]
    padded = on_white(red, 16, (0.5, 0.5, 0.5, 0.5))
    assert padded[1].lt(0.5).sum() == square[1].lt(0.5).sum()


def test_pasting_blends_by_alpha_and_touches_nothing_else():
    ground = torch.full((3, 20, 30), 100, dtype=torch.uint8)
    cutout = torch.tensor([200, 0, 60, 255], dtype=torch.uint8).view(4, 1, 1).repeat(1, 10, 5)
    half = cutout.clone()
    half[3] = 51
    for each, colour in ((cutout, [200, 0, 60]), (half, [120, 80, 92])):
        out = pasted(ground, each, (10, 5, 5, 10))
        assert out[:, 5:15, 10:15].flatten(1).unique(dim=1).tolist() == [[c] for c in colour]
        out[:, 5:15, 10:15] = 100
        assert torch.equal(out, ground)
    clear = cutout.clone()
    clear[3] = 0
    assert torch.equal(pasted(ground, clear, (10, 5, 5, 10)), ground)
    wide = pasted(ground, cutout, (0, 5, 30, 10))  # as large as fits, in the middle, on the lower edge
    assert (wide != ground).any(0).nonzero().aminmax(dim=0).min.tolist() == [5, 12]
    assert torch.equal(pasted(ground, cutout, (100, 100, 5, 5)), ground)


def test_colours_of_transparent_pixels_do_not_bleed_into_what_is_seen():
    cutout = torch.zeros(4, 40, 40, dtype=torch.uint8)
    cutout[:, 10:30, 10:30] = torch.tensor([0, 200, 0, 255], dtype=torch.uint8).view(4, 1, 1)
    cutout[0, cutout[3] == 0] = 255  # a red that no one may see
    out = pasted(torch.zeros(3, 10, 10, dtype=torch.uint8), cutout, (0, 0, 10, 10))
    assert out[0].max() == 0
    assert out[1].max() == 200


@pytest.mark.parametrize("method", ["pyramid", "telea", "biharmonic"])
def test_a_hole_is_filled_from_around_it_and_the_rest_stays(method):
    if method == "telea":
        pytest.importorskip("cv2")
    picture = torch.full((3, 40, 33), 77, dtype=torch.uint8)
    picture[0] = torch.arange(33, dtype=torch.uint8) * 7
    hole = torch.zeros(40, 33, dtype=torch.bool)
    hole[10:25, 9:20] = True
    holed = picture.masked_fill(hole, 255)
    out = inpainted(holed, hole, method)
    assert torch.equal(out[:, ~hole], picture[:, ~hole])
    assert (out[1:, hole].int() - 77).abs().max() <= 3
    assert (out[0].int() - picture[0].int())[hole].abs().max() < 60
    assert filled(picture, torch.ones(40, 33)).unique().tolist() == [128]


# Queries --------------------------------------------------------------------------------------------------------------


def test_a_query_in_evaluation_is_always_the_same_and_in_training_it_is_not():
    picture = torch.randint(0, 256, (3, 20, 31), dtype=torch.uint8)
    one, other = (shown_query(VIEW, picture, (5, 3, 10, 12)) for _ in range(2))
    assert torch.equal(one[0], other[0])
    assert torch.equal(one[1], torch.tensor([0.5, 0.45, 0.5, 0.6]))
    source = torch.Generator().manual_seed(3)
    drawn = [shown_query(VIEW, picture, (5, 3, 10, 12), source)[1] for _ in range(20)]
    assert len({tuple(layout.tolist()) for layout in drawn}) > 15
    for layout in drawn:
        low, high = layout[:2] - layout[2:] / 2, layout[:2] + layout[2:] / 2
        assert low.min() >= -0.011
        assert high.max() <= 1.011


def test_jitter_of_no_strength_changes_nothing_and_hue_keeps_greys():
    picture, source = torch.rand(3, 5, 6), torch.Generator().manual_seed(0)
    torch.testing.assert_close(jittered(picture, (0, 0, 0, 0), source), picture)
    grey = torch.rand(1, 5, 6).expand(3, 5, 6)
    torch.testing.assert_close(jittered(grey, (0, 0, 0.5, 0.5), source), grey)
    assert (jittered(picture, (0, 0, 0, 0.5), source) - picture).abs().max() > 0.05


def test_triplets_take_positives_of_the_pattern_or_the_own_cutout_alone():
    data, source = random_pairs(), torch.Generator().manual_seed(0)
    chosen = [Triplets(data, VIEW).chosen(1, source) for _ in range(40)]
    assert {p for p, _ in chosen} == {3, 4, 5}
    assert {n for _, n in chosen} == {0, 1, 2}
    own = [Triplets(data, VIEW, instance=True).chosen(1, source) for _ in range(60)]
    assert {p for p, _ in own} == {3}
    assert {n for _, n in own} == {0, 1, 2, 4, 5}


def test_unlabelled_cutouts_are_neither_taught_nor_negatives():
    data = random_pairs()
    hidden = Pairs(data.backgrounds, data.boxes, data.cutouts, data.own, torch.tensor([0, 0, -1, 1, -1, 1]), data.names)
    assert [Cutouts(hidden, VIEW, 2)[i][1] for i in range(8)] == [0, 0, 1, 1] * 2
    source = torch.Generator().manual_seed(0)
    assert {Triplets(hidden, VIEW).chosen(0, source)[1] for _ in range(40)} == {3, 5}
    with pytest.raises(VergenceError, match="no cut-out has a pattern"):
        Cutouts(Pairs(data.backgrounds, data.boxes, data.cutouts, data.own, torch.full((6,), -1), data.names), VIEW)


# Readers --------------------------------------------------------------------------------------------------------------


def test_five_of_every_pattern_of_twenty_are_held_out_and_the_same_each_time():
    patterns = torch.cat([torch.full((25,), 0), torch.full((19,), 1), torch.full((20,), 2), torch.full((3,), -1)])
    split, note = held_out(patterns)
    assert [int((split[patterns == p] == 2).sum()) for p in (0, 1, 2, -1)] == [5, 0, 5, 0]
    assert [int((split[patterns == p] == 1).sum()) for p in (0, 1, 2, -1)] == [2, 0, 2, 0]
    assert torch.equal(split, held_out(patterns)[0])
    assert "20 cut-outs give 5" in note


def test_splits_share_no_cutout(tmp_path):
    fixtures.pairs(False)(tmp_path)
    parts = [LAYOUTS["folder"].read(tmp_path, split) for split in ("train", "val", "test")]
    names = [{path.name for path in (p.cutouts.data.paths[int(i)] for i in p.cutouts.places)} for p in parts]
    assert sum(map(len, names)) == len(set().union(*names)) == 6


def test_what_fits_may_be_said_for_each_query(tmp_path):
    fixtures.pairs(True)(tmp_path)
    fixtures.table(tmp_path / "fits.csv", [["background", "foreground"], ["a-test.png", "a-test.png"],
                                           ["a-test.png", "b-test.png"], ["b-test.png", "b-test.png"]])  # fmt: skip
    data = LAYOUTS["folder"].read(tmp_path, "test")
    assert data.relevance().int().tolist() == [[1, 1], [0, 1]]


def test_coco_becomes_a_folder_that_reads_the_same(tmp_path, capsys):
    fixtures.people(True)(tmp_path / "coco")
    assert coco_pairs.main([str(tmp_path / "coco"), str(tmp_path / "out")]) == 0
    assert "6 pairs" in capsys.readouterr().out  # neither the small one nor the crowd
    direct, written = (LAYOUTS[n].read(tmp_path / p, "test") for n, p in (("coco", "coco"), ("folder", "out")))
    assert direct.names == written.names == ("left, whole", "right, whole")
    assert torch.equal(direct.boxes, written.boxes)
    for index in range(len(direct)):
        assert torch.equal(direct[index], written[index])
    background = direct.backgrounds[0]
    assert background[:, 10:46, 8:38].float().std() < 20  # noise before
    with pytest.raises(SystemExit, match="2"):
        coco_pairs.main([str(tmp_path / "coco"), str(tmp_path / "out")])
    assert "exists already" in capsys.readouterr().err
    (tmp_path / "coco" / "train2017" / "y.png").write_bytes(b"cut off")
    with pytest.raises(SystemExit, match="2"):
        coco_pairs.main([str(tmp_path / "coco"), str(tmp_path / "half")])
    assert "y.png" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["coco", "out"]


def test_equal_attributes_are_one_pattern_and_empty_ones_none():
    rows = [{"a": "x", "b": ""}, {"a": "x", "b": "y"}, {"a": "", "b": ""}, {"a": "x", "b": ""}]
    patterns, names = coco_pairs.group_patterns(rows)
    assert names == ("x", "x, y")
    assert patterns.tolist() == [0, 1, -1, 0]


def test_a_box_tells_where_the_picture_cuts():
    def instance(box):
        return coco_pairs.Instance(1, Path("x"), (100, 200), box, [], 0, Path("y"))

    assert coco_pairs.automatic(instance((50, 10, 20, 60))) == {"truncation": "whole", "shape": "tall"}
    assert coco_pairs.automatic(instance((50, 40, 60, 60))) == {"truncation": "cut below", "shape": "square"}
    assert coco_pairs.automatic(instance((0, 0, 60, 20)))["truncation"] == "cut left and above"


def test_fosd_ranks_within_a_class_and_fills_the_blank(tmp_path):
    fixtures.fosd(False)(tmp_path)
    data = LAYOUTS["fosd"].read(tmp_path, "test")
    assert data.among.int().tolist() == [[1, 1, 0, 0]] * 2 + [[0, 0, 1, 1]] * 2
    assert data.backgrounds[0][:, 12:34, 12:28].float().std() < 25
    train = LAYOUTS["fosd"].read(tmp_path, "train")
    source = torch.Generator().manual_seed(0)
    chosen = [Triplets(train, VIEW).chosen(0, source) for _ in range(20)]
    assert {p for p, _ in chosen} == {0, 1}
    assert {n for _, n in chosen} == {2, 3}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (["a-test.png", "4", "5", "0", "20", "a-test.png"], "row 2 has a box of 0 x 20"),
        (["a-test.png", "400", "5", "10", "20", "a-test.png"], "row 2 has a box outside its picture of 40 x 36"),
        (["a-test.png", "4", "five", "10", "20", "a-test.png"], "pairs.csv"),
        (["../a-test.png", "4", "5", "10", "20", "a-test.png"], "no file below"),
        (["a-test.png", "4", "5", "10", "20", "gone.png"], "no row for gone.png"),
    ],
)
def test_a_wrong_pair_is_named(row, why, tmp_path):
    fixtures.pairs(False)(tmp_path)
    fixtures.table(tmp_path / "pairs.csv", [["background", "x", "y", "width", "height", "foreground"], row])
    with pytest.raises(VergenceError, match=why) as refusal:
        LAYOUTS["folder"].read(tmp_path, "train")
    assert "\n" not in str(refusal.value)


# Rendered scenes ------------------------------------------------------------------------------------------------------


def test_rendered_scenes_follow_their_rule():
    from vergence.retrieval.staged import NAMES, scenes, staged
    from vergence.retrieval.staging import INSIDE, NOWHERE, UPPER

    data = staged(10, 1, 32, "a test")
    made = scenes(10, 32, ("a test",))
    assert len(NAMES) == len(set(NAMES)) == 18
    assert len(data.boxes) == 40
    boxes = made["boxes"]
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, :2] + boxes[:, 2:] <= 32 + 1e-4).all()
    upper = made["patterns"] // 4 == UPPER
    assert torch.equal(upper, made["where"] == NOWHERE)
    torch.testing.assert_close((boxes[:, 1] + boxes[:, 3])[upper], torch.full((int(upper.sum()),), 32.0))
    assert (made["where"] == INSIDE).any()
    soft = made["lights"] == 2
    assert torch.equal(soft, made["fits"] != made["patterns"])
    assert torch.equal(made["lights"][~soft], made["patterns"][~soft] % 2)
    # Every second one is the mirror image of the one before, lit from the other side.
    one, other = made["pictures"][0::2], made["pictures"][1::2]
    assert torch.equal(one, other.flip(-1))
    assert torch.equal(made["patterns"][0::2] ^ 1, made["patterns"][1::2])
    assert torch.equal(data.query_patterns(), made["patterns"])
    assert data.relevance()[~upper].sum(1).unique().tolist() == [1, 2]
    assert data.relevance()[upper].sum(1).unique().tolist() == [2, 4]  # of any view


def test_the_light_of_a_scene_and_of_a_figure_comes_from_its_side():
    from vergence.core.seeding import generator
    from vergence.retrieval.staging import cut_out

    for view in (0, 1):
        left, right = cut_out(0, view, 40, generator("test", view))
        for picture, sign in ((left, -1), (right, 1)):
            grey, alpha = picture[:3].mean(0), picture[3] > 0.9
            rows = [row for row in range(40) if alpha[row].sum() > 5]
            slopes = []
            for row in rows:
                where = alpha[row].nonzero()[:, 0]
                half = len(where) // 2
                slopes.append(float(grey[row, where[-half:]].mean() - grey[row, where[:half]].mean()))
            assert sign * sum(slopes) > 0


def test_motions_have_figures_of_their_own_shape():
    from vergence.core.seeding import generator
    from vergence.retrieval.cutouts import trimmed
    from vergence.retrieval.staging import cut_out

    def ratio(motion, view):
        shapes = [trimmed((255 * cut_out(motion, view, 24, generator(n, motion, view))[0]).byte(), "x").shape
                  for n in range(2)]  # fmt: skip
        return sum(shape[2] / shape[1] for shape in shapes) / 2

    ratios = {(m, v): ratio(m, v) for m, v in itertools.product(range(4), range(2))}
    assert all(ratios[m, 0] < ratios[m, 1] for m in (0, 1, 2))  # wider from the side
    assert ratios[3, 0] > ratios[3, 1]  # arms spread on the board
