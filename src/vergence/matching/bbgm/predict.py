"""Matches between a user's pictures: partners, their costs, whether the solver proved them, written and drawn."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact, Point
from vergence.contract.result import Result
from vergence.contract.settings import NoFacts
from vergence.core.errors import VergenceError
from vergence.core.files import write_json, write_table
from vergence.data.images import normalised, read_image, resized
from vergence.matching.bbgm import pictures
from vergence.matching.bbgm.model import BBGM, Costs, Graphs
from vergence.matching.bbgm.settings import Config, Inputs
from vergence.matching.keypoints import MEAN, STD, padded
from vergence.matching.marked import Keypoint, beside, read_keypoints
from vergence.ops.graph_matching import GAP

Ctx = Context[Config, NoFacts]
MOST = 100
"""Keypoints of a picture; the solver's time grows with the third power."""


@dataclass(frozen=True, eq=False)
class Correspondences(Result):
    """Keypoints of two or more pictures that correspond."""

    pictures: tuple[Tensor, ...]
    """The pictures, bytes (3, H, W) each."""
    points: tuple[Tensor, ...]
    """Keypoints of each picture, (N, 2) pixels."""
    names: tuple[tuple[str, ...], ...]
    """Names of the keypoints of each picture; numbers, where none were given."""
    pairs: tuple[tuple[int, int], ...]
    """Pairs of pictures that were matched, by number from 0."""
    partners: tuple[Tensor, ...]
    """For each pair, the keypoint of the second picture for each of the first; -1 for none."""
    node_costs: tuple[Tensor, ...]
    """For each pair, the cost (N, M) of matching each two keypoints; below 0 is cheaper than leaving them alone."""
    cost: float
    """The cost of all matches, edges included."""
    bound: float
    """No matching costs less than this."""
    optimal: bool
    """Whether the solver proved that no matching costs less."""
    solver: str
    """What found the matching."""

    @property
    def gap(self) -> float:
        """How far the cost may be above the least one, as a share of it."""
        return 0.0 if self.optimal else (self.cost - self.bound) / max(abs(self.cost), 1e-12)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each keypoint of the first picture of a pair that has a partner."""
        rows = []
        for (first, second), partner, costs in zip(self.pairs, self.partners, self.node_costs, strict=True):
            for i, j in enumerate(partner.tolist()):
                if j >= 0:
                    places = [*self.points[first][i].tolist(), *self.points[second][j].tolist()]
                    x_a, y_a, x_b, y_b = (round(v, 2) for v in places)
                    rows.append({
                        "first": first + 1, "second": second + 1, "a": self.names[first][i], "b": self.names[second][j],
                        "x_a": x_a, "y_a": y_a, "x_b": x_b, "y_b": y_b, "cost": round(float(costs[i, j]), 5),
                    })  # fmt: skip
        return rows

    def summary(self) -> Mapping[str, Any]:
        proof = "yes" if self.optimal else f"no: at most {100 * self.gap:.1f} % above the least possible"
        return {
            "keypoints": ", ".join(str(len(own)) for own in self.points),
            "matches": ", ".join(str(int((own >= 0).sum())) for own in self.partners),
            "cost": round(self.cost, 4),
            "proven optimal": proof,
            "solver": self.solver,
        }


def correspondences(ctx: Ctx, model: BBGM, inputs: Inputs) -> Correspondences:
    """Matches of a user's pictures, two or more."""
    paths = [inputs.first, inputs.second, *inputs.more]
    whole = [read_image(path) for path in paths]
    marks = [_marks("a", inputs.points_a, inputs.places_a), _marks("b", inputs.points_b, inputs.places_b)]
    marks += [(str(file), read_keypoints(file)) for file in map(beside, inputs.more)]
    for path, picture, (source, points) in zip(paths, whole, marks, strict=True):
        _refuse_odd(points, source, path, picture)
    side = ctx.config.data.side
    images = torch.stack([normalised(resized(own.float() / 255, side, side), MEAN, STD) for own in whole])
    places = [torch.tensor([[point.x, point.y] for point in points]) for _, points in marks]
    scaled = [(own + 0.5) * side / own.new_tensor(p.shape[:0:-1]) for own, p in zip(places, whole, strict=True)]
    batch = ctx.to_device({"images": images.unsqueeze(0), **padded([scaled])})
    settings = replace(
        ctx.config.model, solver=inputs.solver, seconds=inputs.seconds,
        maximum=ctx.config.model.maximum or inputs.maximum == "yes",
    )  # fmt: skip
    if inputs.solver == "enumerate" and max(map(len, places)) > 6:
        raise VergenceError(f"enumerate is for up to 6 keypoints, got {max(map(len, places))}: try dual or milp")
    graphs = Graphs.of(batch["edges"], batch["counts"], settings)
    encoded = model.encode(batch["images"], batch["points"], batch["edges"])
    pairs = tuple(itertools.combinations(range(len(paths)), 2))
    costs = [Costs(*(own.float() for own in model.costs(encoded, *pair))) for pair in pairs]
    if len(paths) == 2:
        found = graphs.matchings(costs[0])[0]
        partners: tuple[Tensor, ...] = (found.partner,)
        cost, bound = found.cost, found.bound
    else:
        every = graphs.together(0, costs)
        partners, cost, bound = tuple(every.partner(*pair) for pair in pairs), every.cost, every.bound
    return Correspondences(
        tuple(whole), tuple(places), tuple(tuple(point.name for point in points) for _, points in marks), pairs,
        partners, tuple(own.nodes[0, : len(places[p]), : len(places[q])].cpu() for (p, q), own in
                        zip(pairs, costs, strict=True)),
        cost, bound, cost - bound <= GAP * max(abs(cost), 1.0), _solver(settings.quadratic, inputs.solver, places),
    )  # fmt: skip


def _solver(quadratic: bool, asked: str, places: Sequence[Tensor]) -> str:
    if not quadratic:
        return "linear assignment"
    small = max(map(len, places)) <= 6
    alone = {"auto": "enumeration" if small else "dual ascent", "enumerate": "enumeration", "dual": "dual ascent",
             "milp": "integer programming"}[asked]  # fmt: skip
    return alone if len(places) == 2 else f"{alone} of pairs, then descent over consistent matchings"


def _marks(which: str, file: str, places: Sequence[Point]) -> tuple[str, list[Keypoint]]:
    """Keypoints of one of the first two pictures, and where they come from."""
    if file and places:
        raise VergenceError(f"keypoints come from points_{which} or places_{which}, not from both")
    if file:
        return file, read_keypoints(Path(file).expanduser())
    return f"places_{which}", [Keypoint(str(number), x, y) for number, (x, y) in enumerate(places, 1)]


def _refuse_odd(points: Sequence[Keypoint], source: str, path: Path, picture: Tensor) -> None:
    if not points:
        raise VergenceError(f"{path} has no keypoints: give them as points_a and points_b (files) or places_a and "
                            f"places_b (x,y), {source} is empty")  # fmt: skip
    if len(points) > MOST:
        raise VergenceError(f"{source} has {len(points)} keypoints, at most {MOST} can be matched")
    height, width = picture.shape[-2:]
    seen: dict[tuple[float, float], str] = {}
    for point in points:
        if not (-0.5 <= point.x <= width - 0.5 and -0.5 <= point.y <= height - 0.5):
            raise VergenceError(
                f"the keypoint {point.name!r} of {source} at {point.x:g}, {point.y:g} is outside of {path}, which has "
                f"{width} x {height} pixels"
            )
        if (point.x, point.y) in seen:
            raise VergenceError(
                f"{source} has two keypoints at {point.x:g}, {point.y:g}: {seen[point.x, point.y]!r} and {point.name!r}"
            )
        seen[point.x, point.y] = point.name


def render(ctx: Ctx, inputs: Inputs, result: Correspondences) -> Sequence[Artifact]:
    """Writes the matches as tables and draws lines between the pictures."""
    rows = result.rows()
    columns = ["first", "second", "a", "b", "x_a", "y_a", "x_b", "y_b", "cost"]
    table = write_table(ctx.folder / "matches.csv", columns, [[row[name] for name in columns] for row in rows])
    plain = ctx.folder / "matches.json"
    known = {"cost": result.cost, "bound": result.bound, "optimal": result.optimal, "gap": result.gap}
    write_json(plain, {"matches": rows, "solver": result.solver, **known})
    drawn = pictures.lines(ctx.folder / "matches.png", result)
    proof = "proven to be the cheapest" if result.optimal else "the best found, not proven to be the cheapest"
    return [
        Artifact("image", drawn, f"Lines join keypoints that correspond; rings stay alone. The matching is {proof}."),
        Artifact("table", table, "One row per match: names and places in both pictures, and what the pair costs."),
        Artifact("json", plain, "The same with the total cost, a lower bound, and whether it is proven optimal."),
    ]
