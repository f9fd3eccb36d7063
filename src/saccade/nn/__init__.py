"""Layers and backbones: operators with weights."""

from saccade.nn.nonlocal_block import Nonlocal, NonlocalBlock, NonlocalStage, SpectralNonlocal
from saccade.nn.preresnet import PreResNet
from saccade.nn.resnet import ResNet
from saccade.nn.setconv import SetConv

__all__ = ["Nonlocal", "NonlocalBlock", "NonlocalStage", "PreResNet", "ResNet", "SetConv", "SpectralNonlocal"]
