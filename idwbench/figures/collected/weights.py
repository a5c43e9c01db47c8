"""Figure 1 of the paper from the scores themselves; it needs no runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.attention.records import ParameterValue
from idwbench.attention.scores import get_method
from idwbench.figures.registry import figure_of_formulas
from idwbench.figures.style import Drawing
from idwbench.figures.weights import WeightCurve, draw_weights

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["first_key_weight", "weights_figure", "weights_p1_figure"]

EPSILON = 1e-3
_FARTHEST, _POINTS = 5.0, 1001


@dataclass(frozen=True)
class _Curve:
    """A score of the figure; with `root` it is taken of √d."""

    method: str
    formula: str
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    root: bool = False


_SQUARES = (
    _Curve("neg_dist", "−d²", {"power": 2.0}),
    _Curve("gaussian", "exp(−d²/2)", {"sigma_squared": 2.0}),
    _Curve("inv_dist", "1/(ε + d²)", {"power": 2.0, "epsilon": EPSILON}),
    _Curve("idw", "−log(ε + d²)", {"power": 2.0, "epsilon": EPSILON}),
)
# As the authors' notebook draws it: the score of neg_dist keeps its square, and exp(−d/2) is the Gaussian of √d.
_DISTANCES = (
    _Curve("neg_dist", "−d²", {"power": 2.0}),
    _Curve("gaussian", "exp(−d/2)", {"sigma_squared": 2.0}, root=True),
    _Curve("inv_dist", "1/(ε + d)", {"power": 1.0, "epsilon": EPSILON}),
    _Curve("idw", "−log(ε + d)", {"power": 1.0, "epsilon": EPSILON}),
)


@figure_of_formulas("weights")
def weights_figure() -> Drawing:
    """The weight of one of two keys against its distance for p = 2, the other at distance 1 (the paper's Figure 1)."""
    return Drawing(_drawn(_SQUARES, "as in the paper's text"))


@figure_of_formulas("weights_p1")
def weights_p1_figure() -> Drawing:
    """The same as the authors' notebook draws it: p = 1 for all scores but −d²."""
    return Drawing(_drawn(_DISTANCES, "p = 1 as in the authors' notebook, beside −d²"))


def first_key_weight(
    method: str, parameters: Mapping[str, ParameterValue], distance: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the weights (n,) of a key at each distance (n,) from the query beside a key at distance 1, in float64."""
    import torch

    from idwbench.attention.forward import attention_weights

    found = get_method(method)
    # The query is the origin of a line, and each distance has its own pair of keys, at d and at −1.
    keys = torch.stack([torch.from_numpy(distance), torch.full(distance.shape, -1.0, dtype=torch.float64)], dim=1)
    queries = torch.zeros(len(distance), 1, 1, dtype=torch.float64)
    scores = found.score(queries, keys[..., None], **found.resolve(parameters))
    return np.asarray(attention_weights(found, scores)[:, 0, 0].numpy())


def _drawn(curves: Sequence[_Curve], which: str) -> Figure:
    distance = np.linspace(0.0, _FARTHEST, _POINTS)
    drawn = [
        WeightCurve(
            curve.method,
            curve.formula,
            first_key_weight(curve.method, curve.parameters, np.sqrt(distance) if curve.root else distance),
        )
        for curve in curves
    ]
    caption = f"two keys, the second at distance 1; weights are the softmax of the scores; ε = {EPSILON:g}; {which}"
    return draw_weights(distance, drawn, caption)
