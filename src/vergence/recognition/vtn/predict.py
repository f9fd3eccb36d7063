"""A user's photographs: their classes or descriptors, and the fields of each group of channels, drawn and as arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.core.errors import VergenceError
from vergence.core.files import unused, write_array, write_json, write_table
from vergence.data.assets import LITE
from vergence.data.imagenet import words
from vergence.data.images import normalised, read_image, resized, scaled
from vergence.nn.efficientnet_lite import LITE_MEAN, LITE_STD, public_names
from vergence.reading.weights import load_state
from vergence.recognition.vtn.model import Network, build, load_backbone
from vergence.recognition.vtn.pictures import Region, apart, draw_rows
from vergence.recognition.vtn.settings import Inputs, ModelConfig, Pictures

if TYPE_CHECKING:
    from vergence.recognition.vtn.tasks import Ctx

LEAST = 32
"""The least shorter side, in pixels, that a network gets."""
LONGEST = 448
"""Without weights: longer side of the network input."""
SHOWN = 5
"""Number of labels listed per file."""


@dataclass(frozen=True, eq=False)
class Bent(Result):
    """Photographs, what a network says about them, and how it bends its last map."""

    files: tuple[str, ...]
    """Names of the pictures."""
    classes: tuple[str, ...]
    """Names of the classes; empty for a network that describes."""
    labels: tuple[str, ...]
    """The most likely class of each picture; empty for a network that describes."""
    scores: Tensor
    """Probabilities, (N, classes)."""
    unbent: tuple[str, ...]
    """Without weights: the most likely class if the map is not bent."""
    descriptors: Tensor
    """A descriptor of each picture with unit length, (N, D): of a classifier, the mean of its bent map."""
    fields: tuple[Tensor, ...]
    """For each picture the fields (C, 2, h, w) of C groups of channels, to the right and down, in pixels of the map;
    empty for a network without."""
    regions: tuple[Region, ...]
    """For each picture the part that the map covers: left, top, width and height in pixels."""

    def summary(self) -> Mapping[str, Any]:
        told: dict[str, Any] = {}
        for number, file in enumerate(self.files):
            said = ", ".join(f"{label} {p:.0%}" for label, p in self.best(number, 3)) if self.labels else "described"
            if self.fields:
                moved = self.fields[number].norm(dim=1).mean()
                said += f"; fields of {len(self.fields[number])} groups, {moved:.2f} pixels of the map long"
            told[Path(file).name] = said
        return told

    def best(self, number: int, count: int = SHOWN) -> list[tuple[str, float]]:
        """The most likely labels of a picture with their probabilities."""
        scores = self.scores[number]
        return [(self.classes[i], float(scores[i])) for i in scores.argsort(descending=True)[:count].tolist()]


@dataclass(frozen=True)
class _Seen:
    """What a network makes of one picture."""

    output: Tensor
    descriptor: Tensor
    plain: Tensor
    """The output if the map is not bent."""
    fields: Tensor | None
    region: Region


def _looked(model: Network, x: Tensor, region: Region) -> _Seen:
    output, u, v, fields = model.look(x[None])
    descriptor = F.normalize(v.float().mean((2, 3)), dim=1)[0].cpu()
    own = None if fields is None else fields[0].float().cpu()
    return _Seen(output[0].float().cpu(), descriptor, model.head(u)[0].float().cpu(), own, region)


def _read(ctx: Ctx, inputs: Inputs) -> list[Tensor]:
    if not inputs.images:
        raise VergenceError("no picture given to predict on")
    return [read_image(path) for path in ctx.progress.track(inputs.images, "pictures")]


def _result(inputs: Inputs, seen: Sequence[_Seen], classes: Sequence[str], plain: bool = False) -> Bent:
    scores = torch.stack([each.output.softmax(0) for each in seen]) if classes else torch.zeros(len(seen), 0)
    labels = tuple(classes[i] for i in scores.argmax(1).tolist()) if classes else ()
    return Bent(
        tuple(map(str, inputs.images)),
        tuple(classes),
        labels,
        scores,
        tuple(classes[int(each.plain.argmax())] for each in seen) if plain else (),
        torch.stack([each.descriptor if classes else each.output for each in seen]),
        tuple(each.fields for each in seen if each.fields is not None),
        tuple(each.region for each in seen),
    )


def classified(ctx: Ctx, model: Network, inputs: Inputs) -> Bent:
    """The classes of pictures, by the middle of each, as in evaluation."""
    from vergence.recognition.vtn.tasks import asked, cut, seen

    view = asked(ctx.config, Pictures)
    pictures = _read(ctx, inputs)
    looked = [_looked(model, ctx.to_device(cut(view, picture)), seen(view, picture)) for picture in pictures]
    return _result(inputs, looked, [ctx.facts.name(n) for n in range(ctx.facts.classes)])


def described(ctx: Ctx, model: Network, inputs: Inputs, whole: Callable[[Tensor], Tensor]) -> Bent:
    """Descriptors of whole pictures."""
    pictures = _read(ctx, inputs)
    seen = [_looked(model, ctx.to_device(whole(picture)), _whole_region(picture)) for picture in pictures]
    return _result(inputs, seen, ())


def ready_network(beta: float) -> Network:
    """EfficientNet-Lite0 with the weights of the extra ``pretrained``, and a volumetric transformer whose residual
    logits are zero: nothing in it was trained, and its fields follow the responses of the map."""
    network = build(ModelConfig("efficientnet-lite0", beta=beta), 1000, 224)
    state = public_names(load_state(LITE["efficientnet-lite0"].path()))
    load_backbone(network, state)
    network.head[2].load_state_dict({"weight": state["fc.weight"], "bias": state["fc.bias"]})  # type: ignore[index]
    return network.eval().requires_grad_(False)


def whole_input(picture: Tensor) -> Tensor:
    """A whole picture for :func:`ready_network`: a longer side of :data:`LONGEST`, both sides multiples of 32."""
    share = LONGEST / max(picture.shape[-2:])
    height, width = (max(round(side * share / LEAST), 1) * LEAST for side in picture.shape[-2:])
    return normalised(resized(scaled(picture), height, width), (LITE_MEAN,) * 3, (LITE_STD,) * 3)


def without_weights(ctx: Ctx, inputs: Inputs) -> Bent:
    """Classes of ImageNet, and the fields that follow from responses alone."""
    ctx.progress.say(
        "no weights of vtn: EfficientNet-Lite0, trained on ImageNet, with a volumetric transformer that was not "
        "trained, so that its fields follow the responses alone"
    )
    pictures = _read(ctx, inputs)
    network = ready_network(inputs.beta).to(ctx.device)
    seen = [_looked(network, ctx.to_device(whole_input(p)), _whole_region(p)) for p in pictures]
    return _result(inputs, seen, words(), plain=True)


def _whole_region(picture: Tensor) -> Region:
    return 0.0, 0.0, float(picture.shape[-1]), float(picture.shape[-2])


def render(ctx: Ctx, inputs: Inputs, result: Bent) -> Sequence[Artifact]:
    """Writes labels or descriptors, all fields as arrays, and draws some of them on each picture."""
    artifacts = []
    if result.labels:
        count = min(SHOWN, len(result.classes))
        heading = [f"{word} {rank}" for rank in range(1, count + 1) for word in ("label", "probability")]
        rows = [
            [file, *(value for label, p in result.best(n, count) for value in (label, f"{p:.4f}"))]
            for n, file in enumerate(result.files)
        ]
        table = write_table(ctx.folder / "labels.csv", ["file", *heading], rows)
        artifacts.append(Artifact("table", table, "The most likely labels with their probabilities."))
    described = write_array(ctx.folder / "descriptors.npy", result.descriptors.numpy())
    artifacts.append(Artifact("table", described, "One descriptor of unit length per picture, (N, D)."))
    for number, path in enumerate(inputs.images):
        artifacts += _drawn(ctx, inputs, result, number, path)
    if result.fields:
        every = zip(result.files, result.fields, result.regions, strict=True)
        told = {file: _told(fields, region) for file, fields, region in every}
        write_json(ctx.folder / "fields.json", told)
        caption = "For each picture and group, the mean shift and length of its field, in pixels of the map."
        artifacts.append(Artifact("table", ctx.folder / "fields.json", caption))
    return artifacts


def _drawn(ctx: Ctx, inputs: Inputs, result: Bent, number: int, path: Path) -> list[Artifact]:
    """The fields of one picture as an array, and a drawing."""
    picture, region = read_image(path), result.regions[number]
    title = f"{result.labels[number]} {float(result.scores[number].max()):.0%}" if result.labels else path.name
    if result.unbent and result.unbent[number] != result.labels[number]:
        title += f"\nnot bent: {result.unbent[number]}"
    row: list[tuple[Tensor, str, Tensor | None, Region]] = [(picture, title, None, region)]
    artifacts = []
    if result.fields:
        fields = result.fields[number]
        array = write_array(unused(ctx.folder / f"{path.stem}-fields.npy"), fields.numpy())
        caption = f"{path.name}: fields (C, 2, h, w) to the right and down, in pixels of the map."
        artifacts.append(Artifact("table", array, caption))
        row += [(picture, f"group {g}", fields[g], region) for g in apart(fields, inputs.groups)]
    wrapped = [row[i : i + 4] for i in range(0, len(row), 4)]
    drawn = draw_rows(unused(ctx.folder / f"{path.stem}-fields.png"), wrapped, 2.6)
    caption = f"{path.name}: where groups of channels sample; dots are coloured by where they go."
    return [*artifacts, Artifact("image", drawn, caption)]


def _told(fields: Tensor, region: Region) -> dict[str, Any]:
    shifts, lengths = fields.mean((2, 3)).tolist(), fields.norm(dim=1).mean((1, 2)).tolist()
    groups = [{"shift": shift, "length": length} for shift, length in zip(shifts, lengths, strict=True)]
    return {"map": list(fields.shape[-2:]), "region": list(region), "groups": groups}
