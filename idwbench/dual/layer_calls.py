"""Inputs and output gradients of linear layers in one step: by hooks of `torch.nn.Linear`, or of an LSTM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.hooks import RemovableHandle

__all__ = [
    "Layer",
    "LayerCalls",
    "Take",
    "Weights",
    "gate_gradients",
    "joined",
    "lstm_layers",
    "previous_states",
    "record_lstm",
]

# Receives the name of a layer, inputs (…, features) and the gradient (…, outputs) of its outputs.
Take = Callable[[str, Tensor, Tensor], None]


@dataclass(frozen=True)
class Weights:
    """The parameters of a layer that delivers its inputs and gradients itself, by `Recorder.take`.

    Attributes:
        weight: (outputs, features).
        bias: (outputs,), or None.
        gradients_of: Another layer, recorded before, whose outputs always have the same gradients, which are
            stored once.
    """

    weight: Tensor
    bias: Tensor | None = None
    gradients_of: str | None = None


Layer = nn.Linear | Weights


class LayerCalls:
    """Collects the calls of layers during a step.

    Args:
        layers: The layers by name; those of `torch.nn.Linear` are collected by hooks after `attach`.
    """

    def __init__(self, layers: Mapping[str, Layer]) -> None:
        self.layers = layers
        self._calls: dict[str, list[_Call]] | None = None  # only during a step
        self._hooks: list[RemovableHandle] = []

    def attach(self) -> None:
        """Register the hooks."""
        for name, layer in self.layers.items():
            if isinstance(layer, nn.Linear):
                self._hooks.append(layer.register_forward_hook(partial(self._after_forward, name)))

    def detach(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()
        self._hooks, self._calls = [], None

    def begin_step(self) -> None:
        """Forget the calls of other steps, and collect those of this one."""
        self._calls = {name: [] for name in self.layers}

    def end_step(self) -> None:
        """Collect no more calls."""
        self._calls = None

    def take(self, name: str, inputs: Tensor, gradients: Tensor) -> None:
        """Add a call with inputs (…, features) and output gradients (…, outputs); outside of a step it is ignored."""
        if self._calls is not None:
            self._calls[name].append(_Call(inputs.detach(), gradients.detach()))

    def step(self, name: str, slots: int) -> tuple[Tensor, Tensor]:
        """Return the inputs (slots, features) and output gradients (slots, outputs) of a layer, in the order of calls.

        Raises:
            ValueError: there is another number of inputs or gradients.
        """
        assert self._calls is not None, "a call outside of a step"
        calls, weight = self._calls[name], self.layers[name].weight
        outputs, features = weight.shape
        inputs = torch.cat([weight.new_empty(0, features), *(call.inputs.reshape(-1, features) for call in calls)])
        received = [call.gradients.reshape(-1, outputs) for call in calls if call.gradients is not None]
        gradients = torch.cat([weight.new_empty(0, outputs), *received])
        if len(inputs) != slots or len(gradients) != slots:
            counts = f"{len(inputs)} inputs and {len(gradients)} gradients for {slots} slots"
            raise ValueError(f"the layer '{name}' has {counts} in a step")
        return inputs.cpu(), gradients.cpu()

    def _after_forward(self, name: str, _: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if self._calls is None or not output.requires_grad:
            return
        call = _Call(inputs[0].detach())
        self._calls[name].append(call)
        output.register_hook(call.receive)  # type: ignore[no-untyped-call]


@dataclass
class _Call:
    """One call of a layer."""

    inputs: Tensor
    gradients: Tensor | None = None

    def receive(self, gradients: Tensor) -> None:
        self.gradients = gradients.detach()


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


def record_lstm(take: Take, lstm: nn.LSTM, name: str = "lstm") -> RemovableHandle:
    """Deliver the inputs and gradients of the two `lstm_layers` in each step.

    The gates are no outputs of a module, so that hooks do not see them: their gradients are computed from the inputs,
    the states and the gradient of the states by what follows. The initial state must be zero, and the final state must
    not be used.

    Args:
        take: `Recorder.take`, of a recorder of the `lstm_layers`.
        lstm: The LSTM.
        name: The beginning of the layers' names.
    """

    def after_forward(_: nn.Module, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, object]) -> None:
        states = outputs[0]
        if states.requires_grad:
            states.register_hook(partial(after_backward, inputs[0].detach(), states.detach()))  # type: ignore[no-untyped-call]

    def after_backward(inputs: Tensor, states: Tensor, gradients: Tensor) -> None:
        gates = gate_gradients(lstm, inputs, states, gradients)
        take(f"{name}.input", inputs, gates)
        take(f"{name}.recurrent", previous_states(states), gates)

    return lstm.register_forward_hook(after_forward)


def previous_states(states: Tensor) -> Tensor:
    """Return h_{t−1} for states h_t (batch, length, units), with the initial state zero."""
    return torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], 1)


@torch.no_grad()
def gate_gradients(lstm: nn.LSTM, inputs: Tensor, states: Tensor, gradients: Tensor) -> Tensor:
    """Return the gradient of the gates' pre-activations (batch, length, 4·units), in the order i, f, g, o of torch.

    With i, f, o = σ(a) and g = tanh(a), c_t = f c_{t−1} + i g, h_t = o tanh(c_t), and D_t the gradient of h_t from
    above plus W_hhᵀ δa_{t+1}: δc_t = D_t o (1 − tanh² c_t) + f_{t+1} δc_{t+1}, δa^o = D_t tanh(c_t) o(1 − o),
    δa^i = δc g i(1 − i), δa^f = δc c_{t−1} f(1 − f), δa^g = δc i (1 − g²) (Hochreiter and Schmidhuber 1997, with the
    forget gate of Gers et al. 2000 and the full gradient).

    Args:
        lstm: One of the `lstm_layers`, with the weights of the forward pass.
        inputs: x_t (batch, length, features).
        states: h_t (batch, length, units).
        gradients: Gradient of h_t by all that follows but the LSTM itself, (batch, length, units).
    """
    weight_ih, weight_hh, bias_ih, bias_hh = lstm.all_weights[0]
    of_inputs = functional.linear(inputs, weight_ih, bias_ih + bias_hh)
    sums = of_inputs + functional.linear(previous_states(states), weight_hh)
    i, f, g, o = sums.transpose(0, 1).chunk(4, 2)  # (length, batch, units) each
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cells = i * g
    for cell, previous, kept in zip(cells[1:], cells, f[1:], strict=False):
        cell.addcmul_(previous, kept)
    tanh = cells.tanh()
    before = torch.cat([torch.zeros_like(cells[:1]), cells[:-1]])
    # δa is δc times the first three, and D times the last; δc_t is D_t times `through`, and what the next step gives.
    slopes = torch.stack([g * i * (1 - i), before * f * (1 - f), i * (1 - g * g), tanh * o * (1 - o)], 2)
    through = o * (1 - tanh * tanh)
    steps = zip(gradients.transpose(0, 1), through, f, slopes, strict=True)
    carried, later, backwards = torch.zeros_like(cells[0]), None, []
    for above, slope, kept, factors in reversed([*steps]):
        state = above if later is None else torch.addmm(above, later, weight_hh)
        cell = torch.addcmul(carried, state, slope)
        later = (factors * torch.stack([cell, cell, cell, state], 1)).flatten(1)
        backwards.append(later)
        carried = cell * kept
    return torch.stack(backwards[::-1], 1)


@torch.no_grad()
def joined(layer: Layer, numbers: Tensor | None = None) -> Tensor:
    """Return a copy of [weight, bias] (outputs, features + 1), or of the weight without a bias.

    Args:
        layer: The layer.
        numbers: A vector in the storage order of all parameters, whose numbers are returned in place of the layer's.
    """
    parts = [part for part in (layer.weight, layer.bias) if part is not None]
    if numbers is not None:
        parts = [numbers[part.storage_offset() :][: part.numel()].view(part.shape) for part in parts]
    return torch.cat([part.view(len(part), -1) for part in parts], 1)
