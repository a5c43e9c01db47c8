"""Adam and SGD by the functions behind `torch.optim.Adam` and `torch.optim.SGD`: the same kernels, the same numbers.

The classes import the compiler of torch when they are made, which takes longer than many runs do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from idwbench.runs.protocol import Protocol

__all__ = ["OptimizerStep", "clip_gradients", "flat_parameters"]

# Fused: one pass over the numbers instead of ten, on supported devices.
FUSED_DEVICES = ("cpu", "cuda")
# A parameter starts at a multiple of 64 bytes, as a tensor of its own does: some kernels round differently elsewhere.
ALIGNMENT = 16


def flat_parameters(parameters: Iterable[Tensor], alignment: int = ALIGNMENT) -> tuple[Tensor, Tensor]:
    """Return vectors of all numbers and gradients of parameters that are trained, with zeros between parameters.

    The parameters become views of the first, and their gradients of the second, to which `backward` adds.
    """
    parameters = [parameter for parameter in parameters if parameter.requires_grad]
    if not parameters:
        raise ValueError("there are no parameters to train")
    lengths = [-(-parameter.numel() // alignment) * alignment for parameter in parameters]
    numbers = torch.zeros(sum(lengths), dtype=parameters[0].dtype, device=parameters[0].device)
    gradients = torch.zeros_like(numbers)
    places = zip(parameters, torch.split(numbers, lengths), torch.split(gradients, lengths), strict=True)
    for parameter, place, gradient_place in places:
        size, shape = parameter.numel(), parameter.shape
        place[:size] = parameter.detach().flatten()
        parameter.data, parameter.grad = place[:size].view(shape), gradient_place[:size].view(shape)
    return numbers, gradients


def clip_gradients(protocol: Protocol, gradients: Tensor) -> Tensor | None:
    """Scale gradients (…, length) to the protocol's largest norm, as `torch.nn.utils.clip_grad_norm_` does.

    Returns what they were multiplied by (…, 1), or None without clipping.
    """
    if not protocol.gradient_clip:
        return None
    norms = torch.linalg.vector_norm(gradients, dim=-1, keepdim=True)
    factors: Tensor = (protocol.gradient_clip / (norms + 1e-6)).clamp(max=1)
    gradients.mul_(factors)
    return factors


class OptimizerStep:
    """Takes one step of the protocol's optimizer at a learning rate.

    Args:
        protocol: Its optimizer, momentum and weight decay are used; betas and epsilon are the defaults of torch.
        numbers: The parameters, changed in place by each step.
        gradients: Their gradients, of the same shape, read at each step.

    Attributes:
        state: The optimizer's tensors by name, changed by each step; may be replaced by those of another time.
    """

    def __init__(self, protocol: Protocol, numbers: Tensor, gradients: Tensor) -> None:
        self.protocol, self.numbers, self.gradients = protocol, numbers, gradients
        self.fused = numbers.device.type in FUSED_DEVICES
        self.state: dict[str, Tensor] = {}  # that of SGD with momentum is filled by the first step
        if protocol.optimizer != "sgd":
            names = ("means", "squares", "largest") if protocol.optimizer == "adam_amsgrad" else ("means", "squares")
            self.state = {name: torch.zeros_like(numbers, requires_grad=False) for name in names}
            self.state["taken"] = torch.zeros((), device=numbers.device if self.fused else "cpu")

    @torch.no_grad()
    def __call__(self, rate: float) -> None:
        """Take one step at a learning rate."""
        common: dict[str, Any] = {
            "fused": self.fused,
            "lr": rate,
            "weight_decay": self.protocol.weight_decay,
            "maximize": False,
        }
        if self.protocol.optimizer == "sgd":
            momentum = self.protocol.momentum
            buffers = [self.state.get("momentum")] if momentum else []
            sgd([self.numbers], [self.gradients], buffers, momentum=momentum, dampening=0, nesterov=False, **common)
            if buffers and buffers[0] is not None:
                self.state["momentum"] = buffers[0]
            return
        amsgrad = "largest" in self.state
        means, squares, taken = ([self.state[name]] for name in ("means", "squares", "taken"))
        largest = [self.state["largest"]] if amsgrad else []
        options = {"amsgrad": amsgrad, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, **common}
        adam([self.numbers], [self.gradients], means, squares, largest, taken, **options)
