"""Blocks as ONNX, where its packages are installed: the same numbers, and one exception that is named."""

import warnings

import pytest
import torch

from vergence.nn import BLOCKS, CayleyNonlocal

pytest.importorskip("onnxscript", reason="onnxscript is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def awake(block):
    torch.manual_seed(0)
    for parameter in block.parameters():
        if not parameter.detach().any():
            torch.nn.init.uniform_(parameter, 0.5, 1.0)
    return block.eval()


def exported(block, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.onnx.export(block, (x,), dynamo=True, verbose=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*sorted(set(BLOCKS) - {"cayleyexact"}), "cayleyexact by jacobi"])
def test_every_block_gives_the_same_as_onnx(name):
    block = awake(CayleyNonlocal(8, solver="jacobi") if "jacobi" in name else BLOCKS[name](8))
    x = torch.randn(2, 8, 9, 8) if name == "cc" else torch.randn(2, 8, 5, 4)  # 72 positions: by lines, not as a matrix
    session = runtime.InferenceSession(exported(block, x).model_proto.SerializeToString())
    (out,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(out), block(x).detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_the_exact_cayley_filter_cannot_be_exported_for_onnx_solves_no_linear_systems():
    with pytest.raises(torch.onnx.OnnxExporterError) as failure:
        exported(awake(CayleyNonlocal(8)), torch.randn(2, 8, 5, 4))
    assert "linalg_solve" in str(failure.value.__cause__)
