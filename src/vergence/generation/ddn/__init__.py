"""Restoring pictures from linear measurements, split into what was measured and what is invented."""

from vergence.contract.about import About

ABOUT = About(
    name="ddn",
    title="Deep Decomposition Learning for Inverse Imaging Problems",
    authors=("Dongdong Chen", "Mike E. Davies"),
    venue="ECCV 2020",
    tasks=("super-resolution", "inpainting", "deblurring", "magnetic resonance imaging"),
    brief="enlarges, fills, sharpens photographs",
    summary=(
        "A picture is restored from few, noisy, linear measurements: a small copy, a blurred one, one with holes, some "
        "of its frequencies. One network removes noise from what was measured, another adds what was not, and exact "
        "projections keep them apart: the result says which part of it was measured and which was invented."
    ),
    key="chen2020deep",
    links=("https://arxiv.org/abs/1911.11028", "https://github.com/edongdongchen/DDN"),
)
