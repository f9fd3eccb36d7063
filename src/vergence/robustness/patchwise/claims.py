"""The paper's claims, as tests that can fail."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.contract.claims import Claim, Evidence, above, faster
from vergence.contract.evidence import ROUNDING, apart, apart_with_gradients, filled, noise
from vergence.core.seeding import generator
from vergence.ops.smooth import surroundings
from vergence.reference import patchwise as plain
from vergence.robustness.attacks import Diversity, SignAttack, i_fgsm
from vergence.robustness.patchwise.model import Projection, pi_fgsm, project_kernel
from vergence.robustness.settings import Resize


def _network(dtype: torch.dtype = torch.float64, pooled: bool = False) -> nn.Module:
    """A small smooth classifier of pictures (3, 12, 11), or if pooled of any size, filled with noise."""
    pool = nn.AdaptiveAvgPool2d((8, 7)) if pooled else nn.Identity()
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Tanh(), nn.Conv2d(8, 8, 3), nn.Tanh(), pool, nn.Flatten(),
                            nn.Linear(8 * 8 * 7, 5))  # fmt: skip
    return filled(network, "network").to(dtype)


def _pictures(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Six pictures, with pixels at both ends of the range, and their labels."""
    values = noise(6, 3, 12, 11, seed="pictures")
    return (0.5 + 0.4 * values).clamp(0, 1).to(dtype), torch.tensor([0, 1, 2, 3, 4, 0])


def _loss_gradient(network: nn.Module, labels: Tensor) -> Callable[[Tensor], Tensor]:
    def gradient(x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        return torch.autograd.grad(F.cross_entropy(network(x), labels, reduction="sum"), x)[0]

    return gradient


def is_algorithm_1(_: Evidence) -> float:
    """Against the printed algorithm, with budgets that float64 holds exactly (so that what cancels is zero in both)."""
    network, (x, y) = _network(), _pictures()
    worst = 0.0
    settings = ((3, 10, 10.0, 1.0), (7, 8, 4.0, 0.5), (5, 8, 2.0, 0.125), (3, 4, 6.0, 0.25))
    for size, steps, beta, share in settings:
        eps = 1 / 16
        printed = plain.pi_fgsm(_loss_gradient(network, y), x, eps, steps, beta, share * eps, size)
        ours = pi_fgsm(eps, steps, beta, Projection(size, share * eps))(network, x, y)
        worst = max(worst, apart(ours, printed))
    return worst


def kernel_is_eq_12(_: Evidence) -> float:
    """The kernel, and its fast form in the attack, forward and backward; channels stay separate."""
    worst = 0.0
    for size in (3, 7, 21):
        kernel = project_kernel(size)
        worst = max(worst, apart(kernel, plain.project_kernel(size)), abs(float(kernel.sum()) - 1))
        x = noise(2, 3, 12, 11, seed=size).requires_grad_()
        ours = surroundings(x, size) / (size**2 - 1)
        worst = max(worst, apart_with_gradients(ours, plain.depthwise(x, kernel), [x]))
    return worst


def unamplified_is_i_fgsm(_: Evidence) -> float:
    """The largest difference in any bit, over budgets and numbers of steps, in float32 and float64."""
    worst = 0.0
    for dtype in (torch.float32, torch.float64):
        network, (x, y) = _network(dtype), _pictures(dtype)
        for eps, steps in product((2 / 255, 8 / 255, 16 / 255, 0.1, 0.3), (1, 3, 7, 10, 30)):
            unamplified = pi_fgsm(eps, steps, beta=1.0)(network, x, y)
            worst = max(worst, apart(unamplified, i_fgsm(eps, steps)(network, x, y)))
    return worst


def unprojected_is_the_control(_: Evidence) -> float:
    """The largest difference in any bit, over amplifications."""
    network, (x, y) = _network(torch.float32), _pictures(torch.float32)
    worst = 0.0
    for beta in (1.0, 2.5, 5.0, 10.0):
        unprojected = pi_fgsm(16 / 255, 10, beta, Projection(gamma=0.0))(network, x, y)
        worst = max(worst, apart(unprojected, i_fgsm(16 / 255, 10, beta)(network, x, y)))
    return worst


def budget_is_kept(_: Evidence) -> float:
    """The largest excess of a pixel over its budget or the range, over settings and float types; in float64."""
    worst, network = -1.0, _network(pooled=True)
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        x, y = _pictures(dtype)
        for attack in _attacks():
            adversarial = attack(lambda images: network(images.double()), x, y, generator("claims", "di"))
            if adversarial.dtype != dtype:
                return float("inf")
            wide = adversarial.double()
            far = (wide - x.double()).abs().max() - attack.eps
            worst = max(worst, float(far), -float(wide.min()), float(wide.max()) - 1)
    return worst


def _attacks() -> Iterator[SignAttack]:
    for eps, beta in product((1 / 255, 16 / 255, 0.3), (1.0, 10.0)):
        for size, gamma in ((3, None), (7, 0.5), (21, 3.0)):
            plainly = pi_fgsm(eps, 4, beta, Projection(size, gamma))
            yield plainly
            yield replace(plainly, momentum=1.0, smoothing=5)
    for beta, resize in product((1.0, 10.0), typing.get_args(Resize)):
        diverse = replace(pi_fgsm(16 / 255, 4, beta), diversity=Diversity(1.0, 1.5, resize))
        yield diverse
        yield replace(diverse, momentum=1.0, smoothing=5)


def hand_test(_: Evidence) -> float:
    """One channel of 3 x 3, a gradient at the centre alone, beta = T: by hand, the first step uses the whole
    budget and the second exceeds it by as much, which moves the eight neighbours by gamma and the centre not at all.
    A step back then takes the centre to where it began; had it been moved with its neighbours, which the budget hides
    at first, it would stop at gamma."""
    eps, gamma, steps = 1 / 16, 1 / 64, 4
    x = torch.full((1, 1, 3, 3), 0.5, dtype=torch.float64)

    def moved(*signs: float) -> Tensor:
        """The change of the picture by steps in which the loss rises (1) or falls (-1) with the centre; steps before
        them have no gradient."""
        ahead = iter((*(0.0,) * (steps - len(signs)), *signs))

        def classifier(images: Tensor) -> Tensor:
            loss = -next(ahead) * images[:, 0, 1, 1]
            return torch.stack([loss, torch.zeros_like(loss)], 1)

        return pi_fgsm(eps, steps, float(steps), Projection(3, gamma))(classifier, x, torch.tensor([0])) - x

    def by_hand(centre: float, around: float) -> Tensor:
        expected = torch.full_like(x, around)
        expected[0, 0, 1, 1] = centre
        return expected

    return max(
        apart(moved(1.0), by_hand(eps, 0.0)),
        apart(moved(1.0, 1.0), by_hand(eps, gamma)),
        apart(moved(1.0, 1.0, -1.0), by_hand(0.0, gamma)),
    )


def gradients_taken(_: Evidence) -> float:
    """The number of gradients that PI computes beyond one per iteration."""
    network, (x, y) = _network(), _pictures()
    calls = 0

    def counted(images: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return network(images)

    pi_fgsm(16 / 255, 10)(counted, x, y)
    return float(calls - 10)


_POINTS = "points of success"

CLAIMS = (
    Claim("algorithm-1", "The attack is Algorithm 1.", "Alg. 1, Eqs. 10-11", "check", is_algorithm_1, ROUNDING),
    Claim("kernel", "The project kernel is uniform around an empty centre, has sum 1, and keeps channels apart.",
          "Eq. 12", "check", kernel_is_eq_12, ROUNDING),
    Claim("hand-test", "What a pixel cannot take, its neighbours take, and it does not.", "Eqs. 10-12", "check",
          hand_test, ROUNDING),
    Claim("beta-1", "With beta = 1 PI-FGSM is I-FGSM, bit for bit.", "Sec. 4.2", "exact", unamplified_is_i_fgsm, 0),
    Claim("gamma-0", "With gamma = 0 PI-FGSM is I-FGSM with amplified steps, bit for bit.", "Eq. 11", "check",
          unprojected_is_the_control, 0),
    Claim("budget", "No pixel ever leaves the budget or the range.", "Eq. 1", "check", budget_is_kept, 0),
    Claim("one-gradient", "Projection needs no gradient of its own.", "Sec. 3.2.3", "exact", gradients_taken, 0),
    faster("cost", "PI-FGSM takes at most a tenth more time than I-FGSM.", "Sec. 3.2.3", "attack", "I-FGSM",
           threshold=1 / 1.1, paper="no additional huge cost"),
    above("pi-above-ifgsm", "PI-FGSM transfers better than I-FGSM.", "Table 1", better="pi", worse="ifgsm",
          metric="transfer", unit=_POINTS, paper="+31.7"),
    above("pi-above-amplified", "PI-FGSM transfers better than I-FGSM with the same amplification: projection helps "
          "beyond larger steps.", "Fig. 2", better="pi", worse="amplified", metric="transfer", unit=_POINTS),
    above("pi-above-mi", "PI-FGSM transfers better than MI-FGSM.", "Table 1", better="pi", worse="mi",
          metric="transfer", unit=_POINTS, paper="+5.6"),
    above("pi-above-fgsm", "PI-FGSM transfers better than FGSM.", "Table 1", better="pi", worse="fgsm",
          metric="transfer", unit=_POINTS, paper="+17.6"),
    above("mpi-above-mi", "With momentum too, MPI-FGSM transfers better than MI-FGSM.", "Table 1", better="mpi",
          worse="mi", metric="transfer", unit=_POINTS, paper="+9.6"),
    above("dmpi-above-dmi", "With input diversity and momentum, DMPI-FGSM transfers better than DMI-FGSM.", "Table 1",
          better="dmpi", worse="dmi", metric="transfer", unit=_POINTS, paper="+1.7"),
    above("tpi-above-ti", "With a smoothed gradient, TPI-FGSM transfers better than TI-FGSM.", "Table 2", better="tpi",
          worse="ti", metric="transfer", unit=_POINTS, paper="+17.2 (against defences)"),
    above("dtpi-above-dtmi", "With input diversity and a smoothed gradient, DTPI-FGSM transfers better than DTMI-FGSM.",
          "Table 2", better="dtpi", worse="dtmi", metric="transfer", unit=_POINTS, paper="+1.4 (against defences)"),
    above("ensemble-pi-above-mi", "Made with an ensemble, PI-FGSM transfers better than MI-FGSM.", "Table 3",
          better="pi-ensemble", worse="mi-ensemble", metric="transfer", unit=_POINTS, paper="+9.6 (against defences)"),
    above("whitebox-kept", "PI-FGSM is not worse than I-FGSM on the network it is made with, by more than a point.",
          "Table 1", better="pi", worse="ifgsm", metric="whitebox", margin=-1.0, unit=_POINTS, paper="0"),
)  # fmt: skip
