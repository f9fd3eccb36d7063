"""From picture files to descriptors: network by name, multi-scale descriptors, and handling of broken files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.core.errors import VergenceError
from vergence.core.seeding import derive
from vergence.data.assets import LITE
from vergence.data.images import normalised, read_image, resized, scaled
from vergence.nn.descriptor import DescriptorNetwork, descriptor_network, load_descriptor_weights, multi_scale
from vergence.nn.efficientnet_lite import public_names
from vergence.reading.weights import load_archive, load_state, load_tensors
from vergence.retrieval.data import Pictures
from vergence.retrieval.settings import Extractor
from vergence.search.index import descriptors_by


class Describer:
    """Computes descriptors: the extractor's network with its weights, on a device."""

    def __init__(self, extractor: Extractor, device: torch.device) -> None:
        self.settings = extractor
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # without weights: random, but reproducible
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
                f"{extractor.backbone} has no weights, so its descriptors are random; give weights with "
                "--extractor.weights (or --backbone-weights), or use efficientnet-lite0"
            )
        self.network.to(device)
        self.device = device

    @property
    def made_by(self) -> str:
        """Identifies the network, its weights and settings; an index stores it with its descriptors."""
        settings = self.settings
        state = descriptors_by(list(self.network.state_dict().values()))
        return f"{settings.backbone} {state} {settings.longest} {' '.join(f'{s:.4f}' for s in settings.scales)}"

    @torch.no_grad()
    def __call__(self, picture: Tensor) -> Tensor:
        """A picture (3, H, W) of bytes to a descriptor (D,)."""
        height, width = picture.shape[-2:]
        share = min(self.settings.longest / max(height, width), 1.0)
        small = resized(scaled(picture), max(round(height * share), 1), max(round(width * share), 1))
        batch = normalised(small, self.network.mean, self.network.std)[None].to(self.device)
        power = 1.0 if self.network.whiten is not None else float(self.network.pool.p.detach().clamp(min=1))
        return multi_scale(self.network, batch, self.settings.scales, power)[0].float().cpu()


def read_picture(path: Path, extractor: Extractor) -> Tensor:
    """An image file (3, H, W) in bytes; one much larger than the network takes is reduced while it is read."""
    return read_image(path, longest=2 * extractor.longest)


def describe_once(ctx: Context[Any, Any], extractor: Extractor, data: Pictures) -> Tensor:
    """Descriptors (N, D) of all pictures, computed once per run and cached under a key of the file names."""
    describer = Describer(extractor, ctx.device)
    if describer.note:
        ctx.progress.say(describer.note)

    def compute() -> dict[str, Tensor]:
        rows = [describer(batch[0]) for batch in ctx.batches(data, 1, "descriptors")]
        return {"descriptors": ctx.gather(torch.stack(rows) if rows else torch.zeros(0, describer.network.dimension))}

    name = f"descriptors-{derive(describer.made_by, *map(str, data.paths)):016x}"
    return ctx.keep(name, compute)["descriptors"]


def described(describer: Describer, paths: Iterable[Path]) -> Iterator[tuple[Path, Tensor | VergenceError]]:
    """Yields each file with its descriptor, or with the error, so that one broken picture does not stop the rest."""
    for path in paths:
        try:
            yield path, describer(read_picture(path, describer.settings))
        except VergenceError as error:
            yield path, error


def _state(path: Path) -> dict[str, Any]:
    if path.suffix == ".safetensors":
        return dict(load_tensors(path)[0])
    archive = load_archive(path, arrays=True)  # the authors' files store whitening matrices as NumPy arrays
    return dict(archive.get("state_dict", archive))
