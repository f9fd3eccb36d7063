"""Classifiers as black boxes: any callable from pictures to scores or labels, whose every answer is checked.

::

    subject = Subject.of(classifier, image)               # asks what the classifier says of the picture
    subject.kept(hidden)                                  # does it say the same of masked versions (B, H, W)?

A classifier takes pictures (N, C, H, W) in [0, 1] with its normalisation inside, and returns scores (N, classes) or
labels (N,). No autograd graph is made, except by :meth:`BlackBox.gradients`, for methods that need it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.data.images import normalised, resized, scaled
from vergence.reading.files import refusing
from vergence.reading.onnx import open_onnx
from vergence.robustness.options import Background

Answers = Callable[[Tensor], Any]
"""Pictures (N, C, H, W) in [0, 1] to scores (N, classes), or to labels (N,)."""
SHADES = {"grey": 128 / 255, "black": 0.0, "white": 1.0}
BATCH = 4
"""Pictures of one forward pass: EfficientNet-Lite's maps of more than four no longer fit a core's cache (18 ms a
picture with four, 25 with eight, 35 with sixteen)."""


class BlackBox:
    """A classifier with checks: one that trains, or returns NaN or the wrong shape, is refused by name."""

    def __init__(
        self, classifier: Answers, batch: int = BATCH, name: str = "", asked: Callable[[int], None] | None = None
    ) -> None:
        if batch < 1:
            raise VergenceError(f"a batch has at least one picture, got {batch}")
        self.classifier, self.batch = classifier, batch
        own = getattr(classifier, "name", "") or getattr(classifier, "__name__", "") or type(classifier).__name__
        self.name = f"the classifier {name or own}"
        self.queries, self.asked = 0, asked
        """Pictures that it was asked about, and what is called with that number after each batch."""
        if isinstance(classifier, nn.Module) and classifier.training:
            raise VergenceError(f"{self.name} is in training mode, where answers vary: call .eval()")

    def __call__(self, images: Tensor) -> Tensor:
        """Scores (N, classes) or labels (N,) of pictures, asked in batches and without gradients."""
        with torch.no_grad():
            return torch.cat([self._checked(self.classifier(part), len(part)) for part in images.split(self.batch)])

    def labels(self, images: Tensor) -> Tensor:
        """Labels (N,)."""
        return labels_of(self(images))

    def chances(self, images: Tensor, label: int) -> Tensor:
        """The probability of a label for each picture, (N,) float64; 0 or 1 from a classifier that returns labels."""
        return chances_of(self(images), label)

    def gradients(self, method: str, images: Tensor, label: int) -> tuple[Tensor, Tensor]:
        """The score of a label for each picture, (N,), and its gradient by the picture, (N, C, H, W)."""
        with torch.inference_mode(False), torch.enable_grad():
            seen = images.detach().clone().requires_grad_()
            score = self.score(method, seen, label)
            (gradient,) = torch.autograd.grad(score.sum(), seen)
        if not gradient.isfinite().all():
            raise VergenceError(f"the gradient of {self.name} is not finite")
        return score.detach(), gradient

    def score(self, method: str, images: Tensor, label: int) -> Tensor:
        """The score of a label with its graph, (N,); refuses a classifier without gradients."""
        answers = self._checked(self.classifier(images), len(images))
        if not answers.requires_grad:
            raise VergenceError(
                f"{method} needs gradients, which {self.name} does not give: use deepcover, rise, occlusion, lime or "
                "shap, which need only its answers"
            )
        return answers[:, label]

    def _checked(self, answers: Any, count: int) -> Tensor:
        if not isinstance(answers, Tensor):
            try:
                answers = torch.as_tensor(answers)
            except (TypeError, ValueError, RuntimeError):
                raise VergenceError(
                    f"{self.name} returned a {type(answers).__name__}, expected scores (N, classes) or labels (N,)"
                ) from None
        labels = answers.ndim == 1 and not answers.is_floating_point() and not answers.is_complex()
        scores = answers.ndim == 2 and answers.is_floating_point() and answers.shape[1] > 0
        if len(answers.shape) == 0 or len(answers) != count or not (labels or scores):
            raise VergenceError(
                f"{self.name} returned {answers.dtype} of shape {tuple(answers.shape)} for {count} pictures, expected "
                "scores (N, classes) or labels (N,)"
            )
        if scores and (answers.isnan().any() or answers.isposinf().any()):
            raise VergenceError(f"{self.name} returned a score that is not a finite number")
        self.queries += count
        if self.asked is not None:
            self.asked(self.queries)
        return answers


def labels_of(answers: Tensor) -> Tensor:
    """Labels (N,) from scores or labels."""
    return answers.long() if answers.ndim == 1 else answers.argmax(1)


def chances_of(answers: Tensor, label: int) -> Tensor:
    """The probability of a label, (N,) float64: by softmax, unless the scores are probabilities already."""
    if answers.ndim == 1:
        return (answers == label).double()
    values = answers.double()
    if not ((values >= 0).all() and ((values.sum(1) - 1).abs() < 1e-3).all()):
        values = values.softmax(1)
    return values[:, label]


@dataclass(frozen=True)
class Subject:
    """A picture, what the classifier says of it, and the colour that hides pixels."""

    box: BlackBox
    image: Tensor
    """(C, H, W) in [0, 1]."""
    label: int
    colour: Tensor
    """(C, 1, 1)."""
    chance: float
    """Probability of the label."""

    @classmethod
    def of(
        cls, classifier: Answers, image: Tensor, background: Background = "grey", name: str = "the picture"
    ) -> Subject:
        """Ask the classifier about a picture (C, H, W), bytes or in [0, 1]. It is asked twice: a classifier that
        changes its answer cannot be explained."""
        box = classifier if isinstance(classifier, BlackBox) else BlackBox(classifier)
        if image.ndim != 3 or not image.numel():
            raise VergenceError(f"{name} has the shape {tuple(image.shape)}, expected (channels, height, width)")
        image = scaled(image)
        if not image.is_floating_point() or not (image.min() >= 0 and image.max() <= 1):  # also refuses NaN
            raise VergenceError(f"{name} is {image.dtype} outside 0 to 1, expected bytes, or floats from 0 to 1")
        twice = box(torch.stack([image, image]))
        first, second = labels_of(twice).tolist()
        if first != second:
            raise VergenceError(
                f"{box.name} changes its answer for {name} (class {first}, then {second}): it cannot be explained"
            )
        chance = float(chances_of(twice, first)[0])
        return cls(box, image, first, shade(image, background), chance)

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        height, width = self.image.shape[-2:]
        return height, width

    def masked(self, hidden: Tensor) -> Tensor:
        """The picture with pixels hidden, (B, C, H, W), from masks (B, H, W)."""
        return torch.where(hidden.unsqueeze(1), self.colour, self.image)

    def blended(self, visible: Tensor) -> Tensor:
        """The picture (B, C, H, W) seen through soft masks (B, H, W) from 0 (hidden) to 1."""
        share = visible.unsqueeze(1)
        return share * self.image + (1 - share) * self.colour

    def kept(self, hidden: Tensor) -> Tensor:
        """Whether the label is the same with pixels hidden, (B,)."""
        return self.box.labels(self.masked(hidden)) == self.label

    def chances(self, images: Tensor) -> Tensor:
        """The probability of the picture's own label in other versions of it, (B,) float64."""
        return self.box.chances(images, self.label)


def shade(image: Tensor, background: Background) -> Tensor:
    """The colour (C, 1, 1) of hidden pixels: mid-grey, black, white, or the picture's mean."""
    if background == "mean":
        return image.mean((1, 2), keepdim=True)
    return torch.full_like(image[:, :1, :1], SHADES[background])


def one_colour(image: Tensor) -> bool:
    """Whether a picture (C, H, W) has the same colour everywhere."""
    flat = image.flatten(1)
    return bool((flat == flat[:, :1]).all())


class OnnxClassifier:
    """A classifier in an ONNX file: pictures in [0, 1] of any size to scores, without gradients."""

    def __init__(self, path: Path, mean: tuple[float, ...] = (), std: tuple[float, ...] = ()) -> None:
        self.path, self.name = path, path.name
        self.session = open_onnx(path, torch.get_num_threads())
        inputs, outputs = self.session.get_inputs(), self.session.get_outputs()
        shape = list(inputs[0].shape) if inputs else []
        if len(inputs) != 1 or len(shape) != 4 or "float" not in inputs[0].type or not outputs:
            raise VergenceError(
                f"{path} is not an image classifier: expected one input (N, channels, height, width) of floats"
            )
        fixed = [extent if isinstance(extent, int) and extent > 0 else None for extent in shape]
        self.most, self.channels, height, width = fixed
        self.size = (height, width) if height and width else None
        last = outputs[0].shape[-1] if len(outputs[0].shape or ()) == 2 else None
        self.classes = last if isinstance(last, int) else None
        self.half = "float16" in inputs[0].type
        self.input, self.output = inputs[0].name, outputs[0].name
        self.mean, self.std = mean, std

    @property
    def notes(self) -> dict[str, str]:
        """The file's metadata."""
        return dict(self.session.get_modelmeta().custom_metadata_map)

    def __call__(self, images: Tensor) -> Tensor:
        if self.channels == 1 and images.shape[1] == 3:
            images = images.mean(1, keepdim=True)
        if self.size is not None and images.shape[-2:] != self.size:
            images = torch.stack([resized(image, *self.size) for image in images])
        if self.mean:
            images = normalised(images, self.mean, self.std)
        rows = images.detach().cpu().to(torch.float16 if self.half else torch.float32).contiguous()
        with refusing(self.path, "a classifier of such pictures"):
            parts = [
                self.session.run([self.output], {self.input: p.numpy()})[0] for p in rows.split(self.most or len(rows))
            ]
        return torch.cat([torch.from_numpy(part) for part in parts]).float().to(images.device)
