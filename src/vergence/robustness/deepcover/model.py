"""DeepCover (Algs. 1 and 2): a balanced suite of mutants, counts, a ranking of pixels, and the pixels that suffice.

::

    from vergence.robustness.deepcover.model import explain

    explanation = explain(classifier, image, queries=400)     # any callable: pictures in [0, 1] to scores or labels
    explanation.scores, explanation.mask, explanation.size
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from vergence.nn.vgg import VGG16
from vergence.ops.spectra import MEASURES, Spectrum, bit_counts, packed, ranking, spectrum, unpacked, window_counts
from vergence.robustness import explainers, gradients
from vergence.robustness.blackbox import Answers, BlackBox, Subject
from vergence.robustness.classifiers import Classifier, lite
from vergence.robustness.deepcover.settings import Executed, Explain, Network
from vergence.robustness.explainers import hidden_windows
from vergence.robustness.sufficiency import Sufficient, sufficient

Explainer = Callable[[Subject, int, torch.Generator], Tensor]
Draw = Callable[[Subject, Tensor, torch.Generator], tuple[Tensor, Tensor]]
"""Masks of the given shares, as they are stored, and the picture behind them."""
BASELINES: Mapping[str, Explainer] = {
    "rise": explainers.rise,
    "occlusion": explainers.occlusion,
    "lime": explainers.lime,
    "shap": explainers.shap,
    "gradcam": gradients.gradcam,
    "ig": gradients.ig,
    "extremal": gradients.extremal,
    "random": explainers.random,
    "centre": explainers.centre,
}


@dataclass(frozen=True)
class Suite:
    """Mutants of a picture, as windows or as packed masks, and whether each failed (changed the answer)."""

    height: int
    width: int
    failed: Tensor
    """(m,) on the CPU, as the others."""
    windows: Tensor | None = None
    """Block masks: (m, 4), top, left, bottom, right."""
    words: Tensor | None = None
    """Other masks: (m, ceil(H W / 64)) words of bits."""

    @property
    def failures(self) -> int:
        return int(self.failed.sum())

    @property
    def passes(self) -> int:
        return len(self.failed) - self.failures

    def masks(self) -> Tensor:
        """All masks (m, H, W), True where a pixel is hidden: m bytes per pixel."""
        if self.words is not None:
            return unpacked(self.words, self.height * self.width).view(-1, self.height, self.width)
        assert self.windows is not None
        rows, columns = torch.arange(self.height)[:, None], torch.arange(self.width)
        top, left, bottom, right = (side[:, None, None] for side in self.windows.unbind(1))
        return (rows >= top) & (rows < bottom) & (columns >= left) & (columns < right)

    def spectrum(self, executed: Executed = "masked") -> Spectrum:
        """The four counts of every pixel, (H, W) each."""
        failing, passing = (self._counts(chosen) for chosen in (self.failed, ~self.failed))
        return spectrum(failing, passing, self.failures, self.passes, executed)

    def _counts(self, chosen: Tensor) -> Tensor:
        if self.words is not None:
            return bit_counts(self.words, self.height * self.width, chosen).view(self.height, self.width)
        assert self.windows is not None
        return window_counts(self.windows[chosen], self.height, self.width)


def generate_suite(subject: Subject, settings: Explain, generator: torch.Generator) -> Suite:
    """Alg. 2: each mutant hides a share sigma of the picture, which grows by epsilon after a mutant that kept the
    answer and shrinks after one that changed it, so that about half of them pass. Several chains adapt independently:
    within a chain a mutant depends on the one before, so only mutants of different chains share a batch."""
    height, width = subject.size
    kinds: dict[str, Draw] = {"block": _windows, "grid": partial(_grids, settings.cells), "pixel": _pixels}
    draw = kinds[settings.masks]
    shares = torch.full((min(settings.chains, settings.queries),), settings.sigma, dtype=torch.float64)
    drawn, failed = [], []
    for start in range(0, settings.queries, settings.chains):
        shares = shares[: settings.queries - start]
        masks, images = draw(subject, shares, generator)
        kept = (subject.box.labels(images) == subject.label).cpu()
        shares = (shares + torch.where(kept, settings.epsilon, -settings.epsilon)).clamp(0, 1)
        drawn.append(masks)
        failed.append(~kept)
    stored, answers = torch.cat(drawn), torch.cat(failed)
    if settings.masks == "block":
        return Suite(height, width, answers, windows=stored)
    return Suite(height, width, answers, words=stored)


def _windows(subject: Subject, shares: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A square window of each share of the picture, centred at a random pixel and cut off at the border."""
    extent = torch.tensor(subject.size)
    chances = torch.rand(len(shares), 2, generator=generator, device=generator.device).cpu()
    centres = (chances * extent).long()
    halves = (shares * math.prod(subject.size)).sqrt().div(2).round().long()[:, None]
    first, last = (centres - halves).clamp(min=0), torch.minimum(centres + halves, extent)
    windows = torch.cat([first, last], 1)
    return windows, hidden_windows(subject, windows)


def _grids(cells: int, subject: Subject, shares: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random cells of a grid that is shifted by up to a cell, as many as each share says."""
    height, width = subject.size
    rows, columns, count = math.ceil(height / cells), math.ceil(width / cells), (cells + 1) ** 2
    chances = torch.rand(len(shares), count + 2, generator=generator, device=generator.device).cpu()
    chosen = chances[:, :count].argsort(1).argsort(1) < (shares * count).round()[:, None]
    down = ((torch.arange(height) + (chances[:, count] * rows).long()[:, None]) // rows)[:, :, None]
    across = ((torch.arange(width) + (chances[:, count + 1] * columns).long()[:, None]) // columns)[:, None]
    hidden = chosen.gather(1, (down * (cells + 1) + across).flatten(1))
    return packed(hidden), subject.masked(hidden.view(-1, height, width).to(subject.image.device))


def _pixels(subject: Subject, shares: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pixels at random places, exactly as many as each share says."""
    total = math.prod(subject.size)
    values = torch.randint(2**62, (len(shares), total), generator=generator, device=generator.device)
    hidden = torch.zeros(len(shares), total, dtype=torch.bool, device=values.device)
    for mask, row, share in zip(hidden, values, shares.tolist(), strict=True):
        count = round(share * total)
        if count:
            torch.le(row, row.kthvalue(count).values, out=mask)
    return packed(hidden), subject.masked(hidden.view(-1, *subject.size).to(subject.image.device))


# Explanations ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Explanation:
    """Why a classifier says what it says of a picture."""

    method: str
    subject: Subject
    scores: Tensor
    """The importance of each pixel, (H, W) float64."""
    order: Tensor
    """Pixels from the most important to the least, (H W,)."""
    step: float = 0.01
    suite: Suite | None = None
    """deepcover: its mutants."""
    executed: Executed = "masked"

    @property
    def label(self) -> int:
        return self.subject.label

    @cached_property
    def sufficient(self) -> Sufficient:
        """The first pixels of the ranking that are enough for the answer (asks the classifier when first used)."""
        return sufficient(self.subject, self.order, self.step)

    @property
    def mask(self) -> Tensor:
        """The sufficient pixels, (H, W)."""
        return self.sufficient.mask

    @property
    def size(self) -> float:
        """The share of the pixels that is sufficient."""
        return self.sufficient.size

    @property
    def spectrum(self) -> Spectrum | None:
        """deepcover: the four counts of every pixel, (H, W) each."""
        return self.suite.spectrum(self.executed) if self.suite else None

    @property
    def note(self) -> str:
        """What a reader should know about this explanation before using it; usually empty."""
        if self.suite is not None and not self.suite.failures:
            return f"no mutant of {len(self.suite.failed)} changed the answer: there is nothing to rank"
        if self.suite is not None and not self.suite.passes:
            return f"every mutant of {len(self.suite.failed)} changed the answer: the ranking counts failures alone"
        if not (self.scores != self.scores.flatten()[0]).any():
            return "every pixel has the same importance: there is nothing to rank"
        if self.sufficient.trivial:
            return "the classifier gives this answer without seeing any pixel: the sufficient set is trivial"
        return ""


def explained(subject: Subject, settings: Explain, generator: torch.Generator) -> Explanation:
    """The explanation of a subject by the method that the settings name."""
    if settings.method != "deepcover":
        scores = BASELINES[settings.method](subject, settings.queries, generator)
        return Explanation(settings.method, subject, scores, ranking(scores), settings.step)
    suite = generate_suite(subject, settings, generator)
    scores = MEASURES[settings.measure](suite.spectrum(settings.executed)).to(subject.image.device)
    order = ranking(scores)
    return Explanation("deepcover", subject, scores, order, settings.step, suite, settings.executed)


def explain(
    classifier: Answers,
    image: Tensor,
    settings: Explain = Explain(queries=400),
    *,
    batch: int = 4,
    generator: torch.Generator | None = None,
) -> Explanation:
    """Explain what any classifier says of a picture (C, H, W), bytes or floats in [0, 1].

    ``classifier`` is a callable from pictures (N, C, H, W) in [0, 1], with its normalisation inside, to scores
    (N, classes) or to labels (N,): a PyTorch module in evaluation mode, a function around a web service, an
    :class:`~vergence.robustness.blackbox.OnnxClassifier`. ``settings`` choose the method and its parameters::

        explain(network.eval(), image, Explain("rise", queries=1000)).mask
    """
    source = generator if generator is not None else torch.Generator().manual_seed(0)
    subject = Subject.of(BlackBox(classifier, batch), image, settings.background)
    return explained(subject, settings, source)


# Classifiers ----------------------------------------------------------------------------------------------------------


class SmallNetwork(nn.Sequential):
    """Four convolutions and the largest value of each channel: normalised pictures (B, 3, S, S) to logits."""

    def __init__(self, classes: int, widths: tuple[int, int, int] = (16, 32, 64)) -> None:
        one, two, three = widths
        layers = (*_layer(3, one, 5, 2), *_layer(one, two, 3, 2), *_layer(two, three, 3, 2), *_layer(three, three))
        super().__init__(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(three, classes))


def _layer(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> tuple[nn.Module, ...]:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return conv, nn.BatchNorm2d(outputs), nn.ReLU()


def build(network: Network, side: int, classes: int) -> Classifier:
    """The classifier that is explained, for pictures in [0, 1]."""
    if network == "vgg16":
        return Classifier(VGG16(classes), 224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), name=network)
    if network == "small":
        return Classifier(SmallNetwork(classes), side, (0.5,) * 3, (1.0,) * 3, name=network)
    return lite(network, classes)
