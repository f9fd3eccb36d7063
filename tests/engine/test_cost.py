"""Counting on meta tensors equals the closed forms."""

import torch

from vergence import catalogue
from vergence.engine.cost import count


def test_parameters_and_multiply_adds_of_tiny_snl_are_the_sum_of_its_layers():
    system = catalogue.load("snl")
    counted = count(system, system.configure("tiny", "nl"), system.settings.facts(2))
    convolutions = (
        3 * 8 * 9 * 56**2  # stem
        + 2 * 8 * 8 * 9 * 56**2  # stage 1
        + (8 * 16 * 9 + 16 * 16 * 9 + 8 * 16) * 28**2  # stage 2 with its shortcut
        + (16 * 32 * 9 + 32 * 32 * 9 + 16 * 32) * 14**2  # stage 3 with its shortcut
        + 32 * 32 * 14**2  # 1x1 before the average
        + 32 * 2  # classifier
    )
    positions, inner = 14**2, 16
    block = 4 * positions * 32 * inner + 2 * positions**2 * inner  # embeddings and output, scores and their product
    assert counted.macs == convolutions + block
    assert counted.parameters == 22_890


def test_a_system_without_a_model_costs_nothing():
    assert count(catalogue.load("fake-ruler"), None, None) is None


def test_counting_needs_no_memory_for_the_published_size():
    system = catalogue.load("snl")
    counted = count(system, system.configure("paper-imagenet", "none"), system.settings.facts(1000))
    assert counted.parameters == 25_557_032
    assert 4.0e9 < counted.macs < 4.2e9  # the 4.09 G that the field quotes for ResNet-50
    assert torch.get_default_device().type == "cpu"
