"""Patches: prototypes with a reach of their own, added to a network so that inputs get wanted outputs.

The network gives weights w_j(x), their sum S(x) and outputs z(x) = Σ w_j v_j / S. A patch at q has the weight

    w(d) = w₀ / (1 + (d/r)^s),

with radius r and steepness s, and the patched network answers z' = (S z + Σ_m w_m v_m) / (S + Σ_m w_m). This is an
`idw` prototype with its own p = s and ε = r^s, scaled to w₀ = 1/ε of the network (arXiv 2310.18805); the patch of the
paper has r = ε^(1/p) and s = p. Methods other than `idw` have no ε: there w₀ = 10⁴·S(q).

All is computed in float64 and without torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.records import Method
from idwbench.attention.scores import BUILT_IN_METHODS, log_patch_weight
from idwbench.errors import PatchError
from idwbench.models.array_weights import scores_on_arrays, shared_by_hits
from idwbench.models.neighbours import squared_distances

if TYPE_CHECKING:
    from idwbench.models.modules import PrototypeNetwork

__all__ = ["OTHER_PEAK", "Base", "Floats", "PatchPrototypes", "States"]

Floats = NDArray[np.float64]

# w₀ / S(q) of a method without ε.
OTHER_PEAK = 1e4
# log ε of an exact patch where the network has ε = 0.
_LOG_SMALLEST = -460.0
# As many rows of an image as stay in the cache.
_ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class States:
    """A network without patches at n inputs: log S (n,), +∞ where ε = 0 and a key is hit, and outputs (n, outputs)."""

    log_sum: Floats
    outputs: Floats

    def take(self, rows: Any) -> States:
        """Return the states of some rows."""
        return States(self.log_sum[rows], self.outputs[rows])

    def shares(self, log_weights: Floats) -> tuple[Floats, Floats]:
        """Return the shares (n,) of the network and (n, patches) of the patches in the whole weight."""
        is_hit = np.isposinf(self.log_sum)
        log_sum = np.where(is_hit, 0.0, self.log_sum)
        total = np.logaddexp(log_sum, np.logaddexp.reduce(log_weights, axis=1))
        own, patches = np.exp(log_sum - total), np.exp(log_weights - total[:, None])
        return np.where(is_hit, 1.0, own), np.where(is_hit[:, None], 0.0, patches)

    def patched(self, log_weights: Floats, values: Floats) -> Floats:
        """Return the outputs (n, outputs) with patches of log weights (n, patches) and values (patches, outputs)."""
        own, patches = self.shares(log_weights)
        return np.asarray(own[:, None] * self.outputs + patches @ values)


@dataclass(frozen=True)
class Base:
    """A prototype network without its patches.

    Attributes:
        method: Its method, whose weighting is a softmax of scores.
        parameters: All parameters of the method, and the arrays that its score learns.
        keys: (prototypes, features), scaled.
        values: (prototypes, outputs).
    """

    method: Method
    parameters: Mapping[str, Any]
    keys: NDArray[np.float32]
    values: NDArray[np.float32]

    def __post_init__(self) -> None:
        """Raise `PatchError` for a method without softmax weights."""
        if self.method.weighting != "softmax":
            raise PatchError(
                f"a network with method '{self.method.title}' cannot be patched", hint="its weights are not a softmax"
            )

    @classmethod
    def of(cls, network: PrototypeNetwork) -> Base:
        """Return the arrays of a network; raises `PatchError` for a method without softmax weights."""
        keys, values = (part.detach().cpu().numpy() for part in (network.keys, network.values))
        return cls(network.method, network.arguments, keys, values)

    @property
    def log_peak(self) -> float | None:
        """Log w₀ = −log ε of `idw`; None of another method, or if ε = 0."""
        epsilon = float(self.parameters.get("epsilon", 0))
        return -float(np.log(epsilon)) if self.method.name == "idw" and epsilon > 0 else None

    def exact_shape(self) -> tuple[float, float, float]:
        """Return log w₀, r and s of a prototype with the weight of the network's own.

        Raises:
            PatchError: the network's method is not `idw`.
        """
        if self.method.name != "idw":
            raise PatchError(f"only 'idw' models have an exact patch, this one is '{self.method.name}'")
        log_epsilon = _LOG_SMALLEST if self.log_peak is None else -self.log_peak
        power = float(self.parameters["power"])
        return -log_epsilon, float(np.exp(log_epsilon / power)), power

    def scores(self, inputs: NDArray[np.floating]) -> Floats:
        """Return the scores (n, prototypes) of inputs (n, features)."""
        if self.method.name in BUILT_IN_METHODS and self.method.sha256 is None:
            return scores_on_arrays(self.method.name, self.parameters, inputs, self.keys)
        import torch  # a plugin's score takes tensors

        queries, keys = (torch.from_numpy(np.array(array, np.float64)) for array in (inputs, self.keys))
        return np.asarray(self.method.scores(queries, keys, self.parameters).detach().numpy(), np.float64)

    def states(self, inputs: NDArray[np.floating]) -> States:
        """Return S and the outputs at inputs (n, features)."""
        parts = [self._states(inputs[at : at + _ROWS_AT_ONCE]) for at in range(0, max(len(inputs), 1), _ROWS_AT_ONCE)]
        return States(*(np.concatenate([getattr(one, name) for one in parts]) for name in ("log_sum", "outputs")))

    def _states(self, inputs: NDArray[np.floating]) -> States:
        scores = self.scores(inputs)
        hits = np.isposinf(scores)
        # Keys that are hit share the weight equally, the limit of ε → 0.
        scores = np.where(hits.any(1, keepdims=True), np.where(hits, 0.0, -np.inf), scores)
        log_sum = np.logaddexp.reduce(scores, axis=1)
        outputs = np.exp(scores - log_sum[:, None]) @ self.values.astype(np.float64)
        return States(np.where(hits.any(1), np.inf, log_sum), outputs)


@dataclass(frozen=True)
class PatchPrototypes:
    """The prototypes of patches.

    Attributes:
        keys: (patches, features), scaled.
        values: (patches, outputs).
        log_peaks: log w₀ (patches,).
        radii: r (patches,), in scaled units.
        steepness: s (patches,).
    """

    keys: NDArray[np.float32]
    values: Floats
    log_peaks: Floats
    radii: Floats
    steepness: Floats

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def none(cls, n_features: int, n_outputs: int) -> PatchPrototypes:
        """Return no prototypes."""
        nothing = np.empty(0)
        return cls(np.empty((0, n_features), np.float32), np.empty((0, n_outputs)), nothing, nothing, nothing)

    def take(self, places: Any) -> PatchPrototypes:
        """Return some of the prototypes."""
        parts = (self.keys, self.values, self.log_peaks, self.radii, self.steepness)
        return PatchPrototypes(*(part[places] for part in parts))

    def log_weights(self, inputs: NDArray[np.floating]) -> Floats:
        """Return the log weights (n, patches) at inputs (n, features)."""
        return self.log_weights_at(squared_distances(inputs, self.keys.astype(np.float64)))

    def log_weights_at(self, sq_dist: Floats) -> Floats:
        """Return the log weights (n, patches) at squared distances (n, patches)."""
        return np.asarray(log_patch_weight(sq_dist, self.log_peaks, self.radii, self.steepness))

    def weights(self, base: Base, inputs: NDArray[np.floating]) -> Floats:
        """Return the weights (n, prototypes + patches) of the patched network at inputs (n, features)."""
        return shared_by_hits(np.concatenate([base.scores(inputs), self.log_weights(inputs)], axis=1))

    def outputs(self, base: Base, inputs: NDArray[np.floating]) -> Floats:
        """Return the outputs (n, outputs) of the patched network at inputs (n, features)."""
        parts = [inputs[at : at + _ROWS_AT_ONCE] for at in range(0, max(len(inputs), 1), _ROWS_AT_ONCE)]
        return np.concatenate([base.states(part).patched(self.log_weights(part), self.values) for part in parts])
