"""ResNeXt-50 32x4d: its published size."""

import torch

from vergence.nn.resnext import ResNeXt50


def test_it_has_the_published_number_of_parameters_and_maps_at_a_thirty_second():
    with torch.device("meta"):
        network = ResNeXt50()
        maps = network(torch.zeros(1, 3, 224, 160))
    # 25,028,904 with a classifier of 1000 classes (2048 x 1000 + 1000).
    assert sum(p.numel() for p in network.parameters()) == 25_028_904 - 2_049_000
    assert maps.shape == (1, 2048, 7, 5)
