"""`ArrayModel`: a prototype network as arrays and numbers, which exports write in their own form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.records import MethodWeighting
from idwbench.attention.scores import BUILT_IN_METHODS, DistanceScore, log_patch_weight
from idwbench.attention.slopes import FlatSlopes
from idwbench.errors import OutputError
from idwbench.models.array_weights import ArrayNetwork, array_weighting
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.patches import PatchPrototypes

__all__ = ["Array", "ArrayModel", "array_model", "squared_distances"]

Array = NDArray[np.float64]


def squared_distances(inputs: Array, keys: Array) -> Array:
    """Return d² = Σ (x − k)², by differences, which are exact near a key."""
    squares: Array = np.sum(np.square(np.expand_dims(inputs, 1) - keys), axis=-1)
    return squares


@dataclass(frozen=True)
class ArrayModel(ArrayNetwork):
    """A prototype network with softmax weights or those of a ReLU.

    Attributes:
        patches: Those of its patches; None without any.
    """

    patches: PatchPrototypes | None = None

    @property
    def all_keys(self) -> NDArray[np.float32]:
        """The keys of prototypes and patches."""
        return self.keys if self.patches is None else np.concatenate([self.keys, self.patches.keys])

    @property
    def all_values(self) -> NDArray[np.floating[Any]]:
        """The values of prototypes and patches; of those with a slope the values at their keys."""
        return self.values if self.patches is None else np.concatenate([self.values, self.patches.values])

    @property
    def all_slopes(self) -> FlatSlopes | None:
        """The slopes of all values in float64, those of patches 0; None without slopes."""
        n_patches = 0 if self.patches is None else len(self.patches)
        padded = {name: np.pad(part, ((0, 0), (0, n_patches), (0, 0))) for name, part in self.slopes.items()}
        return replace(self, patches=None, keys=self.all_keys, slopes=padded).flat_slopes

    @property
    def compares_distances(self) -> bool:
        """Whether the score is a function of squared distances."""
        return isinstance(self.method.score, DistanceScore)

    @property
    def score(self) -> Callable[..., Any]:
        """The score: a function of squared distances, or of inputs and keys."""
        score = self.method.score
        return score.function if isinstance(score, DistanceScore) else score

    @property
    def arguments(self) -> dict[str, Any]:
        """What the score takes beside inputs and keys."""
        return self.method.score_arguments(self.parameters)

    @property
    def weighting(self) -> Callable[..., Any]:
        """The function from scores to weights."""
        return array_weighting(self.method.weighting, self.parameters)

    def weights_of(self, inputs: Any, keys: Any) -> Any:
        """Return the weights (n, prototypes + patches) for scaled inputs (n, features) and keys in float64."""
        compared = (squared_distances(inputs, keys),) if self.compares_distances else (inputs, keys)
        scores = self.score(*compared, **self.arguments)
        if self.patches is not None:
            distances = squared_distances(inputs, self.patches.keys.astype(np.float64))
            shapes = self.patches.log_peaks, self.patches.radii, self.patches.steepness
            scores = np.concatenate([scores, log_patch_weight(distances, *shapes)], axis=-1)
        return self.weighting(scores)


def array_model(
    network: PrototypeNetwork, patches: PatchPrototypes | None = None, *, takes_plugins: bool = False
) -> ArrayModel:
    """Return the arrays of a network, or of a head, whose inputs are features, with patches if there are any.

    Raises:
        OutputError: it has another weighting than softmax or ReLU, or its method is not built in, and the form of the
            export does not take the methods of plugins.
    """
    method = network.method
    if not takes_plugins and (method.name not in BUILT_IN_METHODS or method.sha256 is not None):
        problem = f"the method '{method.name}' cannot be exported in this format: a plugin defines it"
        raise OutputError(problem, hint="export it as .onnx")
    if method.weighting not in get_args(MethodWeighting):
        problem = f"'{method.title}' cannot be exported: only softmax and ReLU weights can"
        raise OutputError(problem, hint="save it as .pt or .safetensors")
    learned = {name: np.asarray(network.arguments[name], np.float64) for name in network.arrays}
    patches = patches if patches is not None and len(patches) else None
    plain = ArrayModel.of(network)
    return replace(plain, parameters={**plain.parameters, **learned}, patches=patches)
