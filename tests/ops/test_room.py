"""Memory for large results is memory like any other."""

import pytest
import torch

from vergence.ops.room import LEAST, room


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("rows", [0, 3, LEAST // 16])
def test_it_has_the_shape_and_type_that_were_asked_for(kind, rows):
    made = room((rows, 2, 4), torch.zeros(1, dtype=kind))
    assert (made.shape, made.dtype, made.is_contiguous()) == ((rows, 2, 4), kind, True)
    assert (made.fill_(3) == 3).all()


def test_it_is_on_the_device_of_its_model():
    assert room((LEAST, 2), torch.zeros(1, device="meta")).is_meta
