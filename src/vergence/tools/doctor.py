"""Check the installation: versions, PyTorch's kernels, threads, disk, optional packages, systems and run folders.

PyTorch is first tried in a child process, because a faulty kernel crashes the process that runs it.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Literal

from vergence import catalogue
from vergence._version import __version__
from vergence.core.errors import VergenceError, reason
from vergence.core.progress import Progress
from vergence.reading.tables import read_json
from vergence.reading.weights import read_metadata
from vergence.runs.folder import ROOT, Run

State = Literal["sound", "note", "unsound"]

OPTIONAL = {
    "h5py": "data sets in HDF5",
    "onnx": "vergence export --to onnx",
    "onnxscript": "vergence export --to onnx",
    "onnxruntime": "checking exported ONNX files",
    "tensorboard": "viewing the event files of runs",
    "gradio": "live demos",
    "numba": "exact assignment in a fraction of SciPy's time",
}
LITTLE, TOO_LITTLE = 2 * 2**30, 100 * 2**20
"""Free disk space in bytes below which a note is shown, and below which no run can be stored."""
SECONDS = 300
"""Time limit of a child process."""


@dataclass(frozen=True)
class Finding:
    """Result of one check."""

    what: str
    state: State
    said: str


def examine(root: Path = ROOT, progress: Progress | None = None) -> list[Finding]:
    """Run all checks; run folders are those below ``root``."""
    shown = progress or Progress()
    torch = list(_torch(shown))
    findings = [*_python(), *_packages(), *torch, *_threads(), *_disk(root), *_optional()]
    if torch[0].state == "unsound":
        return [*findings, Finding("systems", "note", "not checked: they need a working PyTorch")]
    return [*findings, *_systems(), *_runs(root, shown)]


# Parts that need no PyTorch ------------------------------------------------------------------------------------------


def _python() -> Iterator[Finding]:
    here = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Finding("python", "sound" if sys.version_info >= (3, 11) else "unsound", here)
    yield Finding("vergence", "sound", f"{__version__} in {catalogue.ROOT}")


def _packages() -> Iterator[Finding]:
    """Vergence's requirements and the installed versions."""
    try:
        needed = requires("vergence") or []
    except PackageNotFoundError:
        yield Finding("packages", "note", "Vergence is not installed as a package: its requirements are unknown")
        return
    from packaging.requirements import Requirement

    for requirement in map(Requirement, needed):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            there = version(requirement.name)
        except PackageNotFoundError:
            yield Finding(requirement.name, "unsound", f"not installed; {requirement} is needed")
            continue
        fits = requirement.specifier.contains(there, prereleases=True)
        yield Finding(
            requirement.name, "sound" if fits else "unsound", there if fits else f"{there}, needs {requirement}"
        )


def _threads() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    cores_text = f"{cores} cores" + (f", OMP_NUM_THREADS={wanted}" if wanted else "")
    if wanted and not wanted.replace(",", "").isdigit():
        yield Finding("threads", "unsound", f"{cores_text}: not a number of threads")
    elif wanted and int(wanted.split(",")[0] or 0) > cores:
        yield Finding("threads", "note", f"{cores_text}: more threads than cores make it slower")
    else:
        yield Finding("threads", "sound", cores_text)


def _disk(root: Path) -> Iterator[Finding]:
    place = next(p for p in [root.absolute(), *root.absolute().parents] if p.exists())
    try:
        with tempfile.TemporaryDirectory(dir=place, prefix=".vergence-doctor-") as folder:
            (Path(folder) / "a").write_bytes(b"x" * 4096)
            (Path(folder) / "a").replace(Path(folder) / "b")
    except OSError as error:
        yield Finding("runs folder", "unsound", f"{root} cannot be written to: {error.strerror or error}")
        return
    free = shutil.disk_usage(place).free
    state: State = "unsound" if free < TOO_LITTLE else "note" if free < LITTLE else "sound"
    yield Finding("runs folder", state, f"{root} can be written to, {free / 2**30:,.1f} GiB free")


def _optional() -> Iterator[Finding]:
    for package, use in OPTIONAL.items():
        try:
            yield Finding(package, "sound", f"{version(package)} (optional: {use})")
        except PackageNotFoundError:
            yield Finding(package, "note", f"not installed (optional: {use})")


# PyTorch, in a child -------------------------------------------------------------------------------------------------


def _ask(*words: str) -> dict[str, Any]:
    """Run a check in a child process; returns its report and how it failed, if it did."""
    source = str(catalogue.ROOT.parent)
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "vergence.tools.doctor", *words],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env=os.environ | {"PYTHONPATH": path},
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"did not end within {SECONDS} seconds"}
    except OSError as error:
        return {"failed": f"no child process can be started: {error}"}
    report: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        with suppress(ValueError):
            report |= json.loads(line)
    if done.returncode < 0:
        report["failed"] = f"the process was killed by {signal.Signals(-done.returncode).name}"
    elif done.returncode:
        last = done.stderr.strip().splitlines()
        report["failed"] = last[-1] if last else f"the process ended with code {done.returncode}"
    return report


def _torch(progress: Progress) -> Iterator[Finding]:
    """PyTorch's build, and its kernels on each device."""
    task = progress.start("trying PyTorch", None)
    try:
        report = _ask("torch")
        yield _torch_finding("torch build", report, report.get("build", ""))
        for device in report.get("devices", []):
            fine = "forward and backward agree with float64"
            yield _torch_finding(f"torch on {device}", _ask("kernels", device), fine)
    finally:
        progress.finish(task)


def _torch_finding(what: str, said: dict[str, Any], fine: str) -> Finding:
    if "failed" in said:
        during = f" in {said['step']}" if said.get("step") else ""
        return Finding(what, "unsound", f"{said['failed']}{during}")
    if said.get("wrong"):
        return Finding(what, "unsound", "; ".join(said["wrong"]))
    return Finding(what, "sound" if said.get("done") else "unsound", fine if said.get("done") else "said nothing")


def _say(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def _child(words: list[str]) -> None:
    """Entry point of the child process, which prints each step before trying it."""
    _say(step="import torch")
    import torch

    if words == ["torch"]:
        accelerators = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
        devices = ["cpu", *(name for name, there in accelerators.items() if there)]
        names = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
        kind = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU build"
        cpu = torch.backends.cpu.get_cpu_capability()
        threads = torch.get_num_threads()
        build = f"{torch.__version__}, {kind}, {cpu}, {threads} threads" + "".join(f", {name}" for name in names)
        _say(build=build, devices=devices, done=True, step="")
        return
    device, wrong = torch.device(words[1]), []
    for name, kernel, shapes in _kernels():
        _say(step=name)
        apart = _apart(kernel, shapes, device)
        if not apart <= 1e-3:  # also if it is NaN
            wrong.append(f"{name} has a relative error of {apart:.2g}")
    _say(done=True, step="", wrong=wrong)


def _apart(kernel: Any, shapes: Any, device: Any) -> float:
    """Largest relative difference of result and gradients to float64 on the CPU."""
    import torch

    source = torch.Generator().manual_seed(0)
    inputs = [torch.randn(shape, generator=source, dtype=torch.float64) for shape in shapes]
    results = []
    for kind, place in ((torch.float64, torch.device("cpu")), (torch.float32, device)):
        leaves = [x.to(place, kind, copy=True).requires_grad_() for x in inputs]
        out = kernel(*leaves)
        # Uneven weights: the plain sum of a normalised map is constant, so its gradient would be rounding error only.
        weights = torch.arange(out.numel(), dtype=torch.float64).cos().view_as(out).to(place, kind)
        (out * weights).sum().backward()
        results.append([t.detach().double().cpu() for t in (out, *(x.grad for x in leaves))])
    return max(float((a - b).abs().max() / a.abs().max()) for a, b in zip(*results, strict=True))


def _kernels() -> Iterator[tuple[str, Any, Any]]:
    import torch
    import torch.nn.functional as F

    yield "a matrix product", torch.matmul, [(33, 47), (47, 21)]
    yield "a convolution", lambda x, w: F.conv2d(x, w, padding=1), [(2, 8, 14, 14), (16, 8, 3, 3)]
    yield "a strided convolution", lambda x, w: F.conv2d(x, w, stride=2, padding=1), [(2, 8, 14, 14), (16, 8, 3, 3)]
    channels_last = torch.channels_last
    yield (
        "a convolution of channels last",
        lambda x, w: F.conv2d(x.contiguous(memory_format=channels_last), w.contiguous(memory_format=channels_last)),
        [(2, 8, 14, 14), (16, 8, 3, 3)],
    )
    yield (
        "batch normalisation",
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        [(4, 8, 7, 7), (8,), (8,)],
    )
    yield "attention", F.scaled_dot_product_attention, [(2, 4, 17, 8)] * 3
    yield (
        "resizing",
        lambda x: F.interpolate(x, (19, 23), mode="bilinear", antialias=True, align_corners=False),
        [(2, 3, 31, 29)],
    )


# Systems and runs: PyTorch is known to work --------------------------------------------------------------------------


def _systems() -> Iterator[Finding]:
    names = catalogue.names()
    bad = []
    for name in names:
        try:
            catalogue.load(name)
        except Exception as error:  # importing a system may raise anything
            bad.append(name)
            guest = not catalogue.modules()[name].startswith("vergence.")
            failure = f"cannot be opened: {reason(error)}"
            yield Finding(f"system {name}", "note" if guest else "unsound", failure)
    yield Finding("systems", "sound", f"{len(names) - len(bad)} open")


def _runs(root: Path, progress: Progress) -> Iterator[Finding]:
    folders = _folders(root)
    unsound = 0
    for folder in progress.track(folders, "looking at runs"):
        try:
            found, notes = list(damages(folder)), leftovers(folder)
        except OSError as error:  # such as a folder without permission
            found, notes = [f"{folder} cannot be read: {error.strerror or error}"], ""
        for damage in found:
            unsound += 1
            yield Finding("run", "unsound", damage if str(folder) in damage else f"{folder}: {damage}")
        if notes:
            yield Finding("run", "note", f"{folder}: {notes}")
    if folders and not unsound:
        yield Finding("runs", "sound", f"{len(folders)} whole")
    elif not folders:
        yield Finding("runs", "sound", f"none in {root}")


def _folders(root: Path) -> list[Path]:
    """The folders of runs. What is in a folder that cannot be read is left out."""
    found = [run for system in _below(root) for run in _below(system)]
    return sorted(run for run in found if any(os.path.lexists(run / name) for name in ("config.json", "checkpoints")))


def _below(folder: Path) -> list[Path]:
    with suppress(OSError):
        return [path for path in folder.iterdir() if path.is_dir()]
    return []


def damages(folder: Path) -> Iterator[str]:
    """Damage in a run's folder, one sentence each."""
    from vergence.engine import checkpoint
    from vergence.engine.weights import identify

    run = Run(folder)
    jobs: list[Any] = [lambda: run.order, lambda: run.result, lambda: run.environment()]
    if (folder / "result.json").exists():
        jobs.append(run.records)  # a killed run may leave half a last line, which resuming rewrites
    jobs += [lambda path=path: identify(path) for path in sorted(folder.glob("*.safetensors"))]
    jobs += [lambda path=path: read_metadata(path) for path in sorted(folder.glob("prepared/*.safetensors"))]
    jobs += [lambda path=path: read_json(path) for path in sorted(folder.glob("facts.json"))]
    try:
        jobs += [lambda path=path: checkpoint.read(path) for path in checkpoint.newest_first(folder)]
    except VergenceError as error:
        yield str(error)
    for job in jobs:
        try:
            job()
        except VergenceError as error:
            yield str(error)


def leftovers(folder: Path) -> str:
    """Harmless files left behind by a killed process."""
    partial = list(folder.rglob(".*.partial"))
    return f"{len(partial)} half-written files of a killed process; they can be removed" if partial else ""


if __name__ == "__main__":
    _child(sys.argv[1:])
