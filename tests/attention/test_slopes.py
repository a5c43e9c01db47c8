"""Values with a slope: the answer is the sum over all differences x − k_j, and gradients are those of differences."""

import pytest
import torch
from array_models import learned_tensors

from idwbench.attention.forward import prototype_logits
from idwbench.attention.scores import METHODS
from idwbench.attention.slopes import SLOPE_ARRAYS

SHAPES = {"inputs": (5, 4), "keys": (3, 4), "values": (3, 2), "slope_inputs": (2, 3, 4), "slope_outputs": (2, 3, 2)}
SOFTMAX = sorted(name for name, method in METHODS.items() if method.weighting == "softmax")


def drawn(dtype=torch.float64, **sizes):
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(*shape, dtype=dtype, generator=generator) for name, shape in (SHAPES | sizes).items()}


def logits(method, inputs, keys, values, *slopes):
    learned = learned_tensors(method, inputs.shape[-1])
    arguments = {**METHODS[method].resolve({}), **learned}
    return prototype_logits(
        METHODS[method], arguments, inputs, keys, values, dict(zip(SLOPE_ARRAYS, slopes, strict=bool(slopes)))
    )


@pytest.mark.parametrize("method", SOFTMAX)
def test_an_answer_is_the_sum_over_differences_and_has_their_gradients(method):
    arrays = drawn()
    inputs, keys, _, factors, outputs = arrays.values()
    weights = logits(method, inputs, keys, torch.eye(3, dtype=torch.float64))
    slopes = torch.einsum("rpo,rpf->pof", outputs, factors)
    rises = torch.einsum("pof,bpf->bpo", slopes, inputs[:, None] - keys)
    expected = (weights[:, :, None] * (arrays["values"] + rises)).sum(1)
    torch.testing.assert_close(logits(method, *arrays.values()), expected, rtol=1e-12, atol=1e-12)
    given = [array.requires_grad_() for array in arrays.values()]
    assert torch.autograd.gradcheck(lambda *tensors: logits(method, *tensors), given)


def test_a_slope_of_zero_changes_no_bit_of_an_answer():
    arrays = drawn(torch.float32)
    plain = logits("idw", *[*arrays.values()][:3])
    assert torch.equal(logits("idw", *[*arrays.values()][:4], torch.zeros(2, 3, 2)), plain)
