"""Adam and SGD by the functions behind `torch.optim.Adam` and `torch.optim.SGD`: the same kernels, the same numbers.

The classes import the compiler of torch when they are made, which takes longer than many runs do.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from idwbench.runs.protocol import Protocol

__all__ = ["optimizer_step"]

# Fused: one pass over the numbers instead of ten, on supported devices.
FUSED_DEVICES = ("cpu", "cuda")


def optimizer_step(protocol: Protocol, numbers: Tensor, gradients: Tensor) -> Callable[[float], None]:
    """Return a function that takes one step of the protocol's optimizer at a learning rate.

    Args:
        protocol: Its optimizer, momentum and weight decay are used; betas and epsilon are the defaults of torch.
        numbers: The parameters, changed in place by each step.
        gradients: Their gradients, of the same shape, read at each step.
    """
    fused = numbers.device.type in FUSED_DEVICES
    make = _sgd_step if protocol.optimizer == "sgd" else _adam_step
    return torch.no_grad()(make(protocol, numbers, gradients, fused))


def _sgd_step(protocol: Protocol, numbers: Tensor, gradients: Tensor, fused: bool) -> Callable[[float], None]:
    buffers: list[Tensor | None] = [None] if protocol.momentum else []  # filled by the first step

    def step(rate: float) -> None:
        sgd(
            [numbers],
            [gradients],
            buffers,
            fused=fused,
            lr=rate,
            momentum=protocol.momentum,
            weight_decay=protocol.weight_decay,
            dampening=0,
            nesterov=False,
            maximize=False,
        )

    return step


def _adam_step(protocol: Protocol, numbers: Tensor, gradients: Tensor, fused: bool) -> Callable[[float], None]:
    amsgrad = protocol.optimizer == "adam_amsgrad"
    means, squares = torch.zeros_like(numbers), torch.zeros_like(numbers)
    largest = [torch.zeros_like(numbers)] if amsgrad else []
    taken = torch.zeros((), device=numbers.device if fused else "cpu")

    def step(rate: float) -> None:
        adam(
            [numbers],
            [gradients],
            [means],
            [squares],
            largest,
            [taken],
            fused=fused,
            lr=rate,
            amsgrad=amsgrad,
            beta1=0.9,
            beta2=0.999,
            eps=1e-8,
            weight_decay=protocol.weight_decay,
            maximize=False,
        )

    return step
