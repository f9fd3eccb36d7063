"""Sparse convolution on a rendered sweep at 5 cm against a dictionary of coordinates and against PyTorch's operators
offset by offset, as torchsparse's CPU code has it.

``python -m vergence.points.spvnas.bench SCAN.bin`` times a network on a user's scan: levels, kernel maps, matrix
products and the rest.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.data.clouds import read_scan
from vergence.ops.sparse import Voxels, sparse_convolution, submanifold_map, voxels_of
from vergence.points.architecture import macs
from vergence.points.pointvoxel import Geometry
from vergence.points.spvnas.model import Network, build
from vergence.points.spvnas.settings import ModelConfig
from vergence.points.sweeps import Scanner, street_sweep
from vergence.reference import sparse as plain


def contests() -> Iterator[Contest]:
    """A kernel map, a layer with its map, a step through a layer, and a network."""
    voxels = _voxels(Scanner(64, 512))
    features, weight = _tensors(len(voxels), 16, 16)
    yield Contest("layer", f"map and 3 x 3 x 3 convolution, 16 channels, {len(voxels):,} voxels",
                  partial(_layer, voxels, features, weight),
                  {"dictionary": partial(_dictionary, voxels, features, weight),
                   "offset by offset": partial(_offsets, voxels, features, weight)})  # fmt: skip
    voxels = _voxels(Scanner(64, 1536))
    yield Contest("map", f"kernel map 3 x 3 x 3, {len(voxels):,} voxels", partial(submanifold_map, voxels),
                  {"offset by offset": partial(plain.maps_by_offsets, voxels.coordinates)})  # fmt: skip
    yield _step(voxels)
    yield _network()


def _sweep(scanner: Scanner) -> tuple[Tensor, Tensor]:
    sweep = street_sweep(generator("bench", "sweep"), scanner)
    return torch.cat([sweep.points, sweep.intensity.unsqueeze(1)], 1), torch.zeros(len(sweep.points), dtype=torch.long)


def _voxels(scanner: Scanner) -> Voxels:
    points, cloud = _sweep(scanner)
    return voxels_of(torch.cat([cloud.unsqueeze(1), (points[:, :3] / 0.05).floor().long()], 1))[0]


def _tensors(voxels: int, inner: int, outer: int) -> tuple[Tensor, Tensor]:
    source = generator("bench", "tensors")
    weight = torch.randn(27, inner, outer, generator=source) / inner
    return torch.randn(voxels, inner, generator=source), weight


def _layer(voxels: Voxels, features: Tensor, weight: Tensor) -> Tensor:
    return sparse_convolution(features, weight, submanifold_map(voxels))


def _offsets(voxels: Voxels, features: Tensor, weight: Tensor) -> Tensor:
    return plain.convolution_by_offsets(features, weight, plain.maps_by_offsets(voxels.coordinates))


def _dictionary(voxels: Voxels, features: Tensor, weight: Tensor) -> Tensor:
    return plain.convolution(voxels.coordinates, voxels.coordinates, features, weight, 3)


def _step(voxels: Voxels) -> Contest:
    """Forward and backward, with maps that are there already."""
    features, weight = (t.requires_grad_() for t in _tensors(len(voxels), 32, 32))
    pairs, maps = submanifold_map(voxels), plain.maps_by_offsets(voxels.coordinates)

    def through(layer: Callable[[], Tensor]) -> None:
        layer().sum().backward()

    ours = partial(through, partial(sparse_convolution, features, weight, pairs))
    rivals = {"offset by offset": partial(through, partial(plain.convolution_by_offsets, features, weight, maps))}
    return Contest("step", f"forward and backward of a layer, 32 channels, {len(voxels):,} voxels", ours, rivals)


def _network() -> Contest:
    """MinkUNet at cr 0.5, with the geometry of a new scan."""
    points, cloud = _sweep(Scanner(64, 1024))
    network = _built("minkunet", 0.5)
    direct = _built("minkunet", 0.5)
    direct.load_state_dict(network.state_dict())
    for module in direct.modules():
        if hasattr(module, "weight") and hasattr(module, "transposed"):
            module.forward = partial(_direct, module)
    rivals = {"offset by offset": partial(direct, points, cloud)}
    return Contest("network", f"MinkUNet, cr 0.5, {len(points):,} points", partial(network, points, cloud), rivals)


def _direct(layer: Any, x: Any) -> Any:
    """A layer that gathers, multiplies and scatters each offset as a whole."""
    if layer.kernel == 1:
        return x.with_features(x.features @ layer.weight[0])
    pairs, stride = layer.pairs(x)
    total = x.features.new_zeros(pairs.sizes[1], layer.weight.shape[2])
    inputs, outputs = pairs.inputs.split(pairs.counts), pairs.outputs.split(pairs.counts)
    for number, (a, b) in enumerate(zip(inputs, outputs, strict=True)):
        total = total.index_add(0, b, x.features[a] @ layer.weight[number])
    return type(x)(total, stride, x.levels)


def _built(kind: str, cr: float) -> Network:
    network = build(ModelConfig(kind, cr=cr), 19)  # type: ignore[arg-type]
    assert isinstance(network, Network)
    return network.eval().requires_grad_(False)


# A user's scan --------------------------------------------------------------------------------------------------------


def timed(work: Callable[[], Any], rounds: int = 5) -> float:
    """Seconds of the fastest of a few rounds."""
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


def report(path: Path) -> None:
    """Times of a scan's kernel maps and of networks on it, on PyTorch's threads."""
    points, intensity = read_scan(path)
    seen = torch.cat([points, torch.zeros(len(points), 1) if intensity is None else intensity.unsqueeze(1)], 1)
    cloud = torch.zeros(len(seen), dtype=torch.long)
    geometry = Geometry.of(seen, cloud, 0.05)
    sizes = geometry.sizes()
    for level in range(5):
        took = timed(partial(submanifold_map, geometry.levels.voxels[2**level]))
        print(f"level {level}: {sizes.voxels[level]:,.0f} voxels, kernel map in {1000 * took:.0f} ms")
    print(f"all levels and maps: {1000 * timed(lambda: Geometry.of(seen, cloud, 0.05).sizes()):.0f} ms")
    a, b = torch.rand(4096, 512), torch.rand(512, 512)
    limit = 2 * 4096 * 512 * 512 / timed(partial(torch.mm, a, b), 20)
    for kind, cr in (("minkunet", 0.5), ("spvcnn", 0.5), ("minkunet", 1.0)):
        network = _built(kind, cr)
        took = timed(partial(network, seen, cloud), 3)
        work = sum(macs(network.arch, network.projected, sizes, 19, kind == "spvcnn").values())
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            network(seen, cloud)
        events = profiled.key_averages()
        total = sum(event.self_cpu_time_total for event in events)
        products = sum(event.self_cpu_time_total for event in events if event.key in ("aten::mm", "aten::addmm"))
        print(
            f"{kind} {cr}: {took:.2f} s, {work / 1e9:.1f} G multiply-adds, {200 * work / took / limit:.0f} % of the "
            f"arithmetic limit ({limit / 1e9:.0f} GFLOP/s), {100 * products / total:.0f} % of the time in products"
        )


if __name__ == "__main__":
    report(Path(sys.argv[1]))
