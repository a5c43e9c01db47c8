"""The paper's Figure 1: the attention weight of a key against its distance; it needs no runs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.records import ParameterValue
from idwbench.attention.scores import get_method
from idwbench.figures.lines import Axis, Line, Panel, PanelRow, draw_rows
from idwbench.figures.style import RULE, Drawing, method_colour

__all__ = ["first_key_weight", "weights_figure", "weights_p1_figure"]

EPSILON = 1e-3
_FARTHEST, _POINTS = 5.0, 1001
_DASHES = {"neg_dist": ":", "gaussian": "--", "inv_dist": "-.", "idw": "-"}
_SQUARES = {
    "neg_dist": "−d²",
    "gaussian": "exp(−d²/2)",
    "inv_dist": "1/(ε + d²)",
    "idw": "−log(ε + d²)",
}
# As the authors' notebook draws it: the score of neg_dist keeps its square, and exp(−d/2) is the Gaussian of √d.
_DISTANCES = {
    "neg_dist": "−d²",
    "gaussian": "exp(−d/2)",
    "inv_dist": "1/(ε + d)",
    "idw": "−log(ε + d)",
}


def weights_figure() -> Drawing:
    """The weight of one of two keys against its distance for p = 2, the other at distance 1 (the paper's Figure 1)."""
    return _draw(_SQUARES, 2.0, "as in the paper's text")


def weights_p1_figure() -> Drawing:
    """The same as the authors' notebook draws it: p = 1 for all scores but −d²."""
    return _draw(_DISTANCES, 1.0, "p = 1 as in the authors' notebook, beside −d²")


def first_key_weight(
    method: str, parameters: Mapping[str, ParameterValue], distance: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the weights (n,) of a key at each distance (n,) from the query beside a key at distance 1, in float64."""
    import torch

    from idwbench.attention.forward import attention_weights

    record = get_method(method)
    # The query is the origin of a line, and each distance has its own pair of keys, at d and at −1.
    keys = torch.stack([torch.from_numpy(distance), torch.full(distance.shape, -1.0, dtype=torch.float64)], dim=1)
    queries = torch.zeros(len(distance), 1, 1, dtype=torch.float64)
    scores = record.score(queries, keys[..., None], **record.resolve(parameters))
    return np.asarray(attention_weights(record, scores)[:, 0, 0].numpy())


def _draw(formulas: Mapping[str, str], power: float, which: str) -> Drawing:
    distance = np.linspace(0.0, _FARTHEST, _POINTS)
    lines = []
    for method, formula in formulas.items():
        given = {"power": 2.0 if method == "neg_dist" else power, "epsilon": EPSILON, "sigma_squared": 2.0}
        parameters = {one.name: given[one.name] for one in get_method(method).parameters}
        is_root = method == "gaussian" and power == 1.0
        weight = first_key_weight(method, parameters, np.sqrt(distance) if is_root else distance)
        style = (method_colour(method), _DASHES[method])
        lines.append(Line(f"{method}:  {formula}", *style, distance, weight[np.newaxis]))
    caption = f"two keys, the second at distance 1; weights are the softmax of the scores; ε = {EPSILON:g}; {which}"
    x = Axis("distance d of the first key", limits=(0, _FARTHEST))
    y = Axis("weight of the first key", limits=(-0.02, 1.04))
    figure = draw_rows([PanelRow("", y, [Panel("", lines)])], x, [caption], height=3.2)
    # All weights are ½ at distance 1.
    figure.axes[0].axhline(0.5, color=RULE, linewidth=0.9, zorder=1)
    figure.axes[0].axvline(1.0, color=RULE, linewidth=0.9, zorder=1)
    return Drawing(figure)
