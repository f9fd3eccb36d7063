"""Weights of other projects for the detectors of :mod:`vergence.nn.detectors`, every tensor accounted for.

Known are the names of torchvision (before and after 0.13), of detectron2, and of the first PyTorch code of Faster R-CNN
(``RCNN_base``, ``RCNN_rpn``, ``RCNN_top``), which many methods were built on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.nn.rcnn import RCNN

Rules = tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]
"""Patterns of names, and what stands for them here; the first that matches counts."""


def _stage(first: int) -> Callable[[re.Match[str]], str]:
    """Names of a residual block whose stage is numbered from ``first``."""

    def renamed(match: re.Match[str]) -> str:
        return f"backbone.body.layer{int(match[1]) - first + 1}.{_in_block(match[2])}"

    return renamed


def _in_block(name: str) -> str:
    """``0.conv1.norm.weight`` as ``0.bn1.weight``, ``0.shortcut.weight`` as ``0.downsample.0.weight``."""
    name = re.sub(r"\.conv(\d)\.norm\.", r".bn\1.", name)
    return name.replace(".shortcut.norm.", ".downsample.1.").replace(".shortcut.", ".downsample.0.")


TORCHVISION: Rules = (
    (r"(backbone\.fpn\.(?:inner|layer)_blocks\.\d)\.(weight|bias)", r"\1.0.\2"),
    (r"rpn\.head\.conv\.(weight|bias)", r"rpn.head.conv.0.0.\1"),
    (r"roi_heads\.mask_head\.mask_fcn(\d)\.(weight|bias)", lambda m: f"roi_heads.mask_head.{int(m[1]) - 1}.0.{m[2]}"),
    (r"((?:backbone\.(?:body|fpn)|rpn\.head|roi_heads)\..*)", r"\1"),
)
DETECTRON2: Rules = (
    (r"backbone\.(?:bottom_up\.)?stem\.conv1\.norm\.(.*)", r"backbone.body.bn1.\1"),
    (r"backbone\.(?:bottom_up\.)?stem\.conv1\.(.*)", r"backbone.body.conv1.\1"),
    (r"backbone\.(?:bottom_up\.)?res(\d)\.(.*)", _stage(2)),
    (r"roi_heads\.res5\.(.*)", lambda m: f"roi_heads.box_head.layer4.{_in_block(m[1])}"),
    (r"backbone\.fpn_lateral(\d)\.(.*)", lambda m: f"backbone.fpn.inner_blocks.{int(m[1]) - 2}.0.{m[2]}"),
    (r"backbone\.fpn_output(\d)\.(.*)", lambda m: f"backbone.fpn.layer_blocks.{int(m[1]) - 2}.0.{m[2]}"),
    (r"proposal_generator\.rpn_head\.conv\.(.*)", r"rpn.head.conv.0.0.\1"),
    (r"proposal_generator\.rpn_head\.objectness_logits\.(.*)", r"rpn.head.cls_logits.\1"),
    (r"proposal_generator\.rpn_head\.anchor_deltas\.(.*)", r"rpn.head.bbox_pred.\1"),
    (r"roi_heads\.box_head\.fc([12])\.(.*)", lambda m: f"roi_heads.box_head.fc{int(m[1]) + 5}.{m[2]}"),
    (r"roi_heads\.mask_head\.mask_fcn(\d)\.(.*)", lambda m: f"roi_heads.mask_head.{int(m[1]) - 1}.0.{m[2]}"),
    (r"roi_heads\.mask_head\.deconv\.(.*)", r"roi_heads.mask_predictor.conv5_mask.\1"),
    (r"roi_heads\.mask_head\.predictor\.(.*)", r"roi_heads.mask_predictor.mask_fcn_logits.\1"),
    (r"(roi_heads\.box_predictor\..*)", r"\1"),
)
_HEADS: Rules = (
    (r"RCNN_rpn\.RPN_Conv\.(.*)", r"rpn.head.conv.0.0.\1"),
    (r"RCNN_rpn\.RPN_cls_score\.(.*)", r"rpn.head.cls_logits.\1"),
    (r"RCNN_rpn\.RPN_bbox_pred\.(.*)", r"rpn.head.bbox_pred.\1"),
    (r"RCNN_(cls_score|bbox_pred)\.(.*)", r"roi_heads.box_predictor.\1.\2"),
)
CAFFE_RESNET: Rules = (
    (r"RCNN_base\.0\.(.*)", r"backbone.body.conv1.\1"),
    (r"RCNN_base\.1\.(.*)", r"backbone.body.bn1.\1"),
    (r"RCNN_base\.(\d)\.(.*)", _stage(4)),
    (r"RCNN_top\.0\.(.*)", r"roi_heads.box_head.layer4.\1"),
    *_HEADS,
)
CAFFE_VGG: Rules = (
    (r"RCNN_base\.(.*)", r"backbone.body.\1"),
    (r"RCNN_top\.0\.(.*)", r"roi_heads.box_head.fc6.\1"),
    (r"RCNN_top\.3\.(.*)", r"roi_heads.box_head.fc7.\1"),
    *_HEADS,
)
NO_WEIGHTS = re.compile(r".*num_batches_tracked|pixel_(mean|std)|.*cell_anchors\.\d+|.*anchor_generator\..*")
"""What such files hold besides weights."""


def load_detector(model: RCNN, state: Mapping[str, Tensor]) -> str:
    """Load another project's weights; every tensor must find its place, and none may be missing. Returns one sentence
    that says whose they are."""
    project, found = weights_of(model, state)
    model.load_state_dict(found)
    return f"the detector has the weights of {project}, {len(found)} tensors"


def weights_of(model: RCNN, state: Mapping[str, Tensor]) -> tuple[str, dict[str, Tensor]]:
    """The project that weights come from, and the weights under the names of ``model``, whose own values (which may be
    on the meta device) are not looked at."""
    given = {name: tensor for name, tensor in state.items() if not NO_WEIGHTS.fullmatch(name)}
    project, rules = _rules(given)
    found = {_renamed(name, rules, project): tensor for name, tensor in given.items()}
    if project == "detectron2":
        found = _background_first(_by_ratios(found, model))
    expected = model.state_dict()
    for name, tensor in expected.items():
        if name not in found:
            raise VergenceError(f"the weights of {project} have nothing for {name!r}")
        if found[name].shape != tensor.shape:
            raise VergenceError(
                f"the weights have {tuple(found[name].shape)} for {name!r}, expected {tuple(tensor.shape)}"
            )
    strange = next((name for name in found if name not in expected), None)
    if strange is not None:
        raise VergenceError(f"the weights have {strange!r}, for which the detector has no place")
    return project, found


def _rules(state: Mapping[str, Tensor]) -> tuple[str, Rules]:
    if any(name.startswith("backbone.body.") for name in state):
        return "torchvision", TORCHVISION
    if any(name.startswith("proposal_generator.") for name in state):
        return "detectron2", DETECTRON2
    if "RCNN_base.0.weight" in state:
        has_norm = "RCNN_base.1.running_mean" in state
        return "faster-rcnn.pytorch", CAFFE_RESNET if has_norm else CAFFE_VGG
    first = next(iter(state), None)
    raise VergenceError(
        f"these are no weights of a detector of torchvision, detectron2 or faster-rcnn.pytorch: the first is {first!r}"
    )


def _renamed(name: str, rules: Rules, project: str) -> str:
    for pattern, result in rules:
        match = re.fullmatch(pattern, name)
        if match:
            return match.expand(result) if isinstance(result, str) else result(match)
    raise VergenceError(f"{name!r} is not known as a name of {project}'s detectors")


def _by_ratios(state: dict[str, Tensor], model: RCNN) -> dict[str, Tensor]:
    """Anchors of a place in our order, by ratios and then sizes; detectron2 has them by sizes and then ratios."""
    sizes, ratios = len(model.rpn.sizes[0]), len(model.rpn.ratios)
    order = torch.arange(sizes * ratios).reshape(sizes, ratios).mT.flatten()
    for kind, numbers in (("cls_logits", 1), ("bbox_pred", 4)):
        for part in ("weight", "bias"):
            name = f"rpn.head.{kind}.{part}"
            tensor = state.get(name)
            if tensor is not None and len(tensor) == numbers * len(order):
                state[name] = tensor.unflatten(0, (-1, numbers))[order].flatten(0, 1)
    return state


def _background_first(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Classes with the background first: detectron2 has it last, and no boxes or masks for it."""
    for part in ("weight", "bias"):
        scores = state.get(f"roi_heads.box_predictor.cls_score.{part}")
        if scores is not None:
            state[f"roi_heads.box_predictor.cls_score.{part}"] = scores.roll(1, 0)
        for name, rows in ((f"roi_heads.box_predictor.bbox_pred.{part}", 4),
                           (f"roi_heads.mask_predictor.mask_fcn_logits.{part}", 1)):  # fmt: skip
            if name in state:
                state[name] = torch.cat([torch.zeros_like(state[name][:rows]), state[name]])
    return state
