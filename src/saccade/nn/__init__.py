"""Layers and backbones: operators with weights."""

from saccade.nn.nonlocal_block import NonlocalBlock, SharedAffinity
from saccade.nn.nonlocals import (
    BLOCKS,
    CayleyNonlocal,
    ChebyshevNonlocal,
    CompactGeneralised,
    CrissCross,
    DoubleAttention,
    Nonlocal,
    NonlocalStage,
    PrintedCayleyNonlocal,
    SpectralNonlocal,
    StableNonlocal,
)
from saccade.nn.preresnet import PreResNet
from saccade.nn.resnet import ResNet

__all__ = [
    "BLOCKS",
    "CayleyNonlocal",
    "ChebyshevNonlocal",
    "CompactGeneralised",
    "CrissCross",
    "DoubleAttention",
    "Nonlocal",
    "NonlocalBlock",
    "NonlocalStage",
    "PreResNet",
    "PrintedCayleyNonlocal",
    "ResNet",
    "SharedAffinity",
    "SpectralNonlocal",
    "StableNonlocal",
]
