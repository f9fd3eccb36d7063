"""What must hold exactly: components, the transform, leak curves, attacks against closed forms, first layers."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.contract.claims import Evidence
from vergence.contract.evidence import apart, apart_with_gradients, filled, noise, uniform
from vergence.core.seeding import generator
from vergence.nn.mahalanobis import simplex_centres
from vergence.ops.pca import Basis, principal, randomised, shares
from vergence.reference import gradleak as plain
from vergence.robustness.gradleak.model import determination, projected, transformed
from vergence.robustness.minimal import Attack, CarliniWagner, DeepFool, IterativeL2
from vergence.robustness.whitebox import input_gradients

SHAPE = (3, 5, 4)
D = math.prod(SHAPE)


def _pictures(count: int = 150) -> Tensor:
    """Pictures in [0, 1] whose variance falls from component to component."""
    turned = torch.linalg.qr(noise(D, D, seed="turned"))[0]
    return (0.5 + 0.15 * noise(count, D, seed="pictures") * torch.logspace(0, -2, D) @ turned.mT).clamp(0, 1)


def _basis() -> Basis:
    return principal(_pictures().split(40))


def _network(classes: int = 4) -> nn.Module:
    """A small smooth classifier, filled with noise."""
    layers = (nn.Conv2d(3, 6, 3), nn.Tanh(), nn.Flatten(), nn.Linear(6 * 3 * 2, classes))
    return filled(nn.Sequential(*layers), "network")


# Components and curves ------------------------------------------------------------------------------------------------


def components_are_the_definition(_: Evidence) -> float:
    """Streamed components against Alg. 1, line 1, sample by sample; more samples than dimensions, and fewer."""
    worst = 0.0
    for count in (150, 40):
        data = _pictures(count)
        basis = principal(data.split(17))
        mean, vectors, values = plain.components(list(data))
        rank = basis.rank
        square = basis.vectors @ basis.vectors.mT  # free of signs
        worst = max(worst, apart(basis.mean, mean), apart(basis.variances, values[:rank]))
        worst = max(worst, apart(square, vectors[:, :rank] @ vectors[:, :rank].mT))
        worst = max(worst, apart(basis.vectors.mT @ basis.vectors, torch.eye(rank).double()))
        worst = max(worst, abs(basis.kept(9) - float(values[:9].sum() / values.sum())))
    return worst


def randomised_components_are_bounded(_: Evidence) -> float:
    """The largest excess of a variance's error over the stated bound, and of kept energy after many passes."""
    data = _pictures()
    exact, worst = principal([data]), -math.inf
    for passes in (2, 3, 6, 20):
        found = randomised(lambda: data.split(31), 12, generator("claims", passes), passes, dtype=torch.float64)
        nearest = (found.variances[:, None] - exact.variances).abs().amin(1)
        worst = max(worst, float(nearest.max()) - found.error)
    return max(worst, abs(found.kept(12) - exact.kept(12)))


def curves_are_eq_2(_: Evidence) -> float:
    """All curves by one product against Eq. 2 term by term, forward and backward; infinite unless they rise from 0 to
    1."""
    vectors = _basis().vectors
    g = noise(6, D, seed="gradients").requires_grad_()
    curve = shares(g, vectors)
    places = (1, 2, 9, 31, D)
    ours = curve[:, [d - 1 for d in places]]
    theirs = torch.stack([torch.stack([plain.alpha(row, vectors, d) for d in places]) for row in g])
    falls = float(curve.detach().diff(dim=1).min()) < 0 or float(curve.detach().min()) < 0
    return math.inf if falls else max(apart_with_gradients(ours, theirs, [g]), apart(curve[:, -1], torch.ones(6)))


def isotropic_directions_have_chance(_: Evidence) -> float:
    """The mean of α_d over an orthonormal system, which is d / D, whatever the system."""
    turned = torch.linalg.qr(noise(D, D, seed="isotropic"))[0]
    expected = torch.arange(1, D + 1, dtype=torch.float64) / D
    return apart(shares(turned, _basis().vectors).mean(0), expected)


# The transform --------------------------------------------------------------------------------------------------------


def transform_is_algorithm_1(_: Evidence) -> float:
    """Whole batches against the printed lines, picture by picture, with the same noise; and gradients through the
    projection, which a classifier that projects at test time has."""
    basis, images = _basis(), _pictures(9).view(9, *SHAPE)
    worst = 0.0
    for d, m, c in ((20, 10, 10.0), (1, 3, 0.5), (D - 4, 4, 10.0)):
        ours = transformed(images, basis, "noise", d, m, c, generator("claims", "xi"))
        xi = torch.randn(9, m, generator=generator("claims", "xi"), dtype=torch.float64)
        flat = projected(images, basis, d)
        for n in range(9):
            state = (basis.mean, basis.vectors, basis.variances, d, m, c)
            worst = max(worst, apart(ours[n].flatten(), plain.modified(images[n].flatten(), *state, xi[n].tolist())))
            worst = max(worst, apart(flat[n].flatten(), plain.modified(images[n].flatten(), *state, [])))
    x = images.clone().requires_grad_()
    square = basis.vectors[:, :20] @ basis.vectors[:, :20].mT
    theirs = ((x.flatten(1) - basis.mean) @ square + basis.mean).view_as(x)
    return max(worst, apart_with_gradients(projected(x, basis, 20), theirs, [x]))


def transform_keeps_its_promises(_: Evidence) -> float:
    """d = D is the identity; the projection is idempotent and keeps the mean; nothing is left beyond d (pca) or d + m
    (noise); without noise, or with m = 0, noise is pca."""
    basis, images, d, m = _basis(), _pictures(30).view(30, *SHAPE), 20, 7
    source = generator("claims", "promises")
    flat = projected(images, basis, d)
    noisy = transformed(images, basis, "noise", d, m, 10.0, source)
    still = [transformed(images, basis, "noise", d, *other, source) for other in ((m, 0.0), (0, 10.0))]
    beyond = [basis.coordinates(flat.flatten(1))[:, d:], basis.coordinates(noisy.flatten(1))[:, d + m :]]
    whole = projected(_pictures().view(-1, *SHAPE), basis, d)
    return max(
        apart(projected(images, basis, D), images),
        apart(projected(flat, basis, d), flat),
        apart(transformed(images, basis, "pca", d, m, 10.0, source), flat),
        apart(whole.flatten(1).mean(0), basis.mean),
        *(apart(each, flat) for each in still),
        *(float(each.abs().max()) for each in beyond),
        apart(basis.coordinates(noisy.flatten(1))[:, :d], basis.coordinates(images.flatten(1))[:, :d]),
    )


def noise_has_its_variance(_: Evidence) -> float:
    """Relative error of the noise's variance against c² times the eigenvalue in each direction, and of isotropic noise
    against the same energy, over 60,000 draws; infinite if two uses give the same noise."""
    basis, d, m, c = _basis(), 20, 5, 10.0
    source = generator("claims", "variance")
    image = _pictures(1).view(1, *SHAPE).expand(60_000, *SHAPE)
    noisy = transformed(image, basis, "noise", d, m, c, source)
    if torch.equal(noisy[:2], transformed(image[:2], basis, "noise", d, m, c, source)):
        return math.inf
    measured = basis.coordinates(noisy.flatten(1))[:, d : d + m].var(0)
    expected = c**2 * basis.variances[d : d + m]
    energy = (transformed(image, basis, "isotropic", d, m, c, source) - image).square().flatten(1).sum(1).mean()
    return max(float((measured / expected - 1).abs().max()), abs(float(energy / expected.sum()) - 1))


def first_layers_keep_what_they_never_see(_: Evidence) -> float:
    """A fully connected network trained with SGD on projected pictures: its first layer outside the components and the
    mean is its initial value times (1 - rate · decay)^steps, to the last digit; without decay it stays as it was."""
    basis, d, rate, steps = _basis(), 8, 0.5, 12
    data = projected(_pictures().view(-1, *SHAPE), basis, d).flatten(1)
    labels = torch.arange(len(data)) % 3
    seen = torch.linalg.qr(torch.cat([basis.vectors[:, :d], basis.mean[:, None]], 1))[0]
    unseen = torch.eye(D, dtype=torch.float64) - seen @ seen.mT
    worst = 0.0
    for decay in (0.0, 5e-2):
        layer = nn.Linear(D, 12)
        network = filled(nn.Sequential(layer, nn.Tanh(), nn.Linear(12, 3)), "first").train()
        before = layer.weight.detach().clone()
        optimiser = torch.optim.SGD(network.parameters(), rate, weight_decay=decay)
        for _step in range(steps):
            optimiser.zero_grad()
            F.cross_entropy(network(data), labels).backward()
            optimiser.step()
        expected = (1 - rate * decay) ** steps * before @ unseen
        after = layer.weight.detach()
        worst = max(worst, apart(after @ unseen, expected))
        if apart(after @ seen, before @ seen) < 1e-3:  # it learnt nothing at all
            return math.inf
    return worst


# Attacks and heads ----------------------------------------------------------------------------------------------------


def _margins(classes: int, attack: Attack) -> float:
    """The largest relative difference of minimal perturbations of a linear classifier from |margin| / ||w||."""
    x = 0.4 + 0.2 * uniform(12, *SHAPE, seed="linear")
    layer = nn.Linear(D, classes)
    network = filled(nn.Sequential(nn.Flatten(), layer), "linear")
    with torch.no_grad():
        weight, logits = layer.weight, network(x)
        y = logits.argmax(1)
        gaps = (logits.gather(1, y[:, None]) - logits) / (weight[y][:, None] - weight).norm(dim=-1)
        exact = gaps.scatter(1, y[:, None], math.inf).amin(1)
    return float((attack(network, x, y).sizes / exact - 1).abs().max())


def linear_margins_are_found(_: Evidence) -> float:
    """DeepFool on two and on six classes, L2-BIM on two."""
    return max(_margins(2, DeepFool(bisections=25)), _margins(6, DeepFool(bisections=25)), _margins(2, IterativeL2()))


def linear_margins_are_found_by_adam(_: Evidence) -> float:
    """C&W on two classes, which approaches the boundary by steps of its learning rate."""
    return _margins(2, CarliniWagner(5, 150, 0.01, 0.1, bisections=20))


def batches_are_loops(_: Evidence) -> float:
    """Whole-batch DeepFool and C&W against one picture at a time, on a curved network."""
    network, x = _network(), _pictures(10).view(10, *SHAPE)
    with torch.no_grad():
        y = network(x).argmax(1)
    y[0] = (y[0] + 1) % 4  # wrong already
    ours = DeepFool(bisections=0)(network, x, y).adversarial
    worst = apart(ours, plain.deepfool(network, x, y))
    settings = (5, 15, 0.02, 0.03)  # the constants grow first, and are bisected then
    ours = CarliniWagner(*settings, bisections=0)(network, x[1:], y[1:]).adversarial
    return max(worst, apart(ours, plain.carlini_wagner(network, x[1:], y[1:], *settings)))


def gradients_are_central_differences(_: Evidence) -> float:
    """Gradients of the loss by the picture against central differences, both losses."""
    network, x = _network(), _pictures(8).view(8, *SHAPE)
    with torch.no_grad():
        y = (network(x).argmax(1) + torch.arange(8) % 2) % 4  # right and wrong answers
    direction, worst, step = noise(8, *SHAPE, seed="direction"), 0.0, 1e-5

    def margin(images: Tensor) -> Tensor:
        logits = network(images)
        others = [torch.cat([row[:k], row[k + 1 :]]).max() - row[k] for row, k in zip(logits, y.tolist(), strict=True)]
        return torch.stack(others)

    forms = {"ce": lambda images: F.cross_entropy(network(images), y, reduction="none"), "cw": margin}
    for name, form in forms.items():
        slope = (input_gradients(network, x, y, name) * direction).flatten(1).sum(1)  # type: ignore[arg-type]
        with torch.no_grad():
            measured = (form(x + step * direction) - form(x - step * direction)) / (2 * step)
        worst = max(worst, apart(slope, measured))
    return worst


def centres_are_a_simplex(_: Evidence) -> float:
    """Norms of one and inner products of -1 / (L - 1), for several numbers of classes and dimensions."""
    worst = 0.0
    for classes, dimensions in ((2, 1), (10, 9), (10, 64), (40, 256)):
        centres = simplex_centres(classes, dimensions)
        expected = torch.full((classes, classes), -1 / (classes - 1), dtype=torch.float64).fill_diagonal_(1.0)
        worst = max(worst, apart(centres @ centres.mT, expected))
    return worst


TABLE1 = {
    "pert": (0.199, 0.190, 0.306, 0.262, 1.084, 0.540, 1.952, 2.332),
    "1/grad": (0.115, 0.197, 0.157, 0.272, 0.264, 0.248, 1.535, 1.743),
    "400": (0.011, 0.020, 0.021, 0.018, 0.037, 0.014, 0.145, 0.152),
    "1241": (0.053, 0.102, 0.103, 0.096, 0.146, 0.060, 0.284, 0.296),
    "6351": (0.333, 0.449, 0.465, 0.628, 0.559, 0.314, 0.588, 0.612),
}
REPORTED = {"1/grad": 0.904, "400": 0.940, "1241": 0.878, "6351": 0.319}


def table_1_adds_up(_: Evidence) -> float:
    """The largest difference of R², computed from the printed rows of Table 1, from the printed R²."""
    sizes = torch.tensor(TABLE1["pert"])
    worst = 0.0
    for name, printed in REPORTED.items():
        row = torch.tensor(TABLE1[name], dtype=torch.float64)
        worst = max(worst, abs(determination(row if name == "1/grad" else row.sqrt(), sizes) - printed))
    return worst
