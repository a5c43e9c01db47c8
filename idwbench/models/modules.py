"""Modules of torch and arrays of NumPy: outputs for many rows, parameters by name, and the runs that store them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from idwbench.errors import TrainingError

if TYPE_CHECKING:
    from idwbench.results.records import StoredRun
    from idwbench.results.store import Results

__all__ = ["RowModule", "complete_run", "parameter_arrays", "with_parameters"]

_ROWS_AT_ONCE = 1024
Module = TypeVar("Module", bound=nn.Module)


class RowModule(nn.Module):
    """A module from inputs (batch, features) to outputs (batch, outputs), each row by itself."""

    def outputs(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the outputs (n, outputs) of scaled inputs (n, features)."""
        return np.asarray(self.in_parts(self, inputs), np.float32)

    def predict(self, inputs: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the labels (n,) of scaled inputs: the class with the largest logit."""
        return np.asarray(self.outputs(inputs).argmax(1), np.int64)

    @torch.no_grad()
    def in_parts(self, function: Callable[[Tensor], Tensor], inputs: NDArray[np.float32]) -> NDArray[np.generic]:
        """Return what a function gives for inputs (n, features) on the device of the module, (n, …), contiguous.

        It is called with parts of the inputs (batch, features), so that its memory is bounded.
        """
        device = next(self.parameters()).device
        parts = [function(part.to(device)) for part in torch.split(torch.from_numpy(inputs), _ROWS_AT_ONCE)]
        return np.ascontiguousarray(torch.cat(parts).cpu().numpy())


def parameter_arrays(module: nn.Module) -> dict[str, NDArray[np.generic]]:
    """Return copies of the parameters and buffers of a module, by the names of its state dict."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in module.state_dict().items()}


def with_parameters(module: Module, arrays: Mapping[str, NDArray[np.generic]]) -> Module:
    """Return the module in evaluation mode, with those of `arrays` that have the names of its state dict."""
    module.load_state_dict({name: torch.from_numpy(np.array(arrays[name])) for name in module.state_dict()})
    return module.eval()


def complete_run(results: Results, run_key: str, kinds: type | tuple[type, ...], lacks: tuple[str, str]) -> StoredRun:
    """Return the complete run of a key or its beginning, whose model is of one of the given kinds.

    Args:
        results: The database.
        run_key: The run's key, or the beginning of it.
        kinds: Classes of the settings of models.
        lacks: What a run of another kind does not have, and what a run that is not complete does not have.

    Raises:
        ResultsError: no such run, or several.
        TrainingError: the run is of another kind, or is not complete.
    """
    run = results.find_run(run_key)
    if not isinstance(run.config.model, kinds):
        raise TrainingError(f"a run of kind {run.config.model.kind} has no {lacks[0]}")
    if run.state != "complete":
        raise TrainingError(f"the run is {run.state}: it has no {lacks[1]}")
    return run
