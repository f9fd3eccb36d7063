"""From picture files to descriptors: a network by name, at several scales, and what to do with broken files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.core.files import load_archive, load_state, load_tensors
from vergence.data.assets import LITE
from vergence.data.images import normalised, read_image, resized, scaled
from vergence.nn.descriptor import SCALES, DescriptorNetwork, descriptor_network, load_descriptor_weights, multi_scale
from vergence.nn.efficientnet_lite import public_names
from vergence.search.index import descriptors_by


@dataclass(frozen=True)
class Extractor:
    """How pictures become descriptors."""

    backbone: str = "resnet101-gem"
    """resnet101-gem, resnet50, resnet18, or efficientnet-lite0 to 2 (these bring their weights)."""
    weights: str = ""
    """A file for the backbone: the authors' or torchvision's names (.safetensors, or .pth of plain tensors)."""
    longest: int = 1024
    """Pictures are scaled down to this many pixels on their longer side."""
    scales: tuple[float, ...] = SCALES
    """Scales whose descriptors are averaged."""

    def __post_init__(self) -> None:
        if self.longest < 32 or not self.scales or min(self.scales) <= 0:
            raise VergenceError(
                f"pictures are described at 32 pixels or more and at scales above 0, got longest={self.longest} and "
                f"scales={self.scales}"
            )


class Describer:
    """An extractor that is ready to work."""

    def __init__(self, extractor: Extractor, device: torch.device) -> None:
        self.settings = extractor
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # without weights: at random, but the same every time
            self.network: DescriptorNetwork = descriptor_network(extractor.backbone)
        self.note = ""
        if extractor.weights:
            path = Path(extractor.weights).expanduser()
            self.note = load_descriptor_weights(self.network, _state(path), str(path))
        elif extractor.backbone in LITE:
            state = public_names(load_state(LITE[extractor.backbone].path()))
            named = {f"backbone.network.{name}": tensor for name, tensor in state.items()}
            load_descriptor_weights(self.network, named, LITE[extractor.backbone].source)
        elif not self.network.ready:
            self.note = (
                f"{extractor.backbone} has no weights and describes pictures at random; give some with "
                "--extractor.weights (or --backbone-weights), or take efficientnet-lite0"
            )
        self.network.to(device)
        self.device = device

    @property
    def made_by(self) -> str:
        """A name for these descriptors, to tell whose an index holds."""
        settings = self.settings
        state = descriptors_by(list(self.network.state_dict().values()))
        return f"{settings.backbone} {state} {settings.longest} {' '.join(f'{s:.4f}' for s in settings.scales)}"

    @torch.no_grad()
    def __call__(self, picture: Tensor) -> Tensor:
        """A picture (3, H, W) of bytes to a descriptor (D,)."""
        height, width = picture.shape[-2:]
        share = min(self.settings.longest / max(height, width), 1.0)
        seen = resized(scaled(picture), max(round(height * share), 1), max(round(width * share), 1))
        seen = normalised(seen, self.network.mean, self.network.std)[None].to(self.device)
        power = 1.0 if self.network.whiten is not None else float(self.network.pool.p.detach().clamp(min=1))
        return multi_scale(self.network, seen, self.settings.scales, power)[0].float().cpu()


def described(describer: Describer, paths: Iterable[Path]) -> Iterator[tuple[Path, Tensor | VergenceError]]:
    """Each file with its descriptor, or with what is wrong with it: one broken picture does not stop thousands."""
    for path in paths:
        try:
            yield path, describer(read_image(path))
        except VergenceError as error:
            yield path, error


def _state(path: Path) -> dict[str, Any]:
    if path.suffix == ".safetensors":
        return dict(load_tensors(path)[0])
    import numpy as np

    # The authors' files keep whitening matrices as NumPy arrays beside the weights: arrays are data too.
    reconstruct: Any = np.empty(0).__reduce__()[0]
    kinds = [type(np.dtype(kind)) for kind in ("float32", "float64", "int64")]
    with torch.serialization.safe_globals([reconstruct, np.ndarray, np.dtype, *kinds]):
        found = load_archive(path)
    return dict(found.get("state_dict", found))
