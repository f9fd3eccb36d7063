"""Detectors: the parts against their definitions, sizes by hand, and every name of published weights."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vergence.core.errors import VergenceError
from vergence.nn.detector_weights import load_detector
from vergence.nn.detectors import OneMap, resnet_c4, resnet_fpn, vgg16_c5
from vergence.nn.fpn import FeaturePyramid
from vergence.nn.frozen import FrozenNorm, FrozenResNet
from vergence.nn.rcnn import (
    RCNN,
    BoxHead,
    BoxPredictor,
    MaskHead,
    MaskPredictor,
    RoIHeads,
    batched,
    pasted,
    regions_of,
)
from vergence.nn.rpn import RPN, Scored, Target, caffe_anchors
from vergence.ops.box_targets import BACKGROUND, IGNORED, balanced, matched
from vergence.ops.boxes import encoded, pairwise_iou


def count(model):
    return sum(p.numel() for p in model.parameters())


def small(masks=False, classes=3):
    """A detector of a few thousand parameters on one map of stride 4."""
    torch.manual_seed(0)
    trunk = OneMap(nn.Sequential(nn.Conv2d(3, 8, 3, 4, 1), nn.ReLU()))
    rpn = RPN(8, [(8.0, 16.0)], [4], before=(200, 100), after=(50, 30), sampled=32)
    mask = (MaskHead(8, 4, 1), MaskPredictor(4, classes)) if masks else None
    heads = RoIHeads(BoxHead(8 * 9, 16), BoxPredictor(16, classes), [4], size=3, sampled=24, mask=mask, mask_size=4)
    return RCNN(trunk, rpn, heads).double()


def scene(seed=0):
    source = torch.Generator().manual_seed(seed)
    low = torch.rand(3, 2, generator=source, dtype=torch.float64) * 30
    boxes = torch.cat([low, low + 6 + 12 * torch.rand(3, 2, generator=source, dtype=torch.float64)], 1)
    masks = torch.zeros(3, 48, 56, dtype=torch.bool)
    for mask, (x, y, r, b) in zip(masks, boxes.long().tolist(), strict=True):
        mask[y:b, x:r] = True
    return Target(boxes, torch.tensor([1, 3, 2]), masks)


# Targets --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep_best", [False, True])
def test_anchors_belong_to_the_box_they_overlap_most(keep_best):
    iou = torch.rand(4, 30, generator=torch.Generator().manual_seed(1)).pow(2)
    iou[:, 5] = 0.0
    match = matched(iou, 0.3, 0.6, keep_best)
    for anchor in range(30):
        own = iou[:, anchor]
        kept = keep_best and any(own[box] == iou[box].max() and own[box] > 0 for box in range(4))
        if own.max() >= 0.6 or kept:
            assert match[anchor] == own.argmax()
        else:
            assert match[anchor] == (BACKGROUND if own.max() < 0.3 else IGNORED)


def test_a_picture_without_boxes_is_all_background():
    assert (matched(torch.zeros(0, 7), 0.3, 0.7) == BACKGROUND).all()


def test_samples_are_balanced_and_repeat_with_their_generator():
    match = torch.tensor([0] * 10 + [BACKGROUND] * 50 + [IGNORED] * 40)
    for wanted, share, expected in ((16, 0.25, (4, 12)), (64, 0.5, (10, 50)), (8, 1.0, (8, 0))):
        things, background = balanced(match, wanted, share, torch.Generator().manual_seed(3))
        assert (len(things), len(background)) == expected
        assert (match[things] == 0).all()
        assert (match[background] == BACKGROUND).all()
        assert len(set(things.tolist() + background.tolist())) == sum(expected)
        again = balanced(match, wanted, share, torch.Generator().manual_seed(3))
        assert torch.equal(things, again[0])
    firsts = {tuple(balanced(match, 4, 0.5, torch.Generator().manual_seed(s))[0].tolist()) for s in range(9)}
    assert len(firsts) > 4


# Parts ----------------------------------------------------------------------------------------------------------------


def test_frozen_norms_are_part_of_the_convolutions_before_them():
    torch.manual_seed(0)
    body = FrozenResNet((1, 1), "bottleneck", (8, 16)).double()
    for module in body.modules():
        if isinstance(module, FrozenNorm):
            for buffer in (module.weight, module.bias, module.running_mean):
                buffer.normal_()
            module.running_var.uniform_(0.5, 2)
    x = torch.randn(2, 3, 40, 33, dtype=torch.float64, requires_grad=True)

    def plain(x):
        x = F.max_pool2d(F.relu(body.bn1(body.conv1(x))), 3, 2, 1)
        for name in ("layer1", "layer2"):
            block = body.get_submodule(name)[0]
            out = F.relu(block.bn1(block.conv1(x)))
            out = F.relu(block.bn2(block.conv2(out)))
            x = F.relu(block.bn3(block.conv3(out)) + (block.downsample(x) if block.downsample else x))
        return x

    torch.testing.assert_close(body(x), plain(x))
    weight = body.layer2[0].conv2.weight
    ours = torch.autograd.grad(body(x).square().sum(), (x, weight))
    for a, b in zip(ours, torch.autograd.grad(plain(x).square().sum(), (x, weight)), strict=True):
        torch.testing.assert_close(a, b)
    with torch.no_grad():
        before = body(x)
        weight.mul_(2)
        assert not torch.allclose(body(x), before)
    assert {name for name, _ in body.named_parameters()} == {n for n, _ in body.named_parameters() if "bn" not in n}


def test_a_pyramid_adds_what_is_above_at_the_nearest_pixel():
    torch.manual_seed(0)
    pyramid = FeaturePyramid((4, 6, 5), 3).double()
    maps = [torch.randn(1, c, h, w, dtype=torch.float64) for c, h, w in ((4, 11, 9), (6, 6, 5), (5, 3, 3))]
    levels = pyramid(maps)
    assert [tuple(level.shape) for level in levels] == [(1, 3, 11, 9), (1, 3, 6, 5), (1, 3, 3, 3), (1, 3, 2, 2)]
    laterals = [block(each) for block, each in zip(pyramid.inner_blocks, maps, strict=True)]
    middle = laterals[1].clone()
    for y, x in itertools.product(range(6), range(5)):
        middle[0, :, y, x] += laterals[2][0, :, y * 3 // 6, x * 3 // 5]
    torch.testing.assert_close(levels[1], pyramid.layer_blocks[1](middle))
    torch.testing.assert_close(levels[3], levels[2][:, :, ::2, ::2])


def test_two_scores_for_an_anchor_are_one_as_the_odds_of_their_softmax():
    torch.manual_seed(0)
    rpn = RPN(4, [(8.0,)], [4], scores=2).double()
    features = torch.randn(1, 4, 3, 2, dtype=torch.float64)
    logits = rpn.head.cls_logits(rpn.head.conv(features)).reshape(1, 2, 3, 3, 2).softmax(1)[:, 1]  # (1, A, H, W)
    torch.testing.assert_close(rpn([features]).logits.sigmoid(), logits.permute(0, 2, 3, 1).flatten(1))


def test_the_first_code_of_faster_rcnn_has_its_well_known_anchors():
    expected = [
        [-84, -40, 99, 55], [-176, -88, 191, 103], [-360, -184, 375, 199], [-56, -56, 71, 71], [-120, -120, 135, 135],
        [-248, -248, 263, 263], [-36, -80, 51, 95], [-80, -168, 95, 183], [-168, -344, 183, 359],
    ]  # fmt: skip
    assert caffe_anchors(16, (128, 256, 512), (0.5, 1, 2)).tolist() == expected


def test_anchors_lie_on_every_place_and_codes_move_them():
    rpn = RPN(2, [(8.0,), (16.0,)], [4, 8], ratios=(1.0,), style="exact", before=(99, 99), after=(99, 99), overlap=1.0)
    rpn.eval()
    scored = rpn([torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 2, 2)])
    assert scored.anchors[5].tolist() == [0.0, 0.0, 8.0, 8.0]  # row 1, column 1 of stride 4
    assert scored.level.tolist() == [0] * 12 + [1] * 4
    aim = torch.tensor([1.0, 2.0, 7.0, 9.0])
    codes = torch.zeros(1, 16, 4)
    codes[0, 5] = encoded(aim, scored.anchors[5])
    logits = torch.full((1, 16), -9.0)
    logits[0, 5] = 5.0
    (boxes,) = rpn.proposals(Scored(logits, codes, scored.anchors, scored.level), torch.tensor([[12, 14]]))
    torch.testing.assert_close(boxes[0], aim)
    assert (boxes[:, 2] <= 14).all()
    assert (boxes[:, 3] <= 12).all()
    assert (boxes >= 0).all()


def test_proposals_of_pictures_in_a_batch_are_those_of_each_alone():
    model = small().eval()
    one, two = torch.randn(3, 48, 56, dtype=torch.float64), torch.randn(3, 40, 44, dtype=torch.float64)
    pictures, sizes = batched([one, two], 4)
    assert sizes.tolist() == [[48, 56], [40, 44]]
    assert (pictures[1, :, 40:] == 0).all()
    together = model.detect(pictures, sizes)
    alone = model.detect(*batched([one], 4))[0]
    torch.testing.assert_close(together[0].boxes, alone.boxes)
    torch.testing.assert_close(together[0].scores, alone.scores)
    assert (together[1].boxes[:, 2] <= 44).all()


def test_regions_come_from_the_level_that_fits_their_size():
    heads = RoIHeads(nn.Identity(), BoxPredictor(4, 1), [4, 8, 16, 32])
    maps = [torch.full((1, 1, 2 ** (9 - n), 2 ** (9 - n)), float(n)) for n in range(4)]
    sides = torch.tensor([20.0, 111.0, 113.0, 224.0, 447.0, 449.0, 1500.0])
    boxes = torch.stack([torch.zeros(7), torch.zeros(7), sides, sides], 1)
    pooled = heads.pooled(maps, boxes, torch.zeros(7, dtype=torch.long), 2)
    assert pooled[:, 0, 0, 0].tolist() == [0, 0, 1, 2, 2, 3, 3]


# Losses ---------------------------------------------------------------------------------------------------------------


def test_losses_of_proposals_are_those_of_a_loop_over_chosen_anchors():
    model, target = small(), scene()
    picture = torch.randn(1, 3, 48, 56, dtype=torch.float64)
    scored = model.rpn(model.backbone(picture))
    losses = model.rpn.losses(scored, [target], torch.tensor([[48, 56]]), torch.Generator().manual_seed(5))
    match = matched(pairwise_iou(target.boxes, scored.anchors), 0.3, 0.7, keep_best=True)
    things, background = balanced(match, 32, 0.5, torch.Generator().manual_seed(5))
    score = box = 0.0
    for anchor in things.tolist():
        score += math.log1p(math.exp(-scored.logits[0, anchor].item()))
        aim = encoded(target.boxes[match[anchor]], scored.anchors[anchor])
        for error in (scored.codes[0, anchor] - aim).abs().tolist():
            box += error**2 * 4.5 if error < 1 / 9 else error - 1 / 18
    for anchor in background.tolist():
        score += math.log1p(math.exp(scored.logits[0, anchor].item()))
    chosen = len(things) + len(background)
    assert losses["rpn_score"].item() == pytest.approx(score / chosen)
    assert losses["rpn_box"].item() == pytest.approx(box / chosen)


def test_regions_to_train_on_have_the_class_and_box_of_their_object():
    model, target = small(), scene(1)
    proposals = [torch.cat([target.boxes + 1, torch.tensor([[0.0, 0.0, 3.0, 3.0]], dtype=torch.float64)])]
    regions = model.roi_heads.sample(proposals, [target], torch.Generator().manual_seed(0))
    iou = pairwise_iou(target.boxes, regions.boxes)
    assert torch.equal(regions.labels > 0, iou.max(0).values >= 0.5)
    for row in (regions.labels > 0).nonzero().squeeze(1).tolist():
        best = int(iou[:, row].argmax())
        assert regions.labels[row] == target.labels[best]
        torch.testing.assert_close(regions.aims[row], encoded(target.boxes[best], regions.boxes[row], (10, 10, 5, 5)))


@pytest.mark.parametrize("masks", [False, True])
def test_a_detector_learns_a_scene_by_heart(masks):
    model, boxes = (
        small(masks),
        torch.tensor([[4.0, 6.0, 16.0, 15.0], [30.0, 8.0, 50.0, 20.0], [12.0, 28.0, 26.0, 44.0]]),
    )
    planes = torch.zeros(3, 48, 56, dtype=torch.bool)
    for plane, (x, y, r, b) in zip(planes, boxes.long().tolist(), strict=True):
        plane[y:b, x:r] = True
    target = Target(boxes.double(), torch.tensor([1, 3, 2]), planes)
    picture = torch.zeros(1, 3, 48, 56, dtype=torch.float64)
    for number, mask in enumerate(target.masks):
        picture[0, number, mask] = 1.0
    sizes, source = torch.tensor([[48, 56]]), torch.Generator().manual_seed(0)
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(120):
        losses = model.losses(picture, sizes, [target], source)
        assert ("mask" in losses) is masks
        optimiser.zero_grad()
        sum(losses.values()).backward()
        optimiser.step()
    found = model.eval()(picture)[0]
    iou = pairwise_iou(target.boxes, found.boxes)
    best = iou.argmax(1)
    assert (iou.max(1).values > 0.6).all()
    assert torch.equal(found.labels[best], target.labels)
    if masks:
        inside = pasted(found.masks[best], found.boxes[best], 48, 56)
        common = (inside & target.masks).sum((1, 2)) / (inside | target.masks).sum((1, 2))
        assert (common > 0.5).all()


def test_pictures_without_objects_are_negatives():
    model = small(masks=True)
    empty = Target(torch.zeros(0, 4, dtype=torch.float64), torch.zeros(0, dtype=torch.long), torch.zeros(0, 48, 56))
    losses = model.losses(torch.randn(1, 3, 48, 56, dtype=torch.float64), torch.tensor([[48, 56]]), [empty])
    assert float(losses["box"]) == float(losses["rpn_box"]) == float(losses["mask"]) == 0
    sum(losses.values()).backward()
    assert model.roi_heads.box_predictor.cls_score.weight.grad.abs().sum() > 0


def test_masks_are_put_where_their_boxes_are():
    full = pasted(torch.ones(2, 4, 4), torch.tensor([[2.0, 1.0, 6.0, 5.0], [7.0, 7.0, 20.0, 20.0]]), 10, 12)
    assert full[0].sum() == 16
    assert full[0, 1:5, 2:6].all()
    assert full[1, 7:, 7:].all()
    half = torch.zeros(1, 4, 4)
    half[:, :, 2:] = 1
    assert not pasted(half, torch.tensor([[0.0, 0.0, 8.0, 8.0]]), 8, 8)[0, :, :3].any()


# Published sizes and weights ------------------------------------------------------------------------------------------

RESNET50, RESNET101 = 23_508_032 - 53_120, 42_500_160 - 105_344  # without classifier, and without norms
PYRAMID = (256 + 512 + 1024 + 2048) * 256 + 4 * 256 + 4 * (256 * 256 * 9 + 256)
PROPOSING = 256 * 256 * 9 + 256 + 256 * 3 + 3 + 256 * 12 + 12
JUDGING = 256 * 49 * 1024 + 1024 + 1024 * 1024 + 1024
MASKS = 4 * (256 * 256 * 9 + 256) + 256 * 256 * 4 + 256 + 256 * 91 + 91


def linear(inputs, classes):
    return inputs * (classes + 1) * 5 + (classes + 1) * 5


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: resnet_fpn(90), RESNET50 + PYRAMID + PROPOSING + JUDGING + linear(1024, 90)),
        (lambda: resnet_fpn(90, masks=True), 44_401_393),
        (lambda: resnet_c4(20), RESNET101 + 1024 * 512 * 9 + 512 + 513 * 54 + linear(2048, 20)),
        (lambda: resnet_c4(80, family="detectron2"), RESNET101 + 1024 * 1024 * 9 + 1024 + 1025 * 75 + linear(2048, 80)),
        (lambda: vgg16_c5(20), 14_714_688 + 512 * 512 * 9 + 512 + 513 * 54 + 102_764_544 + 16_781_312
         + linear(4096, 20)),
    ],
)  # fmt: skip
def test_published_detectors_have_their_published_size(build, expected):
    with torch.device("meta"):
        assert count(build()) == expected
    assert RESNET50 + PYRAMID + PROPOSING + JUDGING + linear(1024, 90) + MASKS == 44_401_393


def renamed(model, *rules):
    """The weights of a small detector under other names."""
    state = {}
    for name, tensor in model.state_dict().items():
        for old, new in rules:
            name = name.replace(old, new)
        state[name] = tensor
    return state


def tiny_fpn(masks=False):
    torch.manual_seed(1)
    return resnet_fpn(2, masks, (1, 1, 1, 1))


OLD_TORCHVISION = [
    *((f"{kind}_blocks.{n}.0.", f"{kind}_blocks.{n}.") for kind in ("inner", "layer") for n in range(4)),
    ("rpn.head.conv.0.0.", "rpn.head.conv."),
    *((f"mask_head.{n}.0.", f"mask_head.mask_fcn{n + 1}.") for n in range(4)),
]
BLOCK = [*((f".bn{n}.", f".conv{n}.norm.") for n in (1, 2, 3)), (".downsample.0.", ".shortcut."),
         (".downsample.1.", ".shortcut.norm.")]  # fmt: skip
RPN_OF_DETECTRON2 = [
    ("rpn.head.conv.0.0.", "proposal_generator.rpn_head.conv."),
    ("rpn.head.cls_logits.", "proposal_generator.rpn_head.objectness_logits."),
    ("rpn.head.bbox_pred.", "proposal_generator.rpn_head.anchor_deltas."),
]
DETECTRON2 = [
    ("backbone.body.bn1.", "backbone.bottom_up.stem.conv1.norm."),
    ("backbone.body.conv1.", "backbone.bottom_up.stem.conv1."),
    *((f"backbone.body.layer{n}.", f"backbone.bottom_up.res{n + 1}.") for n in (1, 2, 3, 4)),
    *BLOCK,
    *((f"fpn.inner_blocks.{n}.0.", f"fpn_lateral{n + 2}.") for n in range(4)),
    *((f"fpn.layer_blocks.{n}.0.", f"fpn_output{n + 2}.") for n in range(4)),
    *RPN_OF_DETECTRON2,
    ("box_head.fc6.", "box_head.fc1."),
    ("box_head.fc7.", "box_head.fc2."),
    *((f"mask_head.{n}.0.", f"mask_head.mask_fcn{n + 1}.") for n in range(4)),
    ("mask_predictor.conv5_mask.", "mask_head.deconv."),
    ("mask_predictor.mask_fcn_logits.", "mask_head.predictor."),
]
CAFFE = [
    ("backbone.body.bn1.", "RCNN_base.1."),
    ("backbone.body.conv1.", "RCNN_base.0."),
    *((f"backbone.body.layer{n}.", f"RCNN_base.{n + 3}.") for n in (1, 2, 3)),
    ("roi_heads.box_head.layer4.", "RCNN_top.0."),
    ("rpn.head.conv.0.0.", "RCNN_rpn.RPN_Conv."),
    ("rpn.head.cls_logits.", "RCNN_rpn.RPN_cls_score."),
    ("rpn.head.bbox_pred.", "RCNN_rpn.RPN_bbox_pred."),
    ("roi_heads.box_predictor.", "RCNN_"),
]


@pytest.mark.parametrize("rules", [[], OLD_TORCHVISION], ids=["new names", "old names"])
def test_weights_of_torchvision_load_under_both_their_names(rules):
    theirs = tiny_fpn(masks=True)
    torch.manual_seed(2)
    ours = resnet_fpn(2, True, (1, 1, 1, 1))
    assert "torchvision" in load_detector(ours, renamed(theirs, *rules))
    for name, tensor in ours.state_dict().items():
        assert torch.equal(tensor, theirs.state_dict()[name]), name


def test_weights_of_detectron2_load_with_the_background_moved_to_the_front():
    theirs = tiny_fpn(masks=True)
    state = renamed(theirs, *DETECTRON2)
    scores = state["roi_heads.box_predictor.cls_score.weight"]
    state["roi_heads.box_predictor.cls_score.weight"] = scores.roll(-1, 0)  # the background last
    for name, rows in (("roi_heads.box_predictor.bbox_pred", 4), ("roi_heads.mask_head.predictor", 1)):
        for part in ("weight", "bias"):
            state[f"{name}.{part}"] = state[f"{name}.{part}"][rows:]
    state["pixel_mean"] = torch.zeros(3, 1, 1)
    state["proposal_generator.anchor_generator.cell_anchors.0"] = torch.zeros(3, 4)
    ours = resnet_fpn(2, True, (1, 1, 1, 1), "detectron2")
    assert "detectron2" in load_detector(ours, state)
    assert torch.equal(ours.roi_heads.box_predictor.cls_score.weight, scores)
    assert torch.equal(
        ours.roi_heads.box_predictor.bbox_pred.weight[4:], theirs.roi_heads.box_predictor.bbox_pred.weight[4:]
    )
    assert not ours.roi_heads.box_predictor.bbox_pred.weight[:4].any()
    assert torch.equal(ours.backbone.body.layer3[0].bn2.bias, theirs.backbone.body.layer3[0].bn2.bias)


def test_anchors_of_detectron2_are_sorted_by_ratios():
    with torch.device("cpu"):
        ours = resnet_c4(2, (1, 1, 1, 1), "detectron2")
    rules = [(f"backbone.body.layer{n}.", f"backbone.res{n + 1}.") for n in (1, 2, 3)]
    rules += [("backbone.body.bn1.", "backbone.stem.conv1.norm."), ("backbone.body.conv1.", "backbone.stem.conv1."),
              ("roi_heads.box_head.layer4.", "roi_heads.res5."), *BLOCK, *RPN_OF_DETECTRON2]  # fmt: skip
    state = renamed(ours, *rules)
    for part in ("weight", "bias"):
        name = f"roi_heads.box_predictor.bbox_pred.{part}"
        state[name] = state[name][4:]
    # What an anchor of size s and ratio r is told: 10 s + r, in their order, by sizes.
    told = torch.tensor([10.0 * s + r for s in range(5) for r in range(3)])
    state["proposal_generator.rpn_head.objectness_logits.bias"] = told
    state["proposal_generator.rpn_head.anchor_deltas.bias"] = told.repeat_interleave(4)
    load_detector(ours, state)
    assert ours.rpn.head.cls_logits.bias.tolist() == [10 * s + r for r in range(3) for s in range(5)]
    assert ours.rpn.head.bbox_pred.bias.tolist() == [10 * s + r for r in range(3) for s in range(5) for _ in range(4)]


def test_weights_of_the_first_code_load_for_resnets_and_vgg():
    theirs, ours = (resnet_c4(2, (1, 1, 1, 1)) for _ in range(2))
    state = renamed(theirs, *CAFFE) | {"RCNN_base.1.num_batches_tracked": torch.tensor(3)}
    assert "faster-rcnn.pytorch" in load_detector(ours, state)
    for name, tensor in ours.state_dict().items():
        assert torch.equal(tensor, theirs.state_dict()[name]), name
    with torch.device("meta"):
        vgg = vgg16_c5(20)
        state = renamed(vgg, ("backbone.body.", "RCNN_base."), ("roi_heads.box_head.fc6.", "RCNN_top.0."),
                        ("roi_heads.box_head.fc7.", "RCNN_top.3."), *CAFFE[6:])  # fmt: skip
        assert "RCNN_base.28.weight" in state  # the last convolution, as in VGG16 without its last pooling layer
        load_detector(vgg, state)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s.pop("rpn.head.cls_logits.bias"), "nothing for 'rpn.head.cls_logits.bias'"),
        (lambda s: s.update({"roi_heads.extra.weight": torch.zeros(1)}), "'roi_heads.extra.weight', for which"),
        (lambda s: s.update({"rpn.head.cls_logits.bias": torch.zeros(7)}), r"\(7,\).*expected \(3,\)"),
        (lambda s: s.update({"strange.weight": torch.zeros(1)}), "'strange.weight' is not known"),
        (lambda s: s.clear(), "no weights of a detector"),
    ],
)
def test_weights_that_do_not_fit_are_named(change, said):
    model = tiny_fpn()
    state = dict(model.state_dict())
    change(state)
    with pytest.raises(VergenceError, match=said):
        load_detector(model, state)


def test_regions_without_targets_keep_their_pictures():
    regions = regions_of([torch.zeros(2, 4), torch.zeros(0, 4), torch.ones(1, 4)])
    assert regions.picture.tolist() == [0, 0, 2]
