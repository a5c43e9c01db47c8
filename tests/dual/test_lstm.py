"""The gates' gradients of an LSTM against autograd."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from idwbench.dual.layer_calls import gate_gradients, lstm_layers, record_lstm

LAYERS = ("lstm.input", "lstm.recurrent")
BIASES = ("bias_ih_l0", "bias_hh_l0")


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


def recorded(lstm: nn.LSTM, inputs: torch.Tensor, above: torch.Tensor) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Return the keys and gradients of the layers in one step, one row for each slot."""
    taken: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    hook = record_lstm(lambda name, *parts: taken.update({name: tuple(part.flatten(0, 1) for part in parts)}), lstm)
    lstm(inputs)[0].backward(above)
    hook.remove()
    return taken


@pytest.mark.parametrize(("length", "dtype"), [(1, torch.float64), (2, torch.float32), (9, torch.float64)])
@pytest.mark.parametrize("frozen", [(), BIASES[:1], BIASES, None], ids=str)
def test_errors_times_keys_are_the_gradients_of_autograd(frozen, length: int, dtype: torch.dtype) -> None:
    lstm = nn.LSTM(3, 5, batch_first=True, bias=frozen is not None, dtype=dtype)
    for name in frozen or ():
        getattr(lstm, name).requires_grad_(False)
    inputs, above = random(4, length, 3, dtype=dtype).requires_grad_(), random(4, length, 5, dtype=dtype)
    taken, states = recorded(lstm, inputs, above), lstm(inputs)[0]
    for name, suffix in zip(LAYERS, ("ih_l0", "hh_l0"), strict=True):
        keys, gradients = taken[name]
        expected = getattr(lstm, f"weight_{suffix}").grad
        error = 1e-12 if dtype == torch.float64 else 1e-5
        assert (gradients.T @ keys - expected).abs().max() <= error * expected.abs().max()
        assert expected.any() or (name == "lstm.recurrent" and length == 1)
        if frozen is not None and f"bias_{suffix}" not in frozen:
            torch.testing.assert_close(gradients.sum(0), getattr(lstm, f"bias_{suffix}").grad)
    previous = taken["lstm.recurrent"][0].view(4, length, 5)
    assert not previous[:, 0].any() and torch.equal(previous[:, 1:], states[:, :-1])
    again = recorded(lstm.requires_grad_(False), inputs, above)  # also where nothing of it is trained
    torch.testing.assert_close(again["lstm.input"][1], taken["lstm.input"][1])


@pytest.mark.parametrize(("features", "units", "batch", "length"), [(3, 5, 4, 6), (200, 64, 1, 3), (32, 256, 4, 3)])
def test_gradients_in_float32_are_those_in_float64_within_rounding(features, units, batch, length) -> None:
    torch.manual_seed(0)
    lstm = nn.LSTM(features, units, batch_first=True)
    inputs, above = random(batch, length, features), random(batch, length, units)
    gates = gate_gradients(lstm, inputs, lstm(inputs)[0].detach(), above)
    lstm, inputs, above = lstm.double(), inputs.double(), above.double()
    expected = gate_gradients(lstm, inputs, lstm(inputs)[0].detach(), above)
    # Each step adds sums of `features` or `units` terms to a chain of `length` steps.
    bound = length * (features + 4 * units) * torch.finfo(torch.float32).eps
    assert (gates - expected).abs().max() < bound * expected.abs().max()


def test_states_that_are_not_numbers_give_no_numbers_and_a_gate_that_is_shut_no_gradients() -> None:
    lstm = nn.LSTM(3, 5, batch_first=True)
    inputs, states, above = torch.full((2, 4, 3), torch.nan), torch.full((2, 4, 5), torch.nan), torch.ones(2, 4, 5)
    assert gate_gradients(lstm, inputs, states, above).isnan().all()
    with torch.no_grad():
        lstm.bias_ih_l0[15:] = -1000  # the output gate is exactly 0
        states = lstm(random(2, 4, 3))[0]
    assert not states.any()
    assert not gate_gradients(lstm, random(2, 4, 3), states, above).any()


@pytest.mark.parametrize(
    "options", [{"num_layers": 2}, {"bidirectional": True}, {"bias": False}, {"batch_first": False}, {"proj_size": 1}]
)
def test_other_lstms_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected one layer of LSTM"):
        lstm_layers(nn.LSTM(2, 3, **{"batch_first": True, **options}))
