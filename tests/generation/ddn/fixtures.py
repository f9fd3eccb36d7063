"""Small data sets in the public layouts, written with NumPy, Pillow and h5py, and a photograph with scratches."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

XML = b"""<?xml version="1.0"?><ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD"><encoding><encodedSpace><matrixSize>
<x>40</x><y>36</y><z>1</z></matrixSize></encodedSpace></encoding></ismrmrdHeader>"""


def photo(seed=0, height=48, width=60):
    noise = np.random.default_rng(seed).normal(size=(height, width, 3))
    smooth = gaussian_filter(noise, (1.5, 1.5, 0))
    return ((smooth - smooth.min()) / np.ptp(smooth) * 255).astype(np.uint8)


def _save(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def bsds(path):
    for split, count in (("train", 3), ("test", 2)):
        for number in range(count):
            _save(path / "images" / split / f"{8000 + number}.jpg", photo(number))


def set5(path):
    for number, name in enumerate(("baby", "bird")):
        _save(path / f"{name}.png", photo(number))
    _save(path / "butterfly.bmp", photo(2))


def flat(path):
    for number in range(6):
        _save(path / f"{number}.png", photo(number))


def parted(path):
    for split in ("train", "test"):
        _save(path / split / "a.png", photo())


def kspace(seed, *shape):
    """Centred k-space of a smooth picture."""
    values = np.random.default_rng(seed).normal(size=shape)
    picture = gaussian_filter(values, (*[0] * (len(shape) - 2), 2, 2)) * (1 + 0.5j)
    spectrum = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(picture, (-2, -1)), norm="ortho"), (-2, -1))
    return spectrum.astype(np.complex64)


def _scan(path, seed, coils):
    h5py = pytest.importorskip("h5py")

    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (2, 3, 40, 36) if coils else (2, 40, 36)
    with h5py.File(path, "w") as file:
        file["kspace"] = kspace(seed, *shape)
        file["ismrmrd_header"] = XML
        file["reconstruction_rss" if coils else "reconstruction_esc"] = np.zeros((2, 32, 32), np.float32)
        file.attrs.update(acquisition="CORPD_FBK", max=1.0, norm=1.0, patient_id="0")


def singlecoil(path):
    for number, split in enumerate(("train", "val")):
        _scan(path / f"singlecoil_{split}" / f"file{1000000 + number}.h5", number, False)


def multicoil(path):
    for number, split in enumerate(("train", "val")):
        _scan(path / f"multicoil_{split}" / f"file{1000000 + number}.h5", number, True)


def arrays(path):
    for number, split in enumerate(("train", "test")):
        (path / split).mkdir(parents=True)
        values = np.random.default_rng(number).uniform(size=(10, 24, 24)).astype(np.float32)
        np.save(path / split / "slice.npy", values)


layouts = {
    "bsds": bsds,
    "benchmark": set5,
    "fastmri": {"singlecoil": singlecoil, "multicoil": multicoil},
    "arrays": arrays,
    "folder": {"flat": flat, "parted": parted},
}


def prediction(folder):
    _save(folder / "photo.png", photo())
    holes = np.zeros((48, 60), np.uint8)
    holes[20:23, 5:50] = 255
    _save(folder / "mask.png", holes)
    return ["photo.png", "--task", "inpaint", "--mask", "mask.png"]
