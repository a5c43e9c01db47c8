"""Inputs and output gradients of linear layers in one step, by hooks or delivered by a layer itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

__all__ = ["Layer", "LayerCalls", "Weights", "joined", "joined_part"]


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
        if self._calls is None:
            return
        self._calls[name].append(_Call(inputs.detach(), gradients.detach()))

    def of_step(self, name: str, slots: int) -> tuple[Tensor, Tensor]:
        """Return the inputs (…, features) and output gradients (…, outputs) of a layer, in the order of calls.

        Raises:
            ValueError: there is another number of inputs or gradients.
        """
        assert self._calls is not None, "a call outside of a step"
        outputs, features = self.layers[name].weight.shape
        calls = self._calls[name]
        inputs = [call.inputs for call in calls]
        gradients = [call.gradients for call in calls if call.gradients is not None]
        found = _rows(inputs, features), _rows(gradients, outputs)
        if found != (slots, slots):
            counts = f"{found[0]} inputs and {found[1]} gradients for {slots} slots"
            raise ValueError(f"the layer '{name}' has {counts} in a step")
        return _concatenated(inputs, features).cpu(), _concatenated(gradients, outputs).cpu()

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


@torch.no_grad()
def joined(layer: Layer) -> Tensor:
    """Return a copy of [weight, bias] (outputs, features + 1), or of the weight without a bias."""
    return _columns(layer.weight, layer.bias)


def joined_part(numbers: Tensor, layer: Layer) -> Tensor:
    """Return the numbers of a layer, as `joined`, of a vector in the storage order of all parameters."""
    return _columns(*(None if part is None else _part(numbers, part) for part in (layer.weight, layer.bias)))


def _part(numbers: Tensor, parameter: Tensor) -> Tensor:
    start = parameter.storage_offset()
    return numbers[start : start + parameter.numel()].view(parameter.shape)


def _columns(weight: Tensor | None, bias: Tensor | None) -> Tensor:
    assert weight is not None
    return weight.clone() if bias is None else torch.cat([weight, bias.unsqueeze(1)], 1)


def _rows(parts: list[Tensor], columns: int) -> int:
    return sum(part.numel() for part in parts) // columns


def _concatenated(parts: list[Tensor], columns: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat([part.reshape(-1, columns) for part in parts])
