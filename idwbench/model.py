"""`PrototypeNetwork`: owns keys and values; the functions of `scores` do the work."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from idwbench.methods import Method, ParameterValue
from idwbench.scores import attention_weights, prototype_logits, scores_of

__all__ = ["PrototypeNetwork", "predict_labels"]

# One chunk of differences (chunk, prototypes, features) holds at most this many numbers, 4 MB in float32: larger ones
# are fetched from the system anew each time, which costs more than the arithmetic.
CHUNK_NUMBERS = 2**20


class PrototypeNetwork(nn.Module):
    """A classifier whose every parameter can be looked at: logits = weights(inputs, keys) · values.

    Attributes:
        keys: (prototypes, features), in the scaled units of the inputs.
        values: (prototypes, classes).
    """

    def __init__(
        self,
        method: Method,
        parameters: Mapping[str, ParameterValue],
        keys: Float[Tensor, "prototypes features"],
        values: Float[Tensor, "prototypes classes"],
    ) -> None:
        super().__init__()
        self.method = method
        self.parameters_of_method = dict(parameters)
        self.keys = nn.Parameter(keys)
        self.values = nn.Parameter(values)

    def weights(self, inputs: Float[Tensor, "batch features"]) -> Float[Tensor, "batch prototypes"]:
        """Return how much each prototype counts for each input."""
        return attention_weights(self.method, scores_of(self.method, self.parameters_of_method, inputs, self.keys))

    def forward(self, inputs: Float[Tensor, "batch features"]) -> Float[Tensor, "batch classes"]:
        """Return the logits."""
        return prototype_logits(self.method, self.parameters_of_method, inputs, self.keys, self.values)

    def predict(self, inputs: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the label of each of `inputs` (n, features)."""
        device = self.keys.device
        labels = predict_labels(
            self.method,
            self.parameters_of_method,
            torch.from_numpy(inputs).to(device),
            self.keys.detach()[None],
            self.values.detach()[None],
        )
        return labels[0].cpu().numpy()


@torch.no_grad()
def predict_labels(
    method: Method,
    parameters: Mapping[str, ParameterValue | Tensor],
    inputs: Float[Tensor, "n features"],
    keys: Float[Tensor, "runs prototypes features"],
    values: Float[Tensor, "runs prototypes classes"],
) -> Tensor:
    """Return the labels (runs, n) that each run of a stack gives to the same inputs, in chunks of bounded memory."""
    chunk = max(1, CHUNK_NUMBERS // max(1, keys.numel()))
    parts = [
        prototype_logits(method, parameters, part[None], keys, values).argmax(-1) for part in torch.split(inputs, chunk)
    ]
    return torch.cat(parts, dim=-1)
