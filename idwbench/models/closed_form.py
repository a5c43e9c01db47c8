"""`idw` networks with patches in float64, from the closed form of their logits.

With w(x) = 1/(ε + d^p) for a new key at distance d from x, S(x) the sum of the old weights and z(x) the old logits, a
patch η e_c gives z' = (S z + w η e_c)/(S + w): the prediction at x changes to c exactly if
w(x)·η > S(x)·(max z(x) − z_c(x)).

Three sizes η are compared, with Δ = max z − z_c and r = ε·S at the query (see `idwbench.models.patching`):

- ``exact``: (1 + 10⁻³)·rΔ, the smallest η that wins, with a relative margin;
- ``logit_margin``: rΔ + (1 + r), which wins by a logit margin of 1;
- ``authors``: (1 + r)·Δ, of the authors' code for arXiv 2310.18805, which normalises over the old keys alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.records import ParameterValue
from idwbench.models.neighbours import squared_distances

__all__ = ["CRITERIA", "MARGIN", "Floats", "IdwNetwork", "Parameters", "State", "softmax"]

CRITERIA = ("exact", "logit_margin", "authors")
MARGIN = 1e-3

Floats = NDArray[np.float64]
Parameters = Mapping[str, ParameterValue]


@dataclass
class State:
    """A network at given points: log S (n,) and logits (n, classes)."""

    log_sum: Floats
    logits: Floats

    def take(self, row: np.integer | int) -> State:
        """Return the state at one point."""
        return State(self.log_sum[row], self.logits[row])

    def patched(self, log_weight: Floats, label: int, eta: float) -> State:
        """Return the state with one more prototype, of weight exp(`log_weight`) (n,) and value η e_label."""
        total = np.logaddexp(self.log_sum, log_weight)
        logits = self.logits * np.exp(self.log_sum - total)[:, None]
        logits[:, label] += eta * np.exp(log_weight - total)
        return State(total, logits)


class IdwNetwork:
    """An `idw` network in float64."""

    def __init__(self, parameters: Parameters, keys: NDArray[np.floating], values: NDArray[np.floating]) -> None:
        self.power, self.epsilon = (float(parameters[name]) for name in ("power", "epsilon"))
        self.keys, self.values = keys.astype(np.float64), values.astype(np.float64)

    def log_weights(self, squared: Floats) -> Floats:
        """Return log 1/(ε + d^p) for squared distances."""
        with np.errstate(divide="ignore"):
            return -np.logaddexp(np.log(self.epsilon), self.power / 2 * np.log(squared))

    def at(self, points: NDArray[np.floating]) -> State:
        """Return the state at `points` (n, features)."""
        scores = self.log_weights(squared_distances(points, self.keys))
        log_sum = np.logaddexp.reduce(scores, axis=1)
        return State(log_sum, np.exp(scores - log_sum[:, None]) @ self.values)

    def etas(self, at_query: State, label: int) -> tuple[float, float, float]:
        """Return η of each criterion at a query, see the module."""
        ratio = float(np.exp(np.log(self.epsilon) + at_query.log_sum))
        gap = float(at_query.logits.max() - at_query.logits[label])
        return ((1 + MARGIN) * ratio * gap, ratio * gap + 1 + ratio, (1 + ratio) * gap)


def softmax(logits: Floats) -> Floats:
    """Return the probabilities (n, classes) for logits of that shape."""
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))
