"""Patch-wise attacks as a system: networks attack each other, and what survives is counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.contract.config import override
from vergence.contract.context import Context
from vergence.contract.data import Data
from vergence.contract.inputs import Artifact
from vergence.contract.settings import Learns, Metric, Published, Reported
from vergence.contract.system import System
from vergence.core.errors import VergenceError
from vergence.core.files import write_json
from vergence.data.layouts import find
from vergence.nn.efficientnet_lite import LITE
from vergence.robustness.attacks import logits_of
from vergence.robustness.classifiers import Zoo
from vergence.robustness.data import LAYOUTS, Squares, digits
from vergence.robustness.metrics import Transfer, fooled, wrong
from vergence.robustness.patchwise import ABOUT
from vergence.robustness.patchwise.claims import CLAIMS
from vergence.robustness.patchwise.drawing import Shown, attacked_grid, transfer_grid
from vergence.robustness.patchwise.networks import build, fill
from vergence.robustness.patchwise.prediction import Inputs, Prediction, named
from vergence.robustness.patchwise.settings import PRESETS, VARIANTS, Config, Facts

Ctx = Context[Config, Facts]


class Patchwise(System[Config, Facts]):
    about = ABOUT
    config_type, facts_type, inputs_type = Config, Facts, Inputs
    presets = PRESETS
    variants = VARIANTS
    metrics = {
        "transfer": Metric("transfer", "%", digits=1),
        "whitebox": Metric("white box", "%", digits=1),
        "induced": Metric("transfer above clean error", "%", digits=1),
        "accuracy": Metric("accuracy on clean pictures", "%", digits=1),
    }
    embedded = (
        "Embedded: scikit-learn's handwritten digits at 20 x 20 pixels, and four small networks of different shapes "
        "trained on them. Each attacks the others in turn, with a budget of a tenth of the range."
    )
    layouts = LAYOUTS
    reported = (
        Reported(
            "Table 1: ImageNet, made with Inception-v3; transfer is the mean over four normally trained networks",
            {
                "fgsm": {"transfer": 36.6, "whitebox": 80.9},
                "ifgsm": {"transfer": 22.5, "whitebox": 100.0},
                "mi": {"transfer": 48.575, "whitebox": 100.0},
                "di": {"transfer": 40.075, "whitebox": 99.8},
                "pi": {"transfer": 54.15, "whitebox": 100.0},
                "mpi": {"transfer": 58.15, "whitebox": 100.0},
                "dmi": {"transfer": 69.775, "whitebox": 99.9},
                "dmpi": {"transfer": 71.5, "whitebox": 100.0},
            },
        ),
    )
    published = {
        "paper": Published(
            {"classes": 1000}, {name: (1, 1000) for name in ("lite0", "lite1", "lite2")}, parameters=16_160_760
        )
    }
    learns = Learns("conv", steps=40, share=0.5, changes={"data.limit": 60})
    claims = CLAIMS
    tiny_minutes = 0.5

    # Data -----------------------------------------------------------------------------------------------------------

    def data(self, ctx: Ctx, split: str) -> Squares:
        settings = ctx.config.data
        found = find(settings.source, self.layouts)
        raw = digits(split, settings.side) if found is None else found[0].read(found[1], split)
        if settings.limit and split != "train":
            raw = _First(raw, min(settings.limit, len(raw)))
        return Squares(raw, settings.side, settings.channels, settings.noise)

    def facts(self, ctx: Ctx, data: Data) -> Facts:
        classes = cast(Squares, data).data.classes
        return Facts(len(classes), tuple(classes) if len(classes) <= 100 else ())

    # Networks -------------------------------------------------------------------------------------------------------

    def build(self, config: Config, facts: Facts) -> nn.Module:
        return build(config.model, config.data.channels, config.data.side, facts.classes)

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        return (torch.full((batch, config.data.channels, config.data.side, config.data.side), 0.5),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {"range": [0, 1], "side": config.data.side, "channels": config.data.channels}

    def start(self, ctx: Ctx, model: nn.Module) -> nn.Module:
        if ctx.config.model.weights == "pretrained":
            fill(cast(Zoo, model))
        return model

    def losses(self, ctx: Ctx, model: nn.Module, batch: Any) -> Mapping[str, Tensor]:
        """The networks share nothing: the sum of their losses trains each as if it were alone."""
        images, labels = batch
        return {name: F.cross_entropy(logits, labels) for name, logits in model(images).items()}

    # Use ------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Ctx, model: nn.Module | None, data: Data) -> Mapping[str, float]:
        zoo, settings = cast(Zoo, model), ctx.config.attack
        _refuse_other_classes(ctx.facts, cast(Squares, data))
        groups = groups_of(tuple(zoo), settings.substitutes)
        attack = settings.made()
        before, after = [], []
        for images, labels in ctx.batches(data, ctx.config.batch, "attacking"):
            before.append(wrong(zoo, images, labels))
            after.append(fooled(lambda c, x, y: attack(c, x, y, ctx.generator), zoo, groups, images, labels))
        return Transfer.of(zoo, groups, ctx.gather(torch.cat(before)), ctx.gather(torch.cat(after))).summary()

    def needs_model(self, inputs: Inputs) -> bool:
        """Named networks that come with a package need no weights of a run."""
        given = named(inputs.substitutes), named(inputs.targets)
        return not (all(given) and all(name in LITE for names in given for name in names))

    def predict(self, ctx: Ctx, model: nn.Module | None, inputs: Any) -> Sequence[Artifact]:
        return Prediction(ctx, cast("Zoo | None", model), inputs).files()

    def pictures(self, ctx: Ctx, models: Mapping[str, nn.Module], data: Data) -> Sequence[Artifact]:
        """The whole table, and what the attacks do to two held-out pictures."""
        made: list[Artifact] = []
        known = {v: found for v, found in ctx.measured.items() if any(" > " in cell for cell in found)}
        labels = {v: self.variants[v].label if v in self.variants else v for v in {*known, *models}}
        if known:
            path = transfer_grid(ctx.folder / "transfer.png", {labels[v]: found for v, found in known.items()})
            caption = (
                "How often (%) an attack made with the network of a row fools the network of a column, of all held-out "
                "pictures; on the diagonal both are the same."
            )
            made.append(Artifact("image", path, caption))
            write_json(ctx.folder / "transfer.json", _table(ctx, labels, known))
            made.append(Artifact("json", ctx.folder / "transfer.json", "The same as a table."))
        if models:
            first = next(iter(models))
            truth = [ctx.facts.labels[data[i][1]] if ctx.facts.labels else data[i][1] for i in range(min(2, len(data)))]
            heading = f"clean, truth: {' and '.join(map(str, truth))}"
            rows = [self._shown(ctx, first, models[first], heading, data, attacked=False)]
            rows += [self._shown(ctx, v, models[v], labels[v], data) for v in models]
            path = attacked_grid(ctx.folder / "attacked.png", rows)
            caption = (
                "Two held-out pictures as they are and as each attack leaves them, the change (grey: none) and its "
                "patch map (Eq. 7; white: the whole budget), with what each network says (×: wrong). The network that "
                "is named first made them."
            )
            made.append(Artifact("image", path, caption))
        return made

    def _shown(self, ctx: Ctx, variant: str, model: nn.Module, label: str, data: Data, attacked: bool = True) -> Shown:
        zoo = cast(Zoo, model.to(ctx.device).eval())
        changes = self.variants[variant].changes if variant in self.variants else {}
        attack = override(ctx.config, changes).attack.made()
        pairs = [data[i] for i in range(min(2, len(data)))]
        images = torch.stack([image for image, _ in pairs]).to(ctx.device)
        truth = torch.tensor([y for _, y in pairs], device=ctx.device)
        changed = attack(next(iter(zoo.values())), images, truth, ctx.generator) if attacked else images
        with torch.no_grad():
            answers = {name: logits_of(c, changed).argmax(1).tolist() for name, c in zoo.items()}
        names = ctx.facts.labels
        said = {n: [names[i] if names else str(i) for i in found] for n, found in answers.items()}
        right = {n: [i == t for i, t in zip(found, truth.tolist(), strict=True)] for n, found in answers.items()}
        return Shown(label, images.cpu(), changed.cpu(), attack.eps, said, right)


def groups_of(names: Sequence[str], how: str) -> list[tuple[str, ...]]:
    """The substitutes of each attack: each network alone, or all but one."""
    if how == "each":
        return [(name,) for name in names]
    return [tuple(other for other in names if other != name) for name in names]


@dataclass(frozen=True)
class _First:
    """The first so many samples."""

    data: Any
    count: int

    @property
    def classes(self) -> tuple[str, ...]:
        return cast(tuple[str, ...], self.data.classes)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.data[index]


def _refuse_other_classes(facts: Facts, data: Squares) -> None:
    own = data.data.classes
    if len(own) != facts.classes or (facts.labels and tuple(own) != facts.labels):
        raise VergenceError(
            f"the networks know {facts.classes} classes ({_some(facts.labels)}), the data has {len(own)} ({_some(own)})"
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "") or "without names"


def _table(ctx: Ctx, labels: Mapping[str, str], known: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Rows of attack and substitute, a column a target."""
    cells = [name.split(" > ") for name in next(iter(known.values())) if " > " in name]
    targets = list(dict.fromkeys(target for _, target in cells))
    rows = []
    for variant, found in known.items():
        for group in dict.fromkeys(name.split(" > ")[0] for name in found if " > " in name):
            values = [found.get(f"{group} > {target}") for target in targets]
            rows.append([labels[variant], group, *values])
    data, attack = ctx.config.data, ctx.config.attack
    title = (
        f"Success in % with a budget of {attack.eps:g}/255, on {data.source.partition(':')[0]} at {data.side} pixels"
    )
    return {"title": title, "columns": ["attack", "made with", *targets], "rows": rows}


SYSTEM = Patchwise()
