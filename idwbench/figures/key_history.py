"""Keys beside the training samples that moved them, and beside those that a recorded network attends to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError, IdwbenchError
from idwbench.figures.runs import Model, Selection
from idwbench.figures.style import INK, PAPER, QUIET, RULE, class_colour, draw_frame, new_page, style_axes, titled_parts
from idwbench.figures.tiles import SCALE_CAPTION, Picture, Tile, TileGrid, Words, draw_tiles
from idwbench.models.neighbours import nearest
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.dual.key_history import KeyHistory

__all__ = ["key_history_figure"]

_MOST_KEYS = {True: 10, False: 5}  # of images, and of points in the plane
_TOWARDS, _AGAINST, _ATTENDED = 4, 3, 4
_TILE, _LINE, _CURVE = 0.62, 0.25, 2.4  # inches; height of a line and width of curves in tiles
_LONG = 9  # letters from which words below a tile are small
_LARGEST, _SMALLEST = 80.0, 5.0  # areas of points in square points
_SHARE_CAPTION = (
    "share: part of the way from the initial to the learned key that is due to the gradients of one training sample, "
    "over all its visits; the shares of all samples sum to 100 %; negative shares moved the key the other way"
)
_MEMORY_CAPTION = (
    "attention: Σ (x_t·x + 1) over the visits of a training sample, for the layer's input x of the test sample nearest "
    "to the key"
)
_PLANE_CAPTION = (
    "arrow: from the initial to the learned key; size of a point: its share, or the attention to it, relative to the "
    "largest of the panel; rings are negative"
)

Floats = NDArray[np.floating]


class _Moved(NamedTuple):
    """A model with the history of its keys, the keys to draw, by class, and what a recorded network attends to.

    It attends in its first and last layer (test, training rows of its data) to the nearest test row of each key.
    """

    model: Model
    dataset: Dataset
    history: KeyHistory
    chosen: list[int]
    typical: NDArray[np.int64]
    recorded: Dataset
    attention: Mapping[str, Floats]


def key_history_figure(selection: Selection) -> Figure:
    """The keys of one method for the lowest seed, and the training samples that moved them most.

    The method is ``idw`` if it is among the runs. The training is repeated, which takes several times as long as the
    training itself. Beside them are the training samples that a recorded multilayer perceptron attends to.

    Raises:
        ConfigError: no complete run, no key moved, or the inputs are neither images nor points of classes.
        TrainingError: the repeated training does not arrive at the stored keys.
    """
    from idwbench.training.replay import key_history

    section = selection.first_section(selection.of_kind())
    models, dataset = selection.models(section), selection.dataset(section.config.dataset)
    if not dataset.class_names or (dataset.image_shape is None and dataset.n_features != 2):
        label = section.config.dataset_label
        raise ConfigError(f"the figure needs classes, and images or two features; {label} has no such inputs")
    model = next((model for model in models if model.row.model.method == "idw"), models[0])
    selection.leave_out("; ".join(other.title(section.metric) for other in models if other is not model))
    history = key_history(selection.store, model.run.run_key, data_dir=selection.data_dir)
    if not (chosen := _chosen(history, _MOST_KEYS[dataset.image_shape is not None])):
        raise ConfigError("no key moved")
    inputs, keys = dataset.test.inputs, model.keys[chosen]
    # A key that is a direction has the largest product with its test row.
    typical = nearest(keys, inputs)[0] if model.has_points else np.asarray((inputs @ keys.T).argmax(0), np.int64)
    queries = dataset.scaling.invert(dataset.test.inputs[typical])
    recorded, attention, on_attention = _attention(selection, dataset, queries)
    moved = _Moved(model, dataset, history, chosen, typical, recorded, attention)
    draw = _draw_images if dataset.image_shape else _draw_plane
    return draw(moved, model.title(section.metric), [*_captions(moved), *on_attention, section.title])


def _chosen(history: KeyHistory, most: int) -> list[int]:
    """Return for each class the key that moved farthest, and then others, in the order of classes."""
    farthest = [int(key) for key in np.argsort(-history.distance, kind="stable") if history.distance[key] > 0]
    first = list({int(history.classes[key]): key for key in reversed(farthest)}.values())
    chosen = sorted(farthest, key=lambda key: key not in first)[:most]
    return sorted(chosen, key=lambda key: (history.classes[key], key))


def _attention(
    selection: Selection, dataset: Dataset, queries: Floats
) -> tuple[Dataset, Mapping[str, Floats], tuple[str, ...]]:
    """Return the data, the total attention to queries and captions of the recorded network of the lowest seed.

    It was trained on the same data set. Queries are in the data's own units.
    """
    name = dataset.config.name
    problem = f"the database has no run of kind 'mlp' with record: true on {name}"
    complete = selection.store.find_runs(states=["complete"])
    runs = [run for run in complete if run.config.model.kind == "mlp" and run.config.dataset.name == name]
    for run in sorted(runs, key=lambda run: run.config.seed):
        try:
            own = selection.dataset(run.config.dataset)
            if own.class_names == dataset.class_names and own.n_features == dataset.n_features:
                layers = _layer_attention(selection, run, own, queries)
                protocol = f"{run.config.protocol.optimizer}, {run.config.protocol.epochs} epochs"
                accuracy = f"test accuracy {100 * (run.metric('accuracy') or 0.0):.2f} %"
                network = f"{run.config.model.label} · {protocol} · seed {run.config.seed} · {accuracy}"
                return own, layers, (_MEMORY_CAPTION, network)
        except IdwbenchError as error:
            problem = str(error)
    return dataset, {}, (f"recorded memories are not drawn: {problem}",)


def _layer_attention(selection: Selection, run: StoredRun, dataset: Dataset, queries: Floats) -> dict[str, Floats]:
    import torch

    from idwbench.dual.attribution import row_attention
    from idwbench.dual.recording import open_recording
    from idwbench.models.perceptron import load_mlp

    recording = open_recording(selection.store, run)
    network = load_mlp(selection.store, run.run_key)
    with torch.no_grad():
        inputs, _ = network.layer_inputs(torch.from_numpy(dataset.scaling.apply(queries)))
    layers = dict(zip(network.layer_names, inputs, strict=True))
    return {
        name: row_attention(recording.layers[name], recording.rows, len(dataset.train), layers[name].numpy())
        for name in dict.fromkeys((network.layer_names[0], network.layer_names[-1]))
    }


def _captions(moved: _Moved) -> list[str]:
    """Return sentences on shares, and on all keys."""
    history = moved.history
    halves = [int(n) for n in history.n_for() if n > 0]
    own = history.own_class_shares()[0].sum(0)[history.distance > 0]
    words = [f"medians of all {len(history.keys)} keys: samples of the own class {100 * np.median(own):.0f} %"]
    if np.abs(history.initial_share).max() > 0:
        words.append(f"weight decay {100 * np.median(history.initial_share):.0f} %")
    if halves:
        n = f"{len(moved.dataset.train):,}"
        words.append(f"the {np.median(halves):g} largest shares of {n} sum to half of the movement")
    return [_SHARE_CAPTION, ", ".join(words).replace("-", "−")]


def _draw_images(moved: _Moved, title: str, captions: Sequence[str]) -> Figure:
    """Return a row for each key: the key, what moved it, its shares by epoch, and what a network attends to."""
    groups = _groups(moved)
    n, sizes = len(moved.chosen), [_CURVE if grid is None else grid.columns for grid in groups.values()]
    width = _TILE * sum(1.1 * size + 0.3 for size in sizes) + 0.3
    height = _TILE * max(grid.size[1] for grid in groups.values() if grid is not None)
    captions = ("the colour of a frame is the class", *captions, SCALE_CAPTION)
    figure, body = new_page(width, height + 1.4, captions)
    (body,) = titled_parts(body, [title])
    places = body.add_gridspec(n, len(sizes), width_ratios=sizes, wspace=0.07)
    for column, (heading, grid) in enumerate(groups.items()):
        if grid is not None:
            first = body.add_subplot(places[:, column])
            draw_tiles(first, grid)
            first.set_aspect("auto")  # so that the rows of all groups are at the same height
        else:
            first, *others = (body.add_subplot(places[place, column]) for place in range(n))
            _draw_shares([first, *others], moved)
        first.set_title(heading, loc="left", fontsize=9, color=QUIET, linespacing=1.3, pad=6)
    return figure


def _groups(moved: _Moved) -> dict[str, TileGrid | None]:
    """Return tiles with a row for each key by the heading of their group; the shares by epoch have none."""
    dataset, history, chosen = moved.dataset, moved.history, moved.chosen
    invert = dataset.scaling.invert if moved.model.has_points else np.asarray

    def movers(key: int, most: int, *, against: bool) -> list[Tile]:
        rows = history.top(key, most, against=against)
        return [_sample(dataset, row, _percent(float(history.shares[row, key]))) for row in rows]

    keys = [
        [
            _tile(dataset, invert(history.initial[key]), label, "initial"),
            _tile(
                dataset, invert(history.keys[key]), label, dataset.class_names[label], f"{history.distance[key]:.3g}"
            ),
        ]
        for key, label in zip(chosen, history.classes[chosen].tolist(), strict=True)
    ]
    groups: dict[str, list[list[Tile]]] = {
        "key: class of its\nvalue, distance": keys,
        "moved it most towards its place:\nlabel and share": [movers(key, _TOWARDS, against=False) for key in chosen],
        "moved it most the other way:\nlabel and share": [movers(key, _AGAINST, against=True) for key in chosen],
        "sum by epoch: own\nclass, others (dashed)": [],
        "nearest\ntest image": [[_sample(dataset, row, split="test")] for row in moved.typical],
    }
    for name, weights in moved.attention.items():
        largest = np.argsort(-weights, axis=1, kind="stable")[:, :_ATTENDED]
        groups[f"{name} of the mlp attends most to:\nlabel and attention"] = [
            [_sample(moved.recorded, row, f"{own[row]:,.0f}".replace("-", "−")) for row in rows]
            for own, rows in zip(weights, largest, strict=True)
        ]
    return {
        heading: TileGrid([tile for row in rows for tile in row], len(rows[0]), _LINE) if rows else None
        for heading, rows in groups.items()
    }


def _percent(share: float) -> str:
    """Return ``+4.3 %`` or ``−0.02 %``."""
    number = f"{100 * share:+.1f}" if abs(share) >= 1e-3 else f"{100 * share:+.1g}"
    return f"{number} %".replace("-", "−")


def _sample(dataset: Dataset, row: int, text: str = "", split: str = "train") -> Tile:
    samples = dataset.splits[split]
    label = int(samples.labels[row])
    return _tile(dataset, dataset.scaling.invert(samples.inputs[row]), label, dataset.class_names[label], text)


def _tile(dataset: Dataset, pixels: Floats, label: int, *lines: str) -> Tile:
    assert dataset.image_shape is not None
    size = 6.0 if max(map(len, dataset.class_names)) >= _LONG else 8.0
    picture = Picture(pixels.reshape(dataset.image_shape), class_colour(label))
    return Tile((picture,), tuple(Words(line, size=size) for line in lines))


def _draw_shares(panels: Sequence[Axes], moved: _Moved) -> None:
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


def _draw_plane(moved: _Moved, title: str, captions: Sequence[str]) -> Figure:
    """Return a column for each key in the plane: a row for shares, and one for each layer of a recorded network."""
    history, dataset, invert = moved.history, moved.dataset, moved.dataset.scaling.invert
    points, labels, names = invert(dataset.train.inputs), dataset.train.labels, dataset.class_names
    ends, starts = invert(history.keys[moved.chosen]), invert(history.initial[moved.chosen])
    queries = invert(dataset.test.inputs[moved.typical])
    headings = ["what moved the key", *(f"attention of {name}" for name in moved.attention)]
    extent = np.ptp(np.concatenate([points, ends, starts, queries]), axis=0)
    height = 2.5 * float(extent[1] / extent[0]) + 0.3
    figure, body = new_page(2.6 * len(ends) + 0.3, len(headings) * height + 0.4, [*captions, _PLANE_CAPTION])
    (body,) = titled_parts(body, [title])
    grid = body.subplots(len(headings), len(ends), squeeze=False, sharex=True, sharey=True)
    for place, key in enumerate(moved.chosen):
        own = _percent(float(history.own_class_shares()[0][:, key].sum()))
        _draw_points(grid[0, place], points, labels, history.shares[:, key], ends[place], starts[place])
        own_class = names[history.classes[key]]
        grid[0, place].set_title(f"key {key}: {own_class}, own class {own}", fontsize=8.5, color=INK, pad=3)
        for axes, weights in zip(grid[1:, place], moved.attention.values(), strict=True):
            _draw_points(axes, points, labels, weights[place], queries[place])
            name = names[dataset.test.labels[moved.typical[place]]]
            axes.set_title(f"test point of class {name}", fontsize=8.5, color=INK, pad=3)
    for axes, heading in zip(grid[:, 0], headings, strict=True):
        axes.set_ylabel(heading, fontsize=9, color=QUIET)
    return figure


def _draw_points(
    axes: Axes, points: Floats, labels: NDArray[np.integer], weights: Floats, end: Floats, start: Floats | None = None
) -> None:
    """Draw training points (n, 2), their weights (n,) as sizes, rings if negative, and a star with an arrow to it."""
    sizes = _LARGEST * np.abs(weights) / (np.abs(weights).max() or 1.0)
    for label in np.unique(labels):
        colour, here = class_colour(int(label)), labels == label
        axes.scatter(points[here, 0], points[here, 1], s=_SMALLEST, color=colour, alpha=0.35, linewidths=0)
        for chosen, face in ((here & (weights > 0), colour), (here & (weights < 0), "none")):
            style: dict[str, Any] = {"facecolors": face, "edgecolors": colour, "linewidths": 0.8, "alpha": 0.75}
            axes.scatter(points[chosen, 0], points[chosen, 1], s=sizes[chosen], **style)
    if start is not None:
        axes.plot(*start, alpha=0)  # so that the limits of the axes include it
        arrow = {"arrowstyle": "->", "color": INK, "linewidth": 1.2, "shrinkA": 0.0, "shrinkB": 3.0}
        axes.annotate("", xy=(end[0], end[1]), xytext=(start[0], start[1]), arrowprops=arrow)
    axes.plot(*end, marker="*", markersize=11, color=INK, markeredgecolor=PAPER, markeredgewidth=0.7)
    draw_frame(axes)
