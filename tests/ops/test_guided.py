"""The guided filter against its definition, window by window, and in closed form."""

import torch

from vergence.ops.guided import guided, window_means


def by_windows(maps, guide, radius, eps):
    """The linear function of every window by least squares, averaged over the windows of each pixel."""
    channels, height, width = guide.shape
    total, count = torch.zeros(height, width).double(), torch.zeros(height, width).double()
    functions = {}
    for y in range(height):
        for x in range(width):
            rows, columns = slice(max(y - radius, 0), y + radius + 1), slice(max(x - radius, 0), x + radius + 1)
            some, values = guide[:, rows, columns].flatten(1), maps[rows, columns].flatten()
            away = some - some.mean(1, keepdim=True)
            spread = away @ away.T / len(values) + eps * torch.eye(channels).double()
            slope = torch.linalg.solve(spread, away @ (values - values.mean()) / len(values))
            functions[y, x] = slope, values.mean() - slope @ some.mean(1)
    for (y, x), (slope, offset) in functions.items():
        rows, columns = slice(max(y - radius, 0), y + radius + 1), slice(max(x - radius, 0), x + radius + 1)
        own = torch.zeros(height, width, dtype=torch.bool)
        own[rows, columns] = True
        ys, xs = own.nonzero(as_tuple=True)
        # Coefficients are averaged over windows centred around a pixel, which are those that hold it.
        total[ys, xs] += slope @ guide[:, ys, xs] + offset
        count[ys, xs] += 1
    return total / count


def test_it_is_the_mean_of_the_least_squares_fits_of_all_windows():
    source = torch.Generator().manual_seed(0)
    guide = torch.rand(3, 7, 9, generator=source, dtype=torch.float64)
    maps = torch.rand(7, 9, generator=source, dtype=torch.float64)
    theirs = by_windows(maps, guide, 2, 0.01)
    torch.testing.assert_close(guided(maps[None, None], guide[None], 2, 0.01)[0, 0], theirs)


def test_a_constant_stays_and_a_linear_function_of_the_guide_is_kept():
    guide = torch.rand(1, 4, 12, 15, dtype=torch.float64)
    torch.testing.assert_close(guided(torch.full((1, 1, 12, 15), 0.3).double(), guide, 3, 1e-3),
                               torch.full((1, 1, 12, 15), 0.3).double())  # fmt: skip
    linear = 0.2 + guide[:, :1] - 0.5 * guide[:, 2:3]
    torch.testing.assert_close(guided(linear, guide, 3, 1e-12), linear, rtol=0, atol=1e-8)


def test_without_slopes_it_is_the_mean_of_means():
    guide, maps = torch.rand(1, 2, 10, 11, dtype=torch.float64), torch.rand(1, 1, 10, 11, dtype=torch.float64)
    twice = window_means(window_means(maps, 2), 2)
    torch.testing.assert_close(guided(maps, guide, 2, 1e12), twice)


def test_gradients_are_right():
    guide, maps = (torch.rand(1, c, 5, 6, dtype=torch.float64, requires_grad=True) for c in (2, 1))
    assert torch.autograd.gradcheck(lambda g, m: guided(m, g, 1, 0.05), (guide, maps))


def test_functions_of_small_copies_are_applied_at_full_size_and_keep_its_edge():
    full = torch.zeros(1, 1, 40, 40)
    full[..., 20:] = 1.0
    small = torch.nn.functional.avg_pool2d(full, 4)
    sharp = guided(small, small, 2, 1e-6, full)
    soft = torch.nn.functional.interpolate(small, (40, 40), mode="bilinear", align_corners=False)
    assert sharp.shape == full.shape
    assert (sharp - full).abs().mean() < (soft - full).abs().mean() / 2
    assert float(sharp[0, 0, 5, 20] - sharp[0, 0, 5, 19]) > 0.8
