"""Objects in a user's pictures, and detectors of other projects: torchvision, detectron2, faster-rcnn.pytorch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.core.errors import VergenceError
from vergence.data import coco
from vergence.detection.data import Sample, fitted
from vergence.detection.dualmultilabel.model import MCAR
from vergence.detection.dualmultilabel.settings import Config, Facts, Inputs, ModelConfig, Weights
from vergence.detection.finding import Objects, search
from vergence.detection.layouts import VOC
from vergence.detection.settings import Domains
from vergence.nn.detector_weights import weights_of
from vergence.nn.rcnn import Detections, batched
from vergence.reading.weights import load_state

Ctx = Context[Config, Facts]
BYTES_PER_PIXEL = 4 * 700
"""Memory of a pixel of a resized picture: the largest maps of the first stage."""


def find(ctx: Ctx, model: MCAR, inputs: Inputs) -> Objects:
    """The objects of all pictures."""
    return search(ctx, inputs, ctx.facts.classes, lambda picture: detect(ctx, model, picture))


def detect(ctx: Ctx, model: MCAR, picture: Tensor) -> Detections:
    """The objects of a picture (3, H, W) of bytes, in its own pixels."""
    asked = ctx.config.data
    none = torch.zeros(0)
    sample = fitted(Sample(picture, torch.zeros(0, 4), none, none, ""), asked.shortest, asked.longest)
    height, width = sample.picture.shape[-2:]
    if ctx.config.model.detector != "small":
        ctx.need(BYTES_PER_PIXEL * height * width, f"looking at {width} x {height} pixels")
    pictures, sizes = batched([sample.picture], 32 if ctx.config.model.detector == "resnet-fpn" else 1)
    pictures, sizes = ctx.to_device(pictures), ctx.to_device(sizes)
    with ctx.autocast():
        found = model.detect(pictures, sizes)[0]
    back = found.boxes.new_tensor([picture.shape[-1] / width, picture.shape[-2] / height] * 2)
    return found._replace(boxes=found.boxes * back)


# Weights of other projects --------------------------------------------------------------------------------------------

Family = Literal["caffe", "torchvision", "detectron2"]
STAGES = {"torchvision": r"backbone\.body\.layer{}\.(\d+)\.conv1\.weight",
          "detectron2": r"backbone\.(?:bottom_up\.)?res{}\.(\d+)\.conv1\.weight",
          "caffe": r"RCNN_base\.{}\.(\d+)\.conv1\.weight"}  # fmt: skip
FIRST = {"torchvision": 1, "detectron2": 2, "caffe": 4}
"""Number of the first stage in names."""


def published(path: Path) -> tuple[Config, Facts, dict[str, Tensor]]:
    """A detector of torchvision, detectron2 or faster-rcnn.pytorch: config, classes and weights under our names. Heads
    for masks are left out."""
    state = {name: tensor for name, tensor in load_state(path).items() if "mask" not in name}
    family = _family(state, path)
    scores = next((t for name, t in state.items() if re.search(r"cls_score\.bias$", name)), None)
    if scores is None or scores.dim() != 1 or not 2 <= len(scores) <= 100_000:
        raise VergenceError(f"{path} is not a Faster R-CNN: it has no cls_score with the scores of its classes")
    config = Config(
        replace(_architecture(state, family, path), multi=False, adversary="none"),
        Domains(shortest=600, longest=1000) if family == "caffe" else Domains(shortest=800, longest=1333),
        Weights(adversary=0.0, labels=0.0, consistency=0.0),
    )
    facts = Facts(class_names(len(scores) - 1))
    with torch.device("meta"):
        model = MCAR(config.model, len(facts.classes))
    _, weights = weights_of(model.detector, state)
    return config, facts, {f"detector.{name}": tensor.float() for name, tensor in weights.items()}


def _family(state: Mapping[str, Tensor], path: Path) -> Family:
    if any(name.startswith("RCNN_base.") for name in state):
        return "caffe"
    if any(name.startswith("proposal_generator.") for name in state):
        return "detectron2"
    if any(name.startswith("backbone.body.") for name in state):
        return "torchvision"
    raise VergenceError(f"{path} is no detector of torchvision, detectron2 or faster-rcnn.pytorch")


def _architecture(state: Mapping[str, Tensor], family: Family, path: Path) -> ModelConfig:
    if family == "caffe" and "RCNN_base.1.running_mean" not in state:
        return ModelConfig("vgg16", "caffe")
    pyramid = any("fpn" in name for name in state)
    depths = [_blocks(state, STAGES[family].format(FIRST[family] + stage)) for stage in range(4)]
    if not pyramid:
        head = r"RCNN_top\.0\.(\d+)\.conv1\.weight" if family == "caffe" else r"roi_heads\.res5\.(\d+)\.conv1\.weight"
        depths[3] = _blocks(state, head)
    if min(depths) < 1 or (family == "torchvision" and not pyramid):
        raise VergenceError(f"{path} is a detector of {family} whose backbone is not a ResNet with bottlenecks")
    return ModelConfig("resnet-fpn" if pyramid else "resnet", family, (depths[0], depths[1], depths[2], depths[3]))


def _blocks(state: Mapping[str, Tensor], pattern: str) -> int:
    return max((int(match[1]) + 1 for name in state if (match := re.fullmatch(pattern, name))), default=0)


def class_names(count: int) -> tuple[str, ...]:
    """Names of the classes of a published detector, by their number: COCO's 80, its 90 ids, or VOC's 20."""
    if count == len(coco.NAMES):
        return coco.NAMES
    if count == max(coco.BY_ID):
        return tuple(coco.BY_ID.get(number, f"unused {number}") for number in range(1, count + 1))
    return VOC if count == len(VOC) else tuple(f"class {number}" for number in range(1, count + 1))


def pretrained(config: ModelConfig, model: MCAR, state: Mapping[str, Any]) -> str:
    """Start from ImageNet weights with torchvision's names: the trunk, and the layers of regions."""
    detector = model.detector
    if config.detector == "small":
        raise VergenceError("the small detector starts from no other weights: --pretrained is for vgg16 and resnet")
    if config.detector == "vgg16":
        pairs = {f"features.{n}.{kind}": f"backbone.body.{n}.{kind}" for n in range(30) for kind in ("weight", "bias")}
        pairs |= {f"classifier.{n}.{kind}": f"roi_heads.box_head.fc{6 + n // 3}.{kind}" for n in (0, 3)
                  for kind in ("weight", "bias")}  # fmt: skip
        pairs = {theirs: ours for theirs, ours in pairs.items() if ours in detector.state_dict()}
    else:
        body = [name for name in detector.state_dict() if name.startswith("backbone.body.")]
        pairs = {name.removeprefix("backbone.body."): name for name in body}
        head = [name for name in detector.state_dict() if name.startswith("roi_heads.box_head.layer4.")]
        pairs |= {name.removeprefix("roi_heads.box_head."): name for name in head}
    expected = detector.state_dict()
    for theirs, ours in pairs.items():
        given = state.get(theirs)
        if not isinstance(given, Tensor) or given.shape != expected[ours].shape:
            got = tuple(given.shape) if isinstance(given, Tensor) else "nothing"
            raise VergenceError(
                f"the weights have {got} for {theirs!r}, expected {tuple(expected[ours].shape)} by torchvision's names"
            )
    detector.load_state_dict({ours: state[theirs] for theirs, ours in pairs.items()}, strict=False)
    return f"{len(pairs)} tensors of the detector start from ImageNet weights, the rest is new"


def names_of(classes: Sequence[str], labels: Tensor) -> list[str]:
    """Names of labels from 1."""
    return [classes[label - 1] for label in labels.tolist()]
