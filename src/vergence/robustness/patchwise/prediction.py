"""Adversarial versions of a user's pictures, whose budget holds in the file, and how often they succeed."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from PIL import Image
from torch import Tensor

from vergence.contract.config import override
from vergence.contract.context import Context
from vergence.contract.inputs import Artifact, Images, Text
from vergence.core.errors import VergenceError, did_you_mean
from vergence.core.files import replacing
from vergence.data.images import read_image, scaled
from vergence.nn.efficientnet_lite import LITE
from vergence.robustness.attacks import SignAttack, logits_of, quantised
from vergence.robustness.classifiers import Zoo, pretrained
from vergence.robustness.data import read_labels
from vergence.robustness.patchwise.drawing import Shown, attacked_grid
from vergence.robustness.patchwise.settings import VARIANTS, Config, Facts

Named = Literal[
    "pi", "fgsm", "ifgsm", "amplified", "mi", "di", "ti", "ti-bim", "dmi", "dtmi", "mpi", "dpi", "dmpi", "tpi", "dtpi"
]


@dataclass(frozen=True)
class Inputs:
    """Pictures to change, by which networks, and against which."""

    images: Images
    """Picture files."""
    substitutes: Text = ""
    """The networks to attack with, separated by commas (several: the mean of their logits); if none is given, the first
    of the weights. lite0 to lite2 come with the extra `pretrained`."""
    targets: Text = ""
    """The networks to try it on; if none is given, the others of the weights."""
    labels: Text = ""
    """A csv with the columns ImageId and TrueLabel, as the NIPS 2017 set has; without it, what the substitutes say of a
    clean picture stands for the truth."""
    attack: Named = "pi"
    """Which attack."""
    eps: float = 16.0
    """The budget, in 1/255."""
    steps: int = 0
    """Iterations (0: as the attack is published)."""
    beta: float | None = None
    """Amplification; if not given, as published."""
    gamma: float | None = None
    """Size of a projection, in 1/255; if not given, as published."""
    kernel: int | None = None
    """Side of the project kernel; if not given, as published."""

    def chosen(self) -> SignAttack:
        """The attack with what was given."""
        settings = override(Config(), VARIANTS[self.attack].changes).attack
        settings = replace(
            settings,
            eps=self.eps,
            steps=self.steps or settings.steps,
            beta=settings.beta if self.beta is None else self.beta,
            gamma=settings.gamma if self.gamma is None else self.gamma / self.eps if self.eps else None,
            kernel=settings.kernel if self.kernel is None else self.kernel,
        )
        return settings.made()


@dataclass
class Judged:
    """What the networks say of each picture, (N, networks): clean, as computed, and as it is in the file."""

    truth: Tensor
    clean: Tensor
    computed: Tensor
    saved: Tensor

    @classmethod
    def empty(cls, pictures: int, networks: int) -> Judged:
        return cls(torch.zeros(pictures).long(), *(torch.zeros(pictures, networks).long() for _ in range(3)))

    def wrong(self, answers: Tensor, network: int) -> float:
        """Per cent of a network's answers."""
        return 100 * float((answers[:, network] != self.truth).double().mean())


class Prediction:
    """Adversarial pictures of a user's files, and how often they succeed."""

    def __init__(self, ctx: Context[Config, Facts], model: Zoo | None, inputs: Inputs) -> None:
        if not inputs.images:
            raise VergenceError("no picture given to attack")
        self.ctx, self.inputs = ctx, inputs
        self.attack = inputs.chosen()
        if inputs.eps < 1:
            raise VergenceError(f"a budget below 1/255 leaves nothing in a picture of 8 bits, got {inputs.eps:g}/255")
        self.labels = read_labels(Path(inputs.labels)) if inputs.labels else None
        for path in inputs.images:
            if self.labels is not None and path.stem not in self.labels:
                raise VergenceError(f"{inputs.labels} has no label for {path.name}")
        own = list(model) if model is not None else []
        self.substitutes = named(inputs.substitutes) or own[:1]
        self.targets = named(inputs.targets) or [name for name in own if name not in self.substitutes]
        names = list(dict.fromkeys([*self.substitutes, *self.targets]))
        for name in names:
            if name not in own and name not in LITE:
                raise VergenceError(f"no network {name!r}{did_you_mean(name, [*own, *LITE])}")
        # Each network is made and moved once, whatever the number of pictures.
        self.zoo = Zoo({n: model[n] if model is not None and n in own else pretrained(n) for n in names})
        self.zoo.to(ctx.device).eval()
        self.together = self.zoo.together(self.substitutes)

    def files(self) -> list[Artifact]:
        """Attack batch by batch (pictures of one size together), write, read back, judge."""
        paths = list(self.inputs.images)
        pictures = [read_image(path) for path in paths]
        outputs = _outputs(self.ctx.folder / "adversarial", paths)
        by_size: dict[tuple[int, ...], list[int]] = {}
        for index, picture in enumerate(pictures):
            by_size.setdefault(tuple(picture.shape), []).append(index)
        most = self.ctx.config.batch
        batches = [same[i : i + most] for same in by_size.values() for i in range(0, len(same), most)]
        judged = Judged.empty(len(paths), len(self.zoo))
        for batch in self.ctx.progress.track(batches, "pictures"):
            self._attack(batch, [pictures[i] for i in batch], [outputs[i] for i in batch], judged)
        shown = [self._shown(i, paths[i], pictures[i], outputs[i], judged) for i in range(min(4, len(paths)))]
        return self._artifacts(paths, outputs, judged, shown)

    def _attack(self, batch: list[int], pictures: Sequence[Tensor], outputs: Sequence[Path], judged: Judged) -> None:
        """Pictures of one size, as bytes; what is found goes into the files and into ``judged``."""
        clean = scaled(torch.stack(list(pictures))).to(self.ctx.device)
        if self.labels is not None:
            truth = torch.tensor([self.labels[self.inputs.images[i].stem] for i in batch], device=self.ctx.device)
        else:
            truth = logits_of(self.together, clean).argmax(1)
        changed = self.attack(self.together, clean, truth, self.ctx.generator)
        for picture, path, new in zip(pictures, outputs, changed.cpu(), strict=True):
            _save(path, quantised(new, picture, self.attack.eps))
        saved = torch.stack([self._read_back(o, p) for o, p in zip(outputs, pictures, strict=True)])
        judged.truth[batch] = truth.cpu()
        judged.clean[batch] = self._answers(clean)
        judged.computed[batch] = self._answers(changed)
        judged.saved[batch] = self._answers(scaled(saved).to(self.ctx.device))

    def _answers(self, images: Tensor) -> Tensor:
        return torch.stack([logits_of(c, images).argmax(1) for c in self.zoo.values()], 1).cpu()

    def _read_back(self, path: Path, picture: Tensor) -> Tensor:
        """What is in the file, held against the budget once more."""
        back = read_image(path)
        far = int((back.short() - picture.short()).abs().max())
        if far > self.inputs.eps + 1e-6:
            raise VergenceError(f"{path} differs from its picture by {far}/255, more than {self.inputs.eps:g}/255")
        return back

    def _shown(self, index: int, path: Path, picture: Tensor, output: Path, judged: Judged) -> Shown:
        answers = judged.saved[index].tolist()
        said = {name: [str(answer)] for name, answer in zip(self.zoo, answers, strict=True)}
        right = {name: [answer == int(judged.truth[index])] for name, answer in zip(self.zoo, answers, strict=True)}
        label = f"{path.name[-24:]}, truth {int(judged.truth[index])}"
        return Shown(label, scaled(picture)[None], scaled(read_image(output))[None], self.attack.eps, said, right)

    def _artifacts(
        self, paths: Sequence[Path], outputs: Sequence[Path], judged: Judged, shown: Sequence[Shown]
    ) -> list[Artifact]:
        folder = self.ctx.folder
        rows = [["network", "role", "clean error %", "success %", "success before rounding to 8 bits %"]]
        for column, name in enumerate(self.zoo):
            found = [judged.wrong(a, column) for a in (judged.clean, judged.saved, judged.computed)]
            rows.append([name, "substitute" if name in self.substitutes else "target", *(f"{v:.1f}" for v in found)])
        _write_csv(folder / "success.csv", rows)
        answers = [["file", "adversarial", "label", *(f"{n} {w}" for n in self.zoo for w in ("clean", "adversarial"))]]
        for i, path in enumerate(paths):
            both = torch.stack([judged.clean[i], judged.saved[i]], 1).flatten().tolist()
            answers.append([str(path), f"adversarial/{outputs[i].name}", str(int(judged.truth[i])), *map(str, both)])
        _write_csv(folder / "answers.csv", answers)
        grid = attacked_grid(folder / "attacked.png", shown)
        summary = ", ".join(f"{row[0]} {row[3]} % (clean {row[2]} %)" for row in rows[1:])
        made = [
            Artifact("table", folder / "success.csv", f"Wrong after the attack: {summary}."),
            Artifact("table", folder / "answers.csv", "What each network says of each picture, clean and adversarial."),
            Artifact("image", grid, "Some pictures as the attack leaves them, the change, and its patch map."),
        ]
        budget = f"changed by at most {self.inputs.eps:g}/255"
        return made + [Artifact("image", o, f"{p.name}, {budget}.") for p, o in zip(paths, outputs, strict=True)]


def named(text: str) -> list[str]:
    """``lite0, lite1`` as a list."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _outputs(folder: Path, paths: Sequence[Path]) -> list[Path]:
    """A PNG for each picture; two of one name may come from two folders."""
    names: dict[str, None] = {}
    for path in paths:
        free = (path.stem, *(f"{path.stem}-{n}" for n in range(2, len(paths) + 2)))
        names[next(name for name in free if name not in names)] = None
    return [folder / f"{name}.png" for name in names]


def _save(path: Path, picture: Tensor) -> None:
    with replacing(path) as partial:
        Image.fromarray(picture.permute(1, 2, 0).contiguous().numpy()).save(partial, format="png")


def _write_csv(path: Path, rows: Sequence[Sequence[str]]) -> None:
    with replacing(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
