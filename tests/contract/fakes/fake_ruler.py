"""No model at all: a measure of how far apart two lists of numbers are.

```python
from fake_ruler import distance
assert distance([1, 2], [1, 4]) == 1.0
```
"""

from __future__ import annotations

from dataclasses import dataclass

from vergence.contract.about import About
from vergence.contract.claims import Claim
from vergence.contract.data import Layout
from vergence.contract.inputs import Artifact, Graph
from vergence.contract.result import Result
from vergence.contract.settings import Metric, Settings, Variant
from vergence.contract.system import System
from vergence.core.errors import VergenceError
from vergence.core.files import write_json
from vergence.data.layouts import find

ABOUT = About("fake-ruler", "A ruler", ("N. Body",), "Nowhere 2020", ("maps",), "Measures.", "ruler")


def distance(a, b):
    return sum(abs(x - y) for x, y in zip(a, b, strict=True)) / len(a)


def read(path, split="test"):
    try:
        rows = [[float(v) for v in line.split()] for line in path.read_text().strip().splitlines()]
    except (OSError, ValueError) as error:
        raise VergenceError(f"{path} is not rows of numbers: {error}") from error
    if len(rows) != 2 or len(rows[0]) != len(rows[1]) or not rows[0]:
        raise VergenceError(f"{path} is not two rows of as many numbers")
    return rows


@dataclass(frozen=True)
class Config:
    data: str = "embedded"
    scale: float = 1.0
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Distance(Result):
    distance: float
    """How far apart they are."""


@dataclass(frozen=True)
class Inputs:
    truth: Graph
    prediction: Graph


SETTINGS = Settings(
    ABOUT,
    Config,
    {"tiny": Config(), "paper": Config()},
    {"plain": Variant("plain"), "doubled": Variant("doubled", {"scale": 2.0})},
    {"distance": Metric("distance", higher_is_better=False)},
    inputs=Inputs,
)


class Ruler(System):
    settings = SETTINGS
    layouts = {"folder": Layout(read, "a text file with two rows of numbers")}
    claims = [
        Claim("zero", "A list is at no distance from itself.", "Sec. 1", "exact", lambda _: distance([3], [3]), 0)
    ]

    def data(self, ctx, split):
        found = find(ctx.config.data, self.layouts)
        return found[0].read(found[1], split) if found else [[1.0, 2.0, 3.0], [1.0, 2.5, 2.0]]

    def evaluate(self, ctx, model, data):
        return {"distance": ctx.config.scale * distance(data[0], data[1])}

    def infer(self, ctx, model, inputs):
        return Distance(distance(read(inputs.truth)[0], read(inputs.prediction)[0]))

    def render(self, ctx, inputs, result):
        write_json(ctx.folder / "distance.json", result.distance)
        return [Artifact("json", ctx.folder / "distance.json", "How far apart they are.")]


SYSTEM = Ruler()
