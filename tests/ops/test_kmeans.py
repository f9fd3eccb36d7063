"""k-means agrees with scikit-learn's from the same seeds, and its seeds are spread out."""

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from vergence.ops import kmeans as module
from vergence.ops.kmeans import kmeans, lloyd, seeds


def blobs(count, each, spread, seed=0):
    source = torch.Generator().manual_seed(seed)
    centres = 20 * torch.randn(count, 6, generator=source, dtype=torch.float64)
    return (centres[:, None] + spread * torch.randn(count, each, 6, generator=source, dtype=torch.float64)).flatten(
        0, 1
    )


def test_lloyd_gives_scikit_learns_clusters_from_the_same_seeds(monkeypatch):
    points = blobs(12, 15, 12.0)
    start = points[:8].clone()
    theirs = KMeans(8, init=start.numpy(), n_init=1, tol=0, algorithm="lloyd").fit(points.numpy())
    ours = lloyd(points, start)
    assert np.array_equal(ours.labels.numpy(), theirs.labels_)
    assert np.allclose(ours.centres.numpy(), theirs.cluster_centers_)
    monkeypatch.setattr(module, "BLOCK", 50)
    assert torch.equal(lloyd(points, start).labels, ours.labels)


def test_seeds_fall_into_different_blobs_where_uniform_ones_do_not():
    points = blobs(10, 30, 0.01)
    found = [seeds(points, 10, torch.Generator().manual_seed(seed)) for seed in range(5)]
    for centres in found:
        blob = torch.cdist(centres, points).argmin(1) // 30
        assert len(set(blob.tolist())) == 10
    assert not torch.equal(found[0], found[1])


def test_clusters_of_separate_blobs_are_the_blobs():
    points = blobs(7, 20, 0.5)
    labels = kmeans(points, 7, torch.Generator().manual_seed(1)).labels.view(7, 20)
    assert (labels == labels[:, :1]).all()
    assert len(set(labels[:, 0].tolist())) == 7


def test_a_cluster_without_points_goes_where_one_is_needed():
    points = blobs(3, 10, 0.1)
    start = torch.stack([points[0], points[0] + 1e6, points[10]])
    assert len(set(lloyd(points, start).labels.tolist())) == 3


def test_identical_points_and_too_many_clusters():
    same = torch.ones(5, 3)
    assert kmeans(same, 3, torch.Generator()).labels.unique().numel() == 1
    with pytest.raises(ValueError, match="6 clusters need a matrix of at least 6 points"):
        kmeans(same, 6, torch.Generator())
