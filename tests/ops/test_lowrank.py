"""Low-rank approximation by sampling: exact at full rank, solved and not inverted, finite where softmax saturates."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from vergence.ops import Patches, sampled
from vergence.ops.affinity import SoftmaxAffinity, ThinSoftmaxAffinity
from vergence.ops.lowrank import InPatch, LowRank, SoftmaxInPatch, landmark_block, plain_block, solve


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_sampling_is_exact_when_the_block_has_the_rank_of_the_matrix():
    matrix = normal(2, 20, 4) @ normal(2, 4, 20, seed=1)  # rank 4, neither symmetric nor definite
    rows, columns = torch.tensor([3, 7, 11, 19]), torch.tensor([0, 5, 6, 13])
    approximation = sampled(matrix, rows, columns)
    torch.testing.assert_close(approximation.dense(), matrix)
    z = normal(2, 20, 3, seed=2)
    torch.testing.assert_close(approximation @ z, matrix @ z)


def test_sampling_reproduces_the_rows_and_columns_it_took_of_any_matrix():
    matrix = normal(12, 12)
    rows, columns = torch.tensor([1, 4, 9]), torch.tensor([0, 2, 8])
    dense = sampled(matrix, rows, columns).dense()
    torch.testing.assert_close(dense[rows], matrix[rows])
    torch.testing.assert_close(dense[:, columns], matrix[:, columns])
    assert (dense - matrix).abs().max() > 0.1


def test_gradients_of_the_product_are_those_of_the_definition():
    matrix, z = normal(9, 9).requires_grad_(), normal(9, 2, seed=1).requires_grad_()
    rows, columns = torch.tensor([1, 4, 8]), torch.tensor([0, 2, 5])
    plain = matrix[:, columns] @ torch.linalg.inv(matrix[rows][:, columns]) @ matrix[rows] @ z
    ours = sampled(matrix, rows, columns) @ z
    torch.testing.assert_close(ours, plain)
    probe = normal(9, 2, seed=2)
    leaves = (matrix, z)
    torch.testing.assert_close(torch.autograd.grad(ours, leaves, probe), torch.autograd.grad(plain, leaves, probe))


def test_gradients_of_a_sampled_matrix_are_those_of_finite_differences():
    matrix, z = normal(5, 5).requires_grad_(), normal(5, 2, seed=1).requires_grad_()
    rows, columns = torch.tensor([1, 4]), torch.tensor([0, 2])
    assert torch.autograd.gradcheck(lambda a, z: sampled(a, rows, columns) @ z, (matrix, z))
    assert torch.autograd.gradcheck(lambda a: sampled(a, rows, columns).coefficients(rows), (matrix,))


@pytest.mark.parametrize("block", [landmark_block, plain_block])
def test_gradients_of_the_approximation_by_landmarks_are_those_of_finite_differences(block):
    patches = Patches(3, 2, 2, 1)
    leaves = [normal(*shape, seed=s).requires_grad_() for s, shape in enumerate(((6, 2), (6, 2), (6, 1)))]

    def run(query, key, z):
        query_, key_ = patches.mean(query), patches.mean(key)
        left = SoftmaxInPatch(ThinSoftmaxAffinity(query, key_), patches)
        return LowRank(left, ThinSoftmaxAffinity(query_, key), block(query_, key_)) @ z

    assert torch.autograd.gradcheck(run, leaves)


def test_rows_and_products_of_the_factors_are_those_of_their_matrices():
    patches, query, key = Patches(5, 3, 2, 2), normal(2, 15, 4), normal(2, 4, 4, seed=1)
    z, index = normal(2, 4, 3, seed=2), torch.tensor([0, 7, 14])
    for factor in (InPatch(patches, query), SoftmaxInPatch(SoftmaxAffinity(query, key), patches)):
        torch.testing.assert_close(factor @ z, factor.dense() @ z)
        torch.testing.assert_close(factor.rows(index), factor.dense()[..., index, :])


@pytest.mark.parametrize("kind", [SoftmaxAffinity, ThinSoftmaxAffinity])
@pytest.mark.parametrize("widths", [(4, 9), (4, 4), (9, 4)])
def test_attention_with_values_of_another_width_is_its_definition(kind, widths):
    inner, outer = widths
    query, key, value = (normal(2, 1, 11, n, seed=s).requires_grad_() for s, n in enumerate((inner, inner, outer)))
    plain = (query @ key.mT).softmax(-1) @ value
    ours = kind(query, key) @ value
    torch.testing.assert_close(ours, plain)
    probe, leaves = normal(*ours.shape, seed=5), (query, key, value)
    torch.testing.assert_close(torch.autograd.grad(ours, leaves, probe), torch.autograd.grad(plain, leaves, probe))


def test_no_tensor_of_attention_with_wide_values_has_n_by_n_entries():
    positions = 400
    query, key, value = torch.randn(3, 1, 1, positions, 8).unbind()
    value = torch.cat([value, value], -1)
    seen = largest(lambda: SoftmaxAffinity(query, key) @ value)
    assert seen < positions * positions
    fallback = lambda: scaled_dot_product_attention(query, key, value)  # noqa: E731
    assert largest(fallback) >= positions * positions  # what it avoids


def largest(work):
    """Number of entries of the largest tensor that any operation of ``work`` returns."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        most = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for t in out if isinstance(out, tuple | list) else [out]:
                if isinstance(t, torch.Tensor):
                    self.most = max(self.most, t.numel())
            return out

    with Watch() as watch, torch.no_grad():
        work()
    return watch.most


@pytest.mark.parametrize(("scale", "least"), [(0.01, 0.9), (1.0, 1e-2), (10.0, 1e-12), (100.0, 1e-16)])
def test_the_landmark_block_with_the_indicator_is_not_singular_however_sharp_the_softmax(scale, least):
    """Sharp logits still come close to singular: Eq. 16 guarantees that an inverse exists, not that it is small."""
    for seed in range(20):
        block = landmark_block(scale * normal(12, 5, seed=seed), normal(12, 5, seed=100 + seed))
        assert torch.linalg.svdvals(block).min() > least
        torch.testing.assert_close(block.sum(-1), torch.full((12,), 2.0, dtype=torch.float64))
        assert solve(block, normal(12, 2)).isfinite().all()


def test_landmarks_that_look_only_at_each_other_still_give_something_finite():
    swapped = torch.eye(6)[[1, 0, 3, 2, 5, 4]]  # softmax of large logits is this permutation, and it + 1 is singular
    query, key = 300 * swapped, torch.eye(6)
    assert torch.equal(plain_block(query, key), swapped)
    assert torch.linalg.matrix_rank(swapped + torch.eye(6)) == 3
    out = solve(landmark_block(query, key), torch.randn(6, 2))
    assert out.isfinite().all()


def test_half_precision_is_solved_in_single():
    block = landmark_block(normal(8, 4).bfloat16(), normal(8, 4, seed=1).bfloat16())
    assert block.dtype == torch.float32
    assert solve(block, normal(8, 2).bfloat16()).dtype == torch.bfloat16
