"""Networks in ONNX files, run by ONNX Runtime."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from vergence.core.errors import VergenceError
from vergence.reading.files import read_bytes, refusing

ONNX = "a complete ONNX file"
LARGEST = 2_000_000_000
"""Bytes: ONNX itself holds no more in one file."""


def open_onnx(path: Path, threads: int = 1) -> Any:
    """A session of ONNX Runtime on the CPU. Weights in other files, which a path in the file would name, are not
    read."""
    if not find_spec("onnxruntime"):
        raise VergenceError(f"{path} needs ONNX Runtime: pip install 'vergence[export]'")
    content = read_bytes(path, ONNX)
    if not 0 < len(content) <= LARGEST:
        raise VergenceError(f"{path} is not {ONNX}: it has {len(content):,} bytes")
    import onnxruntime

    with refusing(path, ONNX):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 4
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
