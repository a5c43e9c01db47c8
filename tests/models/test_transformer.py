import numpy as np
import pytest
import torch
from scipy.special import erf
from torch import nn

from idwbench.models.transformer import Transformer, TransformerBlock

SCORES = ("scaled_dot", "idw", "neg_dist", "inv_dist", "gaussian", "cosine")


def random_inputs(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=dtype)


def random_weights(module: nn.Module) -> None:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0.5 if parameter.dim() == 1 else 0, 0.5, generator=generator)


@pytest.mark.parametrize("causal", [False, True])
def test_a_block_with_scaled_dot_is_a_block_of_torch_with_the_same_weights(causal: bool) -> None:
    block = TransformerBlock(8, 2, "scaled_dot", hidden=12, causal=causal)
    random_weights(block)
    layer = nn.TransformerEncoderLayer(8, 2, 12, 0.0, "gelu", batch_first=True, norm_first=True, bias=False)
    layer.load_state_dict(block.state_dict())
    inputs = random_inputs(3, 5, 8).requires_grad_()
    mask = nn.Transformer.generate_square_subsequent_mask(5) if causal else None
    outputs, expected = block(inputs), layer(inputs, src_mask=mask, is_causal=causal)
    torch.testing.assert_close(outputs, expected)
    direction = random_inputs(3, 5, 8)
    gradients = torch.autograd.grad(outputs, (inputs, *block.parameters()), direction)
    of_torch = dict(layer.named_parameters())
    expected_gradients = torch.autograd.grad(
        expected, (inputs, *(of_torch[name] for name, _ in block.named_parameters())), direction
    )
    torch.testing.assert_close(gradients, expected_gradients)


def layer_norm(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale


def attention_by_loops(x: np.ndarray, weights: dict[str, np.ndarray], heads: int) -> np.ndarray:
    """Causal attention with the weights 1/(ε + d²), normalised, query by query."""
    q, k, v = np.split(x @ weights["self_attn.in_proj_weight"].T, 3, -1)
    outputs = np.zeros_like(x)
    size = x.shape[1] // heads
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        for i in range(len(x)):
            inverse = 1 / (1e-3 + np.sum((q[i, part] - k[: i + 1, part]) ** 2, -1))
            outputs[i, part] = inverse / inverse.sum() @ v[: i + 1, part]
    return outputs @ weights["self_attn.out_proj.weight"].T


def test_a_causal_idw_block_computes_its_formula() -> None:
    block = TransformerBlock(6, 2, "idw", causal=True, power=2, epsilon=1e-3).double()
    random_weights(block)
    weights = {name: parameter.detach().numpy() for name, parameter in block.named_parameters()}
    inputs = random_inputs(1, 7, 6, dtype=torch.float64)
    x = inputs[0].numpy()
    x = x + attention_by_loops(layer_norm(x, weights["norm1.weight"]), weights, heads=2)
    hidden = layer_norm(x, weights["norm2.weight"]) @ weights["linear1.weight"].T
    x = x + hidden * (1 + erf(hidden / np.sqrt(2))) / 2 @ weights["linear2.weight"].T
    np.testing.assert_allclose(block(inputs)[0].detach().numpy(), x, rtol=1e-9, atol=1e-9)


def test_weights_of_branches_that_are_added_start_smaller_in_deep_networks() -> None:
    weights = Transformer(8, 64, 2, generator=torch.Generator().manual_seed(0)).state_dict()
    assert weights["blocks.3.linear1.weight"].std() == pytest.approx(0.05, rel=0.05)
    assert weights["blocks.3.linear2.weight"].std() == pytest.approx(0.05 / 4, rel=0.05)
    assert weights["blocks.3.self_attn.out_proj.weight"].std() == pytest.approx(0.05 / 4, rel=0.05)


def test_an_unknown_score_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown score 'idv'"):
        TransformerBlock(8, 2, "idv")
