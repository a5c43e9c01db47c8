"""What patches change: class probabilities against the distance, and calibration against the number of patches."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import NDArray

from idwbench.attention.scores import get_method
from idwbench.errors import ConfigError
from idwbench.figures.lines import DASHES, Line, draw_line, legend_handles, set_log_scale
from idwbench.figures.patches import KIND
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.style import INK, LEGEND, Drawing, class_colour, new_page, seeds_label, style_axes
from idwbench.report.labels import count_label
from idwbench.report.summaries import summarise
from idwbench.results.records import StoredRun
from idwbench.runs.datasets import dataset_identity

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["PatchInfluence", "collect_patch_influence", "patch_influence_figure"]

# The sizes of η in the order of the arrays of a study.
_SIZES = ("exact η", "logit margin 1", "authors' η")
_EXACT = 0

Setting = tuple[int, float]  # prototypes, epsilon
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class PatchInfluence:
    """The lines of the three panels.

    Attributes:
        settings: The largest change of a class probability against the distance, for several settings.
        sizes: The same for the sizes of η.
        calibration: The expected calibration error against the number of patches, for the same sizes.
        varied: What differs between `settings`.
        notes: Sentences below the caption.
        left_out: One line for each kind of runs that is not drawn.
    """

    settings: list[Line]
    sizes: list[Line]
    calibration: list[Line]
    varied: str
    notes: tuple[str, ...]
    left_out: tuple[str, ...]


@figure_of_runs("patch_influence")
def patch_influence_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The change of class probabilities against the distance from a patch, and calibration after many patches.

    Raises:
        ConfigError: no complete patch study.
    """
    influence = collect_patch_influence(store, runs)
    return Drawing(_draw(influence), influence.left_out)


def collect_patch_influence(store: Results, runs: Sequence[StoredRun]) -> PatchInfluence:
    """Return the lines of the complete patch studies; it raises as the figure does."""
    studies, left_out = _studies(runs)
    default = _default_setting(studies)
    shown, varied = _varied(studies, default)
    arrays = {setting: [store.load_arrays(run.run_key) for run in studies[setting]] for setting in shown}
    others = [setting for setting in shown if setting != default]
    settings = []
    for setting in shown:
        label = f"ε = {setting[1]:g}" if varied == "ε" else count_label(setting[0], "prototype")
        # The default setting looks like the exact η in the other panels.
        place = None if setting == default else others.index(setting)
        colour = class_colour(0 if place is None else len(_SIZES) + place)
        dash = DASHES[0 if place is None else 1 + place % (len(DASHES) - 1)]
        settings.append(_influence(arrays[setting], _EXACT, label, colour, dash))
    first, chosen = studies[default][0], arrays[default]
    omitted = [
        f"{count_label(setting[0], 'prototype')} with ε={setting[1]:g}" for setting in studies if setting not in shown
    ]
    left_out += [f"not drawn: patch studies of {', '.join(omitted)}"] if omitted else []
    return PatchInfluence(
        settings,
        [_influence(chosen, size, label, class_colour(size), DASHES[size]) for size, label in enumerate(_SIZES)],
        [_calibration(chosen, size, label) for size, label in enumerate(_SIZES)],
        varied,
        (*_notes(chosen), f"{first.config.model.label} · {summarise([first])[0].title}"),
        tuple(left_out),
    )


def _studies(runs: Sequence[StoredRun]) -> tuple[dict[Setting, list[StoredRun]], list[str]]:
    """Return the complete studies by setting, of which all else is equal and most are stored, and what is left out."""
    complete = [run for run in runs if run.config.model.kind == KIND and run.state == "complete"]
    if not complete:
        hint = "run the sweep paper_patches_two_moons or paper_patches_mnist"
        raise ConfigError(f"no complete run of kind '{KIND}'", location=("figure",), hint=hint)
    groups: dict[str, list[StoredRun]] = defaultdict(list)
    for run in complete:
        config, model = run.config, run.config.model.model_dump(exclude={"prototypes"})
        del model["parameters"]["epsilon"]
        data = f"{dataset_identity(config.dataset)}{config.protocol.model_dump_json()}"
        groups[data + json.dumps(model, sort_keys=True)].append(run)
    chosen = max(groups.values(), key=len)
    studies: dict[Setting, list[StoredRun]] = defaultdict(list)
    for run in chosen:
        model_config = run.config.model
        studies[model_config.prototypes, float(model_config.parameters["epsilon"] or 0)].append(run)
    others = len(complete) - len(chosen)
    return dict(sorted(studies.items())), [f"not drawn: {others} other patch studies"] if others else []


def _default_setting(studies: Mapping[Setting, Sequence[StoredRun]]) -> Setting:
    """Return the setting that differs from the most others in one number alone, at best that of the default ε."""
    others = {one: sum(one[0] == other[0] or one[1] == other[1] for other in studies) for one in studies}
    central = [setting for setting, n in others.items() if n == max(others.values())]
    method = get_method(next(iter(studies.values()))[0].config.model.method)
    usual = math.log(float(method.resolve({})["epsilon"] or 0))
    epsilon = min((epsilon for _, epsilon in central), key=lambda epsilon: abs(math.log(epsilon) - usual))
    counts = [prototypes for prototypes, own in central if own == epsilon]
    return counts[len(counts) // 2], epsilon


def _varied(studies: Mapping[Setting, Sequence[StoredRun]], default: Setting) -> tuple[list[Setting], str]:
    """Return the settings that differ from the default in ε, or in prototypes if none does, and the name of these."""
    epsilons = [setting for setting in studies if setting[0] == default[0]]
    counts = [setting for setting in studies if setting[1] == default[1]]
    return (counts, "prototypes") if len(epsilons) == 1 and len(counts) > 1 else (epsilons, "ε")


def _influence(studies: Sequence[Arrays], size: int, label: str, colour: str, dash: Any) -> Line:
    edges = np.asarray(studies[0]["influence_edges"], np.float64)
    # The geometric mean of the edges of a bin; the first, from 0, is drawn as if it were as wide as the second.
    lower = np.concatenate([[edges[1] ** 2 / edges[2]], edges[1:-1]])
    return Line(label, colour, dash, np.sqrt(lower * edges[1:]), np.stack([a["influence"][size] for a in studies]))


def _calibration(studies: Sequence[Arrays], size: int, label: str) -> Line:
    counts = sorted({int(n) for arrays in studies for n in arrays["calibration_patches"]})
    values = np.full((len(studies), len(counts)), np.nan)
    for row, arrays in zip(values, studies, strict=True):
        row[np.searchsorted(counts, arrays["calibration_patches"])] = arrays["calibration_error"][size]
    return Line(label, class_colour(size), DASHES[size], np.array(counts, np.float64), values)


def _notes(studies: Sequence[Arrays]) -> list[str]:
    """Return sentences with the predictions that patches change, and the patches that hold."""
    split = "holdout" if "changed_holdout" in studies[0] else "test"
    changed = np.concatenate([np.asarray(arrays[f"changed_{split}"]) for arrays in studies], axis=1)
    changed = changed[:, (changed >= 0).all(0)]
    most = max(int(arrays["calibration_patches"][-1]) for arrays in studies)
    held = np.stack([a["patches_held"][:, -1] for a in studies if a["calibration_patches"][-1] == most], 1)
    sentence = f"all three: {split} points"
    if changed.size:
        sentence += f"; other predictions that one patch changes, mean: {_by_size(changed)}"
    if not most:
        return [sentence]
    return [sentence, f"right labels after {most} patch{'es' if most > 1 else ''}, mean: {_by_size(held)}"]


def _by_size(numbers: NDArray[Any]) -> str:
    """Return the means of `numbers` (3, n)."""
    means = [f"{mean:.3g}" if mean < 100 else f"{mean:,.0f}" for mean in numbers.mean(1)]
    return ", ".join(f"{mean} ({label})" for mean, label in zip(means, _SIZES, strict=True))


def _draw(influence: PatchInfluence) -> Figure:
    """Return three panels; the first two share their axes and show medians over seeds with quartiles."""
    settings, sizes = influence.settings, influence.sizes
    rows = max(-(-len(settings) // 2), 1)
    figure, body = new_page(10.0, 3.5 + 0.2 * rows, [*_caption(influence), *influence.notes])
    left, right = body.subfigures(1, 2, squeeze=False, width_ratios=(2, 1.15))[0]
    one, two = left.subplots(1, 2, sharex=True, sharey=True)
    three = right.subplots()
    label = "distance from the patch (scaled units)"
    _style(one, f"exact η, by {influence.varied}" if len(settings) > 1 else "exact η", label)
    _style(two, "by size of η", label)
    _style(three, "calibration, by size of η", "number of patches")
    one.set_ylabel("largest change of a class probability", fontsize=9.5, color=INK)
    three.set_ylabel("expected calibration error", fontsize=9.5, color=INK)
    found = [x for line in (*settings, *sizes) for x in line.x[np.isfinite(line.values).any(0)]] or [1.0]
    set_log_scale(one.xaxis, 10, float(min(found)), float(max(found)))
    for axes, lines in ((one, settings), (two, sizes)):
        for line in lines:
            _draw_influence(axes, line)
    _draw_calibration(three, influence.calibration)
    for axes in (one, three):
        axes.set_ylim(bottom=0)  # last, since it ends the automatic limits
    style = {**LEGEND, "handlelength": 2.6, "columnspacing": 1.4}
    left.legend(handles=legend_handles(settings), loc="outside lower center", ncols=2, **style)
    right.legend(handles=legend_handles(sizes), loc="outside lower center", ncols=-(-len(sizes) // rows), **style)
    return figure


def _style(axes: Axes, title: str, label: str) -> None:
    axes.set_title(title, fontsize=10.5, weight="bold", color=INK, pad=5)
    axes.set_xlabel(label, fontsize=9.5, color=INK)
    style_axes(axes)


def _draw_influence(axes: Axes, line: Line) -> None:
    """Draw median and quartiles where at least half of the seeds have points."""
    values = np.asarray(line.values, np.float64)
    usual = 2 * np.isfinite(values).sum(0) >= len(values)
    low, middle, high = np.full((3, values.shape[1]), np.nan)
    if usual.any():
        low[usual], middle[usual], high[usual] = np.nanquantile(values[:, usual], (0.25, 0.5, 0.75), axis=0)
    if len(values) > 1:
        axes.fill_between(line.x, low, high, color=line.colour, alpha=0.15, linewidth=0)
        # A band has no width at a bin between two empty ones.
        drawn = np.pad(usual, 1)
        alone = drawn[1:-1] & ~drawn[:-2] & ~drawn[2:]
        axes.vlines(line.x[alone], low[alone], high[alone], color=line.colour, alpha=0.4, linewidth=2)
    # Markers, for the same reason.
    axes.plot(line.x, middle, color=line.colour, linestyle=line.dash, linewidth=1.6, marker="o", markersize=2.5)


def _draw_calibration(axes: Axes, lines: Sequence[Line]) -> None:
    # Linear from 0 to 1, logarithmic above.
    axes.set_xscale("symlog", linthresh=1, linscale=0.5)
    axes.xaxis.set_major_locator(FixedLocator(sorted({float(x) for line in lines for x in line.x})))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    for line in lines:
        draw_line(axes, line)
        axes.lines[-1].set(marker="o", markersize=3.5)


def _caption(influence: PatchInfluence) -> list[str]:
    seeds = {len(line.values) for line in (*influence.sizes, *influence.settings)}
    spread = "one seed: no spread" if seeds == {1} else f"median over {seeds_label(seeds)}, with quartiles"
    bins = "largest over all patches and the points in a bin of distances, the first from 0"
    first = influence.calibration[0]
    counts = np.isfinite(np.asarray(first.values, np.float64)).sum(0)
    by_count = {int(n): [f"{x:g}" for x in first.x[counts == n]] for n in sorted(set(counts), reverse=True)}
    parts = [f"{seeds_label({n})} ({', '.join(patches)} patches)" for n, patches in by_count.items()]
    mean = "one seed" if set(by_count) == {1} else f"mean ± std over {', '.join(parts)}"
    return [
        f"left and middle: {bins}; smaller in a bin with few points; {spread}",
        f"right: patches of wrong inputs, one after the other; {mean}",
    ]
