"""Minimal perturbations: how little of a picture must change, in the L2 norm, for a classifier to answer wrongly.

::

    found = DeepFool()(classifier, images, labels)         # or CarliniWagner(), IterativeL2()
    found.sizes                                            # L2 norm for each picture; 0: wrong already, inf: none found

Each attack works on the whole batch at once: pictures that are done leave it, and every picture has a radius, constant
or step of its own. All of them end with a bisection of the segment from the picture to what they found, which never
makes a perturbation larger. A norm is an upper bound of the smallest one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.robustness.attacks import Logits
from vergence.robustness.whitebox import UNIT, Bounds, check, checked_logits, differentiated, losses, margins, wrong


@dataclass(frozen=True)
class Minimal:
    """Pictures that are misclassified, and how far they are from the given ones."""

    adversarial: Tensor
    """(N, C, H, W); the given picture where it is wrong already, or where nothing was found."""
    sizes: Tensor
    """The L2 norm of each perturbation, (N,): 0 if the picture is wrong already, infinite if nothing was found."""

    @property
    def found(self) -> Tensor:
        return self.sizes.isfinite()


class Attack(Protocol):
    """Finds small perturbations that change the answer."""

    def __call__(self, classifier: Logits, images: Tensor, labels: Tensor) -> Minimal: ...


# DeepFool -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeepFool:
    """DeepFool (Moosavi-Dezfooli et al., 2016): steps to the nearest boundary of the linearised classifier. Exact for a
    linear one, in a single step."""

    steps: int = 50
    candidates: int = 10
    """Boundaries to the classes with the largest logits that are considered, each for one backward pass."""
    overshoot: float = 0.02
    bisections: int = 10
    bounds: Bounds = UNIT

    def __post_init__(self) -> None:
        _check_numbers(self.steps, self.bisections)
        if self.candidates < 1 or not self.overshoot >= 0:
            raise VergenceError(
                f"DeepFool has 1 or more candidates and an overshoot of at least 0, got {self.candidates} and "
                f"{self.overshoot:g}"
            )

    def __call__(self, classifier: Logits, images: Tensor, labels: Tensor) -> Minimal:
        check(classifier, images, labels, self.bounds)
        with torch.inference_mode(False), torch.no_grad():
            images, labels = images.clone(), labels.clone()
            total, reached = torch.zeros_like(images), images.clone()
            active = torch.arange(len(images), device=images.device)
            done = torch.zeros(len(images), dtype=torch.bool, device=images.device)
            for last in [False] * self.steps + [True]:
                seen, truth = reached[active], labels[active]
                with torch.enable_grad():
                    seen.requires_grad_()
                    logits = checked_logits(classifier, seen, truth)
                    left = ~wrong(logits, truth)
                    if not last and left.any():
                        step = self._step(classifier, logits, truth, seen)
                done[active[~left]] = True
                if last or not left.any():
                    break
                active = active[left]
                total[active] += step[left]
                reached[active] = _within(images[active] + (1 + self.overshoot) * total[active], self.bounds)
            return _finished(classifier, images, labels, reached, done, self.bisections)

    def _step(self, classifier: Logits, logits: Tensor, labels: Tensor, seen: Tensor) -> Tensor:
        """The shortest step, over the candidates, to a boundary of the linearised classifier."""
        gaps = logits - logits.gather(1, labels[:, None])
        others = gaps.scatter(1, labels[:, None], -torch.inf)
        nearest = others.topk(min(self.candidates, logits.shape[1] - 1), 1).indices
        slopes, distances = [], []
        for rank in range(nearest.shape[1]):
            gap = gaps.gather(1, nearest[:, rank : rank + 1])[:, 0]
            slope = differentiated(classifier, gap.sum(), seen, keep=rank + 1 < nearest.shape[1])
            steepness = _norms(slope)
            slopes.append(slope)
            distances.append(torch.where(steepness > 0, gap.detach().abs() / steepness, torch.inf))
        shortest, which = torch.stack(distances).min(0)
        slope = torch.stack(slopes)[which, torch.arange(len(seen), device=seen.device)]
        steepness = _norms(slope)
        # A little beyond the boundary, where rounding cannot undo the step; none where the classifier is flat.
        scale = torch.where(steepness > 0, (shortest + 1e-6 * (1 + shortest)) / steepness, 0.0)
        return _like(scale.to(seen), seen) * slope


# L2-BIM ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IterativeL2:
    """L2-BIM (Kurakin et al., 2017): ascent of the loss within a ball, whose radius is searched for each picture.

    Defaults are those of Foolbox 2: ten steps of a sixth of the radius, at first 0.3 per pixel and channel (root mean
    square), which grows by half until it is enough; then 20 bisections of the radius.
    """

    steps: int = 10
    step: float = 1 / 6
    """Length of a step, relative to the radius."""
    radius: float = 0.3
    """The first radius, as a root mean square over all values of the picture."""
    growths: int = 20
    searches: int = 20
    bisections: int = 10
    bounds: Bounds = UNIT

    def __post_init__(self) -> None:
        _check_numbers(self.steps, self.bisections)
        if not (self.step > 0 and self.radius > 0 and self.growths >= 1 and self.searches >= 0):
            raise VergenceError(
                "L2-BIM has a step and a radius above 0, 1 or more growths and 0 or more searches, got "
                f"{self.step:g}, {self.radius:g}, {self.growths} and {self.searches}"
            )

    def __call__(self, classifier: Logits, images: Tensor, labels: Tensor) -> Minimal:
        check(classifier, images, labels, self.bounds)
        with torch.inference_mode(False), torch.no_grad():
            images, labels = images.clone(), labels.clone()
            done = wrong(checked_logits(classifier, images, labels), labels)
            best, least = images.clone(), torch.where(done, 0.0, torch.inf).to(images)
            radius = torch.full_like(least, self.radius * images[0].numel() ** 0.5)
            low = torch.zeros_like(radius)
            for number in range(self.growths + self.searches):
                growing = ~least.isfinite()
                active = ((growing if number < self.growths else ~growing) & ~done).nonzero()[:, 0]
                if not len(active):
                    continue
                tried, sizes = self._ascend(classifier, images[active], labels[active], radius[active])
                better = sizes < least[active]
                best[active[better]] = tried[better]
                least[active[better]] = sizes[better]
                low[active[~sizes.isfinite()]] = radius[active[~sizes.isfinite()]]
                radius = torch.where(least.isfinite(), (low + least) / 2, 1.5 * radius)
            return _finished(classifier, images, labels, best, least.isfinite(), self.bisections)

    def _ascend(self, classifier: Logits, images: Tensor, labels: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
        """Pictures within the radius, and their distance; infinite where the answer is still right."""
        reached, sizes = images.clone(), torch.full_like(radius, torch.inf)
        active = torch.arange(len(images), device=images.device)
        for number in range(self.steps + 1):
            seen, truth = reached[active], labels[active]
            with torch.enable_grad():
                seen.requires_grad_()
                logits = checked_logits(classifier, seen, truth)
                left = ~wrong(logits, truth)
                slope = None
                if number < self.steps and left.any():
                    slope = differentiated(classifier, losses(logits, truth, "ce").sum(), seen)
            stopped = active[~left]
            sizes[stopped] = _norms(reached[stopped] - images[stopped])
            if slope is None:
                break
            active, slope, seen = active[left], slope[left], seen.detach()[left]
            limit = radius[active]
            unit = slope / _like(_norms(slope).clamp(min=torch.finfo(slope.dtype).tiny), slope)
            change = seen + _like(self.step * limit, unit) * unit - images[active]
            change *= _like((limit / _norms(change).clamp(min=1e-30)).clamp(max=1), change)
            reached[active] = _within(images[active] + change, self.bounds)
        return reached, sizes


# Carlini and Wagner ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CarliniWagner:
    """C&W-L2 (Carlini and Wagner, 2017): Adam on ``||x' - x||² + c max(margin, 0)``, with a constant c that is searched
    for each picture. Defaults are those of Foolbox 2."""

    searches: int = 5
    steps: int = 1000
    rate: float = 5e-3
    constant: float = 1e-2
    """The first c; it grows tenfold until it is enough, and is then bisected."""
    confidence: float = 0.0
    patience: float = 0.1
    """A picture is done with a constant when its loss has not fallen over this share of the steps (0: never)."""
    bisections: int = 10
    bounds: Bounds = UNIT

    def __post_init__(self) -> None:
        _check_numbers(self.steps, self.bisections)
        if self.searches < 1 or not (self.rate > 0 and self.constant > 0 and self.confidence >= 0):
            raise VergenceError(
                "C&W has 1 or more searches, a rate and a constant above 0 and a confidence of at least 0, got "
                f"{self.searches}, {self.rate:g}, {self.constant:g} and {self.confidence:g}"
            )

    def __call__(self, classifier: Logits, images: Tensor, labels: Tensor) -> Minimal:
        check(classifier, images, labels, self.bounds)
        with torch.inference_mode(False), torch.no_grad():
            images, labels = images.clone(), labels.clone()
            done = wrong(checked_logits(classifier, images, labels), labels)
            best, least = images.clone(), torch.where(done, 0.0, torch.inf).to(images)
            constants = torch.full_like(least, self.constant)
            low, high = torch.zeros_like(least), torch.full_like(least, torch.inf)
            rest = (~done).nonzero()[:, 0]
            for _ in range(self.searches if len(rest) else 0):
                tried, sizes = self._descend(classifier, images[rest], labels[rest], constants[rest])
                better = sizes < least[rest]
                best[rest[better]] = tried[better]
                least[rest[better]] = sizes[better]
                enough = sizes.isfinite()
                high[rest[enough]] = constants[rest[enough]]
                low[rest[~enough]] = constants[rest[~enough]]
                constants = torch.where(high.isfinite(), (low + high) / 2, 10 * constants)
            return _finished(classifier, images, labels, best, least.isfinite(), self.bisections)

    def _descend(self, classifier: Logits, images: Tensor, labels: Tensor, constants: Tensor) -> tuple[Tensor, Tensor]:
        """The nearest misclassified pictures on the way, and their distance; infinite where there were none."""
        best, least = images.clone(), torch.full_like(constants, torch.inf)
        active = torch.arange(len(images), device=images.device)
        place = self._to_line(images)
        first, second = torch.zeros_like(place), torch.zeros_like(place)
        before = torch.full_like(constants, torch.inf)
        every = max(round(self.patience * self.steps), 1) if self.patience else self.steps + 1
        for step in range(1, self.steps + 1):
            truth, given = labels[active], images[active]
            with torch.enable_grad():
                place.requires_grad_()
                seen = self._to_pictures(place)
                logits = checked_logits(classifier, seen, truth)
                square = (seen - given).flatten(1).square().sum(1)
                loss = square + constants[active] * (margins(logits, truth) + self.confidence).clamp(min=0).to(square)
                slope = differentiated(classifier, loss.sum(), place)
            place, seen, loss, sizes = place.detach(), seen.detach(), loss.detach(), square.detach().sqrt()
            closer = wrong(logits, truth) & (sizes < least[active])
            best[active[closer]] = seen[closer]
            least[active[closer]] = sizes[closer]
            first.mul_(0.9).add_(slope, alpha=0.1)
            second.mul_(0.999).addcmul_(slope, slope, value=0.001)
            spread = (second / (1 - 0.999**step)).sqrt_().add_(1e-8)
            place.addcdiv_(first, spread, value=-self.rate / (1 - 0.9**step))
            if step % every == 0:
                falls = loss <= 0.9999 * before[active]
                before[active] = loss
                if not falls.any():
                    break
                if not falls.all():
                    place, first, second = place[falls], first[falls], second[falls]
                    active = active[falls]
        return best, least

    def _to_line(self, images: Tensor) -> Tensor:
        """Pixels within bounds as numbers without any."""
        if self.bounds is None:
            return images.clone()
        low, high = self.bounds
        return torch.atanh(0.999999 * (2 * (images - low) / (high - low) - 1))

    def _to_pictures(self, place: Tensor) -> Tensor:
        if self.bounds is None:
            return place
        low, high = self.bounds
        return low + (high - low) * (place.tanh() + 1) / 2


# Together -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Strongest:
    """Several attacks: for each picture, the smallest perturbation that any of them found."""

    attacks: Sequence[Attack]

    def __call__(self, classifier: Logits, images: Tensor, labels: Tensor) -> Minimal:
        best = self.attacks[0](classifier, images, labels)
        for attack in self.attacks[1:]:
            other = attack(classifier, images, labels)
            closer = other.sizes < best.sizes
            adversarial = torch.where(_like(closer, images), other.adversarial, best.adversarial)
            best = Minimal(adversarial, torch.minimum(best.sizes, other.sizes))
        return best


def nearer(classifier: Logits, images: Tensor, labels: Tensor, adversarial: Tensor, bisections: int) -> Tensor:
    """Misclassified pictures on the segments from ``images`` to ``adversarial`` (misclassified too), by bisection."""
    low, high = torch.zeros(len(images)).to(images), torch.ones(len(images)).to(images)
    nearest, change = adversarial, adversarial - images
    for _ in range(bisections if len(images) else 0):
        middle = (low + high) / 2
        tried = images + _like(middle, images) * change
        enough = wrong(checked_logits(classifier, tried, labels), labels)
        nearest = torch.where(_like(enough, images), tried, nearest)
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    return nearest


def _finished(
    classifier: Logits, images: Tensor, labels: Tensor, reached: Tensor, found: Tensor, bisections: int
) -> Minimal:
    """The result, after a bisection of what was found; a picture that was not fooled is returned unchanged."""
    moved = (found & (reached != images).flatten(1).any(1)).nonzero()[:, 0]
    adversarial = torch.where(_like(found, images), reached, images)
    adversarial[moved] = nearer(classifier, images[moved], labels[moved], reached[moved], bisections)
    sizes = _norms(adversarial - images)
    return Minimal(adversarial, torch.where(found, sizes, torch.inf))


def _norms(values: Tensor) -> Tensor:
    return values.flatten(1).norm(dim=1)


def _like(values: Tensor, images: Tensor) -> Tensor:
    """One value per picture, in a shape that multiplies pictures."""
    return values.view(-1, *[1] * (images.ndim - 1))


def _within(images: Tensor, bounds: Bounds) -> Tensor:
    return images if bounds is None else images.clamp(*bounds)


def _check_numbers(steps: int, bisections: int) -> None:
    if steps < 1 or bisections < 0:
        raise VergenceError(f"an attack has 1 or more steps and 0 or more bisections, got {steps} and {bisections}")
