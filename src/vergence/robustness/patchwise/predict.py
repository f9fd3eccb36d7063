"""Adversarial versions of a user's pictures, with the budget checked in the saved files, and their success rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.core.errors import VergenceError, did_you_mean
from vergence.core.files import replacing, write_table
from vergence.data.imagenet import words
from vergence.data.images import read_image, scaled
from vergence.nn.efficientnet_lite import LITE
from vergence.robustness.attacks import logits_of, quantised
from vergence.robustness.classifiers import Zoo, pretrained
from vergence.robustness.data import read_labels
from vergence.robustness.patchwise.model import attack_of
from vergence.robustness.patchwise.pictures import Ctx, Shown, attacked_grid
from vergence.robustness.patchwise.settings import Inputs

READY = ("lite0", "lite1", "lite2")
"""ImageNet classifiers of the extra ``pretrained``, used if no weights are given."""


@dataclass(frozen=True, eq=False)
class Adversarial(Result):
    """Adversarial pictures, and the predictions of each network."""

    clean: tuple[Tensor, ...]
    """The original pictures, bytes (3, H, W) each."""
    adversarial: tuple[Tensor, ...]
    """The same pictures after the attack, within the budget, bytes (3, H, W) each."""
    labels: Tensor
    """The label of each picture, (N,): as given, or the substitutes' prediction on the clean picture."""
    networks: tuple[str, ...]
    """All networks, in the order of the columns below."""
    substitutes: tuple[str, ...]
    """The networks that the attack was made with."""
    before: Tensor
    """The prediction of each network on each clean picture, (N, networks)."""
    after: Tensor
    """The prediction of each network on each adversarial picture, (N, networks)."""
    unrounded: Tensor
    """Like ``after``, before rounding to 8 bits, (N, networks)."""
    classes: tuple[str, ...]
    """The names of the classes; empty if the weights know only their numbers."""

    def name(self, label: int) -> str:
        """A class in words, or its number if it has no name."""
        return self.classes[label] if label < len(self.classes) else str(label)

    def wrong(self, answers: Tensor) -> dict[str, float]:
        """By network, the percentage of wrong predictions; ``answers`` are (N, networks)."""
        shares = 100 * (answers != self.labels[:, None]).double().mean(0)
        return dict(zip(self.networks, shares.tolist(), strict=True))

    def summary(self) -> Mapping[str, Any]:
        return {
            "pictures": len(self.clean),
            "success, %": {name: round(value, 1) for name, value in self.wrong(self.after).items()},
            "clean error, %": {name: round(value, 1) for name, value in self.wrong(self.before).items()},
            **{f"picture {number + 1}": self.said(number) for number in range(min(LISTED, len(self.clean)))},
        }

    def said(self, number: int) -> str:
        """What each network says of a picture, before and after the attack."""
        pairs = zip(self.networks, self.before[number].tolist(), self.after[number].tolist(), strict=True)
        return ", ".join(f"{network}: {self.name(old)} → {self.name(new)}" for network, old, new in pairs)


LISTED = 4
"""Number of pictures whose predictions are summarised and drawn."""
BYTES_PER_PIXEL = 200
"""Memory of an attack for a pixel of a batch, as measured."""


def attacked(ctx: Ctx, model: Zoo | None, inputs: Inputs) -> Adversarial:
    """Attacks in batches of pictures of one size, rounds to bytes, and evaluates every network."""
    true_labels = read_labels(Path(inputs.labels)) if inputs.labels else None
    for path in inputs.images:
        if true_labels is not None and path.stem not in true_labels:
            raise VergenceError(f"{inputs.labels} has no label for {path.name}")
    zoo, substitutes = _networks(ctx, model, inputs)
    together, attack = zoo.together(substitutes), attack_of(inputs.chosen())
    pictures = [read_image(path) for path in inputs.images]
    adversarial = list(pictures)
    batches = _batches(pictures, ctx.config.batch)
    most = max(sum(pictures[i][0].numel() for i in batch) for batch in batches)
    ctx.need(BYTES_PER_PIXEL * most, f"attacking {most:,} pixels at once")
    labels = torch.zeros(len(pictures)).long()
    before, after, unrounded = (torch.zeros(len(pictures), len(zoo)).long() for _ in range(3))
    for batch in ctx.progress.track(batches, "pictures"):
        clean = _on_device(ctx, [pictures[i] for i in batch])
        if true_labels is not None:
            truth = torch.tensor([true_labels[inputs.images[i].stem] for i in batch], device=ctx.device)
        else:
            truth = logits_of(together, clean).argmax(1)
        changed = attack(together, clean, truth, ctx.generator)
        for index, new in zip(batch, changed.cpu(), strict=True):
            adversarial[index] = quantised(new, pictures[index], attack.eps)
        labels[batch] = truth.cpu()
        before[batch] = _answers(zoo, clean)
        unrounded[batch] = _answers(zoo, changed)
        after[batch] = _answers(zoo, _on_device(ctx, [adversarial[i] for i in batch]))
    names = tuple(zoo), tuple(substitutes)
    classes = _classes(ctx, model, names[0])
    return Adversarial(tuple(pictures), tuple(adversarial), labels, *names, before, after, unrounded, classes)


def _classes(ctx: Ctx, model: Zoo | None, networks: Sequence[str]) -> tuple[str, ...]:
    """The names of the classes: ImageNet's of pretrained networks, else those that were trained on."""
    pretrained_ones = model is None or any(name not in model for name in networks)
    return words() if pretrained_ones or ctx.config.model.weights == "imagenet" else ctx.facts.labels


def _networks(ctx: Ctx, model: Zoo | None, inputs: Inputs) -> tuple[Zoo, list[str]]:
    """All networks by name, each loaded once, and the names of the substitutes."""
    trained = {} if model is None else dict(model.items())
    usual = list(trained) if trained else list(READY)
    substitutes = named(inputs.substitutes) or usual[:1]
    targets = named(inputs.targets) or [name for name in usual if name not in substitutes]
    names = list(dict.fromkeys([*substitutes, *targets]))
    for name in names:
        if name not in trained and name not in LITE:
            raise VergenceError(f"no network {name!r}{did_you_mean(name, [*trained, *LITE])}")
    ready = {name: pretrained(name).to(ctx.device, ctx.float_type) for name in names if name not in trained}
    return Zoo({name: ready[name] if name in ready else trained[name] for name in names}), substitutes


def named(text: str) -> list[str]:
    """Splits names at commas: ``lite0, lite1``."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _batches(pictures: Sequence[Tensor], most: int) -> list[list[int]]:
    """Batches of indices of pictures of one size, at most ``most`` each."""
    by_size: dict[tuple[int, ...], list[int]] = {}
    for index, picture in enumerate(pictures):
        by_size.setdefault(tuple(picture.shape), []).append(index)
    return [same[i : i + most] for same in by_size.values() for i in range(0, len(same), most)]


def _on_device(ctx: Ctx, pictures: Sequence[Tensor]) -> Tensor:
    """Bytes (3, H, W) as one batch in [0, 1]."""
    batch: Tensor = ctx.to_device(scaled(torch.stack(list(pictures))))
    return batch


def _answers(zoo: Zoo, images: Tensor) -> Tensor:
    return torch.stack([logits_of(c, images).argmax(1) for c in zoo.values()], 1).cpu()


# Files ----------------------------------------------------------------------------------------------------------------


def render(ctx: Ctx, inputs: Inputs, result: Adversarial) -> list[Artifact]:
    """Writes adversarial pictures as PNG, tables of success rates and predictions, and a picture of a few."""
    paths, folder = inputs.images, ctx.folder
    outputs = _outputs(folder / "adversarial", paths)
    for output, picture, adversarial in zip(outputs, result.clean, result.adversarial, strict=True):
        _save(output, adversarial, picture, inputs.eps)
    clean, success, unrounded = map(result.wrong, (result.before, result.after, result.unrounded))
    rows = []
    for name in result.networks:
        role = "substitute" if name in result.substitutes else "target"
        rows.append([name, role, *(f"{rate[name]:.1f}" for rate in (clean, success, unrounded))])
    heading = ["network", "role", "clean error %", "success %", "success before rounding to 8 bits %"]
    successes = write_table(folder / "success.csv", heading, rows)
    heading = ["file", "adversarial", "label"]
    heading += [f"{name} {when}" for name in result.networks for when in ("clean", "adversarial")]
    answers = torch.stack([result.before, result.after], 2).flatten(1)
    rows = []
    for path, output, numbers in zip(paths, outputs, torch.cat([result.labels[:, None], answers], 1), strict=True):
        rows.append([str(path), f"adversarial/{output.name}", *map(result.name, numbers.tolist())])
    every = write_table(folder / "answers.csv", heading, rows)
    grid = attacked_grid(folder / "attacked.png", [_shown(inputs, result, i) for i in range(min(LISTED, len(paths)))])
    summary = ", ".join(f"{name} {success[name]:.1f} % (clean {clean[name]:.1f} %)" for name in result.networks)
    return [
        Artifact("table", successes, f"Wrong after the attack: {summary}."),
        Artifact("table", every, "Predictions of each network on each picture, clean and adversarial."),
        Artifact("image", grid, "Adversarial pictures, the change, and its patch map."),
        *(Artifact("image", path, f"{path.name}, changed by at most {inputs.eps:g}/255.") for path in outputs),
    ]


def _outputs(folder: Path, paths: Sequence[Path]) -> list[Path]:
    """One PNG path per picture; equal names from different folders get a number."""
    names: dict[str, None] = {}
    for path in paths:
        free = (path.stem, *(f"{path.stem}-{n}" for n in range(2, len(paths) + 2)))
        names[next(name for name in free if name not in names)] = None
    return [folder / f"{name}.png" for name in names]


def _save(path: Path, adversarial: Tensor, picture: Tensor, eps: float) -> None:
    """Saves a picture and checks the budget again in the saved file."""
    with replacing(path) as partial:
        Image.fromarray(adversarial.permute(1, 2, 0).contiguous().numpy()).save(partial, format="png")
    far = int((read_image(path).short() - picture.short()).abs().max())
    if far > eps + 1e-6:
        raise VergenceError(f"{path} differs from its picture by {far}/255, more than {eps:g}/255")


def _shown(inputs: Inputs, result: Adversarial, index: int) -> Shown:
    label, answers = int(result.labels[index]), dict(zip(result.networks, result.after[index].tolist(), strict=True))
    return Shown(
        f"{inputs.images[index].name[-24:]}: {result.name(label)}",
        scaled(result.clean[index])[None],
        scaled(result.adversarial[index])[None],
        inputs.eps / 255,
        {name: [result.name(answer)] for name, answer in answers.items()},
        {name: [answer == label] for name, answer in answers.items()},
    )
