"""What can be computed exactly: counts and measures against their definitions, oracles with a known answer, and sets
that are really sufficient."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from vergence.contract.claims import Evidence
from vergence.contract.evidence import filled, noise, uniform
from vergence.core.seeding import generator
from vergence.ops.spectra import MEASURES, Spectrum, ranking
from vergence.reference import spectra as plain
from vergence.robustness.blackbox import BlackBox, Subject, shade
from vergence.robustness.deepcover.model import Explanation, Suite, explain, explained, generate_suite
from vergence.robustness.deepcover.settings import Explain, Masks
from vergence.robustness.options import METHODS, Background

SIDE = 24
"""Side of the oracles' pictures; of those of the checks of counts, 19 x 26, which is no multiple of a word."""
KINDS: tuple[Masks, ...] = ("block", "grid", "pixel")


def patch_oracle(images: Tensor) -> Tensor:
    """Label 1 while at least 60 % of the pixels of a patch of 6 x 6 are bright; pictures are white."""
    seen = (images[:, 0, 5:11, 9:15] > 0.9).flatten(1).double().mean(1)
    return (seen >= 0.6).long()


def pixel_oracle(images: Tensor) -> Tensor:
    """Label 1 while one pixel is bright."""
    return (images[:, 0, 7, 13] > 0.9).long()


def _white(side: int = SIDE) -> Tensor:
    return torch.ones(3, side, side)


def _suites() -> Iterator[Suite]:
    """Suites of each kind of mask on a picture of 19 x 26, with answers by a random network."""
    for kind in KINDS:
        picture = uniform(3, 19, 26, seed=kind).float()
        subject = Subject.of(Sensitive(picture, "grey"), picture)
        yield generate_suite(subject, Explain(queries=130, masks=kind), generator("exact", kind))


class Sensitive(nn.Module):
    """A network with random weights that gives a picture another answer (not 0) than its background colour (0)."""

    def __init__(self, picture: Tensor, background: Background, seed: int = 0) -> None:
        super().__init__()
        convolutions = (nn.Conv2d(3, 8, 5, 2), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU())
        layers = (*convolutions, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
        self.network = filled(nn.Sequential(*layers), seed=f"network {seed}").float()
        with torch.no_grad():
            empty = shade(picture, background).expand_as(picture)
            logits = self.network(torch.stack([empty, picture]))
            self.empty, change = logits[0], (logits[1] - logits[0])[1:].max()
            self.bar = 0.6 * change.clamp(min=1e-3)  # answer 0 wins until another has moved by 60 % of what it does
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        moved = self.network(images) - self.empty
        return torch.cat([self.bar.expand(len(images), 1), moved[:, 1:]], 1)


# Counts and measures --------------------------------------------------------------------------------------------------


def counts_are_the_loop(_: Evidence) -> float:
    """The largest difference of any count from a loop over the mutants, and of sums from F and P."""
    worst = 0
    for suite in _suites():
        counts, masks = suite.spectrum(), suite.masks()
        for ours, theirs in zip(counts, plain.counts(masks, suite.failed), strict=True):
            worst = max(worst, int((ours - theirs).abs().max()))
        worst = max(worst, int((counts.ef + counts.nf - suite.failures).abs().max()))
        worst = max(worst, int((counts.ep + counts.np - suite.passes).abs().max()))
    return float(worst)


def _every_spectrum(most: int = 4) -> Spectrum:
    """Every possible spectrum with up to ``most`` failing and as many passing tests."""
    rows = [
        (ef, ep, failures - ef, passes - ep)
        for failures in range(most + 1)
        for passes in range(most + 1)
        for ef in range(failures + 1)
        for ep in range(passes + 1)
    ]
    return Spectrum(*torch.tensor(rows).unbind(1))


def measures_are_eq_2(_: Evidence) -> float:
    """The largest difference of a measure from its equation, over every spectrum of up to four tests of each kind."""
    counts, worst = _every_spectrum(), 0.0
    rows = torch.stack(list(counts), 1).tolist()
    for name, measure in MEASURES.items():
        expected = torch.tensor([plain.measure(name, *row) for row in rows], dtype=torch.float64)
        worst = max(worst, float((measure(counts) - expected).abs().max()))
    return worst


def bounds_are_kept(_: Evidence) -> float:
    """How far a measure leaves 0 to 1 (Wong-II: -P to F), or Zoltar exceeds a_ef / F."""
    counts = _every_spectrum(6)
    worst = -1.0
    for name in ("ochiai", "tarantula", "zoltar"):
        scores = MEASURES[name](counts)
        worst = max(worst, -float(scores.min()), float(scores.max()) - 1)
    share = counts.ef.double() / (counts.ef + counts.nf).clamp(min=1)
    return max(worst, float((MEASURES["zoltar"](counts) - share).max()))


def measures_are_symmetric(_: Evidence) -> float:
    """How far Wong-II is from changing its sign when passing and failing tests are swapped, and measures from staying
    as they are (Wong-II: doubling) when the whole suite is taken twice; and the pixels whose rank that changes."""
    worst = 0.0
    for suite in _suites():
        counts = suite.spectrum()
        swapped, twice = Spectrum(counts.ep, counts.ef, counts.np, counts.nf), Spectrum(*(2 * c for c in counts))
        worst = max(worst, float((MEASURES["wong2"](counts) + MEASURES["wong2"](swapped)).abs().max()))
        for name, measure in MEASURES.items():
            once, again = measure(counts), measure(twice) / (2 if name == "wong2" else 1)
            worst = max(worst, float((once - again).abs().max()))
            worst = max(worst, float((ranking(once.round(decimals=12)) != ranking(again.round(decimals=12))).sum()))
    return worst


# Oracles --------------------------------------------------------------------------------------------------------------


def decisive_pixel_comes_first(_: Evidence) -> float:
    """How far a single decisive pixel is from a score of 1 and the first place, by three measures and every kind of
    mask; Wong-II has it among the highest."""
    worst = 0.0
    for kind in KINDS:
        subject = Subject.of(pixel_oracle, _white())
        suite = generate_suite(subject, Explain(queries=400, masks=kind), generator("decisive", kind))
        counts = suite.spectrum()
        if not suite.failures or int(counts.ef[7, 13]) != suite.failures or int(counts.ep[7, 13]):
            return float("inf")
        for name, measure in MEASURES.items():
            scores = measure(counts)
            if name != "wong2":
                worst = max(worst, abs(float(scores[7, 13]) - 1))
            worst = max(worst, float(scores.max() - scores[7, 13]))
    return worst


def _patch_explained(**changes: object) -> Explanation:
    return explain(patch_oracle, _white(), Explain(queries=2000, **changes), generator=generator("patch"))  # type: ignore[arg-type]


def printed_counts_are_no_larger(_: Evidence) -> float:
    """The smallest size by the counts as printed, over the largest by counts of masked pixels, over the measures."""
    printed = min(_patch_explained(measure=name, executed="visible").size for name in MEASURES)
    return printed / max(_patch_explained(measure=name).size for name in MEASURES)


def patch_is_found(_: Evidence) -> float:
    """The largest explanation of the patch oracle by any measure, relative to the smallest possible one."""
    return max(_patch_explained(measure=name).size for name in MEASURES) * SIDE**2 / 22  # 60 % of 36 pixels


def suites_are_balanced(_: Evidence) -> float:
    """The largest distance of the share of passing mutants from a half, over masks, on the patch oracle."""
    shares = []
    for kind in KINDS:
        settings = Explain(queries=2000, masks=kind)
        suite = generate_suite(Subject.of(patch_oracle, _white()), settings, generator("balance", kind))
        shares.append(abs(suite.passes / 2000 - 0.5))
    return max(shares)


def constant_classifier_has_nothing_to_rank(_: Evidence) -> float:
    """The largest score of a classifier that always says the same, by three measures; its set is one pixel."""

    def constant(images: Tensor) -> Tensor:
        return torch.zeros(len(images), dtype=torch.int64)

    worst = 0.0
    for name in ("ochiai", "tarantula", "zoltar"):
        found = explain(constant, _white(), Explain(queries=50, measure=name))
        if not found.note or not found.sufficient.trivial or found.sufficient.count != 1:
            return float("inf")
        worst = max(worst, float(found.scores.abs().max()))
    return worst


def _subjects() -> Iterator[Subject]:
    for seed in range(6):
        picture = (0.5 + 0.4 * noise(3, 18, 22, seed=seed)).clamp(0, 1).float()
        background: Background = ("grey", "black", "mean")[seed % 3]
        yield Subject.of(BlackBox(Sensitive(picture, background, seed)), picture, background)


def sets_are_sufficient(_: Evidence) -> float:
    """The number of explanations, over methods and networks, whose set is not sufficient."""
    return float(sum(not _kept(found, found.mask) for found in _explanations()))


def sets_are_minimal_along_the_ranking(_: Evidence) -> float:
    """The number of explanations, over methods and networks, whose set is sufficient without its last pixel or is not
    a beginning of the ranking."""
    wrong = 0
    for found in _explanations():
        count = found.sufficient.count
        fewer = found.mask.flatten().clone()
        wrong += int(set(found.order[:count].tolist()) != set(fewer.nonzero().flatten().tolist()))
        fewer[found.order[count - 1]] = False
        wrong += int(not found.sufficient.trivial and _kept(found, fewer.view(found.mask.shape)))
    return float(wrong)


def _explanations() -> Iterator[Explanation]:
    for number, subject in enumerate(_subjects()):
        for method in METHODS if number < 2 else ("deepcover", "rise", "random"):
            yield explained(subject, Explain(method, queries=60), generator("sets", number, method))


def _kept(found: Explanation, visible: Tensor) -> bool:
    """Whether the classifier gives the same answer with only these pixels visible, without any of our batching."""
    image = torch.where(visible, found.subject.image, found.subject.colour)
    with torch.no_grad():
        return int(found.subject.box.classifier(image[None]).argmax()) == found.label
