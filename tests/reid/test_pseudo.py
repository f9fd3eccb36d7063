"""Labels from clusters: what is claimed once is kept, neighbourhoods decide, and quality is told."""

import itertools

import pytest
import torch

from vergence.reid.pseudo import Pseudo, all_to_centres, dense_regions, euclidean_top, two_stage


def people(identities=12, each=8, spread=0.3, camera=0.0, seed=0):
    """Descriptors around one point per identity, shifted by the camera."""
    source = torch.Generator().manual_seed(seed)
    own = torch.randn(identities, 1, 16, generator=source, dtype=torch.float64)
    noise = spread * torch.randn(identities, each, 16, generator=source, dtype=torch.float64)
    shift = camera * torch.randn(4, 16, generator=source, dtype=torch.float64)[torch.arange(each) % 4]
    return (own + noise + shift).flatten(0, 1), torch.arange(identities).repeat_interleave(each)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def by_definition(points, centres, top, k):
    """Algorithm 1 with Python's own sets."""
    together = torch.cat([points, centres])
    nearest = torch.cdist(together, together).argsort(dim=1, stable=True)[:, : k + 1].tolist()
    sets = [{j for j in near if i in nearest[j]} for i, near in enumerate(nearest)]
    claims = [[] for _ in points]
    for m in range(len(centres)):
        own = sets[len(points) + m]
        far = []
        for n in range(len(points)):
            shared, union = own & sets[n], own | sets[n]
            if shared:
                far.append((1 - len(shared) / len(union), float((points[n] - centres[m]).norm()), n))
        for _, _, n in sorted(far)[:top]:
            claims[n].append(m)
    return claims


@pytest.mark.parametrize("seed", range(3))
def test_two_stages_follow_the_algorithm(seed):
    from vergence.ops.kmeans import kmeans

    points, _ = people(6, 7, 0.8, camera=0.5, seed=seed)
    found = two_stage(points, 8, 4, 5, seeded())
    claims = by_definition(points, kmeans(points, 8, seeded()).centres, 4, 5)
    assert found.claims.tolist() == [len(by) for by in claims]
    once = [by[0] if len(by) == 1 else None for by in claims]
    sizes = {m: once.count(m) for m in set(once)}
    for a, b in itertools.combinations(range(len(points)), 2):
        if once[a] is None or sizes[once[a]] < 2:
            assert found.labels[a] == -1
        elif once[b] is not None and sizes[once[b]] >= 2:
            assert (found.labels[a] == found.labels[b]) == (once[a] == once[b])


def test_labels_are_the_same_for_scaled_descriptors_and_follow_their_order():
    points, _ = people(8, 6, 0.9)
    first = two_stage(points, 8, 5, 5, seeded()).labels
    assert torch.equal(first, two_stage(8 * points, 8, 5, 5, seeded()).labels)


def test_at_most_so_many_are_kept_as_are_claimed_and_labels_count_from_zero():
    points, _ = people(10, 8, 1.0, camera=1.0)
    for found in (two_stage(points, 12, 3, 6, seeded()), euclidean_top(points, 12, 3, seeded())):
        assert int(found.kept.sum()) <= 12 * 3
        assert (found.claims[found.kept] == 1).all()
        labels = found.labels[found.kept]
        assert labels.unique().tolist() == list(range(found.clusters))
        assert (labels.bincount() >= 2).all()


def test_twice_the_same_centre_drops_all_that_both_claim():
    points = torch.cat([torch.zeros(4, 3), torch.ones(4, 3) * 9]) + torch.arange(8)[:, None] * 1e-3
    found = euclidean_top(torch.cat([points, points]), 16, 16, seeded())
    assert not found.kept.any()
    assert found.quality()["kept"] == 0


def test_separate_people_are_found_by_every_way():
    points, identities = people(10, 8, 0.05)
    for found in (
        all_to_centres(points, 10, seeded()),
        euclidean_top(points, 10, 8, seeded()),
        two_stage(points, 10, 8, 7, seeded()),
        two_stage(points, 10, 8, 7, seeded(), fuzzy=True),
        dense_regions(points, 7, density=0.12),
    ):
        told = found.quality(identities)
        assert told["nmi"] == pytest.approx(1)
        assert told["kept"] == 1
        assert told["clusters"] == 10


def test_quality_does_not_depend_on_the_names_of_clusters():
    labels = torch.tensor([0, 0, 1, 1, 2, 2, -1])
    identities = torch.tensor([5, 5, 6, 7, 8, 8, 9])
    renamed = torch.tensor([2, 2, 0, 0, 1, 1, -1])
    ones = torch.ones(7, dtype=torch.long)
    first, second = (Pseudo(names, ones).quality(identities) for names in (labels, renamed))
    assert first == second
    assert 0 < first["nmi"] < 1


def test_identical_pictures_and_too_many_clusters():
    same = torch.ones(6, 3)
    assert two_stage(same, 2, 3, 2, seeded()).labels.shape == (6,)
    assert dense_regions(same, 3).labels.shape == (6,)
    with pytest.raises(ValueError, match="7 clusters"):
        two_stage(same, 7, 3, 2, seeded())


@pytest.mark.parametrize("seed", range(2))
def test_plain_forms_and_public_steps_give_the_same_claims(seed):
    from vergence.ops.kmeans import kmeans
    from vergence.reference.clusters import claims, public_claims
    from vergence.reid.pseudo import claimed_by_neighbourhoods

    points, _ = people(6, 7, 0.8, camera=0.5, seed=seed)
    centres = kmeans(points, 8, seeded()).centres
    plain = claims(points.numpy(), centres.numpy(), 4, 5)
    assert public_claims(points.numpy(), centres.numpy(), 4, 5) == plain == by_definition(points, centres, 4, 5)
    assert claimed_by_neighbourhoods(points, centres, 4, 5).claims.tolist() == [len(by) for by in plain]
