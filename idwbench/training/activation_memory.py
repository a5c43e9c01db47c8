"""The memory of the tensors that are kept for the backward pass."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["activation_memory"]

_MIB = 2**20


def activation_memory(module: nn.Module, forward: Callable[[], Tensor]) -> tuple[Tensor, float]:
    """Return the result of `forward`, and the MiB of all tensors that autograd saves in it, without parameters.

    Each storage counts once. The number depends on shapes only, and is the same on every machine. What a recomputed
    part of the forward pass saves later, in the backward pass, is not counted.
    """
    owned = {tensor.untyped_storage().data_ptr() for tensor in [*module.parameters(), *module.buffers()]}
    # Storages are held, so that no address is used twice.
    found: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in owned:
            found[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = forward()
    return result, sum(storage.nbytes() for storage in found.values()) / _MIB
