"""Checks of the loss in float64: its definition, its invariances, its limits, and the sizes of the networks."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.claims import Evidence
from vergence.contract.evidence import apart, apart_with_gradients, noise
from vergence.core.seeding import generator
from vergence.nn.distiller import DistillationLoss, Told
from vergence.ops.category_structure import (
    class_centres,
    groups,
    inter_distance,
    inter_structure,
    intra_distance,
    intra_structure,
)
from vergence.recognition.categorystructure.model import SmallResNet
from vergence.recognition.categorystructure.settings import PARAMETERS, Network
from vergence.reference import category_structure as plain

N, CLASSES, WIDTH = 40, 12, 30


def _labels() -> Tensor:
    """40 labels of 12 classes, of which one has a single sample and two have none."""
    labels = torch.randint(9, (N,), generator=generator("claims", "labels"))
    labels[0] = 10
    return labels


def _features(seed: str, width: int = WIDTH) -> Tensor:
    return noise(N, width, seed=seed).requires_grad_()


def loss_is_its_definition(_: Evidence) -> float:
    """Both terms of Eq. 9 against loops over classes and pairs of classes, forward and backward."""
    labels, teacher = _labels(), noise(N, WIDTH, seed="teacher")
    ours, own = _features("projected"), _features("student", 7)
    return max(
        apart_with_gradients(intra_distance(ours, teacher, labels), plain.intra(ours, teacher, labels), [ours]),
        apart_with_gradients(inter_distance(own, teacher, labels), plain.inter(own, teacher, labels), [own]),
    )


def squares_are_their_definition(_: Evidence) -> float:
    """Both terms as means of squares, against Eqs. 7 and 8 by loops, forward and backward."""
    labels, teacher = _labels(), noise(N, WIDTH, seed="teacher")
    ours, own = _features("projected"), _features("student", 7)
    residuals = []
    for features in (ours, teacher):
        means = dict(zip(labels.unique().tolist(), plain.centres(features, labels), strict=True))
        residuals.append(torch.stack([row - means[int(k)] for row, k in zip(features, labels, strict=True)]))
    among = [F.normalize(plain.centres(features, labels), dim=1) for features in (own, teacher)]
    cosines = [(a[:, None] * a).sum(-1) for a in among]
    return max(
        apart_with_gradients(
            intra_distance(ours, teacher, labels, "mse"), F.mse_loss(residuals[0], residuals[1]), [ours]
        ),
        apart_with_gradients(inter_distance(own, teacher, labels, "mse"), F.mse_loss(cosines[0], cosines[1]), [own]),
    )


def samples_balance(_: Evidence) -> float:
    """Eq. 7: the sum over each class of its samples minus their centre."""
    labels = _labels()
    residual = intra_structure(_features("student"), labels).detach()
    return float(class_centres(residual, labels).abs().max())


def classes_may_move(_: Evidence) -> float:
    """The intra term between features and their copies in which every class is moved by a vector of its own."""
    labels = _labels()
    teacher = noise(N, WIDTH, seed="teacher")
    moved = (teacher + 5 * noise(CLASSES, WIDTH, seed="shift")[labels]).requires_grad_()
    return max(float(intra_distance(moved, teacher, labels, norm).detach()) for norm in ("fro", "mse"))


def cosines_are_cosines(_: Evidence) -> float:
    """Eq. 8: deviation of M from a symmetric matrix with ones on its diagonal, and its change if each class is scaled
    by a factor of its own and all are rotated."""
    labels, features = _labels(), noise(N, WIDTH, seed="student")
    rotation = torch.linalg.qr(noise(WIDTH, WIDTH, seed="rotation")).Q
    scales = (0.1 + noise(CLASSES, 1, seed="scales").abs())[labels]
    matrix = inter_structure(features, labels)
    return max(
        apart(matrix, matrix.mT), apart(matrix.diagonal(), torch.ones(len(matrix), dtype=torch.float64)),
        apart(inter_structure((scales * features) @ rotation, labels), matrix),
    )  # fmt: skip


def scale_matters_within(_: Evidence) -> float:
    """The intra term between features and their doubles, as a multiple of that between features and zero: 1, where the
    inter term is 0."""
    labels, features = _labels(), noise(N, WIDTH, seed="student")
    within = intra_distance(2 * features, features, labels) / intra_distance(features, 0 * features, labels)
    return abs(float(within) - 1) + float(inter_distance(2 * features, features, labels))


def order_does_not_matter(_: Evidence) -> float:
    """Change of both terms if the batch is permuted, or if labels get other names."""
    labels, teacher, student = _labels(), noise(N, WIDTH, seed="teacher"), noise(N, WIDTH, seed="student")
    order = torch.randperm(N, generator=generator("claims", "order"))
    names = torch.randperm(100, generator=generator("claims", "names"))
    worst = 0.0
    for distance in (intra_distance, inter_distance):
        whole = distance(student, teacher, labels)
        worst = max(worst, apart(distance(student[order], teacher[order], labels[order]), whole))
        worst = max(worst, apart(distance(student, teacher, names[labels]), whole))
    return worst


def single_samples_are_relations(_: Evidence) -> float:
    """One sample per class: the intra term and its gradient, which must be 0, and the difference of M from the cosines
    of the samples."""
    labels = torch.randperm(N, generator=generator("claims", "order"))
    student, teacher = _features("student"), noise(N, WIDTH, seed="teacher")
    intra = intra_distance(student, teacher, labels)
    (gradient,) = torch.autograd.grad(intra, student)
    units = F.normalize(student.detach()[labels.argsort()], dim=1)
    cosines = apart(inter_structure(student.detach(), labels), units @ units.mT)
    return max(float(intra.detach()), float(gradient.abs().max()), cosines)


def detaching_changes_nothing(_: Evidence) -> float:
    """The gradient of the intra term against that with the student's centres detached, as the public code has them:
    residuals sum to zero, so nothing flows through the centres."""
    labels, student, teacher = _labels(), _features("student"), noise(N, WIDTH, seed="teacher")
    among = groups(labels)
    fixed = student - class_centres(student, among).detach()[among.places]
    squares = (intra_structure(teacher, among) - fixed).square().sum(1)
    norms = torch.zeros(len(among.classes), dtype=torch.float64).index_add(0, among.places, squares)
    theirs = norms[among.counts > 1].sqrt().sum() / len(among.classes)
    return apart_with_gradients(intra_distance(student, teacher, labels), theirs, [student])


def weights_reduce(_: Evidence) -> float:
    """Without structure the loss is α CE + (1 - α) MSE, with α = 1 it is cross-entropy: forward and backward; infinite
    if the teacher gets a gradient, or the projector none."""
    labels = _labels()
    logits, answers = _features("logits", CLASSES), _features("answers", CLASSES)
    maps, given = (noise(N, width, 2, 2, seed=str(width)).requires_grad_() for width in (3, 5))
    ce, mse = F.cross_entropy(logits, labels), F.mse_loss(logits, answers.detach())
    worst = 0.0
    for alpha, expected in ((0.1, 0.1 * ce + 0.9 * mse), (1.0, ce)):
        loss = DistillationLoss((3, 5), alpha=alpha, beta=0.0, gamma=0.0).double()
        found = torch.stack(list(loss(Told(logits, maps), Told(answers, given), labels).values())).sum()
        worst = max(worst, apart_with_gradients(found, expected, [logits]))
    loss = DistillationLoss((3, 5)).double()
    torch.stack(list(loss(Told(logits, maps), Told(answers, given), labels).values())).sum().backward()
    assert loss.projector is not None
    learns = loss.projector.weight.grad is not None and bool(loss.projector.weight.grad.any())
    return worst if learns and answers.grad is None and given.grad is None else math.inf


def edges_are_bounded(_: Evidence) -> float:
    """Eq. 11: the largest excess of m²c²/(mc + c²) over (m/2) sqrt(mc) for m, c up to 300, relative, and the gap
    where m = c, relative; infinite if the two are equal anywhere else."""
    m, c = torch.meshgrid(*(torch.arange(1, 301, dtype=torch.float64),) * 2, indexing="ij")
    share = (m**2 * c**2 / (m * c + c**2)) / (m / 2 * (m * c).sqrt())
    equal = (share - 1).abs() < 1e-12
    return float((share - 1).clamp(min=0).max()) if torch.equal(equal, m == c) else math.inf


def networks_have_their_size(_: Evidence) -> float:
    """Parameters off the counts by hand, over all twelve; infinite if the last stage has another shape than the
    paper's."""
    off, shapes = 0, {(18, 0.25): 128, (34, 0.25): 128, (50, 0.25): 512, (101, 0.5): 1024, (152, 0.5): 1024}
    with torch.device("meta"):
        for (depth, width, classes), count in PARAMETERS.items():
            network = SmallResNet(classes, Network(depth, width))  # type: ignore[arg-type]
            off = max(off, abs(sum(p.numel() for p in network.parameters()) - count))
        for (depth, width), channels in shapes.items():
            network = SmallResNet(10, Network(depth, width))  # type: ignore[arg-type]
            if network.eval().told(torch.zeros(2, 3, 32, 32)).features.shape != (2, channels, 4, 4):
                return math.inf
    return float(off)
