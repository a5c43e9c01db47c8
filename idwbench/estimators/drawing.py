"""A drawing of prototypes as HTML: images, points of a plane, or lines over the features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from idwbench.figures.keys import draw_keys
from idwbench.figures.style import PAPER, class_colour, clean_text, picture_html

__all__ = ["prototypes_html"]

_MOST = 100
_WIDTH, _HEIGHT = 7.0, 3.2  # inches


def prototypes_html(
    prototypes: NDArray[np.floating[Any]],
    values: NDArray[np.floating[Any]],
    class_names: Sequence[str],
    image_shape: tuple[int, int] | None,
    feature_names: Sequence[str],
) -> str:
    """Return an ``<img>`` with the first 100 prototypes (prototypes, features), coloured by the class of their values.

    Args:
        prototypes: The keys.
        values: (prototypes, outputs).
        class_names: A name for each class; empty for a regression.
        image_shape: (height, width) for prototypes that are images.
        feature_names: A name for each feature, or none.
    """
    shown, shown_values = prototypes[:_MOST], values[:_MOST]
    n = len(prototypes)
    title = f"{n} prototype{'s' if n > 1 else ''}" + (f", the first {_MOST}" if n > _MOST else "")
    if image_shape is not None:
        names = tuple(class_names) or ("",)
        panel = (title, shown, shown_values if class_names else np.zeros((len(shown), 1)))
        figure = draw_keys([panel], (int(image_shape[0]), int(image_shape[1])), names)
    else:
        figure = _plain_drawing(shown, shown_values, class_names, feature_names, title)
    return picture_html(figure, title)


def _plain_drawing(
    prototypes: NDArray[np.floating[Any]],
    values: NDArray[np.floating[Any]],
    class_names: Sequence[str],
    feature_names: Sequence[str],
    title: str,
) -> Figure:
    figure = Figure(figsize=(_WIDTH, _HEIGHT), facecolor=PAPER, layout="constrained")
    axes = figure.add_subplot()
    groups = values.argmax(1) if class_names else np.zeros(len(values), np.int64)
    for group in np.unique(groups).tolist():
        rows, colour = prototypes[groups == group], class_colour(group)
        name = class_names[group] if class_names else None
        if prototypes.shape[1] == 2:
            axes.scatter(rows[:, 0], rows[:, 1], color=colour, label=_plain_text(name))
        else:
            lines = axes.plot(rows.T, color=colour, linewidth=1, marker="." if rows.shape[1] == 1 else None)
            lines[0].set_label(_plain_text(name))
    _label_axes(axes, prototypes.shape[1], [_plain_text(name) for name in feature_names])
    axes.set_title(title, loc="left", fontsize=10)
    if class_names and len(class_names) <= 12:
        axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _label_axes(axes: Any, n_features: int, names: Sequence[str]) -> None:
    if n_features == 2:
        axes.set_xlabel(names[0] if names else "feature 0")
        axes.set_ylabel(names[1] if names else "feature 1")
    elif names and n_features <= 30:
        axes.set_xticks(range(n_features), names, rotation=90, fontsize=7)
    else:
        axes.set_xlabel("feature")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _plain_text(name: object) -> str:
    """Return a text that matplotlib does not hide, of at most 40 characters."""
    return " " if name is None else clean_text(f"{name}")[:40].strip() or " "
