"""The triplet loss against a loop over all triplets, and for a batch of a single identity."""

import itertools

import pytest
import torch

from vergence.ops.triplet import batch_hard


def by_loops(features, identities, margin, power=1):
    total = 0.0
    for anchor, own in enumerate(identities):
        far = [torch.dist(features[anchor], f) for f, other in zip(features, identities, strict=True) if other == own]
        near = [torch.dist(features[anchor], f) for f, other in zip(features, identities, strict=True) if other != own]
        total = total + torch.relu(max(far) ** power - min(near) ** power + margin)
    return total / len(identities)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("margin", [0.0, 0.3, 5.0])
def test_it_is_the_mean_over_anchors_of_the_hardest_triplet_forward_and_backward(margin, squared):
    source = torch.Generator().manual_seed(0)
    identities = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2])
    features = torch.randn(8, 5, generator=source, dtype=torch.float64).requires_grad_()
    ours = batch_hard(features, identities, margin, squared)
    theirs = by_loops(features, identities.tolist(), margin, 2 if squared else 1)
    torch.testing.assert_close(ours, theirs)
    grads = [torch.autograd.grad(loss, features, retain_graph=True)[0] for loss in (ours, theirs)]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("margin", [0.3, 5.0])
def test_gradients_are_those_of_finite_differences(margin):
    source = torch.Generator().manual_seed(1)
    features = torch.randn(6, 3, generator=source, dtype=torch.float64).requires_grad_()
    identities = torch.tensor([0, 0, 1, 1, 2, 2])
    assert batch_hard(features, identities, margin) > 0
    assert torch.autograd.gradcheck(lambda f: batch_hard(f, identities, margin), (features,))


def test_one_identity_alone_gives_nothing_and_equal_features_give_finite_gradients():
    features = torch.ones(4, 3, requires_grad=True)
    alone = batch_hard(features, torch.zeros(4, dtype=torch.long), 0.3)
    assert float(alone.detach()) == 0
    loss = batch_hard(features, torch.tensor([0, 0, 1, 1]), 0.3)
    assert float(loss.detach()) == pytest.approx(0.3, abs=1e-5)
    (grad,) = torch.autograd.grad(loss, features)
    assert grad.isfinite().all()


def test_clusters_that_are_apart_by_the_margin_cost_nothing():
    features = torch.tensor([[0.0, 0.0], [0.1, 0.0], [2.0, 0.0], [2.1, 0.0]])
    identities = torch.tensor([0, 0, 1, 1])
    assert float(batch_hard(features, identities, 1.7)) == 0
    # Anchors 0 and 3 have 0.1 - 2.0 + 1.95, anchors 1 and 2 have 0.1 - 1.9 + 1.95.
    assert float(batch_hard(features, identities, 1.95)) == pytest.approx((0.05 + 0.15) / 2, abs=1e-5)
    orders = [batch_hard(features[list(p)], identities[list(p)], 1.95) for p in itertools.permutations(range(4))]
    assert max(orders) - min(orders) < 1e-6
