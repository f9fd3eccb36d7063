"""Paths of about equal spacing equal an enumeration of all paths, and plain CTC where nothing is cut off."""

import itertools
import math

import pytest
import torch

from vergence.ops.ctc import collapse, negative_log_likelihood, paths
from vergence.ops.ctc_spacing import longest_segment, spaced_paths


def log_probs(steps, batch, symbols, seed=0):
    source = torch.Generator().manual_seed(seed)
    return torch.randn(steps, batch, symbols + 1, generator=source, dtype=torch.float64).log_softmax(-1)


def segments(path):
    """Lengths of the segments of a path, and of the blanks after the last symbol."""
    lengths, own, previous = [], 0, 0
    for symbol in path:
        if previous and symbol != previous:
            lengths.append(own)
            own = 0
        own, previous = own + 1, symbol
    return (lengths, own) if previous == 0 else ([*lengths, own], 0)


def enumerated(own, label, most):
    kept = []
    for path in itertools.product(range(own.shape[1]), repeat=len(own)):
        if collapse(path) == label:
            lengths, rest = segments(path)
            if max(lengths) <= most and rest <= most:
                kept.append(float(sum(own[t, s] for t, s in enumerate(path))))
    total = math.log(sum(map(math.exp, kept))) if kept else -math.inf
    return total, -sum(math.exp(k - total) * (k - total) for k in kept)


def test_lengths_of_segments_by_hand():
    assert segments((0, 1, 1, 0, 2, 0, 0)) == ([3, 2], 2)
    assert segments((1, 2)) == ([1, 1], 0)
    assert longest_segment(torch.tensor([26, 5]), torch.tensor([8, 2]), 1.5).tolist() == [6, 5]


@pytest.mark.parametrize("rate", [0.5, 0.8, 1.0, 1.5])
@pytest.mark.parametrize("label", [(1,), (1, 2), (2, 2), (1, 2, 1)])
def test_it_is_the_sum_over_paths_of_equal_spacing(rate, label):
    own, steps = log_probs(6, 1, 2), torch.tensor([6])
    lengths = torch.tensor([len(label)])
    most = int(longest_segment(steps, lengths, rate))
    total, entropy = enumerated(own[:, 0], label, most)
    found = spaced_paths(own, torch.tensor([label]), steps, lengths, rate)
    assert float(found.log_likelihood) == pytest.approx(total, abs=1e-12)
    assert float(found.entropy) == pytest.approx(entropy, abs=1e-12)


def test_some_paths_are_cut_off():
    own, label = log_probs(6, 1, 2), (1, 2)
    assert enumerated(own[:, 0], label, 2)[0] < enumerated(own[:, 0], label, 6)[0] - 0.1


def batch():
    own = log_probs(9, 4, 3, 1).requires_grad_()
    targets = torch.tensor([[1, 2, 2], [3, 1, 0], [2, 0, 0], [1, 1, 1]])
    return own, targets, torch.tensor([9, 7, 8, 9]), torch.tensor([3, 2, 1, 3])


def test_without_a_limit_it_is_ctc_with_its_gradient():
    own, *rest = batch()
    spaced, plain = spaced_paths(own, *rest, rate=100.0), paths(own, *rest)
    torch.testing.assert_close(spaced.log_likelihood, -negative_log_likelihood(own, *rest))
    torch.testing.assert_close(spaced.entropy, plain.entropy)
    along = torch.linspace(0.5, 2.0, 4, dtype=torch.float64)
    ours, theirs = (
        torch.autograd.grad((along * (of.log_likelihood + 0.3 * of.entropy)).sum(), own) for of in (spaced, plain)
    )
    torch.testing.assert_close(ours, theirs)


def test_gradients_are_slopes():
    logits = torch.randn(6, 2, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64).requires_grad_()
    rest = torch.tensor([[1, 2], [2, 2]]), torch.tensor([6, 5]), torch.tensor([2, 2])
    assert torch.autograd.gradcheck(lambda x: tuple(spaced_paths(x.log_softmax(-1), *rest, rate=0.8)), logits)


def test_labels_without_a_path_and_empty_ones():
    own = log_probs(4, 3, 2, 3).requires_grad_()
    targets = torch.tensor([[1, 1, 1], [0, 0, 0], [1, 2, 0]])
    found = spaced_paths(own, targets, torch.full((3,), 4), torch.tensor([3, 0, 2]), 0.5)
    assert found.log_likelihood[0] == -math.inf
    assert float(found.log_likelihood[1].detach()) == pytest.approx(float(own.detach()[:, 1, 0].sum()))
    assert found.entropy[:2].tolist() == [0, 0]
    (gradient,) = torch.autograd.grad(found.log_likelihood[1:].sum() + found.entropy.sum(), own)
    assert gradient.isfinite().all()
