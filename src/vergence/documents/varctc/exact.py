"""Identities, counts and closed forms that decide claims and checks without training."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Bernoulli, kl_divergence

from vergence.contract.claims import Evidence
from vergence.contract.evidence import apart, apart_with_gradients, filled, noise, uniform
from vergence.documents.likelihood import bernoulli_kl, likelihood
from vergence.documents.varctc.model import CRNN, CTCHead, HierarchicalHead, Posterior, Recogniser, Recurrent, build
from vergence.documents.varctc.settings import LossConfig, ModelConfig
from vergence.metrics.reading import average_precision, edit_distance, recall_at_precision
from vergence.ops.ctc import Trie, collapse, hierarchical, lexicon_scores, needed_steps, negative_log_likelihood, split

STEPS, SYMBOLS = 5, 2
LABELS = ((1,), (2, 1), (1, 1), (1, 2, 1))
PLAIN = LossConfig()
TEST = ModelConfig(alphabet="abcd", channels=(3, 4, 5, 5, 6, 6, 7), hidden=4, dropout=0.0, embedding=3)


def _worst(values: Iterable[float]) -> float:
    """The largest value; not a number if one is not."""
    return float(torch.tensor(list(values), dtype=torch.float64).max())


def _padded(labels: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    longest = max(map(len, labels))
    rows = [[*label, *[-1] * (longest - len(label))] for label in labels]
    return torch.tensor(rows), torch.tensor([len(label) for label in labels])


def _nll(log_probs: Tensor, label: Sequence[int]) -> Tensor:
    """-log p of a label under one sequence (T, K)."""
    return negative_log_likelihood(
        log_probs.unsqueeze(1), torch.tensor([label]), torch.tensor([len(log_probs)]), torch.tensor([len(label)])
    )[0]


# Counts ---------------------------------------------------------------------------------------------------------------


def _count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def parts_have_their_counts(_: Evidence) -> float:
    """Heads, posterior, the trunk and both forms of the recurrent layers against counts by hand."""
    with torch.device("meta"):
        both = [build(ModelConfig(head="ctc", biases=biases)) for biases in (1, 2)]
        deep = build(ModelConfig(head="ctc", trunk="resnet"))
        parts = {
            CTCHead(512, 36): 512 * 37 + 37, HierarchicalHead(512, 36): 18_981, Posterior(512, 36, 50): 27_600,
            both[0].trunk: 5_551_360, both[0]: 8_720_165, both[1]: 8_724_261, deep.trunk: 12_665_376,
        }  # fmt: skip
    return _worst(abs(_count(part) - count) for part, count in parts.items())


# The likelihood -------------------------------------------------------------------------------------------------------


def _given(symbols: Tensor, blanks: Sequence[bool], label: Sequence[int]) -> float:
    """p(Y | O_b): the sum over symbols (T, C) at the steps that are not blank."""
    choices = [(0,) if blank else range(1, symbols.shape[1] + 1) for blank in blanks]
    return sum(
        math.prod(float(symbols[t, k - 1]) for t, k in enumerate(path) if k)
        for path in itertools.product(*choices)
        if collapse(path) == tuple(label)
    )


def _patterns(odds: Tensor) -> Iterator[tuple[tuple[bool, ...], float]]:
    """All choices of blanks and their chances, for log odds (T,)."""
    chance = odds.sigmoid().tolist()
    for blanks in itertools.product((False, True), repeat=len(chance)):
        yield blanks, math.prod(c if b else 1 - c for b, c in zip(blanks, chance, strict=True))


def blanks_are_summed_over(_: Evidence) -> float:
    """Eq. 4: the sum over all choices of blanks against the likelihood of the emission of Eq. 6."""
    odds, logits = noise(STEPS, seed="odds"), noise(STEPS, SYMBOLS, seed="symbols")
    off = []
    for label in LABELS:
        expected = sum(q * _given(logits.softmax(-1), blanks, label) for blanks, q in _patterns(odds))
        off.append(abs(math.exp(-float(_nll(hierarchical(odds, logits), label))) - expected))
    return _worst(off)


def emissions_agree(_: Evidence) -> float:
    """The emission of Eq. 6 in both of its forms, as a distribution, and as any softmax and back."""
    odds, logits = noise(4, 3, seed="odds"), noise(4, 3, 6, seed="symbols")
    ours = hierarchical(odds, logits)
    other = torch.cat([odds.unsqueeze(-1), logits.log_softmax(-1)], -1).log_softmax(-1)
    plain = noise(4, 3, 7, seed="softmax") * 5
    back, kept = split(hierarchical(*split(plain)))
    return _worst([
        apart(ours, other), apart(ours.exp().sum(-1), torch.ones(4, 3, dtype=torch.float64)),
        apart(hierarchical(*split(plain)), plain.log_softmax(-1)),
        apart(back, split(plain)[0]), apart(kept.log_softmax(-1), plain[..., 1:].log_softmax(-1)),
    ])  # fmt: skip


def mml_is_ctc(_: Evidence) -> float:
    """Mml-CTC with the odds and logits of a softmax against CTC with that softmax: the loss, and its gradient."""
    plain = noise(7, 3, 5, seed="softmax").requires_grad_()
    targets, lengths = _padded(((1, 2), (3, 3), (4,)))
    one = likelihood(hierarchical(*split(plain)), targets, lengths)["likelihood"]
    other = likelihood(plain.log_softmax(-1), targets, lengths)["likelihood"]
    return apart_with_gradients(one, other, [plain])


def gradient_is_the_slope(_: Evidence) -> float:
    """Gradients of the whole variational loss in odds and logits against differences of its value."""
    leaves = [noise(6, 2, seed=f"leaf {k}") for k in range(2)] + [noise(6, 2, 3, seed="leaf 2")]
    targets, lengths = _padded(((1, 2, 1), (3, 3)))

    def value(posterior: Tensor, prior: Tensor, logits: Tensor) -> Tensor:
        found = likelihood(hierarchical(posterior, logits), targets, lengths)["likelihood"]
        return found + bernoulli_kl(posterior, prior).sum(0).mean()

    off = []
    for place, leaf in enumerate(leaves):
        moving = [x.clone().requires_grad_(k == place) for k, x in enumerate(leaves)]
        (gradient,) = torch.autograd.grad(value(*moving), moving[place])
        along = noise(*leaf.shape, seed="direction")
        ends = [value(*(x + h * along if k == place else x for k, x in enumerate(leaves))) for h in (1e-5, -1e-5)]
        off.append(abs(float((gradient * along).sum() - (ends[0] - ends[1]) / 2e-5)))
    return _worst(off)


def divergence_is_bernoullis(_: Evidence) -> float:
    """The divergence against PyTorch's own; 0 where both are equal; finite and at least 0 for odds of any size."""
    q, p = (3 * noise(40, seed=name) for name in ("q", "p"))
    other = kl_divergence(Bernoulli(logits=q), Bernoulli(logits=p))
    far = bernoulli_kl(*torch.meshgrid(*[torch.tensor([-900.0, -30.0, 0.0, 30.0, 900.0]).double()] * 2, indexing="ij"))
    below = max(-float(far.min()), -float(bernoulli_kl(q, p).min()))
    return _worst([apart(bernoulli_kl(q, p), other), float(bernoulli_kl(q, q).abs().max()), below,
                   0.0 if far.isfinite().all() else math.inf])  # fmt: skip


class _Same(nn.Module):
    """A posterior that is the prior."""

    def __init__(self, head: HierarchicalHead) -> None:
        super().__init__()
        self.head = [head]

    def forward(self, x: Tensor, targets: Tensor, lengths: Tensor) -> Tensor:
        return self.head[0].odds(x)


def equal_posterior_is_mml(_: Evidence) -> float:
    """With the prior as posterior, the variational loss against Mml-CTC's, of a whole network."""
    model = filled(build(TEST))
    assert isinstance(model.head, HierarchicalHead)
    targets, lengths = _padded(((1, 2), (3, 3, 4)))
    images = noise(2, 1, 32, 64, seed="images")
    model.posterior = _Same(model.head)  # type: ignore[assignment]
    one = model.losses(images, targets, lengths, PLAIN)
    model.posterior = None
    other = model.losses(images, targets, lengths, PLAIN)
    return _worst([abs(float(one["divergence"].detach())), apart(one["likelihood"], other["likelihood"])])


def expectation_is_below(_: Evidence) -> float:
    """How far the expectation of Eq. 5 exceeds the term that is computed in its place, over posteriors of choices of
    blanks that all permit the label (others make the expectation minus infinity)."""
    logits = noise(4, SYMBOLS, seed="symbols").softmax(-1)
    over = []
    for label in ((1,), (1, 2)):
        chances = [value for blanks in itertools.product((False, True), repeat=4)
                   if (value := _given(logits, blanks, label)) > 0]  # fmt: skip
        for seed in range(20):
            q = uniform(len(chances), seed=seed).softmax(0).tolist()
            expectation = sum(w * math.log(c) for w, c in zip(q, chances, strict=True))
            over.append(expectation - math.log(sum(w * c for w, c in zip(q, chances, strict=True))))
    return _worst(over)


def objective_above_the_likelihood(_: Evidence) -> float:
    """The largest excess of the computed objective, log Σ q(b) p(Y | b) - KL(q || p), over log p(Y | X), in nats."""
    over = []
    for seed in range(10):
        prior, logits = noise(STEPS, seed=f"prior {seed}"), noise(STEPS, SYMBOLS, seed=f"symbols {seed}")
        for size in (0.1, 0.3, 1.0):
            for toward in range(4):
                posterior = prior + size * noise(STEPS, seed=f"step {seed} {toward}")
                for label in LABELS[:2]:
                    term = -_nll(hierarchical(posterior, logits), label) - bernoulli_kl(posterior, prior).sum()
                    over.append(float(term + _nll(hierarchical(prior, logits), label)))
    return _worst(over)


def long_labels_are_left_out(_: Evidence) -> float:
    """Labels that need more steps than there are: of infinite loss, and left out without a trace in the gradient."""
    logits = noise(3, 2, 3, seed="logits").requires_grad_()
    targets, lengths = _padded(((1, 2), (1, 1, 2)))
    off = [abs(float(needed_steps(targets.clamp(min=0), lengths)[1]) - 4)]
    whole = likelihood(logits.log_softmax(-1), targets, lengths)["likelihood"]
    alone = likelihood(logits[:, :1].log_softmax(-1), targets[:1], lengths[:1])["likelihood"] / 2
    none = likelihood(logits[:, 1:].log_softmax(-1), targets[1:], lengths[1:])["likelihood"]
    off += [apart_with_gradients(whole, alone, [logits]), abs(float(none.detach()))]
    aab = (1, 1, 2)
    off += [0.0 if collapse(path) == aab else 1.0 for path in ((1, 0, 1, 2, 0), (1, 1, 0, 1, 2))]
    return _worst(off)


# The network ----------------------------------------------------------------------------------------------------------


def network_is_the_published_one(_: Evidence) -> float:
    """The recogniser against its layers written out with PyTorch's modules, forward and backward."""
    model = filled(build(TEST))
    lstm = nn.LSTM(7, 4, 2, bidirectional=True).double()
    with torch.no_grad():
        for name, own in lstm.named_parameters():
            own.copy_(getattr(model.recurrent, name))
    images = noise(2, 1, 32, 48, seed="images").requires_grad_()
    return apart_with_gradients(model(images), _written_out(model, images, lstm), [images])


def _written_out(model: Recogniser, x: Tensor, lstm: nn.LSTM) -> Tensor:
    trunk = model.trunk
    assert isinstance(trunk, CRNN)
    pools = {0: nn.MaxPool2d(2, 2), 1: nn.MaxPool2d(2, 2), 3: nn.MaxPool2d(2, (2, 1)), 5: nn.MaxPool2d(2, (2, 1))}
    weights = dict(trunk.named_parameters())
    for number in range(7):
        own = f"convs.{number}.conv"
        x = F.conv2d(x, weights[f"{own}.weight"], weights[f"{own}.bias"], padding=1 if number < 6 else 0)
        if number in (2, 4, 6):
            x = trunk.get_submodule(f"convs.{number}.norm")(x)
        x = pools.get(number, nn.Identity())(x.relu())
    y = lstm(x[:, :, 0].permute(2, 0, 1))[0]
    head = model.head
    assert isinstance(head, HierarchicalHead)
    blank = torch.sigmoid(y @ head.blank.weight.T + head.blank.bias)
    named = torch.softmax(y @ head.symbols.weight.T + head.symbols.bias, -1)
    return torch.cat([blank, (1 - blank) * named], -1).log()


def one_bias_is_the_sum_of_two(_: Evidence) -> float:
    """Recurrent layers with one bias against those with two that add up to it."""
    one, two = filled(Recurrent(5, 3, 1)), filled(Recurrent(5, 3, 2), "other")
    with torch.no_grad():
        for name, own in one.named_parameters():
            getattr(two, name).copy_(own)
            if name.startswith("bias_ih"):
                other = getattr(two, name.replace("_ih", "_hh"))
                getattr(two, name).sub_(other)
    x = noise(6, 2, 5, seed="x").requires_grad_()
    return apart_with_gradients(one(x), two(x), [x])


def posterior_ignores_padding(_: Evidence) -> float:
    """The posterior of padded labels against that of each label alone, and of the label in another order."""
    posterior = filled(Posterior(6, 4, 3))
    x = noise(5, 2, 6, seed="x")
    targets, lengths = _padded(((1, 2), (4, 3, 1)))
    both = posterior(x, targets, lengths)
    alone = posterior(x[:, :1], targets[:1, :2], lengths[:1])
    turned = posterior(x[:, 1:], targets[1:].flip(1), lengths[1:])
    return _worst([apart(both[:, :1], alone), apart(both[:, 1:], turned)])


def lexicon_is_the_loop(_: Evidence) -> float:
    """Scores of a lexicon by its prefixes against the loss of every word."""
    log_probs = noise(8, 2, 5, seed="logits").log_softmax(-1)
    words = [(1,), (1, 2), (1, 2, 2), (3, 3), (4, 1, 2, 3), (2,), (1, 1)]
    ours = lexicon_scores(log_probs, torch.tensor([8, 6]), Trie.of(words))
    loop = [[-float(_nll(log_probs[:count, row], word)) for word in words] for row, count in enumerate((8, 6))]
    return apart(ours, torch.tensor(loop, dtype=torch.float64))


# Metrics --------------------------------------------------------------------------------------------------------------


def precision_is_scikit_learns(_: Evidence) -> float:
    """Average precision against scikit-learn's on random confidences, with ties; and closed forms of the recall."""
    from sklearn.metrics import average_precision_score

    off = []
    for seed in range(6):
        confidence = (uniform(60, seed=seed) * 12).round() / 12
        correct = uniform(60, seed=f"correct {seed}") < 0.4 + 0.5 * confidence
        off.append(abs(average_precision(confidence, correct) - 100 * average_precision_score(correct, confidence)))
    some = torch.tensor([0.9, 0.8, 0.7, 0.6])
    for truth, least, expected in (((1, 1, 1, 1), 0.98, 100), ((0, 1, 1, 1), 0.98, 0), ((1, 1, 0, 1), 0.98, 200 / 3),
                                   ((1, 1, 0, 1), 0.75, 100), ((0, 0, 0, 0), 0.98, 0)):  # fmt: skip
        off.append(abs(recall_at_precision(some, torch.tensor(truth).bool(), least) - expected))
    return _worst(off)


def distance_is_levenshteins(_: Evidence) -> float:
    """Edit distance against its recursive definition."""

    def plain(a: str, b: str) -> int:
        if not a or not b:
            return len(a) + len(b)
        return min(plain(a[1:], b[1:]) + (a[0] != b[0]), plain(a[1:], b) + 1, plain(a, b[1:]) + 1)

    some = ["", "a", "ab", "ba", "abba", "baab", "cabs"]
    return _worst(abs(edit_distance(a, b) - plain(a, b)) for a in some for b in some)
