"""The compared models by variant and size, their cost in closed form, pretrained weights, and response maps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError, did_you_mean
from vergence.nn.temporal import Alignment
from vergence.nn.video_vit import VideoViT
from vergence.nn.vit import resampled, usual_names
from vergence.video.ata.settings import Config


@dataclass(frozen=True)
class Size:
    """A ViT's patch side, width, number of blocks and of heads."""

    patch: int
    width: int
    depth: int
    heads: int


SIZES: Mapping[str, Size] = MappingProxyType(
    {
        "mini": Size(8, 32, 4, 4),
        "tiny": Size(8, 64, 4, 4),
        "ti16": Size(16, 192, 12, 3),
        "s16": Size(16, 384, 12, 6),
        "b16": Size(16, 768, 12, 12),
        "l16": Size(16, 1024, 24, 16),
    }
)
"""``mini`` and ``tiny`` train in minutes on small clips; the others are the usual ViT sizes."""

TEMPORAL: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "averaging": {"modelling": "averaging"},
        "joint": {"modelling": "joint"},
        "factorised": {},
        "ata": {"stages": (0, 1, 2, 3)},
        "ata-1": {"stages": (0,)},
        "ata-2": {"stages": (0, 1)},
        "ata-3": {"stages": (0, 1, 2)},
        "ata-shared": {"stages": (0, 1, 2, 3), "share": 3},
        "ata-first": {"stages": (0, 1, 2, 3), "alignment": Alignment(reference="first")},
        "ata-kept": {"stages": (0, 1, 2, 3), "alignment": Alignment(after="keep")},
        "ata-random": {"stages": (0, 1, 2, 3), "alignment": Alignment(method="random")},
        "ata-greedy": {"stages": (0, 1, 2, 3), "alignment": Alignment(method="greedy")},
        "ata-sinkhorn": {"stages": (0, 1, 2, 3), "alignment": Alignment(method="sinkhorn")},
        "conv": {"operator": "conv"},
        "ata-conv": {"operator": "conv", "stages": (0, 1, 2, 3)},
        "shift": {"operator": "shift"},
        "ata-shift": {"operator": "shift", "stages": (0, 1, 2, 3)},
        "mean": {"operator": "mean"},
        "ata-mean": {"operator": "mean", "stages": (0, 1, 2, 3)},
    }
)
"""Changes of each variant to the factorised model. ``stages`` are the quarters of its blocks that are aligned: of
twelve, 0-2, 3-5, 6-8 and 9-11 (Table 2)."""


def build(variant: str, *, size: str, classes: int, frames: int, image: int, **options: Any) -> VideoViT:
    """Builds a model for clips (B, ``frames``, 3, ``image``, ``image``).

    ``options`` are those of :class:`vergence.nn.VideoViT` and override the variant's and the size's; ``aligned`` names
    blocks where ``stages`` would name quarters.
    """
    return VideoViT(classes, frames=frames, image=image, **_chosen(variant, size, options))


def configured(config: Config, classes: int) -> VideoViT:
    """Builds the model described by the settings."""
    model, data = config.model, config.data
    chosen = {"aligned": model.blocks} if model.blocks else {}
    network = build(
        model.temporal,
        size=model.size,
        classes=classes,
        frames=data.frames,
        image=data.size,
        tubelet=model.tubelet,
        drop_path=model.drop_path,
        dropout=model.dropout,
        **chosen,
    )
    if model.init == "scaled":
        _scale_weights(network)
    return network


def _scale_weights(model: nn.Module) -> None:
    """Re-initialises weights with a deviation of 1 / sqrt(inputs), which suits any width; zero weights stay zero."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d | nn.Conv3d) and (module.weight.is_meta or module.weight.any()):
            nn.init.trunc_normal_(module.weight, std=module.weight[0].numel() ** -0.5)


def _chosen(variant: str, size: str, options: Mapping[str, Any]) -> dict[str, Any]:
    for kind, name, known in (("variant", variant, TEMPORAL), ("size", size, SIZES)):
        if name not in known:
            raise VergenceError(f"there is no {kind} {name!r} of ata{did_you_mean(name, known)}")
    chosen = {**vars(SIZES[size]), **TEMPORAL[variant], **options}
    stages = chosen.pop("stages", ())
    chosen.setdefault("aligned", blocks_of(stages, chosen["depth"]))
    return chosen


def blocks_of(stages: tuple[int, ...], depth: int) -> tuple[int, ...]:
    """The blocks of these quarters of a model."""
    return tuple(b for b in range(depth) if b * 4 // depth in stages)


# Cost ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """Cost of one model on one clip."""

    parameters: int
    macs: int
    """Multiply-adds of all matrix products, including similarities between frames."""
    matching: int
    """The part of them for similarities between frames; the assignment solver is not counted."""


def closed_form(variant: str, *, size: str, classes: int, frames: int, image: int, **options: Any) -> Cost:
    """The cost of the model that :func:`build` returns for the same arguments, by formula."""
    chosen = _chosen(variant, size, options)
    d, depth, p, tubelet = chosen["width"], chosen["depth"], chosen["patch"], chosen.get("tubelet", 1)
    modelling, operator = chosen.get("modelling", "factorised"), chosen.get("operator", "attention")
    n, t = (image // p) ** 2, frames // tubelet

    parameters = 3 * p * p * tubelet * d + d  # patches
    parameters += (
        d + (1 + n) * d + (0 if modelling == "averaging" else t * d)
    )  # class token, position and time embeddings
    parameters += depth * (12 * d * d + 13 * d) + 2 * d + (d + 1) * classes

    within = t * (1 + n) * 4 * d * d + 2 * t * (1 + n) ** 2 * d  # attention in each frame, projections first
    if modelling == "averaging":
        block = within + t * (1 + n) * 8 * d * d
    elif modelling == "joint":
        block = (1 + t * n) * 12 * d * d + 2 * (1 + t * n) ** 2 * d
    else:
        weights, products = {
            "attention": (5 * d * d + 7 * d, 5 * t * n * d * d + 2 * n * t * t * d),
            "conv": (6 * d, 0),  # three numbers per channel: sums, no products of matrices
            "shift": (d * d + 3 * d, t * n * d * d),
            "mean": (0, 0),
        }[operator]
        parameters += depth * weights
        block = within + (1 + t * n) * 8 * d * d + products
    matched = math.ceil(len(set(chosen["aligned"])) / chosen.get("share", 1))
    if chosen.get("alignment", Alignment()).method == "random":
        matched = 0
    matching = matched * (t - 1) * n * n * d
    macs = 3 * p * p * tubelet * d * t * n + depth * block + d * classes + matching
    return Cost(parameters, macs, matching)


# Pretrained weights --------------------------------------------------------------------------------------------------


def load_image_weights(model: VideoViT, state: Mapping[str, Tensor], source: str) -> tuple[str, ...]:
    """Initialises a model from an image ViT, with timm's or torchvision's names, or from a TimeSformer; errors name the
    ``source``.

    Position embeddings are resampled to the model's grid and time embeddings to its frames; tubelets start with their
    middle frame (Arnab et al., 2021); temporal attention starts as a copy of spatial attention (Bertasius et al.,
    2021), followed by layers that start at zero. A classifier with the same number of classes is kept. Returns the
    names of the tensors that keep their random initialisation.
    """
    state = usual_names(state)
    own = model.state_dict()
    for name in ("patch_embed.proj.weight", "cls_token", "pos_embed", "blocks.0.attn.qkv.weight"):
        if name not in state:
            raise VergenceError(f"{source} has no {name!r}: expected the weights of an image ViT")
    blocks = len({name.split(".")[1] for name in state if name.startswith("blocks.")})
    if blocks > len(model.blocks):
        raise VergenceError(f"{source} has {blocks} blocks, this model has {len(model.blocks)}")
    if not (state["pos_embed"].dim() == 3 and state["pos_embed"].shape[1] > 1):
        raise VergenceError(
            f"{source} has position embeddings of shape {tuple(state['pos_embed'].shape)}, expected (1, 1 + N, C)"
        )
    for index in range(len(model.blocks)):
        for space, time in (("norm1", "temporal.norm"), ("attn.qkv", "temporal.attn.qkv"),
                               ("attn.proj", "temporal.attn.proj")):  # fmt: skip
            for kind in ("weight", "bias"):
                copied = state.get(f"blocks.{index}.{space}.{kind}")
                if copied is not None and model.attends_over_time:
                    state.setdefault(f"blocks.{index}.{time}.{kind}", copied)
    try:
        state["pos_embed"] = resampled(state["pos_embed"], (model.grid, model.grid))
    except ValueError as error:
        raise VergenceError(f"{source}: {error}") from None
    if "time_embed" in state and model.time_embed is not None:
        state["time_embed"] = F.interpolate(state["time_embed"].mT, model.frames, mode="nearest").mT
    state["patch_embed.proj.weight"] = _inflated(state["patch_embed.proj.weight"], own["patch_embed.proj.weight"])
    if "head.weight" in state and state["head.weight"].shape != own["head.weight"].shape:
        state = {name: value for name, value in state.items() if not name.startswith("head.")}
    taken = {name: value for name, value in state.items() if name in own}
    for name, value in taken.items():
        if value.shape != own[name].shape:
            raise VergenceError(
                f"{source} has {name!r} of shape {tuple(value.shape)}, this model needs {tuple(own[name].shape)}"
            )
    drawn = tuple(name for name in own if name not in taken)
    missing = [name for name in drawn if not name.startswith(("head.", "time_embed")) and ".temporal." not in name]
    if missing:
        raise VergenceError(f"{source} has no {missing[0]!r}: expected a ViT of {len(model.blocks)} blocks")
    model.load_state_dict({**own, **taken})
    return drawn


def _inflated(kernel: Tensor, wanted: Tensor) -> Tensor:
    """Inflates a patch kernel (C, 3, p, p) to tubelets (C, 3, t, p, p): only the middle frame has weights."""
    if wanted.dim() == 4 or kernel.dim() != 4:
        return kernel
    inflated = kernel.new_zeros(*kernel.shape[:2], wanted.shape[2], *kernel.shape[2:])
    inflated[:, :, wanted.shape[2] // 2] = kernel
    return inflated


# Responses -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Response:
    """Scores and response maps of a network for one clip."""

    scores: Tensor
    """Probabilities of the classes, (K,)."""
    last: Tensor
    """Mean over channels before the classifier, (T, h, w)."""
    inner: Tensor
    """The same after the temporal operator of an inner block."""


def respond(model: VideoViT, clip: Tensor, block: int = -1) -> Response:
    """The response to a clip (T, 3, S, S); ``block`` is the inner one (-1: the seventh of twelve, the middle one of
    others)."""
    at = len(model.blocks) // 2 if block < 0 else block
    scores = model(clip[None])[0].float().softmax(0).cpu()
    last, inner = (model.maps(clip[None], where)[0].float().cpu() for where in (None, at))
    return Response(scores, last, inner)
