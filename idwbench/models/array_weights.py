"""Prototype networks on NumPy arrays in float64, without torch unless a plugin's score or another weighting needs it.

The weights of an input do not depend on the other inputs of a call, but for the last digits of float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np
from numpy.typing import NDArray

import idwbench
from idwbench.attention.records import Method, MethodWeighting
from idwbench.attention.scores import BUILT_IN_METHODS, DistanceScore
from idwbench.attention.slopes import SLOPE_ARRAYS, FlatSlopes, slope_terms
from idwbench.errors import PatchError
from idwbench.models.neighbours import squared_distances

if TYPE_CHECKING:
    from idwbench.models.modules import PrototypeNetwork

__all__ = [
    "AnswerTerms",
    "ArrayNetwork",
    "States",
    "array_weighting",
    "calibration_error",
    "relu",
    "shared_by_hits",
    "softmax",
]

Array = NDArray[np.float64]
Parameters = Mapping[str, Any]

_SHOWN = 10
# As many rows of an image as stay in the cache.
_ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class AnswerTerms:
    """The terms of one answer Σ_j weights_j · values_j (+ the intercept of a regressor), by decreasing weight.

    Printed, and in a notebook, it is a table of the largest weights.

    Attributes:
        prediction: The predicted label, or the predicted targets.
        outputs: Logits (outputs,), or predictions of a regression in the targets' own units.
        prototypes: Positions (m,) in the model.
        weights: (m,); over all prototypes those of a softmax sum to 1.
        keys: The prototypes themselves, (m, features), in the data's own units.
        values: Their values, (m, outputs); those with a slope at the input.
        labels: The label (m,) with the largest value of each prototype; None for a regression.
        patches: The number (m,) of the patch whose prototype it is, from 1; 0 for a learned one. None where there are
            no patches.
    """

    prediction: Any
    outputs: NDArray[np.floating[Any]]
    prototypes: NDArray[np.int64]
    weights: NDArray[np.floating[Any]]
    keys: NDArray[np.floating[Any]]
    values: NDArray[np.floating[Any]]
    labels: NDArray[Any] | None = None
    patches: NDArray[np.int64] | None = None

    def __str__(self) -> str:
        rows = (f"{prototype:>9}  {weight:>8}  {value}" for prototype, weight, value in [self.header, *self.rows()])
        return "\n".join(filter(None, (f"prediction: {self.prediction}", *rows, self.rest)))

    def _repr_html_(self) -> str:
        return idwbench.html(self)

    @property
    def header(self) -> tuple[str, str, str]:
        """Names of the columns of `rows`."""
        return "prototype", "weight", "label" if self.labels is not None else "value"

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield number, weight, and label or value of the prototypes with the largest weights."""
        for place in range(min(_SHOWN, len(self.prototypes))):
            value = self.labels[place] if self.labels is not None else np.round(self.values[place], 4).tolist()
            patch = f" (patch {self.patches[place]})" if self.patches is not None and self.patches[place] else ""
            yield f"{self.prototypes[place]}", f"{self.weights[place]:.4f}", f"{value}{patch}"

    @property
    def rest(self) -> str:
        """What the prototypes weigh that `rows` leaves out; empty if there are none."""
        hidden, weight = len(self.prototypes) - _SHOWN, self.weights[_SHOWN:].sum()
        return f"and {hidden} more with a weight of {weight:.4f} together" if hidden > 0 else ""


@dataclass(frozen=True)
class States:
    """A network without patches at n inputs: log S (n,), +∞ where ε = 0 and a key is hit, and outputs (n, outputs)."""

    log_sum: Array
    outputs: Array

    def take(self, rows: Any) -> States:
        """Return the states of some rows."""
        return States(self.log_sum[rows], self.outputs[rows])

    def shares(self, log_weights: Array) -> tuple[Array, Array]:
        """Return the shares (n,) of the network and (n, patches) of the patches in the whole weight."""
        is_hit = np.isposinf(self.log_sum)
        log_sum = np.where(is_hit, 0.0, self.log_sum)
        total = np.logaddexp(log_sum, np.logaddexp.reduce(log_weights, axis=1))
        own, patches = np.exp(log_sum - total), np.exp(log_weights - total[:, None])
        return np.where(is_hit, 1.0, own), np.where(is_hit[:, None], 0.0, patches)

    def patched(self, log_weights: Array, values: Array) -> Array:
        """Return the outputs (n, outputs) with patches of log weights (n, patches) and values (patches, outputs)."""
        own, patches = self.shares(log_weights)
        return np.asarray(own[:, None] * self.outputs + patches @ values)


@dataclass(frozen=True)
class ArrayNetwork:
    """A prototype network as arrays, computed in float64.

    Attributes:
        method: Its method.
        parameters: All parameters of the method, and the arrays that its score learns.
        keys: (prototypes, features), scaled.
        values: (prototypes, outputs).
        slopes: The `SLOPE_ARRAYS` of the values by name; empty without slopes.
    """

    method: Method
    parameters: Mapping[str, Any]
    keys: NDArray[np.float32]
    values: NDArray[np.float32]
    slopes: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)

    @classmethod
    def of(cls, network: PrototypeNetwork) -> Self:
        """Return the arrays of a network."""
        keys, values = (part.detach().cpu().numpy() for part in (network.keys, network.values))
        slopes = {name: part.detach().cpu().numpy() for name, part in network.slopes.items()}
        return cls(network.method, network.arguments, keys, values, slopes)

    @property
    def flat_slopes(self) -> FlatSlopes | None:
        """The slopes of all values as matrices in float64; None without slopes."""
        exact = {name: part.astype(np.float64) for name, part in self.slopes.items()}
        return FlatSlopes.of(exact, self.keys.astype(np.float64))

    def values_at(self, query: NDArray[np.floating]) -> Array:
        """Return the value v_j + A_j (x − k_j) of each prototype at an input x (features,), (prototypes, outputs)."""
        values = self.values.astype(np.float64)
        if not self.slopes:
            return values
        inputs, outputs = (self.slopes[name].astype(np.float64) for name in SLOPE_ARRAYS)
        heights = np.einsum("rpf,pf->rp", inputs, query - self.keys.astype(np.float64))
        return np.asarray(values + np.einsum("rp,rpo->po", heights, outputs))

    def slope_norms(self, directions: NDArray[np.floating]) -> Array:
        """Return ‖A_jᵀ u‖ (prototypes, n) for directions u (n, outputs): the steepest change of u·value by distance."""
        if not self.slopes:
            return np.zeros((len(self.keys), len(directions)))
        inputs, outputs = (self.slopes[name].astype(np.float64) for name in SLOPE_ARRAYS)
        products = np.einsum("rpf,spf->prs", inputs, inputs)  # W_j W_jᵀ
        factors = np.einsum("rpo,no->pnr", outputs, directions)
        return np.asarray(np.sqrt(np.maximum(np.einsum("pnr,prs,pns->pn", factors, products, factors), 0.0)))

    def scores(self, inputs: NDArray[np.floating]) -> Array:
        """Return the scores (n, prototypes) of inputs (n, features)."""
        keys = np.ascontiguousarray(self.keys, np.float64)
        if self.method.name not in BUILT_IN_METHODS or self.method.sha256 is not None:
            import torch  # a plugin's score takes tensors

            pair = torch.from_numpy(np.array(inputs, np.float64)), torch.from_numpy(keys)
            return np.asarray(self.method.scores(*pair, self.parameters).detach().numpy(), np.float64)
        if isinstance(self.method.score, DistanceScore):
            arguments = self.method.score_arguments(self.parameters)
            return np.asarray(self.method.score.function(squared_distances(inputs, keys), **arguments))
        return np.asarray(self.method.scores(np.ascontiguousarray(inputs, np.float64), keys, self.parameters))

    def weights(self, inputs: NDArray[np.floating]) -> Array:
        """Return the weights (n, prototypes) for inputs (n, features); keys that are hit share a softmax equally."""
        return np.concatenate([self._weights(part) for part in _parts(inputs)])

    def _weights(self, inputs: NDArray[np.floating]) -> Array:
        if self.method.weighting in get_args(MethodWeighting):
            return array_weighting(self.method.weighting, self.parameters)(self.scores(inputs))
        import torch

        from idwbench.attention.forward import attention_weights

        scores = torch.from_numpy(self.scores(inputs))
        return np.asarray(attention_weights(self.method, scores, self.parameters).numpy(), np.float64)

    def states(self, inputs: NDArray[np.floating]) -> States:
        """Return the sum of weights and the outputs at inputs (n, features).

        Raises:
            PatchError: its weights are not a softmax, which has such a sum.
        """
        if self.method.weighting != "softmax":
            problem = f"a network with method '{self.method.title}' cannot be patched"
            raise PatchError(problem, hint="its weights are not a softmax")
        parts = [self._states(part) for part in _parts(inputs)]
        return States(*(np.concatenate([getattr(one, name) for one in parts]) for name in ("log_sum", "outputs")))

    def _states(self, inputs: NDArray[np.floating]) -> States:
        scores = self.scores(inputs)
        hits = np.isposinf(scores)
        # Keys that are hit share the weight equally, the limit of ε → 0.
        scores = np.where(hits.any(1, keepdims=True), np.where(hits, 0.0, -np.inf), scores)
        largest = scores.max(1)
        terms = np.exp(scores - largest[:, None])
        total = terms.sum(1)
        outputs = terms @ self.values.astype(np.float64) / total[:, None]
        if (slopes := self.flat_slopes) is not None:
            outputs += slope_terms(terms / total[:, None], np.asarray(inputs, np.float64), *slopes)
        return States(np.where(hits.any(1), np.inf, largest + np.log(total)), outputs)


def _parts(inputs: NDArray[np.floating]) -> list[NDArray[np.floating]]:
    """Return the inputs in parts, at least one, whose weights stay in the cache."""
    return [inputs[first : first + _ROWS_AT_ONCE] for first in range(0, max(len(inputs), 1), _ROWS_AT_ONCE)]


def array_weighting(weighting: str, parameters: Parameters) -> Callable[..., Array]:
    """Return the function from scores to weights of ``softmax`` or ``relu``.

    Only with ε = 0 can scores be +∞, which share the weight of a softmax.
    """
    if weighting == "relu":
        return relu
    return shared_by_hits if parameters.get("epsilon") == 0 else softmax


def softmax(scores: Array) -> Array:
    """Return exp(s) / Σ exp(s) over prototypes."""
    terms = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    weights: Array = terms / np.sum(terms, axis=-1, keepdims=True)
    return weights


def shared_by_hits(scores: Array) -> Array:
    """Return the softmax; keys that the input hits, whose score is +∞, share the weight equally."""
    hits = np.where(scores == np.inf, 1.0, 0.0)
    n_hits = np.sum(hits, axis=-1, keepdims=True)
    return np.where(n_hits > 0.0, hits / np.maximum(n_hits, 1.0), softmax(np.where(n_hits > 0.0, 0.0, scores)))


def relu(scores: Array) -> Array:
    """Return max(0, s)."""
    return np.maximum(scores, 0.0)


def calibration_error(logits: Array, labels: NDArray[np.int64], bins: int = 15) -> float:
    """Return the expected calibration error of `logits` (n, classes).

    Σ_b (n_b/n)·|accuracy_b − confidence_b| over bins b of equal width of the largest probability (Guo et al. 2017, *On
    Calibration of Modern Neural Networks*, Eq. 3).
    """
    confidence = 1 / np.exp(logits - logits.max(1, keepdims=True)).sum(1)
    right = (logits.argmax(1) == labels).astype(np.float64)
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    gap = np.bincount(place, right - confidence, bins)
    return float(np.abs(gap).sum() / len(labels))
