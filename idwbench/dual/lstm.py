"""Recording of an LSTM: its input and recurrent matrices as two linear layers of the same error signals."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from idwbench.dual.lstm_workspace import LstmWorkspace, kept_workspace
from idwbench.dual.recorder import Recorder, Weights

__all__ = [
    "computed_gates",
    "gate_gradients",
    "joined_gate_gradients",
    "lstm_layers",
    "previous_states",
    "record_lstm",
]


def lstm_layers(lstm: nn.LSTM, name: str = "lstm") -> dict[str, Weights]:
    """Return the matrices of a layer of LSTM as layers ``lstm.input`` and ``lstm.recurrent``, each with its own bias.

    The gates' pre-activations are a_t = (W_ih x_t + b_ih) + (W_hh h_{t−1} + b_hh). Both brackets are linear layers and
    have the gradient of a_t as the gradient of their outputs, which is stored once. Either bias is
    the weight of a constant input 1.

    Raises:
        ValueError: more than one layer, two directions, a projection, no bias, or the batch is not the first axis.
    """
    if lstm.num_layers != 1 or lstm.bidirectional or lstm.proj_size or not lstm.bias or not lstm.batch_first:
        raise ValueError("expected one layer of LSTM in one direction, with biases, and with the batch as first axis")
    weight_ih, weight_hh, bias_ih, bias_hh = lstm.all_weights[0]
    return {
        f"{name}.input": Weights(weight_ih, bias_ih),
        f"{name}.recurrent": Weights(weight_hh, bias_hh, gradients_of=f"{name}.input"),
    }


def record_lstm(recorder: Recorder, lstm: nn.LSTM, name: str = "lstm") -> RemovableHandle:
    """Deliver the inputs and gradients of the two `lstm_layers` to a recorder in each step.

    The gates are no outputs of a module, so that hooks do not see them: their gradients are taken from what the
    backward pass left in its workspace (`joined_gate_gradients`), or computed again (`gate_gradients`). The initial
    state must be zero. What a later layer does with the states is known from their gradient; the final state must not
    be used.

    Args:
        recorder: A recorder of the `lstm_layers`.
        lstm: The LSTM.
        name: The beginning of the layers' names.
    """
    return lstm.register_forward_hook(partial(_after_forward, recorder, name))


def _after_forward(
    recorder: Recorder, name: str, lstm: nn.LSTM, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, object]
) -> None:
    states = outputs[0]
    if not states.requires_grad:
        return
    keys, found = inputs[0].detach(), states.detach()

    def deliver(of_gates: Tensor, before: Tensor) -> None:
        recorder.take(f"{name}.input", keys, of_gates)
        recorder.take(f"{name}.recurrent", before, of_gates)

    def after_backward(found_gradients: tuple[Tensor | None, ...], gradients: tuple[Tensor, ...]) -> None:
        above = gradients[0].detach().transpose(0, 1)
        of_bias = found_gradients[3]  # None without a bias, or if it is not trained
        joined = None if of_bias is None else joined_gate_gradients(workspace, found, above, of_bias)
        deliver(*(joined or gate_gradients(lstm, keys, found, above)))

    kept = kept_workspace(states, keys.shape[-1])
    if kept is None:
        states.register_hook(lambda above: deliver(*gate_gradients(lstm, keys, found, above)))  # type: ignore[no-untyped-call]
    else:
        node, workspace = kept
        node.register_hook(after_backward)


def previous_states(states: Tensor) -> Tensor:
    """Return h_{t−1} for states h_t (batch, length, units), with the initial state zero."""
    return torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], 1)


@torch.no_grad()
def gate_gradients(lstm: nn.LSTM, inputs: Tensor, states: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient of the gates' pre-activations (batch, length, 4·units), and h_{t−1} (batch, length, units).

    The gates are in the order i, f, g, o of torch.
    With i, f, o = σ(a) and g = tanh(a), c_t = f c_{t−1} + i g, h_t = o tanh(c_t), and D_t the gradient of h_t from
    above plus W_hhᵀ δa_{t+1}: δc_t = D_t o (1 − tanh² c_t) + f_{t+1} δc_{t+1}, δa^o = D_t tanh(c_t) o(1 − o),
    δa^i = δc g i(1 − i), δa^f = δc c_{t−1} f(1 − f), δa^g = δc i (1 − g²) (Hochreiter and Schmidhuber 1997, with the
    forget gate of Gers et al. 2000 and the full gradient). tanh(c_t) is h_t / o. It is computed on the CPU.

    Args:
        lstm: One layer, with the weights of the forward pass.
        inputs: x_t (batch, length, features).
        states: h_t (batch, length, units).
        gradients: Gradient of h_t by all that follows but the LSTM itself, (batch, length, units).
    """
    from idwbench.dual.lstm_kernels import find_gate_gradients  # imports numba

    weight_hh: Tensor = lstm.all_weights[0][1].detach().cpu().contiguous()
    of_gates = weight_hh.new_empty(*states.shape[:2], len(weight_hh))
    before = weight_hh.new_empty(states.shape)
    read = states.cpu().transpose(0, 1).contiguous(), gradients.cpu().contiguous(), weight_hh
    find_gate_gradients(
        computed_gates(lstm, inputs, states).numpy(), *(part.numpy() for part in (*read, of_gates, before))
    )
    return of_gates, before


def joined_gate_gradients(
    workspace: LstmWorkspace, states: Tensor, gradients: Tensor, of_bias: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Return `gate_gradients` from what the backward pass left, or None if the sum is not the gradient of a bias.

    Args:
        workspace: The workspace after the backward pass.
        states: h_t (batch, length, units).
        gradients: Gradient of h_t by all that follows but the LSTM itself, (batch, length, units).
        of_bias: Gradient of a bias (4·units).
    """
    from idwbench.dual.lstm_kernels import join_gate_gradients  # imports numba

    of_gates = states.new_empty(*states.shape[:2], len(of_bias))
    before = states.new_empty(states.shape)
    kept = workspace.gates, workspace.cells, workspace.of_states, workspace.of_cells
    read = states.transpose(0, 1).contiguous(), gradients.contiguous(), of_bias.detach()
    correct = join_gate_gradients(*(part.numpy() for part in (*kept, *read, of_gates, before)))
    return (of_gates, before) if correct else None


@torch.no_grad()
def computed_gates(lstm: nn.LSTM, inputs: Tensor, states: Tensor) -> Tensor:
    """Return i, f, g, o (length, batch, 4·units) from x_t (batch, length, features) and h_t (batch, length, units)."""
    x, before = (part.cpu().transpose(0, 1) for part in (inputs, previous_states(states)))
    weight_ih, weight_hh, *biases = (parameter.cpu() for parameter in lstm.all_weights[0])
    bias = biases[0] + biases[1] if biases else weight_ih.new_zeros(len(weight_ih))
    flat = torch.addmm(bias, x.flatten(0, 1), weight_ih.T).addmm_(before.flatten(0, 1), weight_hh.T)
    gates = flat.view(*x.shape[:2], 4, lstm.hidden_size)
    gates[:, :, :2].sigmoid_()
    gates[:, :, 2].tanh_()
    gates[:, :, 3].sigmoid_()
    return gates.flatten(2)
