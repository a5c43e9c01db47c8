"""Modules of torch for rows of NumPy, among them `PrototypeNetwork`, their parameters by name, and their runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from idwbench.attention.distances import stacked_product
from idwbench.attention.forward import attention_weights, prototype_logits
from idwbench.attention.learned_scores import LearnedScore
from idwbench.attention.records import Method, ParameterValue
from idwbench.attention.slopes import SLOPE_ARRAYS, FlatSlopes, slope_terms
from idwbench.errors import IdwbenchError, TrainingError

if TYPE_CHECKING:
    from jaxtyping import Float

    from idwbench.results.records import StoredRun
    from idwbench.results.store import Results

__all__ = ["PrototypeNetwork", "RowModule", "complete_run", "parameter_arrays", "stacked_outputs", "with_parameters"]

_ROWS_AT_ONCE = 1024
# Size of a chunk of differences (chunk, prototypes, features), 4 MB in float32; larger arrays are allocated anew each
# time, which takes longer than the arithmetic.
CHUNK_NUMBERS = 2**20
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


class PrototypeNetwork(RowModule):
    """A prototype network: outputs = Σ_j weights_j (values_j + A_j (inputs − keys_j)), where most have no slope A.

    Attributes:
        keys: (prototypes, features), in the scaled units of the inputs.
        values: (prototypes, outputs).
        arrays: What the score of the method learns, by name; parameters of the module, too.
        slopes: The `SLOPE_ARRAYS` by name, also parameters of the module; empty without slopes.
        learned: The score with learned numbers, or None for that of the method.
    """

    def __init__(
        self,
        method: Method,
        parameters: Mapping[str, ParameterValue],
        keys: Float[Tensor, "prototypes features"],
        values: Float[Tensor, "prototypes outputs"],
        *,
        arrays: Mapping[str, Tensor] | None = None,
        learned: LearnedScore | None = None,
    ) -> None:
        super().__init__()
        self.method = method
        self.parameters_of_method = dict(parameters)
        self.keys = nn.Parameter(keys)
        self.values = nn.Parameter(values)
        self.learned = learned
        given = dict(arrays or {})
        for name in (*(one.name for one in method.learned), *(name for name in SLOPE_ARRAYS if name in given)):
            self.register_parameter(name, nn.Parameter(given[name]))

    @staticmethod
    def of(method: Method, parameters: Mapping[str, ParameterValue], arrays: Mapping[str, Any]) -> PrototypeNetwork:
        """Return the network of `arrays` by name: ``keys``, ``values``, what the score learns, and slopes if any."""
        slopes = (name for name in SLOPE_ARRAYS if name in arrays)
        names = ("keys", "values", *(one.name for one in method.learned), *slopes)
        keys, values, *others = (torch.from_numpy(np.asarray(arrays[name])) for name in names)
        return PrototypeNetwork(method, parameters, keys, values, arrays=dict(zip(names[2:], others, strict=True)))

    @property
    def arrays(self) -> dict[str, Tensor]:
        """What the score of the method learns, by name."""
        return {one.name: getattr(self, one.name) for one in self.method.learned}

    @property
    def slopes(self) -> dict[str, Tensor]:
        """The slopes of the values, by name; empty without any."""
        return {name: getattr(self, name) for name in SLOPE_ARRAYS if hasattr(self, name)}

    @property
    def arguments(self) -> dict[str, Any]:
        """All parameters of the method, and what its score learns as arrays of NumPy."""
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in self.arrays.items()}
        return {**self.parameters_of_method, **arrays}

    def scores(self, inputs: Float[Tensor, "batch features"]) -> Float[Tensor, "batch prototypes"]:
        """Return the score of each prototype for each input."""
        if self.learned is not None:
            return torch.as_tensor(self.learned(inputs, self.keys))
        return torch.as_tensor(self.method.scores(inputs, self.keys, {**self.parameters_of_method, **self.arrays}))

    def weights(self, inputs: Float[Tensor, "batch features"]) -> Float[Tensor, "batch prototypes"]:
        """Return the weight of each prototype for each input."""
        return attention_weights(self.method, self.scores(inputs), self.parameters_of_method)

    def forward(self, inputs: Float[Tensor, "batch features"]) -> Float[Tensor, "batch outputs"]:
        """Return the outputs: logits, or scaled predictions of a regression."""
        weights, slopes = self.weights(inputs), FlatSlopes.of(self.slopes, self.keys)
        outputs = stacked_product(weights, self.values)
        return outputs if slopes is None else outputs + slope_terms(weights, inputs, *slopes)

    @torch.no_grad()
    def compared(self, inputs: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return inputs (n, features) and keys (prototypes, features) as the score compares them."""
        pair = torch.from_numpy(inputs).to(self.keys.device), self.keys
        queries, keys = pair if self.learned is None else self.learned.normalised(*pair)
        return queries.cpu().numpy(), keys.detach().cpu().numpy()

    @torch.no_grad()
    def plain(self, error: type[IdwbenchError] = TrainingError) -> PrototypeNetwork:
        """Return the same network with learned numbers as parameters of the method: a power, the temperature of cosine.

        Raises:
            IdwbenchError: `error`, for normalised keys and for the temperature of a method that has none.
        """
        if self.learned is None:
            return self
        if self.learned.qk_norm != "none":
            raise error("a head with normalised queries and keys is not a score of its method alone")
        parameters = {
            name: value if isinstance(value, str) else float(value)
            for name, value in self.learned.parameters_of_method.items()
        }
        if self.learned.log_temperature is not None:
            if "temperature" not in parameters:
                raise error(f"a head with a learned temperature is not a score of {self.method.name} alone")
            parameters["temperature"] = float(parameters["temperature"]) * float(self.learned.log_temperature.exp())
        parameters = {**self.parameters_of_method, **parameters}
        return PrototypeNetwork(self.method, parameters, self.keys.detach(), self.values.detach())

    def outputs(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the outputs (n, outputs) for `inputs` (n, features), in chunks of bounded memory."""
        if self.learned is not None:
            return super().outputs(inputs)
        on_device = torch.from_numpy(inputs).to(self.keys.device)
        keys, values = (part.detach()[None] for part in (self.keys, self.values))
        arrays = {name: tensor.detach()[None] for name, tensor in self.arrays.items()}
        slopes = {name: tensor.detach()[None] for name, tensor in self.slopes.items()}
        parameters = {**self.parameters_of_method, **arrays}
        outputs = stacked_outputs(self.method, parameters, on_device, keys, values, slopes)[0]
        return np.asarray(outputs.cpu().numpy(), np.float32)

    def without(self, where: NDArray[np.bool_]) -> PrototypeNetwork:
        """Return the network without some of its prototypes, `where` (prototypes,) is true."""
        kept = torch.from_numpy(~where)
        keys, values = (part.detach()[kept] for part in (self.keys, self.values))
        arrays = {**self.arrays, **{name: tensor.detach()[:, kept] for name, tensor in self.slopes.items()}}
        parts: dict[str, Any] = {"arrays": arrays, "learned": self.learned}
        return PrototypeNetwork(self.method, self.parameters_of_method, keys, values, **parts)


@torch.no_grad()
def stacked_outputs(
    method: Method,
    parameters: Mapping[str, ParameterValue | Tensor],
    inputs: Float[Tensor, "n features"],
    keys: Float[Tensor, "runs prototypes features"],
    values: Float[Tensor, "runs prototypes outputs"],
    slopes: Mapping[str, Tensor] | None = None,
) -> Float[Tensor, "runs n outputs"]:
    """Return the outputs of each run of a stack for the same inputs, in chunks of bounded memory."""
    pairs = max(1, keys.numel() // keys.shape[-1])
    chunk = max(1, CHUNK_NUMBERS // (pairs * method.numbers_of_pair(keys.shape[-1], parameters)))
    split = torch.split(inputs, chunk)
    return torch.cat([prototype_logits(method, parameters, part[None], keys, values, slopes) for part in split], dim=1)


def parameter_arrays(module: nn.Module) -> dict[str, NDArray[Any]]:
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
