"""Keys beside the training samples that moved them, and beside those that a recorded network attends to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.figures.keys import keys_are_points
from idwbench.figures.moved_keys import MovedKeys, collect_moved_keys, percent
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.style import INK, PAPER, QUIET, RULE, Drawing, class_colour, fade, new_page, style_axes
from idwbench.figures.tiles import SCALE_CAPTION, Picture, Tile, Words, draw_tiles
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["draw_points_history", "key_history_figure"]

_TOWARDS, _AGAINST, _ATTENDED = 4, 3, 4
_TILE, _LINE, _CURVE, _GAP = 0.62, 0.25, 2.4, 0.3  # inches; height of a line and widths of curves and gaps in tiles
_LONG = 9  # letters from which words below a tile are small
_LARGEST, _SMALLEST = 80.0, 5.0  # areas of points in square points
_PLANE_CAPTION = (
    "arrow: from the initial to the learned key; size of a point: its share, or the attention to it, relative to the "
    "largest of the panel; rings are negative"
)

Floats = NDArray[np.floating]


@figure_of_runs("key_history")
def key_history_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The keys of one method for the lowest seed, and the training samples that moved them most.

    The method is ``idw`` if it is among the runs. The training is repeated, which takes several times as long as the
    training itself. Beside them are the training samples that a recorded multilayer perceptron attends to.

    Raises:
        ConfigError: no complete run, no key moved, or the inputs are neither images nor points of classes.
        TrainingError: the repeated training does not arrive at the stored keys.
    """
    moved = collect_moved_keys(store, runs, data_dir)
    draw = _draw_images if moved.dataset.image_shape else draw_points_history
    return Drawing(draw(moved), moved.left_out)


def _draw_images(moved: MovedKeys) -> Figure:
    """Return a row for each key: the key, what moved it, its shares by epoch, and what a network attends to."""
    assert moved.dataset.image_shape is not None
    aspect = moved.dataset.image_shape[0] / moved.dataset.image_shape[1]
    groups = _groups(moved)
    n, sizes = len(moved.chosen), [len(rows[0]) or _CURVE for _, rows in groups]
    width = _TILE * (1.1 * sum(sizes) + _GAP * len(sizes)) + 0.3
    captions = ("the colour of a frame is the class", *moved.captions, SCALE_CAPTION)
    figure, body = new_page(width, n * _TILE * (aspect + 2 * _LINE + 0.2) + 0.9, captions)
    body.suptitle(moved.title, x=0.01, ha="left", fontsize=12.5, weight="bold", color=INK)
    grid = body.add_gridspec(n, len(sizes), width_ratios=sizes, wspace=0.07)
    for column, (heading, rows) in enumerate(groups):
        if rows[0]:
            first = body.add_subplot(grid[:, column])
            draw_tiles(first, [tile for row in rows for tile in row], len(rows[0]), aspect, _LINE)
            first.set_aspect("auto")  # so that the rows of all groups are at the same height
        else:
            panels = [body.add_subplot(grid[place, column]) for place in range(n)]
            _draw_shares(panels, moved)
            first = panels[0]
        first.set_title(heading, loc="left", fontsize=9, color=QUIET, linespacing=1.3, pad=6)
    return figure


def _groups(moved: MovedKeys) -> list[tuple[str, list[list[Tile]]]]:
    """Return the groups, each with its heading and the tiles of each key; that of the shares by epoch has no tiles."""
    groups: list[tuple[str, list[list[Tile]]]] = [
        ("key: class of its\nvalue, distance", [_key_tiles(moved, key) for key in moved.chosen]),
        (
            "moved it most towards its place:\nlabel and share",
            [_moving_tiles(moved, key, _TOWARDS, against=False) for key in moved.chosen],
        ),
        (
            "moved it most the other way:\nlabel and share",
            [_moving_tiles(moved, key, _AGAINST, against=True) for key in moved.chosen],
        ),
        ("sum by epoch: own\nclass, others (dashed)", [[] for _ in moved.chosen]),
        ("nearest\ntest image", [[_test_tile(moved, int(row))] for row in moved.typical]),
    ]
    for name, attention in moved.attention.items():
        heading = f"{name} of the mlp attends most to:\nlabel and attention"
        groups.append((heading, [_attended_tiles(moved, weights) for weights in attention]))
    return groups


def _key_tiles(moved: MovedKeys, key: int) -> list[Tile]:
    history, own = moved.history, int(moved.history.classes[key])
    invert = moved.dataset.scaling.invert if keys_are_points(moved.model) else np.asarray
    words = [moved.dataset.class_names[own], f"{history.distance[key]:.3g}"]
    return [
        _tile(moved, invert(history.initial[key]), own, ["initial"]),
        _tile(moved, invert(history.keys[key]), own, words),
    ]


def _moving_tiles(moved: MovedKeys, key: int, most: int, *, against: bool) -> list[Tile]:
    rows = [int(row) for row in moved.history.top(key, most, against=against)]
    return [_sample(moved, moved.dataset, row, percent(float(moved.history.shares[row, key]))) for row in rows]


def _test_tile(moved: MovedKeys, row: int) -> Tile:
    test, label = moved.dataset.test, int(moved.dataset.test.labels[row])
    return _tile(moved, moved.dataset.scaling.invert(test.inputs[row]), label, [moved.dataset.class_names[label]])


def _attended_tiles(moved: MovedKeys, weights: Floats) -> list[Tile]:
    assert moved.network_data is not None
    rows = [int(row) for row in np.argsort(-weights, kind="stable")[:_ATTENDED]]
    return [_sample(moved, moved.network_data, row, f"{weights[row]:,.0f}".replace("-", "−")) for row in rows]


def _sample(moved: MovedKeys, dataset: Dataset, row: int, text: str) -> Tile:
    label = int(dataset.train.labels[row])
    return _tile(moved, dataset.scaling.invert(dataset.train.inputs[row]), label, [dataset.class_names[label], text])


def _tile(moved: MovedKeys, pixels: Floats, label: int, lines: Sequence[str]) -> Tile:
    assert moved.dataset.image_shape is not None
    is_long = max(map(len, moved.dataset.class_names)) >= _LONG
    words = tuple(Words(line, size=6.0 if is_long else 8.0) for line in (*lines, *([""] * (2 - len(lines)))))
    return Tile((Picture(pixels.reshape(moved.dataset.image_shape), class_colour(label)),), words)


def _draw_shares(panels: Sequence[Axes], moved: MovedKeys) -> None:
    """Draw the sums of shares up to each epoch, of samples of the key's own class and of others.

    Shares are linear up to 100 %, and logarithmic beyond, to the same limit in every panel.
    """
    curves = [[shares[:, key].cumsum() for shares in moved.history.own_class_shares()] for key in moved.chosen]
    limit = max(1.0, float(np.abs(curves).max()))
    power = 10.0 ** int(np.floor(np.log10(limit)))
    ticks = sorted({-power, -1.0, 0.0, 1.0, power})
    for axes, key, (own, others) in zip(panels, moved.chosen, curves, strict=True):
        epochs = np.arange(1, len(own) + 1)
        style: dict[str, Any] = {"marker": "o" if len(epochs) == 1 else "", "markersize": 2.5}
        axes.axhline(0, color=RULE, linewidth=0.7)
        axes.plot(epochs, others, color=QUIET, linewidth=1.2, linestyle=(0, (3, 1.5)), **style)
        axes.plot(epochs, own, color=class_colour(int(moved.history.classes[key])), linewidth=1.6, **style)
        axes.set_xscale("log")
        axes.set_yscale("symlog", linthresh=1.0)
        axes.set_yticks(ticks, [f"{100 * tick:.0f} %".replace("-", "−") for tick in ticks])
        axes.set_ylim(-1.25 * limit, 1.25 * limit)
        ends = sorted({1, len(epochs)})
        axes.set_xticks(ends, [str(end) for end in ends])
        axes.minorticks_off()
        style_axes(axes, label_size=6.0, has_grid=False)
        axes.tick_params(length=2, pad=1.5)


def draw_points_history(moved: MovedKeys) -> Figure:
    """Return a column for each key in the plane: a row for shares, and one for each layer of a recorded network."""
    history, dataset, invert = moved.history, moved.dataset, moved.dataset.scaling.invert
    points, names = invert(dataset.train.inputs), dataset.class_names
    ends, starts = invert(history.keys[[*moved.chosen]]), invert(history.initial[[*moved.chosen]])
    queries = invert(dataset.test.inputs[moved.typical])
    low, high = (function(np.concatenate([points, ends, starts, queries]), 0) for function in (np.min, np.max))
    margin = 0.06 * (high - low).max()
    rows = ["what moved the key", *(f"attention of {name}" for name in moved.attention)]
    height = 2.5 * float((high[1] - low[1]) / (high[0] - low[0])) + 0.3
    figure, body = new_page(2.6 * len(ends) + 0.3, len(rows) * height + 0.4, [*moved.captions, _PLANE_CAPTION])
    body.suptitle(moved.title, x=0.01, ha="left", fontsize=11.5, weight="bold", color=INK)
    grid = body.subplots(len(rows), len(ends), squeeze=False, sharex=True, sharey=True)
    for place, key in enumerate(moved.chosen):
        own = percent(float(history.own_class_shares()[0][:, key].sum()))
        _draw_points(grid[0, place], points, dataset.train.labels, history.shares[:, key], ends[place], starts[place])
        title = f"key {key}: {names[history.classes[key]]}, own class {own}"
        grid[0, place].set_title(title, fontsize=8.5, color=INK, pad=3)
        for axes, attention in zip(grid[1:, place], moved.attention.values(), strict=True):
            _draw_points(axes, points, dataset.train.labels, attention[place], queries[place])
            name = names[dataset.test.labels[moved.typical[place]]]
            axes.set_title(f"test point of class {name}", fontsize=8.5, color=INK, pad=3)
    for row, name in zip(grid, rows, strict=True):
        row[0].set_ylabel(name, fontsize=9, color=QUIET)
    grid[0, 0].set(xlim=(low[0] - margin, high[0] + margin), ylim=(low[1] - margin, high[1] + margin))
    return figure


def _draw_points(
    axes: Axes, points: Floats, labels: NDArray[np.integer], weights: Floats, end: Floats, start: Floats | None = None
) -> None:
    """Draw training points (n, 2), their weights (n,) as sizes, rings if negative, and a star with an arrow to it."""
    sizes = _LARGEST * np.abs(weights) / (np.abs(weights).max() or 1.0)
    for label in np.unique(labels):
        colour, here = class_colour(int(label)), labels == label
        axes.scatter(points[here, 0], points[here, 1], s=_SMALLEST, color=[fade(colour, 0.35)], linewidths=0)
        for chosen, face in ((here & (weights > 0), colour), (here & (weights < 0), "none")):
            style: dict[str, Any] = {"facecolors": face, "edgecolors": colour, "linewidths": 0.8, "alpha": 0.75}
            axes.scatter(points[chosen, 0], points[chosen, 1], s=sizes[chosen], **style)
    if start is not None:
        arrow = {"arrowstyle": "->", "color": INK, "linewidth": 1.2, "shrinkA": 0.0, "shrinkB": 3.0}
        axes.annotate("", xy=(end[0], end[1]), xytext=(start[0], start[1]), arrowprops=arrow)
    axes.plot(*end, marker="*", markersize=11, color=INK, markeredgecolor=PAPER, markeredgewidth=0.7)
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(color=RULE)
