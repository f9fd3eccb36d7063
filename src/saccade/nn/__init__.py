"""Layers and backbones: operators with weights."""

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
from saccade.nn.setconv import SetConv

__all__ = [
    "CompressedSelfAttention2d",
    "CompressedSelfAttentionLowRank2d",
    "NearestLandmark2d",
    "Nonlocal",
    "NonlocalBlock",
    "NonlocalStage",
    "PlainLowRank2d",
    "PreResNet",
    "ResNet",
    "SelfAttention2d",
    "SetConv",
    "SpectralNonlocal",
]
