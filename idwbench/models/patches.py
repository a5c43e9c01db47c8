"""Patches: prototypes with a reach of their own, added to a network so that inputs get wanted outputs.

The network gives weights w_j(x), their sum S(x) and outputs z(x) = Σ w_j v_j / S. A patch at q has the weight

    w(d) = w₀ / (1 + (d/r)^s),

with radius r and steepness s, and the patched network answers z' = (S z + Σ_m w_m v_m) / (S + Σ_m w_m). This is an
`idw` prototype with its own p = s and ε = r^s, scaled to w₀ = 1/ε of the network (arXiv 2310.18805); the patch of the
paper has r = ε^(1/p) and s = p. Methods other than `idw` have no ε: there w₀ = 10⁴·S(q).

All is computed in float64 and without torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.scores import log_patch_weight
from idwbench.errors import PatchError
from idwbench.models.array_weights import ArrayNetwork, shared_by_hits
from idwbench.models.neighbours import squared_distances

__all__ = ["OTHER_PEAK", "Floats", "PatchPrototypes", "exact_shape", "log_expm1", "log_peak"]

Floats = NDArray[np.float64]

# w₀ / S(q) of a method without ε.
OTHER_PEAK = 1e4
# log w₀ of an exact patch where the network has ε = 0.
_LARGEST_PEAK = 460.0


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

    def weights(self, base: ArrayNetwork, inputs: NDArray[np.floating]) -> Floats:
        """Return the weights (n, prototypes + patches) of the patched network at inputs (n, features)."""
        return shared_by_hits(np.concatenate([base.scores(inputs), self.log_weights(inputs)], axis=1))

    def outputs(self, base: ArrayNetwork, inputs: NDArray[np.floating]) -> Floats:
        """Return the outputs (n, outputs) of the patched network at inputs (n, features)."""
        return base.states(inputs).patched(self.log_weights(inputs), self.values)


def log_expm1(numbers: Any) -> Floats:
    """Return log(eˣ − 1), and −∞ for x ≤ 0: a patch has the weight w at the distance d = r (w₀/w − 1)^(1/s)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(numbers > 0, numbers + np.log(-np.expm1(-numbers)), -np.inf)


def log_peak(base: ArrayNetwork, otherwise: float) -> float:
    """Return log w₀ = −log ε of an `idw` network, or `otherwise` of another method, and if ε = 0."""
    epsilon = float(base.parameters.get("epsilon", 0))
    return -float(np.log(epsilon)) if base.method.name == "idw" and epsilon > 0 else otherwise


def exact_shape(base: ArrayNetwork) -> tuple[float, float, float]:
    """Return log w₀, r and s of a prototype with the weight of the network's own.

    Raises:
        PatchError: the network's method is not `idw`.
    """
    if base.method.name != "idw":
        raise PatchError(f"only 'idw' models have an exact patch, this one is '{base.method.name}'")
    peak, power = log_peak(base, _LARGEST_PEAK), float(base.parameters["power"])
    return peak, float(np.exp(-peak / power)), power
