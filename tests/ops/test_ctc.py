"""CTC equals the enumeration of all paths, and PyTorch's loss where both are defined; nothing is lost in reading."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from vergence.ops.ctc import (
    Trie,
    beam_search,
    collapse,
    greedy,
    hierarchical,
    lexicon_scores,
    needed_steps,
    negative_log_likelihood,
    paths,
    split,
)

STEPS, SYMBOLS = 5, 2


def drawn(batch=3, steps=STEPS, symbols=SYMBOLS, seed=0) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(steps, batch, symbols + 1, generator=source, dtype=torch.float64).log_softmax(-1)


def every_path(log_probs, count):
    """Log probabilities of all paths of one sequence, by label."""
    found = {}
    for path in itertools.product(range(log_probs.shape[1]), repeat=count):
        value = sum(float(log_probs[t, k]) for t, k in enumerate(path))
        found.setdefault(collapse(path), []).append((path, value))
    return found


def total(values):
    return math.log(sum(map(math.exp, values))) if values else -math.inf


def padded(labels):
    longest = max(map(len, labels))
    return (
        torch.tensor([[*label, *[0] * (longest - len(label))] for label in labels], dtype=torch.long).reshape(
            len(labels), longest
        ),
        torch.tensor([len(label) for label in labels]),
    )


LABELS = [(1,), (1, 1), (2, 1, 2), (), (1, 2), (1, 1, 1)]


def test_paths_stand_for_labels():
    assert collapse((1, 0, 1, 2, 0)) == collapse((1, 1, 0, 1, 2)) == (1, 1, 2)
    assert collapse((0, 0)) == collapse(()) == ()


@pytest.mark.parametrize("steps", [STEPS, 3])
def test_likelihood_entropy_and_occupancy_are_those_of_all_paths(steps):
    log_probs = drawn(len(LABELS))
    targets, lengths = padded(LABELS)
    counts = torch.full((len(LABELS),), steps)
    found = paths(log_probs, targets, counts, lengths)
    for row, label in enumerate(LABELS):
        own = every_path(log_probs[:, row], steps).get(label, [])
        expected = total([value for _, value in own])
        assert float(found.log_likelihood[row]) == pytest.approx(expected)
        weights = [math.exp(value - expected) for _, value in own]
        assert float(found.entropy[row]) == pytest.approx(-sum(w * math.log(w) for w in weights), abs=1e-12)
        occupancy = torch.zeros(STEPS, SYMBOLS + 1, dtype=torch.float64)
        for (path, _), weight in zip(own, weights, strict=True):
            for step, symbol in enumerate(path):
                occupancy[step, symbol] += weight
        torch.testing.assert_close(found.occupancy[:, row], occupancy)


def test_the_likelihood_is_pytorchs_where_both_are_defined_and_so_is_its_gradient():
    logits = torch.randn(7, 4, 6, dtype=torch.float64, requires_grad=True)
    targets, lengths = padded([(1, 2, 3), (4, 4), (5,), (2, 2, 1)])
    steps = torch.tensor([7, 6, 3, 5])
    ours = -paths(logits.log_softmax(-1), targets, steps, lengths).log_likelihood
    theirs = negative_log_likelihood(logits.log_softmax(-1), targets, steps, lengths)
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(torch.autograd.grad(ours.sum(), logits), torch.autograd.grad(theirs.sum(), logits), strict=True):
        torch.testing.assert_close(a, b)


def test_entropy_has_its_gradient():
    logits = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
    targets, lengths = padded([(1, 2), (1,)])
    steps = torch.tensor([4, 3])

    def entropy(x):
        return paths(x.log_softmax(-1), targets, steps, lengths).entropy

    assert torch.autograd.gradcheck(entropy, logits)


def test_labels_that_do_not_fit_have_no_path_and_no_gradient_that_is_not_a_number():
    logits = torch.randn(3, 2, 3, dtype=torch.float64, requires_grad=True)
    targets, lengths = padded([(1, 1), (1, 1, 2)])
    assert needed_steps(targets, lengths).tolist() == [3, 4]
    found = paths(logits.log_softmax(-1), targets, torch.tensor([3, 3]), lengths)
    assert torch.isfinite(found.log_likelihood).tolist() == [True, False]
    assert found.entropy[1].item() == 0
    assert not found.occupancy[:, 1].any()
    (gradient,) = torch.autograd.grad(found.log_likelihood[0] + found.entropy.sum(), logits)
    assert torch.isfinite(gradient).all()


# The hierarchy --------------------------------------------------------------------------------------------------------


def test_blank_and_symbols_are_a_distribution_that_any_softmax_can_be():
    blank, symbols = torch.randn(4, 2, dtype=torch.float64), torch.randn(4, 2, 5, dtype=torch.float64)
    log_probs = hierarchical(blank, symbols)
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(4, 2, dtype=torch.float64))
    torch.testing.assert_close(log_probs, torch.cat([blank[..., None], symbols.log_softmax(-1)], -1).log_softmax(-1))
    logits = torch.randn(4, 2, 6, dtype=torch.float64)
    torch.testing.assert_close(hierarchical(*split(logits)), logits.log_softmax(-1))
    assert torch.isfinite(hierarchical(torch.tensor([900.0, -900.0]), torch.zeros(2, 3))).all()


def test_the_likelihood_sums_over_what_is_blank_and_what_is_not():
    """Eq. 4: Σ over {blank, symbol}^T of q(b) p(Y | b)."""
    blank, symbols = torch.randn(4, dtype=torch.float64), torch.randn(4, 2, dtype=torch.float64)
    chance, named = blank.sigmoid(), symbols.softmax(-1)
    for label in ((1, 2), (1,), (2, 2)):
        expected = 0.0
        for pattern in itertools.product((False, True), repeat=4):
            weight = math.prod(float(chance[t]) if b else 1 - float(chance[t]) for t, b in enumerate(pattern))
            choices = [(0,) if b else (1, 2) for b in pattern]
            inner = sum(
                math.prod(float(named[t, k - 1]) for t, k in enumerate(path) if k)
                for path in itertools.product(*choices)
                if collapse(path) == label
            )
            expected += weight * inner
        targets, lengths = padded([label])
        found = negative_log_likelihood(hierarchical(blank, symbols).unsqueeze(1), targets, torch.tensor([4]), lengths)
        assert math.exp(-float(found)) == pytest.approx(expected)


def test_the_loss_has_its_gradient_in_the_odds_of_the_blank_and_in_the_symbols():
    blank = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    symbols = torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
    targets, lengths = padded([(1, 2), (3,)])
    steps = torch.tensor([5, 4])
    assert torch.autograd.gradcheck(
        lambda b, s: negative_log_likelihood(hierarchical(b, s), targets, steps, lengths), (blank, symbols)
    )


# Reading --------------------------------------------------------------------------------------------------------------


def test_greedy_reads_the_most_probable_path():
    log_probs = drawn(4, seed=3)
    labels, confidence = greedy(log_probs, torch.tensor([5, 5, 3, 1]))
    for row, count in enumerate((5, 5, 3, 1)):
        own = [item for items in every_path(log_probs[:, row], count).values() for item in items]
        path, value = max(own, key=lambda item: item[1])
        assert labels[row] == collapse(path)
        assert float(confidence[row]) == pytest.approx(value)


def test_a_wide_beam_finds_every_label_with_its_probability():
    log_probs = drawn(1, seed=5)[:, 0]
    expected = {label: total([v for _, v in own]) for label, own in every_path(log_probs, STEPS).items()}
    found = dict(beam_search(log_probs, 1000))
    assert found.keys() == expected.keys()
    for label, value in expected.items():
        assert found[label] == pytest.approx(value)
    narrow = beam_search(log_probs, 4)
    assert len(narrow) == 4
    assert narrow[0][0] == max(expected, key=expected.__getitem__)
    assert all(value <= expected[label] + 1e-12 for label, value in narrow)


def test_words_of_a_lexicon_have_their_exact_probability():
    words = [(1, 2), (1,), (1, 1), (2, 1, 2), (), (1, 2, 1)]
    log_probs = drawn(3, seed=9)
    steps = torch.tensor([5, 4, 2])
    scores = lexicon_scores(log_probs, steps, Trie.of(words))
    assert len(Trie.of(words).parent) == 8  # "", 1, 12, 11, 2, 21, 212, 121
    for row, count in enumerate(steps.tolist()):
        own = every_path(log_probs[:, row], count)
        for column, word in enumerate(words):
            assert float(scores[row, column]) == pytest.approx(total([v for _, v in own.get(word, [])]))


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="no blanks"):
        Trie.of([(1, 0)])
    with pytest.raises(ValueError, match="one prefix or more"):
        beam_search(torch.zeros(2, 2), 0)
