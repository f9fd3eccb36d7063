"""Layers and backbones: operators with weights."""

from vergence.nn.clips import ResNetTP, VideoTransformer
from vergence.nn.descriptor import DescriptorNetwork, descriptor_network, multi_scale, resnet101_gem
from vergence.nn.distiller import DistillationLoss, Distiller
from vergence.nn.efficientnet_lite import EfficientNetLite
from vergence.nn.gem import GeM, learned_whitening, pca_whitening
from vergence.nn.nonlocal_block import NonlocalBlock, SharedAffinity
from vergence.nn.nonlocals import (
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
from vergence.nn.p3d import P3DResNet
from vergence.nn.preresnet import PreResNet
from vergence.nn.resnet import ResNet
from vergence.nn.resnet3d import ResNet3d, inflate
from vergence.nn.scale import (
    LiftingConv2d,
    ScaleBatchNorm2d,
    ScaleConv2d,
    ScaleMaxPool2d,
    ScalePointwise2d,
    ScalePool,
)
from vergence.nn.self_attention import (
    CompressedSelfAttention2d,
    CompressedSelfAttentionLowRank2d,
    NearestLandmark2d,
    PlainLowRank2d,
    SelfAttention2d,
)
from vergence.nn.setconv import SetConv
from vergence.nn.temporal import Aligned, Alignment, TemporalAttention, TemporalConv, TemporalMean, TemporalShift
from vergence.nn.video_vit import VideoViT
from vergence.nn.vtn import WARPS, VolumetricTransformer
from vergence.nn.warping import AffineTransformer, DeformableConv2d, SaliencySampler

__all__ = [
    "BLOCKS",
    "WARPS",
    "AffineTransformer",
    "Aligned",
    "Alignment",
    "CayleyNonlocal",
    "ChebyshevNonlocal",
    "CompactGeneralised",
    "CompressedSelfAttention2d",
    "CompressedSelfAttentionLowRank2d",
    "CrissCross",
    "DeformableConv2d",
    "DescriptorNetwork",
    "DistillationLoss",
    "Distiller",
    "DoubleAttention",
    "EfficientNetLite",
    "GeM",
    "LiftingConv2d",
    "NearestLandmark2d",
    "Nonlocal",
    "NonlocalBlock",
    "NonlocalStage",
    "P3DResNet",
    "PlainLowRank2d",
    "PreResNet",
    "PrintedCayleyNonlocal",
    "ResNet",
    "ResNet3d",
    "ResNetTP",
    "SaliencySampler",
    "ScaleBatchNorm2d",
    "ScaleConv2d",
    "ScaleMaxPool2d",
    "ScalePointwise2d",
    "ScalePool",
    "SelfAttention2d",
    "SetConv",
    "SharedAffinity",
    "SpectralNonlocal",
    "StableNonlocal",
    "TemporalAttention",
    "TemporalConv",
    "TemporalMean",
    "TemporalShift",
    "VideoTransformer",
    "VideoViT",
    "VolumetricTransformer",
    "descriptor_network",
    "inflate",
    "learned_whitening",
    "multi_scale",
    "pca_whitening",
    "resnet101_gem",
]
