"""Top-k accuracy."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vergence.core.errors import VergenceError
from vergence.metrics import topk_accuracy


@given(st.integers(0, 10_000), st.integers(1, 6))
def test_it_equals_a_stable_sort(seed, k):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randint(0, 4, (20, 6), generator=generator).float()  # many ties
    labels = torch.randint(0, 6, (20,), generator=generator)
    ranked = logits.argsort(dim=1, descending=True, stable=True)[:, :k]
    expected = sum(int(label) in row for row, label in zip(ranked.tolist(), labels, strict=True)) / 20 * 100
    assert topk_accuracy(logits, labels, k) == pytest.approx(expected)


def test_nan_is_never_right():
    assert topk_accuracy(torch.tensor([[float("nan"), 0.0]]), torch.tensor([0])) == 0
    assert topk_accuracy(torch.tensor([[float("nan"), 0.0]]), torch.tensor([1])) == 0


@pytest.mark.parametrize(
    ("logits", "labels", "said"),
    [
        (torch.zeros(0, 3), torch.zeros(0, dtype=torch.long), "0 labels"),
        (torch.zeros(2, 3), torch.tensor([0]), "1 labels for 2 rows"),
        (torch.zeros(1, 3), torch.tensor([3]), "outside 0 to 2"),
    ],
)
def test_what_does_not_fit_is_refused(logits, labels, said):
    with pytest.raises(VergenceError, match=said):
        topk_accuracy(logits, labels)
