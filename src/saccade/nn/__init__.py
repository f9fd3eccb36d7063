"""Layers and backbones: operators with weights."""

from saccade.nn.descriptor import DescriptorNetwork, descriptor_network, multi_scale, resnet101_gem
from saccade.nn.gem import GeM, learned_whitening, pca_whitening
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
    "DescriptorNetwork",
    "GeM",
    "NearestLandmark2d",
    "Nonlocal",
    "NonlocalBlock",
    "NonlocalStage",
    "PlainLowRank2d",
    "PreResNet",
    "ResNet",
    "SelfAttention2d",
    "SpectralNonlocal",
    "descriptor_network",
    "learned_whitening",
    "multi_scale",
    "pca_whitening",
    "resnet101_gem",
]
