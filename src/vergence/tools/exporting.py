"""Export a trained model to ONNX, or to torch.export's ``.pt2``.

The file is read back and compared with the model before it is kept; an operator that cannot be exported is named.
"""

from __future__ import annotations

import inspect
import io
import json
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from vergence.contract.identity import Identity
from vergence.contract.system import AnySystem
from vergence.core.errors import VergenceError, reason
from vergence.core.files import replacing
from vergence.engine.weights import KEY, metadata

Target = Literal["onnx", "torch"]
SUFFIXES: dict[Target, str] = {"onnx": ".onnx", "torch": ".pt2"}
NOTE = f"{KEY}.json"
"""Extra file in a ``.pt2`` with the model's identity; ONNX has it in its metadata, under ``vergence``."""
TOLERANCE = 1e-3
"""Largest accepted difference between file and model, relative to the largest output value."""


@dataclass(frozen=True)
class Exported:
    """An exported file and how it was checked."""

    path: Path
    target: Target
    inputs: dict[str, list[int | str]]
    """Shapes by name; ``batch`` stands for any batch size."""
    outputs: list[list[int | str]]
    difference: float
    """Largest difference to the model's outputs on random input of the example's shape."""
    scale: float
    """Largest absolute value of the model's outputs, for comparison with ``difference``."""
    checked_with: str
    operators: list[str]
    """Vergence's own operators in the file; import ``vergence`` before opening it."""


class CannotExport(VergenceError):
    """The format cannot express the model; the command itself was valid."""

    exit_code = 1


def export(system: AnySystem, model: nn.Module, identity: Identity, target: Target, path: Path) -> Exported:
    """Write ``model`` to ``path``, with a dynamic batch size if possible, else with the example's."""
    if not system.offers("example"):
        raise system.not_offered("example input to export with")
    if target == "onnx":
        _need_onnx()
    model = model.cpu().float().eval()
    note = json.loads(metadata(identity, system)[KEY])
    for example, shapes in _attempts(system, identity):
        try:
            with _silence(), torch.no_grad():
                program = torch.export.export(model, example, dynamic_shapes=shapes)
                onnx = torch.onnx.export(program, dynamo=True, verbose=False) if target == "onnx" else None
        except Exception as error:  # exporters may raise anything
            if shapes is not None:
                continue
            raise _named(model, example, error) from error
        return _write(model, program, onnx, example, shapes, note, path)
    raise AssertionError("the last attempt has no dynamic shapes")


def _attempts(system: AnySystem, identity: Identity) -> Iterator[tuple[tuple[Tensor, ...], Any]]:
    """Inputs to trace with: first with a dynamic batch size, where the example has a batch, then with a fixed one."""
    config, facts = identity.config, identity.facts
    try:
        two, three = (system.example(config, facts, batch=n) for n in (2, 3))
    except (VergenceError, RuntimeError, ValueError, TypeError):
        two = three = ()
    varies = [a.shape[:1] == (2,) and b.shape == (3, *a.shape[1:]) for a, b in zip(two, three, strict=False)]
    if any(varies):
        batch = torch.export.Dim("batch", min=1)
        yield _random(two), _dynamic(varies, batch)
    yield _random(system.example(config, facts, batch=1)), None


def _dynamic(varies: Sequence[bool], batch: Any) -> tuple[Any, ...]:
    return tuple({0: batch} if v else None for v in varies)


def _random(example: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Replace floats by noise, since zeros would hide differences; integers may be indices and stay."""
    source = torch.Generator().manual_seed(0)
    return tuple(torch.randn(t.shape, generator=source) if t.is_floating_point() else t for t in example)


# Writing and checking ------------------------------------------------------------------------------------------------


def _write(
    model: nn.Module, program: Any, onnx: Any, example: tuple[Tensor, ...], shapes: Any, note: Any, path: Path
) -> Exported:
    target: Target = "torch" if onnx is None else "onnx"
    with replacing(path) as partial:
        if onnx is None:
            with _silence(), partial.open("wb") as file:
                torch.export.save(program, file, extra_files={NOTE: json.dumps(note)})
            run, checked_with = _torch_runner(partial)
        else:
            onnx.model.metadata_props[KEY] = json.dumps(note)
            with _silence():
                onnx.save(str(partial), external_data=False)
            run, checked_with = _onnx_runner(partial)
        apart, scale, outputs = _compared(model, run, example)
        if shapes is not None:  # dynamic batch: check one sample, and more than were traced
            for count in (1, 3):
                other = tuple(_resized(t, s, count) for t, s in zip(example, shapes, strict=True))
                more = _compared(model, run, other)
                apart, scale = max(apart, more[0]), max(scale, more[1])
        if not apart <= TOLERANCE * scale + 1e-6:
            raise CannotExport(
                f"the {target} file does not compute what the model does: {checked_with} differs by {apart:.3g} "
                f"where the largest value is {scale:.3g}; nothing was written"
            )
    names = list(inspect.signature(model.forward).parameters)
    free = [shapes is not None and s is not None for s in (shapes or [None] * len(example))]
    inputs = {names[n] if n < len(names) else f"input{n}": _shape(t, free[n]) for n, t in enumerate(example)}
    batch = example[free.index(True)].shape[0] if any(free) else -1
    shown = [_shape(t, t.ndim > 0 and t.shape[0] == batch) for t in outputs]
    operators = sorted({str(n.target) for n in program.graph.nodes if str(n.target).startswith("vergence.")})
    return Exported(path, target, inputs, shown, apart, scale, checked_with, operators)


def _shape(tensor: Tensor, free: bool) -> list[int | str]:
    return ["batch", *tensor.shape[1:]] if free else list(tensor.shape)


def _resized(tensor: Tensor, shape: Any, count: int) -> Tensor:
    if shape is None:
        return tensor
    return tensor.repeat_interleave(2, 0)[:count].contiguous()


def _compared(model: nn.Module, run: Callable[..., Any], example: tuple[Tensor, ...]) -> tuple[float, float, Any]:
    """Largest difference, largest value, and the model's outputs."""
    with torch.no_grad():
        ours = [t for t in pytree.tree_leaves(model(*example)) if isinstance(t, Tensor)]
        theirs = [t for t in pytree.tree_leaves(run(*example)) if isinstance(t, Tensor)]
    if [t.shape for t in ours] != [t.shape for t in theirs]:
        return float("inf"), 0.0, ours
    pairs = [(a.double(), b.double()) for a, b in zip(ours, theirs, strict=True) if a.numel()]
    apart = [float("nan") if a.isnan().any() else float((a - b).abs().max()) for a, b in pairs]
    return max(apart, default=0.0), max((float(a.abs().max()) for a, _ in pairs), default=0.0), ours


def _torch_runner(path: Path) -> tuple[Callable[..., Any], str]:
    with _silence():
        module = torch.export.load(io.BytesIO(path.read_bytes())).module()
    return module, f"torch {torch.__version__}"


def _onnx_runner(path: Path) -> tuple[Callable[..., Any], str]:
    """A runner for the file: ONNX Runtime if it is installed, else ONNX's reference evaluator, which is slow."""
    if find_spec("onnxruntime"):
        import onnxruntime

        session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
        names, what = [i.name for i in session.get_inputs()], f"onnxruntime {onnxruntime.__version__}"
    else:
        import onnx
        from onnx.reference import ReferenceEvaluator

        session = ReferenceEvaluator(onnx.load_model_from_string(path.read_bytes()))
        names, what = list(session.input_names), f"onnx {version('onnx')}"

    def run(*example: Tensor) -> list[Tensor]:
        feed = {name: t.numpy() for name, t in zip(names, example, strict=False)}
        return [torch.from_numpy(out) for out in session.run(None, feed)]

    return run, what


def _need_onnx() -> None:
    missing = [name for name in ("onnx", "onnxscript") if find_spec(name) is None]
    if missing:
        raise VergenceError(f"exporting to ONNX needs {' and '.join(missing)}: pip install 'vergence[export]'")


# What cannot be exported ---------------------------------------------------------------------------------------------


def _named(model: nn.Module, example: tuple[Tensor, ...], error: Exception) -> CannotExport:
    """The error, naming the operator or module that cannot be exported."""
    missing = _missing_operator(error)
    if missing:
        place = _where_used(model, example, missing)
        return CannotExport(f"this model cannot be exported to ONNX: it has no operator for {missing}{place}")
    why = reason(error)
    place = _where_it_fails(model, example)
    if "data-dependent" in why:
        why = "its control flow depends on computed values, which a file cannot express"
    return CannotExport(f"this model cannot be exported{place}: {why}")


def _missing_operator(error: BaseException | None) -> str:
    while error is not None:
        match = re.search(r"No ONNX function found for <OpOverload\(op='([\w.]+)'", str(error))
        if match:
            return match.group(1).replace(".", "::", 1)
        error = error.__cause__
    return ""


def _where_used(model: nn.Module, example: tuple[Tensor, ...], operator: str) -> str:
    """The module that uses an operator, found after decomposition as in the exporter."""
    try:
        with _silence(), torch.no_grad():
            program = torch.export.export(model, example).run_decompositions()
    except Exception:  # the error is only less specific without it
        return ""
    for node in program.graph.nodes:
        if str(node.target).startswith(operator.replace("::", ".") + "."):
            stack = list((node.meta.get("nn_module_stack") or {}).values())
            names = [str(place[0]) for place in stack if place[0]]
            return f" (in {names[-1]!r})" if names else ""
    return ""


def _where_it_fails(model: nn.Module, example: tuple[Tensor, ...]) -> str:
    """The innermost module that was running when tracing failed."""
    stack: list[str] = []
    hooks = []
    for name, module in model.named_modules():
        hooks.append(module.register_forward_pre_hook(lambda *_, name=name: stack.append(name)))
        hooks.append(module.register_forward_hook(lambda *_: (stack.pop(), None)[1]))
    kinds = {name: type(module).__name__ for name, module in model.named_modules()}
    try:
        with _silence(), torch.no_grad():
            torch.export.export(model, example)
    except Exception:
        if stack:
            return f" ({kinds[stack[-1]]}{f' at {stack[-1]!r}' if stack[-1] else ''})"
    finally:
        for hook in hooks:
            hook.remove()
    return ""


@contextmanager
def _silence() -> Iterator[None]:
    """Suppress the exporters' logs, warnings and prints."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
