"""Cost volumes against loops and against warping, and the starter network beside the flow of OpenCV and scikit-image.

``python -m vergence.matching.pyramidflow.bench`` prints error, time and memory of the peers on the rendered test set.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.matching.motion import Drawn
from vergence.matching.pyramidflow.model import PyramidFlow, build, flows
from vergence.matching.pyramidflow.predict import pixels
from vergence.matching.pyramidflow.settings import SETTINGS
from vergence.metrics.displacement import endpoint_error, outliers
from vergence.ops.cost_volume import Cost, sampled_cost_volume, sampled_in_torch, shifted_in_torch, warped_cost_volume
from vergence.ops.flow import warp
from vergence.reading.weights import load_tensors
from vergence.reference import cost_volume as plain
from vergence.rendering.pairs import flow_pair, flow_pairs

SIZE = (1, 64, 96, 128)
"""The finest level of the published network for pictures of 384 x 512."""
Method = Callable[[Tensor, Tensor], Tensor]


def contests() -> Iterator[Contest]:
    """Volumes of 81 displacements, forward and backward; the network; and its peers."""
    first, second, flow = _features()
    for metric, name in (("corr", "correlation"), ("sad", "absolute differences")):
        yield _volume(first, second, flow, metric, name)  # type: ignore[arg-type]
    moved = partial(warp, second, flow)
    yield Contest(
        "volume-torch", "sampled correlation in PyTorch alone, 64 channels, 96 x 128, 81 displacements",
        partial(sampled_in_torch, first, second, flow, 4, False),
        {"warped": lambda: shifted_in_torch(first, moved(), 4, False),
         "loop": partial(plain.sampled, first, second, flow, 4)},
    )  # fmt: skip
    yield _training()
    network = starter()
    if network is not None:
        yield _peers(network)


def _features() -> tuple[Tensor, Tensor, Tensor]:
    source = generator("bench")
    first, second = torch.randn(2, *SIZE, generator=source)
    coarse = 3 * torch.randn(1, 2, 8, 8, generator=source)
    return first, second, F.interpolate(coarse, SIZE[2:], mode="bilinear")


def _volume(first: Tensor, second: Tensor, flow: Tensor, metric: Cost, name: str) -> Contest:
    inputs = (first, second, flow, 4, metric)
    rivals: dict[str, Callable[[], Any]] = {
        "warped": partial(warped_cost_volume, *inputs),
        "warped, public": partial(plain.warped, *inputs),
        "loop": partial(plain.sampled, *inputs),
    }
    title = f"sampled {name}, 64 channels, 96 x 128, 81 displacements"
    return Contest(f"volume-{metric}", title, partial(sampled_cost_volume, *inputs), rivals)


def _training() -> Contest:
    first, second, flow = (part[..., :48, :64].contiguous().requires_grad_() for part in _features())

    def both(volume: Callable[..., Tensor]) -> None:
        volume(first, second, flow, 4, "sad").sum().backward()

    return Contest(
        "training-sad", "sampled absolute differences, forward and backward, 48 x 64",
        partial(both, sampled_cost_volume), {"loop": partial(both, plain.sampled)},
    )  # fmt: skip


# Peers ----------------------------------------------------------------------------------------------------------------


def starter() -> PyramidFlow | None:
    """The starter network, if it is there."""
    path = Path(__file__).parent / "weights" / "rendered.safetensors"
    if not path.is_file():
        return None
    network = build(SETTINGS.configure("starter", SETTINGS.starters["rendered"].variant).model)
    network.load_state_dict({name: value.float() for name, value in load_tensors(path)[0].items()})
    return network.eval().requires_grad_(False)


def ours(network: PyramidFlow) -> Method:
    """The network as a function of two frames of bytes (3, H, W)."""

    def flow(first: Tensor, second: Tensor) -> Tensor:
        with torch.no_grad():
            return flows(network, pixels(first[None]), pixels(second[None]))[0][0]

    return flow


def peers() -> dict[str, Method]:
    """Dense flow of OpenCV (the extra ``opencv``) and scikit-image, with their own defaults, on grey pictures."""
    methods: dict[str, Method] = {}
    try:
        import cv2
    except ImportError:
        pass
    else:
        library: Any = cv2
        dis = library.DISOpticalFlow_create(library.DISOPTICAL_FLOW_PRESET_MEDIUM)
        farneback = library.calcOpticalFlowFarneback
        methods["OpenCV, DIS"] = lambda a, b: _tensor(dis.calc(_grey(a), _grey(b), None))
        methods["OpenCV, Farnebäck"] = lambda a, b: _tensor(
            farneback(_grey(a), _grey(b), None, 0.5, 5, 15, 3, 5, 1.2, 0)
        )

    def tvl1(a: Tensor, b: Tensor) -> Tensor:
        from skimage import registration

        method: Any = registration.optical_flow_tvl1
        down, right = method(_grey(a) / np.float32(255), _grey(b) / np.float32(255))
        return torch.from_numpy(np.stack([right, down])).float()

    methods["scikit-image, TV-L1"] = tvl1
    return methods


def _grey(picture: Tensor) -> Any:
    weights = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)
    return (picture.float() * weights).sum(0).round().byte().numpy()


def _tensor(flow: Any) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(flow)).permute(2, 0, 1).float()


def _peers(network: PyramidFlow) -> Contest:
    pair = flow_pair(generator("bench", "peers"), 256, 384, 40.0, "test", finer=1)
    method = ours(network)
    rivals = {name: partial(peer, pair.first, pair.second) for name, peer in peers().items()}
    return Contest("peers", "flow of 256 x 384 pixels, forward and backward (the peers: forward)",
                   partial(method, pair.first, pair.second), rivals)  # fmt: skip


def judged(methods: Mapping[str, Method], pairs: int = 40) -> list[tuple[str, float, float, float, float, float]]:
    """For each method: EPE, EPE of pixels that are seen in both frames, EPE of small things, Fl in percent, and seconds
    per pair, on the rendered test set."""
    asked = SETTINGS.presets["starter"].data
    data = Drawn(flow_pairs(asked.pairs // 12, *asked.size, asked.most, ("test",), "test"))
    rows = []
    samples = [data[index] for index in range(min(pairs, len(data)))]
    truth, valid, seen, small = (
        torch.stack([sample[name] for sample in samples]) for name in ("flow", "valid", "visible", "small")
    )
    for name, method in methods.items():
        began = time.perf_counter()
        found = torch.stack([method(sample["first"], sample["second"]) for sample in samples])
        seconds = (time.perf_counter() - began) / len(samples)
        scores = [endpoint_error(found, truth, mask) for mask in (valid, valid & seen, valid & small)]
        rows.append((name, *scores, outliers(found, truth, valid), seconds))
    return rows  # type: ignore[return-value]


def main() -> None:
    network = starter()
    own = {"pyramidflow, starter": ours(network)} if network is not None else {}
    methods = own | peers() | {"zero motion": lambda a, _: torch.zeros(2, *a.shape[1:])}
    print(f"{'':24}{'EPE':>8}{'seen':>8}{'small':>8}{'Fl %':>8}{'s':>8}")
    for name, *numbers in judged(methods):
        print(f"{name:24}" + "".join(f"{number:8.2f}" for number in numbers))


if __name__ == "__main__":
    main()
