"""Identities and counts of BLD that need no training."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from vergence.contract.claims import Evidence
from vergence.contract.evidence import apart, filled, noise, uniform
from vergence.core.metered import Meter
from vergence.recognition.bld.model import Batch, Learner, Network, bank_bytes
from vergence.recognition.bld.settings import Augmentation, Method, ModelConfig
from vergence.recognition.copies import Copies
from vergence.reference.distillation import batch_level_distillation

SMALL = ModelConfig(depths=(1, 1), widths=(8, 12), stride=2, groups=4)
METHOD = Method(copies=5, chunk=2, strength=1.5, temperature=2.0)
WARM, RATE = 2e-3, 1e-2
CHANGES = Augmentation(shift=2, flip=True)


def network(counts: Sequence[int] = (2, 3, 2), seed: str = "network") -> Network:
    """A small one in float64, with the classifiers of several tasks."""
    made = filled(Network(SMALL, counts), seed)
    return made.train()


def batch(seed: int = 0, count: int = 6, task: int = 2, classes: int = 2, copies: int = 5, size: int = 12) -> Batch:
    """Random pictures of a task; in each batch there is a class that another one lacks."""
    pictures = uniform(count, 3, size, size, seed=f"pictures {seed}")
    labels = (uniform(count, seed=f"labels {seed}") * classes).long()
    return Batch(Copies(pictures, copies, CHANGES, seed), labels, torch.full((count,), task))


def learner(net: Network, **changes: object) -> Learner:
    return Learner(net, replace(METHOD, **changes), RATE, WARM)  # type: ignore[arg-type]


def weights(net: Network) -> list[Tensor]:
    return [p.detach().clone() for p in net.parameters()]


def _apart(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    return max(apart(a, b) for a, b in zip(one, other, strict=True))


def _by_definition(net: Network, data: Batch, **changes: object) -> list[Tensor]:
    method = replace(METHOD, **changes)  # type: ignore[arg-type]
    pictures = data.copies.made(range(data.copies.count))
    task = int(data.tasks[0])
    ratio = {} if method.kind == "bld" else {"ratio": lambda wanted, own: torch.ones_like(own)}
    return batch_level_distillation(
        net,
        pictures,
        data.labels.repeat(data.copies.count),
        data.copies.count,
        task,
        warm=WARM,
        rate=RATE,
        strength=method.strength,
        temperature=method.temperature,
        iterations=method.iterations,
        **ratio,
    )


def steps_are_the_algorithms(_: Evidence) -> float:
    """The largest difference of the weights after a batch from those of Algorithms 1 and 2 on all copies at once, for
    chunks of one copy, of some, and of all; in the first task and a later one; balanced or not."""
    worst = 0.0
    for task, classes in ((0, 2), (1, 3), (2, 2)):
        data = batch(task, task=task, classes=classes)
        for kind in ("bld", "unbalanced"):
            for chunk in (2,) if task < 2 else (1, 2, 5):
                net = network()
                expected = _by_definition(net, data, kind=kind)
                before = weights(net)
                made = learner(net, chunk=chunk)
                made.bld(data, task) if kind == "bld" else made.unbalanced(data, task)
                after = weights(net)
                if not task or _apart(after, before) > 1e-4:  # it did learn
                    worst = max(worst, _apart(after, expected))
                else:
                    return math.inf
    return worst


def distillation_needs_the_warm_up(_: Evidence) -> float:
    """The largest gradient of the distillation loss before the warm-up step; infinite if there is none after it."""
    net, data = network(), batch()
    made = learner(net)
    bank, _loss = made.warm_up(data, 2)
    for parameter in net.parameters():
        parameter.grad = None
    made.distillation(data, bank, 2)
    before = float(made.norms().max())
    for parameter in net.parameters():
        parameter.grad = None
    made.entropy(data)
    made.descend(WARM)
    made.distillation(data, bank, 2)
    return before if float(made.norms().max()) > 1e-6 else math.inf


def layers_are_balanced(_: Evidence) -> float:
    """The largest difference of ‖G_d‖ after balancing from λ‖G_w‖, over the layers of the backbone, however the loss is
    scaled; infinite if an older classifier has a gradient left, or the new one any."""
    worst = 0.0
    for scale in (1.0, 1e-3, 40.0):
        net, data = network(), batch()
        made = learner(net)
        bank, _loss = made.warm_up(data, 2)
        wanted = made.norms()
        made.descend(WARM)
        made.distillation(data, bank, 2, scale)
        made.balance(wanted)
        shared = len(list(net.backbone.parameters()))
        found = made.norms()
        if float(wanted[:shared].min()) <= 0 or float(found[shared:].max()) > 0:
            return math.inf
        worst = max(worst, float((found[:shared] / (METHOD.strength * wanted[:shared]) - 1).abs().max()))
    return worst


def old_classifiers_stay(_: Evidence) -> float:
    """How far older classifiers move in a step, and the new one from where the new task alone would take it in the
    first joint iteration."""
    data = batch()
    net, alone = network(), network()
    old = weights(net)[-6:-2]
    learner(net, iterations=1).bld(data, 2)
    learner(alone, iterations=1).plain(data)
    return max(_apart(weights(net)[-6:-2], old), _apart(weights(net)[-2:], weights(alone)[-2:]))


def no_strength_is_fine_tuning(_: Evidence) -> float:
    """Difference of the weights after BLD with λ = 0, and after BLD in the first task, from fine-tuning with as many
    updates."""
    worst = 0.0
    for task, changes in ((2, {"strength": 0.0}), (0, {})):
        data = batch(task=task)
        net, plain = network(), network()
        learner(net, **changes).bld(data, task)
        learner(plain).plain(data)
        worst = max(worst, _apart(weights(net), weights(plain)))
    return worst


def copies_are_made_again(_: Evidence) -> float:
    """The number of pixels that differ between copies made in chunks of 1, 3 and 7, and again."""
    pictures = uniform(4, 3, 11, 13, seed="copies").float()
    copies = Copies(pictures, 7, CHANGES, 3)
    whole = copies.made(range(7))
    again = [torch.cat([made for _, made in copies.chunks(size)]) for size in (1, 3, 7)]
    if torch.equal(whole[:4], whole[4:8]):
        return math.inf  # copies of one picture do differ
    return float(sum((whole != other).sum() for other in again))


def nothing_else_survives(_: Evidence) -> float:
    """Difference of the weights after two batches from those of a learner made anew from the weights alone for each
    batch; infinite if a tensor of a batch is alive after it."""
    data = [batch(seed, count=3 + seed, copies=2) for seed in range(2)]
    net, state = network(), network().state_dict()
    for each in data:
        with Meter() as meter:
            losses = learner(net).bld(each, 2)
        if meter.alive != sum(loss.untyped_storage().nbytes() for loss in losses.values()):
            return math.inf
        fresh = network(seed="another")
        fresh.load_state_dict(copy.deepcopy(state))
        learner(fresh).bld(each, 2)
        state = fresh.state_dict()
    return _apart(list(net.state_dict().values()), list(state.values()))


def bank_size(_: Evidence) -> float:
    """Bytes of the predictions that are stored in a batch of the fifth task, as published: 20 pictures, 50 copies."""
    net = Network(SMALL, (2,) * 5)
    copies = Copies(torch.rand(20, 3, 8, 8), 50, CHANGES, 0)
    data = Batch(copies, torch.zeros(20, dtype=torch.long), torch.full((20,), 4))
    bank, _loss = Learner(net, replace(METHOD, chunk=25), RATE, WARM).warm_up(data, 4)
    return float(bank.numel() * bank.element_size())


def stored_by_lwf(_: Evidence) -> float:
    """The largest difference in bytes from the paper's memory of LwF in the fifth task: the predictions of four old
    tasks for all pictures of one, 12,000 of MNIST and 10,000 of CIFAR-10."""
    return float(max(abs(bank_bytes(n, 1, 8) - size) for n, size in ((12_000, 384_000), (10_000, 320_000))))


def published_warm_up(_: Evidence) -> float:
    """Cosine between the distillation gradients of the backbone in float32 and in float64 after the published warm-up
    (α_w = 1e-6), from the same weights and pictures: 1 if rounding does not matter."""
    found = []
    for kind in (torch.float32, torch.float64):
        torch.manual_seed(0)
        net = Network(ModelConfig(depths=(1, 1, 1), widths=(16, 32, 64), stride=2, groups=4), (2, 2, 2)).to(kind)
        pictures = uniform(20, 3, 16, 16, seed="warm").float().to(kind)
        data = Batch(Copies(pictures, 2, CHANGES, 0), torch.arange(20) % 2, torch.full((20,), 2))
        made = Learner(net, replace(METHOD, copies=2), 1e-4, 1e-6)
        bank, _loss = made.warm_up(data, 2)
        made.descend(1e-6)
        made.distillation(data, bank, 2)
        found.append(torch.cat([p.grad.flatten().double() for p in net.backbone.parameters() if p.grad is not None]))
    single, double = found
    return float(single @ double / (single.norm() * double.norm()))


def warps_by_whole_pixels(_: Evidence) -> float:
    """Difference of copies without rotation from shifted and mirrored pictures whose border is repeated."""
    pictures = noise(3, 2, 9, 7, seed="warp")
    changes = Augmentation(shift=3, turn=0.0, jitter=0.0, flip=True)
    copies = Copies(pictures, 6, changes, 1)
    worst = 0.0
    for number in range(6):
        draws = copies._draws(number)
        made = copies.made(range(number, number + 1))
        for index in range(3):
            down, across = (int(7 * float(draws[row, index])) - 3 for row in (0, 1))
            rows = (torch.arange(9) + down).clamp(0, 8)
            flipped = torch.arange(7).flip(0) if float(draws[3, index]) < 0.5 else torch.arange(7)
            columns = (flipped + across).clamp(0, 6)
            worst = max(worst, apart(made[index], pictures[index][:, rows][:, :, columns]))
    return worst
