"""The index finds the same neighbours as brute force, and survives a round trip through its file."""

from pathlib import Path

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.search import Index
from vergence.search.index import _company, descriptors_by


def index(count=50):
    torch.manual_seed(0)
    return Index(torch.randn(count, 6), tuple(f"{i}.jpg" for i in range(count)), "weights")


def test_it_finds_the_nearest_in_order():
    kept, queries = index(), torch.randn(4, 6)
    far, places = kept.search(queries, 5)
    exact = torch.cdist(queries, kept.descriptors).sort(dim=1)
    assert torch.equal(places, exact.indices[:, :5])
    torch.testing.assert_close(far, exact.values[:, :5], rtol=1e-4, atol=1e-4)


def test_by_l1_it_finds_the_plain_ranking_also_from_its_file(tmp_path):
    torch.manual_seed(1)
    kept = Index(torch.randn(80, 33), tuple(map(str, range(80))), "weights", metric="l1")
    kept.save(tmp_path / "kept.safetensors")
    queries = torch.randn(5, 33)
    plain = (queries.double()[:, None] - kept.descriptors.double()).abs().sum(-1).sort(dim=1)
    assert not torch.equal(plain.indices, torch.cdist(queries, kept.descriptors).argsort(dim=1))
    for index in (
        kept,
        Index.load(tmp_path / "kept.safetensors", "weights"),
        kept.added(kept.descriptors[:1], ["more"]),
    ):
        far, places = index.search(queries, 20)
        assert index.metric == "l1"
        if len(index) == 80:
            assert torch.equal(places, plain.indices[:, :20])
            torch.testing.assert_close(far.double(), plain.values[:, :20], rtol=1e-5, atol=1e-5)


def test_an_approximate_index_has_no_l1():
    with pytest.raises(VergenceError, match="by l1 if it is flat; got 'l1' of kind 'hnsw'"):
        Index(torch.randn(80, 8), tuple(map(str, range(80))), "weights", "hnsw", metric="l1")


@pytest.mark.parametrize("count", [1, 3, 4, 50])
def test_a_large_index_finds_the_nearest_of_few_queries_and_of_many(count):
    import faiss

    source = torch.Generator().manual_seed(0)
    gallery, queries = (torch.nn.functional.normalize(torch.randn(n, 16, generator=source)) for n in (20_000, count))
    before = faiss.cvar.distance_compute_blas_threshold
    distances, places = Index(gallery, tuple(map(str, range(20_000))), "x").search(queries, 5)
    expected = torch.cdist(queries.double(), gallery.double()).topk(5, largest=False)
    assert (places == expected.indices).all()
    torch.testing.assert_close(distances.double(), expected.values, atol=1e-5, rtol=1e-5)
    assert faiss.cvar.distance_compute_blas_threshold == before


@pytest.mark.parametrize("lists", [1, 2, 17])
def test_sums_stay_with_their_lists_whatever_order_they_are_made_in(lists):
    kept = index()
    places, weights = torch.randint(50, (lists, 7)), torch.randn(lists, 7)
    places[::3] = places[0].clone()  # some lists are equal, and a position may repeat in a list
    expected = (weights[..., None].double() * kept.descriptors.double()[places]).sum(1)
    torch.testing.assert_close(kept.weighted(places, weights).double(), expected, rtol=1e-5, atol=1e-5)


def test_lists_that_share_positions_are_summed_one_after_another():
    groups = torch.randperm(40).reshape(4, 10)  # ten positions each, of which a list takes nine, in any order
    owner = torch.arange(12) % 4
    places = torch.stack([groups[g][torch.randperm(10)[:9]] for g in owner.tolist()])
    company = _company(places, 40)
    assert len(company.unique()) == 4
    assert all((company[owner == g] == company[g]).all() for g in range(4))


def test_asking_for_more_than_there_is_gives_all():
    assert index(3).search(torch.zeros(1, 6), 10)[1].shape == (1, 3)


def test_it_comes_back_from_its_file(tmp_path):
    kept = index()
    kept.save(tmp_path / "kept.safetensors")
    again = Index.load(tmp_path / "kept.safetensors", "weights")
    assert again.names == kept.names
    assert torch.equal(again.descriptors, kept.descriptors)


def test_one_made_by_other_weights_is_refused(tmp_path):
    index().save(tmp_path / "kept.safetensors")
    with pytest.raises(VergenceError, match="made with other weights"):
        Index.load(tmp_path / "kept.safetensors", "others")


def test_files_that_are_no_index_are_refused(tmp_path):
    save_tensors(tmp_path / "other.safetensors", {"x": torch.zeros(1)})
    (tmp_path / "text").write_text("hello")
    for name in ("other.safetensors", "text", "nothing"):
        with pytest.raises(VergenceError, match=name):
            Index.load(tmp_path / name)


def test_what_does_not_fit_is_refused():
    with pytest.raises(VergenceError, match="a name for each descriptor"):
        Index(torch.zeros(2, 3), ("one",), "w")
    with pytest.raises(VergenceError, match="not finite"):
        Index(torch.full((1, 3), float("nan")), ("one",), "w")
    with pytest.raises(VergenceError, match="descriptors of 6 numbers"):
        index().search(torch.zeros(1, 5), 1)


def test_weights_have_a_name_of_their_own():
    a, b = torch.zeros(3), torch.zeros(3)
    assert descriptors_by([a]) == descriptors_by([b])
    b[1] = 1e-30
    assert descriptors_by([a]) != descriptors_by([b])


# Other kinds ----------------------------------------------------------------------------------------------------------


def clustered(count=2000, dimension=32, seed=0):
    source = torch.Generator().manual_seed(seed)
    centres = torch.randn(40, dimension, generator=source)
    return centres[torch.randint(40, (count,), generator=source)] + 0.3 * torch.randn(
        count, dimension, generator=source
    )


def recall(found, exact):
    return float((found[:, :, None] == exact[:, None]).any(1).double().mean())


@pytest.mark.parametrize("kind", ["ivf", "hnsw", "ivfpq"])
def test_an_approximate_index_finds_most_of_the_nearest_and_tells_their_distance(kind):
    gallery, queries = clustered(), clustered(50, seed=0)
    kept = Index(gallery, tuple(map(str, range(2000))), "w", kind, effort=32)
    far, places = kept.search(queries, 10)
    exact = torch.cdist(queries, gallery).topk(10, largest=False)
    assert recall(places, exact.indices) > 0.9
    torch.testing.assert_close(far, (gallery[places] - queries[:, None]).norm(dim=-1), rtol=1e-3, atol=1e-2)
    assert (far.diff(dim=1) >= 0).all()


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw", "ivfpq"])
def test_every_kind_comes_back_from_its_file_and_grows(kind, tmp_path):
    gallery = clustered(600)
    kept = Index(gallery[:500], tuple(map(str, range(500))), "w", kind)
    kept.save(tmp_path / "kept.safetensors")
    again = Index.load(tmp_path / "kept.safetensors", "w")
    assert (again.kind, again.effort) == (kind, kept.effort)
    assert torch.equal(again.search(gallery[:9], 4)[1], kept.search(gallery[:9], 4)[1])
    grown = again.added(gallery[500:], [f"new {i}" for i in range(100)])
    assert len(grown) == 600
    assert len(again) == 500
    assert torch.equal(grown.search(gallery[500:], 1)[1][:, 0], torch.arange(500, 600))
    assert grown.names[599] == "new 99"


def test_names_may_hold_any_sign_but_zero(tmp_path):
    names = ("a\nb.jpg", "ü 漢.png", "")
    Index(torch.eye(3), names, "w").save(tmp_path / "kept.safetensors")
    assert Index.load(tmp_path / "kept.safetensors").names == names


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system does not list its maps")
def test_an_index_is_mapped_and_not_copied(tmp_path):
    Index(torch.randn(20_000, 64), tuple(map(str, range(20_000))), "w").save(tmp_path / "kept.safetensors")
    again = Index.load(tmp_path / "kept.safetensors")
    start = again.descriptors.data_ptr()
    with open("/proc/self/maps") as maps:
        spans = [line.split() for line in maps if "kept.safetensors" in line]
    assert any(int(s[0].split("-")[0], 16) <= start < int(s[0].split("-")[1], 16) for s in spans)


def test_a_structure_that_is_damaged_or_of_other_descriptors_is_refused(tmp_path):
    from vergence.reading.weights import load_tensors

    Index(clustered(300), tuple(map(str, range(300))), "w", "ivf").save(tmp_path / "kept.safetensors")
    tensors, metadata = load_tensors(tmp_path / "kept.safetensors")
    cut = {**tensors, "structure": tensors["structure"][:40].clone()}
    fewer = {
        **tensors,
        "descriptors": tensors["descriptors"][:-1].clone(),
        "names": tensors["names"][:-4].clone(),
    }
    for name, changed in (("cut", cut), ("fewer", fewer)):
        save_tensors(tmp_path / name, changed, metadata)
        with pytest.raises(VergenceError, match=f"{name} is damaged"):
            Index.load(tmp_path / name)


def test_kinds_that_cannot_be_made_are_refused():
    with pytest.raises(VergenceError, match="at least 256"):
        Index(torch.randn(100, 8), tuple(map(str, range(100))), "w", "ivfpq")
    with pytest.raises(VergenceError, match="not 'tree'"):
        Index(torch.randn(3, 8), ("a", "b", "c"), "w", "tree")
    with pytest.raises(VergenceError, match="of 6 numbers, those to add"):
        index().added(torch.zeros(1, 5), ["x"])
