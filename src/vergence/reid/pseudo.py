"""Labels for pictures without any: clusters of their descriptors, and which pictures to trust.

Four ways, under one result: every picture joins the nearest centre; every centre claims its nearest pictures, by
Euclidean distance or by the Jaccard distance of k-reciprocal neighbourhoods (Algorithm 1 of Ji et al., ECCV 2020), and
pictures claimed twice are dropped; or dense regions of the Jaccard distance are clusters (Song et al., 2020).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
import torch
from torch import Tensor

from vergence.ops.kmeans import kmeans
from vergence.ops.reciprocal import encoded, jaccard, neighbours, reciprocal

DROPPED = -1
"""The label of a picture that belongs to no cluster."""
DENSITY = 1.6e-3
"""dbscan: the share of all pairs whose mean distance is the radius of a neighbourhood."""
LEAST = 4
"""dbscan: the number of pictures in the neighbourhood of one that a cluster grows from."""


@dataclass(frozen=True)
class Pseudo:
    """Labels of N pictures."""

    labels: Tensor
    """(N,), clusters counted from 0; -1 for pictures that are dropped."""
    claims: Tensor
    """(N,), how many clusters claimed each picture: none, one, or several, which is why it is dropped."""

    @property
    def kept(self) -> Tensor:
        """(N,), which pictures have a label."""
        return self.labels != DROPPED

    @property
    def clusters(self) -> int:
        return int(self.labels.max()) + 1 if len(self.labels) else 0

    def quality(self, identities: Tensor | None = None) -> dict[str, float]:
        """The share of pictures that are kept and the number of clusters; with ``identities`` (N,), the normalised
        mutual information of the kept labels with them (Eq. 7), which training never sees."""
        told = {"kept": float(self.kept.double().mean()), "clusters": float(self.clusters)}
        if identities is not None and self.kept.any():
            from sklearn.metrics import normalized_mutual_info_score

            pair = (identities[self.kept].cpu().numpy(), self.labels[self.kept].cpu().numpy())
            told["nmi"] = float(normalized_mutual_info_score(*pair, average_method="geometric"))
        return told


def all_to_centres(descriptors: Tensor, count: int, generator: torch.Generator) -> Pseudo:
    """Every picture (N, D) joins the nearest of ``count`` centres."""
    labels = kmeans(descriptors, count, generator).labels
    return _kept(labels, torch.ones_like(labels))


def euclidean_top(descriptors: Tensor, count: int, top: int, generator: torch.Generator) -> Pseudo:
    """Each of ``count`` centres claims the ``top`` nearest pictures; those claimed once are kept."""
    centres = kmeans(descriptors, count, generator).centres
    place = torch.cdist(centres, descriptors).topk(min(top, len(descriptors)), largest=False).indices
    claimed_by = torch.arange(count, device=place.device).unsqueeze(1).expand_as(place)
    return _claimed(claimed_by.flatten(), place.flatten(), len(descriptors))


def two_stage(
    descriptors: Tensor, count: int, top: int, k: int, generator: torch.Generator, fuzzy: bool = False
) -> Pseudo:
    """k-means gives ``count`` centres, which claim pictures by :func:`claimed_by_neighbourhoods` (Algorithm 1)."""
    return claimed_by_neighbourhoods(descriptors, kmeans(descriptors, count, generator).centres, top, k, fuzzy)


def claimed_by_neighbourhoods(descriptors: Tensor, centres: Tensor, top: int, k: int, fuzzy: bool = False) -> Pseudo:
    """Each of the ``centres`` (M, D) claims the ``top`` pictures whose neighbourhoods overlap most with its own; those
    claimed once are kept. ``fuzzy`` takes the weighted and widened neighbourhoods of Zhong et al.

    Centres are no pictures: neighbourhoods of size ``k`` are those of pictures and centres together, each point its own
    neighbour too. Pictures whose neighbourhood is disjoint are never claimed; ties go to the nearer one.
    """
    pictures, count = len(descriptors), len(centres)
    together = torch.cat([descriptors, centres])
    near = neighbours(together, min(k + 1, len(together)))
    sets = encoded(together, near, near.places.shape[1] - 1) if fuzzy else reciprocal(near, near.places.shape[1])
    overlap = _overlaps(sets, pictures) if not fuzzy else jaccard(sets).tocsr()[pictures:, :pictures].tocoo()
    centre, picture = (torch.from_numpy(side.astype(np.int64)) for side in (overlap.row, overlap.col))
    far = (descriptors[picture] - centres[centre]).norm(dim=1).cpu().numpy()
    order = np.lexsort((far, -overlap.data, overlap.row))
    starts = np.searchsorted(overlap.row[order], np.arange(count))
    rank = np.arange(len(order)) - starts[overlap.row[order]]
    best = torch.from_numpy(order[rank < top])
    return _claimed(centre[best], picture[best], pictures)


def _overlaps(sets: sparse.csr_array, pictures: int) -> sparse.coo_array:
    """Overlap over union of the sets of centres (rows from ``pictures`` on) with those of pictures; zeros are not
    stored."""
    sizes = np.asarray(sets.sum(1)).ravel()
    shared = (sets[pictures:] @ sets[:pictures].T).tocoo()
    union = sizes[pictures:][shared.row] + sizes[:pictures][shared.col] - shared.data
    return sparse.coo_array((shared.data / union, (shared.row, shared.col)), shared.shape)


def dense_regions(descriptors: Tensor, k: int = 20, density: float = DENSITY, least: int = LEAST) -> Pseudo:
    """Clusters by DBSCAN on Jaccard distances between fuzzy neighbourhoods; what is in no dense region is dropped."""
    from sklearn.cluster import DBSCAN

    count = len(descriptors)
    near = neighbours(descriptors, min(k + 1, count))
    alike = jaccard(encoded(descriptors, near, near.places.shape[1] - 1)).tocsr()
    far = alike.copy()
    far.data = np.clip(1 - alike.data, 1e-12, 1)  # zeros would count as missing
    upper = np.sort(sparse.triu(far, 1).data)
    wanted = max(round(density * count * (count - 1) / 2), 1)
    radius = float(np.concatenate([upper[:wanted], np.ones(max(wanted - len(upper), 0))]).mean())
    found = DBSCAN(eps=max(radius, 1e-9), min_samples=least, metric="precomputed").fit(sparse.csr_matrix(far)).labels_
    labels = torch.from_numpy(found.astype(np.int64))
    return _kept(labels, (labels >= 0).long())


def _claimed(clusters: Tensor, pictures: Tensor, count: int) -> Pseudo:
    """Labels of ``count`` pictures from pairs of cluster and picture; pictures in more than one pair are dropped."""
    clusters, pictures = clusters.cpu(), pictures.cpu()
    claims = pictures.bincount(minlength=count)
    labels = torch.full((count,), DROPPED)
    once = claims[pictures] == 1
    labels[pictures[once]] = clusters[once]
    return _kept(labels, claims)


def _kept(labels: Tensor, claims: Tensor) -> Pseudo:
    """Labels counted from 0, without clusters of a single picture, which has no partner to learn from."""
    labels = labels.cpu().clone()
    inside = labels != DROPPED
    sizes = labels[inside].bincount(minlength=int(labels.max()) + 1) if inside.any() else labels.new_zeros(0)
    numbers = torch.where(sizes >= 2, (sizes >= 2).long().cumsum(0) - 1, DROPPED)
    labels[inside] = numbers[labels[inside]]
    return Pseudo(labels, claims.cpu())
