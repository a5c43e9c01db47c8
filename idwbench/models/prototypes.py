"""`PrototypeNetwork`: a module with keys and values."""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from idwbench.attention.forward import attention_weights, prototype_logits
from idwbench.attention.records import Method, ParameterValue

__all__ = ["PrototypeNetwork", "stacked_outputs"]

# Size of a chunk of differences (chunk, prototypes, features), 4 MB in float32; larger arrays are allocated anew each
# time, which takes longer than the arithmetic.
CHUNK_NUMBERS = 2**20


class PrototypeNetwork(nn.Module):
    """A prototype network: outputs = weights(inputs, keys) · values.

    Attributes:
        keys: (prototypes, features), in the scaled units of the inputs.
        values: (prototypes, outputs).
    """

    def __init__(
        self,
        method: Method,
        parameters: Mapping[str, ParameterValue],
        keys: Float[Tensor, "prototypes features"],
        values: Float[Tensor, "prototypes outputs"],
    ) -> None:
        super().__init__()
        self.method = method
        self.parameters_of_method = dict(parameters)
        self.keys = nn.Parameter(keys)
        self.values = nn.Parameter(values)

    def weights(self, inputs: Float[Tensor, "batch features"]) -> Float[Tensor, "batch prototypes"]:
        """Return the weight of each prototype for each input."""
        return attention_weights(self.method, self.method.score(inputs, self.keys, **self.parameters_of_method))

    def forward(self, inputs: Float[Tensor, "batch features"]) -> Float[Tensor, "batch outputs"]:
        """Return the outputs: logits, or scaled predictions of a regression."""
        return prototype_logits(self.method, self.parameters_of_method, inputs, self.keys, self.values)

    def outputs(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the outputs (n, outputs) for `inputs` (n, features), in chunks of bounded memory."""
        on_device = torch.from_numpy(inputs).to(self.keys.device)
        stack = self.keys.detach()[None], self.values.detach()[None]
        outputs = stacked_outputs(self.method, self.parameters_of_method, on_device, *stack)[0]
        return np.asarray(outputs.cpu().numpy(), np.float32)

    def predict(self, inputs: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the labels (n,) of `inputs` (n, features): the class with the largest logit."""
        return np.asarray(self.outputs(inputs).argmax(1), np.int64)


@torch.no_grad()
def stacked_outputs(
    method: Method,
    parameters: Mapping[str, ParameterValue | Tensor],
    inputs: Float[Tensor, "n features"],
    keys: Float[Tensor, "runs prototypes features"],
    values: Float[Tensor, "runs prototypes outputs"],
) -> Float[Tensor, "runs n outputs"]:
    """Return the outputs of each run of a stack for the same inputs, in chunks of bounded memory."""
    chunk = max(1, CHUNK_NUMBERS // max(1, keys.numel()))
    parts = [prototype_logits(method, parameters, part[None], keys, values) for part in torch.split(inputs, chunk)]
    return torch.cat(parts, dim=1)
