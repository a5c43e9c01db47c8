"""The figure of the class that each layer of a perceptron attends to most, for test inputs of each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure, SubFigure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.runs import Selection
from idwbench.figures.style import INK, PAPER, QUIET, RULE, class_colour, clean_text, new_page, seeds_label, write
from idwbench.report.frame import Row
from idwbench.report.labels import count_label
from idwbench.runs.datasets import PartsConfig
from idwbench.runs.kinds.mlp import MlpConfig

__all__ = ["attended_classes_figure"]

_ARRAY = "attended_classes"
_MOST_SETTINGS = 2
_WIDTH, _PANEL = 10.0, 2.75  # inches
_COLOURS = LinearSegmentedColormap.from_list("idwbench_shares", [PAPER, class_colour(0), INK])


class _Setting(NamedTuple):
    """The shares of one network: of the inputs with right and with wrong answers, (2, layers, classes, classes)."""

    title: str
    parts: tuple[str, ...]
    layers: tuple[str, ...]
    shares: NDArray[np.float64]
    n_seeds: int


def attended_classes_figure(selection: Selection) -> Figure:
    """The share of the test inputs of each class whose largest total attention goes to each class of the training.

    Classes of different parts of the data are apart, and right and wrong answers too; inputs of all seeds together.

    Raises:
        ConfigError: no complete run of kind ``mlp`` on a joint or sequence data set has these numbers.
    """
    settings = _collect(selection)
    counts = {setting.n_seeds for setting in settings}
    caption = (
        "row: a class of the test inputs, with right or with wrong answers; column: the class of the training to which "
        "their largest total attention in the layer goes; colour: share of the inputs of the row, "
        f"{seeds_label(counts)} together; grey: no such input"
    )
    height = len(settings) * (2 * _PANEL + 0.75)
    figure, body = new_page(_WIDTH, height, [caption])
    for part, setting in zip(body.subfigures(len(settings), 1, squeeze=False)[:, 0], settings, strict=True):
        _draw(part, setting)
    return figure


def _collect(selection: Selection) -> list[_Setting]:
    """Return the numbers of the first settings on data of several parts; the others are left out."""
    rows = [row for section in selection.sections(selection.of_kind("mlp")) for row in section.rows if row.n]
    known = [*filter(None, (_setting(selection, row) for row in rows))]
    if not known:
        hint = "run the sweep dual_parts, or train joint and sequence data sets again"
        raise ConfigError(f"no complete run on data of several parts has the array {_ARRAY}", hint=hint)
    if missing := len(rows) - len(known):
        selection.leave_out(f"{count_label(missing, 'setting')} without several parts or without the array {_ARRAY}")
    return selection.first(known, _MOST_SETTINGS, "other setting")


def _setting(selection: Selection, row: Row) -> _Setting | None:
    """Return the shares of a setting, over the test inputs of all seeds; None without parts or without the array."""
    dataset, model = row.config.dataset, row.model
    assert isinstance(model, MlpConfig)
    if not isinstance(dataset, PartsConfig):
        return None
    stored = [selection.store.load_arrays(run.run_key).get(_ARRAY) for run in row.complete]
    counts = [one.astype(np.float64) for one in stored if one is not None]
    if not counts:
        return None
    total = np.sum(counts, axis=0)
    numbers = total.sum(-1, keepdims=True)
    shares = np.divide(total, numbers, out=np.full_like(total, np.nan), where=numbers > 0)
    title = f"{row.config.dataset_label} ({', '.join(dataset.of)}) · {model.parameters_label}"
    return _Setting(title, tuple(dataset.of), model.layer_names, shares, len(counts))


def _draw(part: SubFigure, setting: _Setting) -> None:
    """Draw a map for each layer, that of right answers above that of wrong ones."""
    part.suptitle(clean_text(setting.title), x=0.01, ha="left", fontsize=11, weight="bold", color=INK)
    grid = part.subplots(2, len(setting.layers), squeeze=False)
    image = None
    for line, answers, shares in zip(grid, ("right", "wrong"), setting.shares, strict=True):
        for axes, layer, own in zip(line, setting.layers, shares, strict=True):
            image = _draw_map(axes, own, setting.parts)
            axes.set_title(f"{layer} · {answers} answers", fontsize=9.5, color=INK, loc="left")
    assert image is not None
    bar = part.colorbar(image, ax=grid, shrink=0.5, aspect=28, pad=0.01, ticks=[0, 0.05, 0.2, 0.5, 1])
    bar.ax.set_yticklabels(["0 %", "5 %", "20 %", "50 %", "100 %"])
    bar.ax.tick_params(labelsize=7.5, colors=QUIET, length=2)
    bar.outline.set_visible(False)


def _draw_map(axes: Axes, shares: NDArray[np.float64], parts: Sequence[str]) -> AxesImage:
    """Draw shares (classes, classes) with the numbers of the classes, and the names of their parts."""
    n = len(shares)
    n_classes = n // len(parts)
    colours = _COLOURS.with_extremes(bad=RULE)
    image = axes.imshow(shares, cmap=colours, norm=PowerNorm(0.5, 0, 1), interpolation="nearest")
    digits = [str(place % n_classes) for place in range(n)]
    axes.set_xticks(range(n), digits)
    axes.set_yticks(range(n), digits)
    axes.tick_params(labelsize=5.5, colors=QUIET, length=0, pad=1.5)
    for place in range(1, len(parts)):
        axes.axhline(place * n_classes - 0.5, color=QUIET, linewidth=0.8)
        axes.axvline(place * n_classes - 0.5, color=QUIET, linewidth=0.8)
    below: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": "center", "va": "top"}
    beside: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "center", "rotation": 90}
    for place, name in enumerate(map(clean_text, parts)):
        middle = place * n_classes + (n_classes - 1) / 2
        write(axes, name, (middle, 0), (0, -11), fontsize=7, color=QUIET, parse_math=False, **below)
        write(axes, name, (0, middle), (-11, 0), fontsize=7, color=QUIET, parse_math=False, **beside)
    axes.spines[:].set(color=RULE)
    return image
