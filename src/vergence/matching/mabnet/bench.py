"""MABNet against its direct transcription and OpenCV's SGBM; ``docs/mabnet_peers.py`` compares their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.matching.frames import opencv
from vergence.matching.mabnet.exact import as_transcribed, transcribed
from vergence.matching.mabnet.model import build
from vergence.matching.mabnet.settings import SMALL
from vergence.ops.stereo import soft_argmin, volume_convolution
from vergence.reference import stereo as plain

HEIGHT, WIDTH = 544, 960
"""SceneFlow's size, padded."""


def contests() -> Iterator[Contest]:
    """Inference at the published size and with fewer disparities, its two costly steps, and a step of training."""
    for disparities in (192, 64):
        yield _inference(disparities)
    yield _first_layer()
    yield _expectation()
    yield _training()
    yield _sgbm()


def _pair(height: int, width: int) -> tuple[Tensor, Tensor]:
    wide = torch.randn(1, 3, height, width + 24, generator=generator("bench"))
    return wide[..., :width].contiguous(), wide[..., 24:].contiguous()


def _forms() -> tuple[Any, Any]:
    """The tiny network and its direct transcription with the same weights; norms have the statistics of a pair, so that
    scores are of the usual size."""
    torch.manual_seed(0)
    network = build(SMALL).requires_grad_(False)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d | nn.BatchNorm3d):
            module.momentum = 1.0
    network(*_pair(64, 128), 64)
    network.eval()
    direct = transcribed(SMALL).eval().requires_grad_(False)
    direct.load_state_dict(as_transcribed(network), strict=False)  # its norms count batches, too
    return network, direct


def _inference(disparities: int) -> Contest:
    network, direct = _forms()
    pair = _pair(HEIGHT, WIDTH)
    return Contest(
        f"inference-{disparities}", f"inference of the tiny network, {WIDTH} x {HEIGHT}, {disparities} disparities",
        partial(network, *pair, disparities), {"direct": partial(direct, *pair, disparities)},
    )  # fmt: skip


def _first_layer() -> Contest:
    left, right = (torch.randn(1, 8, HEIGHT // 4, WIDTH // 4, generator=generator(side)) for side in ("l", "r"))
    kernel = torch.randn(8, 16, 3, 3, 3, generator=generator("kernel"))

    def volume() -> Tensor:
        return F.conv3d(plain.concatenation_volume(left, right, 48), kernel, padding=1)

    ours = partial(volume_convolution, left, right, kernel, None, 48)
    return Contest("first-layer", "first convolution of the volume, 48 levels of 240 x 136", ours, {"conv3d": volume})


def _expectation() -> Contest:
    scores = torch.randn(1, 48, HEIGHT // 4, WIDTH // 4, generator=generator("scores"))
    rivals = {"whole": partial(plain.soft_argmin, scores)}
    return Contest("soft-argmin", "disparity from scores, 192 x 544 x 960", partial(soft_argmin, scores), rivals)


def _training() -> Contest:
    network, direct = (form.train().requires_grad_(True) for form in _forms())
    pair = _pair(128, 256)

    def step(form: Any) -> None:
        form(*pair, 96)[0].mean().backward()

    runs: dict[str, Callable[[], Any]] = {"direct": partial(step, direct)}
    return Contest("training", "forward and backward, 256 x 128, 96 disparities", partial(step, network), runs)


def matcher(disparities: int) -> Any:
    """OpenCV's semi-global matcher with the settings of its documentation for windows of 5 pixels."""
    return opencv().StereoSGBM_create(
        minDisparity=0, numDisparities=16 * -(-disparities // 16), blockSize=5, P1=8 * 3 * 25, P2=32 * 3 * 25,
        disp12MaxDiff=1, uniquenessRatio=10, speckleWindowSize=100, speckleRange=2,
    )  # fmt: skip


def _sgbm() -> Contest:
    network, _ = _forms()
    pair = _pair(HEIGHT, WIDTH)
    left, right = (((side[0] / 4 + 0.5).clamp(0, 1) * 255).byte().permute(1, 2, 0).numpy() for side in pair)
    rivals = {"OpenCV, SGBM": partial(matcher(64).compute, left, right)}
    return Contest(
        "sgbm", f"a disparity map of {WIDTH} x {HEIGHT}, 64 disparities", partial(network, *pair, 64), rivals
    )
