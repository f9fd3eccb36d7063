"""Layers and backbones: operators with weights."""

from saccade.nn.efficientnet_lite import EfficientNetLite
from saccade.nn.nonlocal_block import Nonlocal, NonlocalBlock, NonlocalStage, SpectralNonlocal
from saccade.nn.preresnet import PreResNet
from saccade.nn.resnet import ResNet
from saccade.nn.self_attention import (
    CompressedSelfAttention2d,
    CompressedSelfAttentionLowRank2d,
    NearestLandmark2d,
    PlainLowRank2d,
    SelfAttention2d,
)

__all__ = [
    "CompressedSelfAttention2d",
    "CompressedSelfAttentionLowRank2d",
    "EfficientNetLite",
    "NearestLandmark2d",
    "Nonlocal",
    "NonlocalBlock",
    "NonlocalStage",
    "PlainLowRank2d",
    "PreResNet",
    "ResNet",
    "SelfAttention2d",
    "SpectralNonlocal",
]
