"""Searching a user's pictures: nearest matches of each query, and the places that its descriptor comes from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from vergence.contract.inputs import Artifact
from vergence.core.files import unused
from vergence.data.images import fitted, read_image
from vergence.drawing.grid import Panel, grid, heated
from vergence.reid import searching
from vergence.reid.adtc.model import ReidNetwork
from vergence.reid.adtc.pictures import Ctx
from vergence.reid.adtc.settings import Inputs
from vergence.reid.data import whole
from vergence.reid.searching import find_matches, render_matches


@dataclass(frozen=True, eq=False)
class Matches(searching.Matches):
    """The nearest gallery pictures of each query, and where the network looked."""

    places: tuple[Tensor, ...]
    """For each query the attention over places (h, w), with sum 1; none if the network has no such attention."""


def find(ctx: Ctx, network: ReidNetwork, inputs: Inputs) -> Matches:
    """Finds the nearest gallery pictures of a user's queries."""
    pictures = [read_image(path) for path in inputs.query]
    longest = 0.0

    def describe(batch: Tensor) -> Tensor:
        nonlocal longest
        descriptors = network(batch)
        longest = max(longest, float(descriptors.float().norm(dim=1).max()))
        return descriptors

    ranked = find_matches(ctx, inputs, pictures, ctx.config.data, network, describe)
    places = []
    for picture in pictures:
        looked = network.places(network.maps(ctx.to_device(whole(ctx.config.data, picture)[None])))
        if looked is not None:
            places.append(looked[0].float().cpu())
    # Descriptors have no bound of their own: none of these can be farther apart than twice the longest.
    found = [match.distance for matches in ranked.matches for match in matches]
    farthest = max([2 * longest, *found])
    return Matches(tuple(map(str, inputs.query)), ranked.matches, ranked.searched, farthest, tuple(places))


def render(ctx: Ctx, inputs: Inputs, result: Matches) -> list[Artifact]:
    """Writes the nearest pictures of each query as a page and a table, and pictures of attention."""
    explained = [
        [_explained(ctx, path, result.places[number])] if result.places else []
        for number, path in enumerate(inputs.query)
    ]
    return render_matches(ctx, inputs, result, explained, ", and attention maps" if result.places else "")


def _explained(ctx: Ctx, path: Path, places: Tensor) -> tuple[str, Path]:
    shown = fitted(read_image(path), 256)
    row = [Panel(shown, "query"), heated(shown, places, "attention")]
    target = unused(ctx.folder / f"{path.stem}-attention.png")
    return f"{path.name}: how strongly each place counts.", grid(target, [row], side=1.7)
