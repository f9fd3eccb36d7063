"""What the implementation must satisfy, in float64: against definitions, closed forms and invariances."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.claims import Evidence
from vergence.contract.evidence import apart, apart_with_gradients, filled, noise, uniform
from vergence.detection.adaptation import (
    SOURCE,
    TARGET,
    ConditionalDiscriminator,
    MultiLabelHead,
    consistency,
    focal_domain,
    image_chances,
    multi_label,
    multilinear,
)
from vergence.detection.data import Batch, Sample, collated
from vergence.detection.dualmultilabel.model import MCAR
from vergence.detection.dualmultilabel.settings import ModelConfig, Weights
from vergence.detection.protocol import domain_probe
from vergence.metrics.detection import Found, Truth, voc_precision
from vergence.ops.reversal import reversed_gradient

K, C, WIDTH = 4, 6, 5
"""Classes, channels of features, width of discriminators."""
BOUND = 2 * math.tanh(0.5)
"""The largest symmetric divergence of softmax(p) and softmax(q) with p and q from 0 to 1."""


# Gradient reversal, conditioning --------------------------------------------------------------------------------------


def reversal_is_identity_forward_and_minus_backward(_: Evidence) -> float:
    """Values to the bit, and gradients -scale times those without it."""
    worst = 0.0
    for scale in (0.0, 0.1, 1.0, 2.5):
        x, direction = noise(3, 4, seed="x").requires_grad_(), noise(3, 4, seed="g")
        y = reversed_gradient(x, scale)
        (slope,) = torch.autograd.grad(y, x, direction)
        worst = max(worst, float(not torch.equal(y, x)), apart(slope, -scale * direction))
    return worst


def pooling_before_the_product_is_pooling_after(_: Evidence) -> float:
    """GAP(f) x p against the mean of f x p over places, forward and backward."""
    maps, p = noise(3, C, 5, 7, seed="maps").requires_grad_(), uniform(3, K, seed="p").requires_grad_()
    ours = multilinear(maps.mean((2, 3)), p)
    every = torch.einsum("bchw,bk->bkchw", maps, p).flatten(1, 2).mean((2, 3))
    return apart_with_gradients(ours, every, [maps, p])


def one_class_sees_its_own_block(_: Evidence) -> float:
    """With a one-hot condition k the discriminator is its own block k alone; with ones it is the sum of all blocks."""
    net = filled(ConditionalDiscriminator(C, K, WIDTH))
    features = noise(2, C, 4, 4, seed="features")
    vectors = F.relu(net.conv(features)).mean((2, 3))
    blocks = net.linear.weight.reshape(2, K, WIDTH)
    worst = 0.0
    for k in range(K):
        hot = F.one_hot(torch.full((2,), k), K).double()
        worst = max(worst, apart(net(features, hot), vectors @ blocks[:, k].mT + net.linear.bias))
    ones = net(features, torch.ones(2, K, dtype=torch.float64))
    return max(worst, apart(ones, vectors @ blocks.sum(1).mT + net.linear.bias),
               apart(multilinear(vectors, torch.ones(2, K, dtype=torch.float64)), vectors.repeat(1, K)))  # fmt: skip


def condition_is_not_trained_by_the_adversary(_: Evidence) -> float:
    """The discriminator's loss has no gradient at the multi-label head, and some if asked to."""
    worst = 0.0
    for detach in (True, False):
        model, source, target = _two(ModelConfig("small", "plain", width=WIDTH, regions=8, detach=detach))
        loss = model.losses(source, target, Weights(consistency=0.0), _generator())["adversary"]
        assert model.labels is not None
        slopes = torch.autograd.grad(loss, list(model.labels.parameters()), allow_unused=True)
        largest = max((float(s.abs().max()) for s in slopes if s is not None), default=0.0)
        worst = max(worst, largest if detach else float(largest == 0))
    return worst


# Losses ---------------------------------------------------------------------------------------------------------------


def focal_is_the_printed_loss(_: Evidence) -> float:
    """Eq. 3 with D = softmax, forward and backward; gamma 0 is cross entropy; D = 1/2 gives ln 2 / 2^gamma."""
    logits = (3 * noise(6, 2, seed="logits")).requires_grad_()
    worst = 0.0
    for gamma in (0.0, 1.0, 5.0):
        d = logits.softmax(1)[:, 0]
        for domain, printed in ((SOURCE, -((1 - d) ** gamma * d.log()).mean()),
                                (TARGET, -(d**gamma * (1 - d).log()).mean())):  # fmt: skip
            worst = max(worst, apart_with_gradients(focal_domain(logits, domain, gamma), printed, [logits]))
            even = focal_domain(torch.zeros(3, 2, dtype=torch.float64), domain, gamma)
            worst = max(worst, abs(float(even) - math.log(2) / 2**gamma))
    plain = F.cross_entropy(logits, torch.full((6,), TARGET))
    return max(worst, apart(focal_domain(logits, TARGET, 0.0), plain))


def labels_are_summed_over_classes(_: Evidence) -> float:
    """Eq. 1 as printed, with a sum over classes and a mean over pictures."""
    logits, y = noise(3, K, seed="labels").requires_grad_(), (uniform(3, K, seed="y") > 0.5).double()
    p = logits.sigmoid()
    printed = -(y * p.log() + (1 - y) * (1 - p).log()).sum() / 3
    return apart_with_gradients(multi_label(logits, y), printed, [logits])


def consistency_is_the_symmetric_divergence(_: Evidence) -> float:
    """Eqs. 4 to 6 against the definition of the Kullback-Leibler divergence, both ways; symmetric in p and q."""
    p, q = uniform(5, K, seed="p").requires_grad_(), uniform(5, K, seed="q").requires_grad_()
    a, b = p.softmax(1), q.softmax(1)
    printed = ((a * (a / b).log()).sum(1) + (b * (b / a).log()).sum(1)).mean() / 2
    return max(apart_with_gradients(consistency(p, q), printed, [p, q]), apart(consistency(p, q), consistency(q, p)))


def consistency_is_blind_to_a_shift(_: Evidence) -> float:
    """Zero if p - q is the same for all classes, and only then: the least value with another difference is above 0."""
    p = uniform(4, K, seed="shift") / 2
    same = float(consistency(p, p + 0.3).abs())
    other = float(consistency(p[:1], p[:1] + torch.tensor([[0.3, 0.3, 0.3, 0.2]], dtype=torch.float64)))
    return max(same, float(other < 1e-5))


def consistency_has_its_bound(_: Evidence) -> float:
    """How far the largest of many values exceeds 2 tanh(1/2), for 2 to 6 classes; it is reached to 1e-12 by two classes
    that disagree. Two domains together add up to that."""
    worst = 0.0
    for classes in range(2, 7):
        p = torch.cat([uniform(4000, classes, seed="p"), (uniform(4000, classes, seed="p0") > 0.5).double()])
        q = torch.cat([uniform(4000, classes, seed="q"), (uniform(4000, classes, seed="q0") > 0.5).double()])
        each = ((p.softmax(1) - q.softmax(1)) * (p - q)).sum(1)
        worst = max(worst, float(each.max()) - BOUND)
    p = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    return max(worst, abs(2 * float(consistency(p, 1 - p)) - BOUND))


# Classes of a picture -------------------------------------------------------------------------------------------------


def more_regions_never_lower_a_class(_: Evidence) -> float:
    """q with a region more is at least q; the order of regions and the logit of the background of all do not matter."""
    logits, owner = noise(9, K + 1, seed="regions"), torch.tensor([0, 1, 0, 1, 1, 0, 0, 1, 0])
    whole = image_chances(logits, owner, 3)
    fewer = image_chances(logits[:6], owner[:6], 3)
    order = torch.tensor([4, 8, 0, 3, 7, 1, 6, 2, 5])
    same = apart(image_chances(logits[order], owner[order], 3), whole)
    direct = torch.stack([logits[owner == n].softmax(1)[:, 1:].amax(0) for n in (0, 1)])
    return max(float((fewer - whole).clamp(min=0).max()), same, apart(whole[:2], direct), float(whole[2].abs().max()))


def only_the_best_region_learns(_: Evidence) -> float:
    """The gradient of consistency at the probabilities of a class is zero but for its largest."""
    logits = noise(7, K + 1, seed="learns")
    chances = logits.softmax(1)[:, 1:].detach().requires_grad_()
    q = chances.amax(0, keepdim=True)
    ours = image_chances(
        torch.cat([(1 - chances.sum(1, keepdim=True)).log(), chances.log()], 1), torch.zeros(7).long(), 1
    )
    p = uniform(1, K, seed="p")
    (slope,) = torch.autograd.grad(consistency(p, ours), chances)
    (plain,) = torch.autograd.grad(consistency(p, q), chances)
    best = F.one_hot(chances.argmax(0), 7).mT.bool()
    return max(apart(slope, plain), float(plain[~best].abs().max()), float((plain[best] == 0).any()))


def separate_trunks_are_single_heads(_: Evidence) -> float:
    """A head with a trunk for every class against K heads of one class with the same weights."""
    head = filled(MultiLabelHead(C, K, WIDTH, separate=True))
    features = noise(2, C, 5, 4, seed="trunks").requires_grad_()
    columns = []
    assert head.conv1.bias is not None
    assert head.conv2.bias is not None
    for k in range(K):
        own = slice(k * WIDTH, (k + 1) * WIDTH)
        hidden = F.relu(F.conv2d(features, head.conv1.weight[own], head.conv1.bias[own], padding=1))
        hidden = F.relu(F.conv2d(hidden, head.conv2.weight[own], head.conv2.bias[own], padding=1)).mean((2, 3))
        columns.append(hidden @ head.classifiers.weight[k] + head.classifiers.bias[k])
    return apart_with_gradients(head(features), torch.stack(columns, 1), [features, *head.parameters()])


# The whole ------------------------------------------------------------------------------------------------------------


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def _batch(seed: str, count: int = 2) -> Batch:
    samples = []
    for number in range(count):
        low = uniform(3, 2, seed=f"low {seed} {number}") * torch.tensor([40.0, 30.0], dtype=torch.float64)
        boxes = torch.cat([low, low + 10 + 20 * uniform(3, 2, seed=f"high {seed} {number}")], 1)
        picture = uniform(3, 64, 80, seed=f"picture {seed} {number}")
        samples.append(Sample(picture, boxes, torch.tensor([1, 3, 1 + number]), torch.zeros(3, dtype=torch.bool), seed))
    return collated(samples)


def _two(config: ModelConfig) -> tuple[MCAR, Batch, Batch]:
    torch.manual_seed(3)
    return MCAR(config, K).double(), _batch("source"), _batch("target")


def without_weights_it_is_source_only(_: Evidence) -> float:
    """Six steps with lambda, mu and epsilon at 0 against a detector alone: the largest difference of its weights, and
    of the same with all of them on, which must not be 0."""
    full, alone = ModelConfig("small", "plain", width=WIDTH, regions=8), ModelConfig(
        "small", "plain", width=WIDTH, regions=8, multi=False, adversary="none")  # fmt: skip
    zero = Weights(adversary=0.0, labels=0.0, consistency=0.0)
    runs = [_stepped(alone, zero, False), _stepped(full, zero, True), _stepped(full, Weights(), True)]
    return max(apart(runs[1], runs[0]), float(apart(runs[2], runs[0]) == 0))


def _stepped(config: ModelConfig, weights: Weights, adapts: bool) -> Tensor:
    model, source, target = _two(config)
    optimiser = torch.optim.SGD(model.parameters(), 0.01, 0.9)
    for step in range(6):
        optimiser.zero_grad()
        draws = torch.Generator().manual_seed(step)
        sum(model.losses(source, target if adapts else None, weights, draws).values()).backward()  # type: ignore[union-attr]
        optimiser.step()
    return torch.cat([p.detach().flatten() for p in model.detector.parameters()])


def features_climb_what_the_discriminator_descends(_: Evidence) -> float:
    """The discriminator's own gradient is the same with and without reversal; that of the features has the other
    sign."""
    model, source, target = _two(ModelConfig("small", "plain", width=WIDTH, regions=8))
    slopes = []
    for reversal in (1.0, -1.0):  # -1: no reversal
        loss = model.losses(source, target, Weights(consistency=0.0), _generator())["adversary"] if reversal > 0 else (
            _unreversed(model, source, target))  # fmt: skip
        first = model.detector.backbone.body[0][0].weight  # type: ignore[index,union-attr]
        slopes.append(torch.autograd.grad(loss, [first, *model.adversary.parameters()]))
    (front, *own), (other, *others) = slopes
    return max(apart(front, -other, True), float(front.abs().max() == 0), *map(apart, own, others))


def _unreversed(model: MCAR, source: Batch, target: Batch) -> Tensor:
    """Half of lambda times both losses, as printed, without gradient reversal."""
    total = torch.zeros((), dtype=torch.float64)
    for batch, domain in ((source, SOURCE), (target, TARGET)):
        maps, _ = model.features(model.prepared(batch.pictures, batch.sizes))
        assert model.labels is not None
        told = model.labels(maps[0]).sigmoid().detach()
        total = total + 0.5 * 0.5 * focal_domain(model.adversary["image"](maps[0], told), domain, 5.0)
    return total


def perfect_and_wrong_detections_score_as_they_should(_: Evidence) -> float:
    """100 % for the truth, 0 for nothing, for other classes and for boxes elsewhere; half a class found is 6 of 11
    points."""
    boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [20.0, 20.0, 40.0, 30.0]])
    truth = [Truth(boxes, torch.tensor([1, 1]))] * 2
    right = [Found(boxes, torch.tensor([0.9, 0.8]), torch.tensor([1, 1]))] * 2
    cases = {
        100.0: right,
        0.0: [found._replace(boxes=boxes + 50) for found in right],
        600 / 11: [
            found._replace(boxes=boxes[:1], scores=found.scores[:1], labels=found.labels[:1]) for found in right
        ],
    }
    worst = max(abs(voc_precision(found, truth, [1])[1] - value) for value, found in cases.items())
    other = voc_precision([found._replace(labels=torch.tensor([2, 2])) for found in right], truth, [1])[1]
    return max(worst, abs(other))


def probes_of_equal_and_of_shifted_domains(_: Evidence) -> float:
    """A probe of the same features is at 50 %, up to 1 %; of domains far apart at 100 %."""
    features = noise(200, 8, seed="probe")
    twins = torch.cat([features, -features])  # their mean is 0 to the last bit, so no direction can be found
    apart_ = domain_probe(features, features + 20)
    return max(abs(domain_probe(twins, twins.roll(1, 0)) - 50) / 1.0 - 1.0, abs(apart_ - 100), 0.0)
