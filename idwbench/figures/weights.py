"""The paper's Figure 1: the attention weight of a key against its distance; it needs no runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.records import ParameterValue
from idwbench.attention.scores import get_method
from idwbench.figures.lines import Line
from idwbench.figures.registry import figure_of_formulas
from idwbench.figures.style import INK, RULE, Drawing, method_colour, new_page, style_axes

__all__ = ["collect_weights", "first_key_weight", "weights_figure", "weights_p1_figure"]

EPSILON = 1e-3
_FARTHEST, _POINTS = 5.0, 1001


@dataclass(frozen=True)
class _Score:
    """A score of the figure; with `root` it is taken of √d."""

    method: str
    formula: str
    dash: Any
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    root: bool = False


_SQUARES = (
    _Score("neg_dist", "−d²", ":", {"power": 2.0}),
    _Score("gaussian", "exp(−d²/2)", "--", {"sigma_squared": 2.0}),
    _Score("inv_dist", "1/(ε + d²)", "-.", {"power": 2.0, "epsilon": EPSILON}),
    _Score("idw", "−log(ε + d²)", "-", {"power": 2.0, "epsilon": EPSILON}),
)
# As the authors' notebook draws it: the score of neg_dist keeps its square, and exp(−d/2) is the Gaussian of √d.
_DISTANCES = (
    _Score("neg_dist", "−d²", ":", {"power": 2.0}),
    _Score("gaussian", "exp(−d/2)", "--", {"sigma_squared": 2.0}, root=True),
    _Score("inv_dist", "1/(ε + d)", "-.", {"power": 1.0, "epsilon": EPSILON}),
    _Score("idw", "−log(ε + d)", "-", {"power": 1.0, "epsilon": EPSILON}),
)


@figure_of_formulas("weights")
def weights_figure() -> Drawing:
    """The weight of one of two keys against its distance for p = 2, the other at distance 1 (the paper's Figure 1)."""
    return _draw(collect_weights(_SQUARES), "as in the paper's text")


@figure_of_formulas("weights_p1")
def weights_p1_figure() -> Drawing:
    """The same as the authors' notebook draws it: p = 1 for all scores but −d²."""
    return _draw(collect_weights(_DISTANCES), "p = 1 as in the authors' notebook, beside −d²")


def collect_weights(scores: Sequence[_Score] = _SQUARES) -> list[Line]:
    """Return for each score the weight of a key by its distance; the label is the method with its formula."""
    distance = np.linspace(0.0, _FARTHEST, _POINTS)
    lines = []
    for score in scores:
        weight = first_key_weight(score.method, score.parameters, np.sqrt(distance) if score.root else distance)
        label = f"{score.method}:  {score.formula}"
        lines.append(Line(label, method_colour(score.method), score.dash, distance, weight[np.newaxis]))
    return lines


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


def _draw(lines: Sequence[Line], which: str) -> Drawing:
    caption = f"two keys, the second at distance 1; weights are the softmax of the scores; ε = {EPSILON:g}; {which}"
    figure, body = new_page(6.6, 4.4, [caption])
    axes = body.subplots()
    # All weights are ½ at distance 1.
    axes.axhline(0.5, color=RULE, linewidth=0.9, zorder=1)
    axes.axvline(1.0, color=RULE, linewidth=0.9, zorder=1)
    for line in lines:
        axes.plot(line.x, line.values[0], color=line.colour, linestyle=line.dash, linewidth=2.0, label=line.label)
    axes.set(xlim=(0, _FARTHEST), ylim=(-0.02, 1.04), yticks=np.linspace(0, 1, 6))
    axes.set_xlabel("distance d of the first key", fontsize=10, color=INK)
    axes.set_ylabel("weight of the first key", fontsize=10, color=INK)
    style_axes(axes, label_size=9, has_grid=False)
    axes.legend(loc="upper right", frameon=False, fontsize=10, labelcolor=INK, handlelength=3.2, borderaxespad=0.2)
    return Drawing(figure)
