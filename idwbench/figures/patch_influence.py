"""What patches change: class probabilities against the distance, and calibration against the number of patches."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.attention.scores import get_method
from idwbench.errors import ConfigError
from idwbench.figures.lines import (
    DASHES,
    Axis,
    Line,
    Panel,
    PanelRow,
    draw_block,
    legend_handles,
    line_of_seeds,
    line_spread,
)
from idwbench.figures.patches import KIND
from idwbench.figures.style import Drawing, class_colour, draw_legend, new_page, seeds_label
from idwbench.report.labels import count_label
from idwbench.report.summaries import summarise
from idwbench.results.records import StoredRun
from idwbench.runs.datasets import dataset_identity

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["patch_influence_figure"]

# The sizes of η in the order of the arrays of a study.
_SIZES = ("exact η", "logit margin 1", "authors' η")
_EXACT = 0

Setting = tuple[int, float]  # prototypes, epsilon
Arrays = Mapping[str, NDArray[Any]]


def patch_influence_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The change of class probabilities against the distance from a patch, and calibration after many patches.

    The first panel shows the exact η for several settings; the others the sizes of η for one setting.

    Raises:
        ConfigError: no complete patch study.
    """
    studies, left_out = _studies(runs)
    default = _default_setting(studies)
    shown, varied = _varied(studies, default)
    arrays = {setting: [store.load_arrays(run.run_key) for run in studies[setting]] for setting in shown}
    others = [setting for setting in shown if setting != default]
    settings = []
    for setting in shown:
        label = f"ε = {setting[1]:g}" if varied == "ε" else count_label(setting[0], "prototype")
        # The default setting looks like the exact η in the other panels.
        place = others.index(setting) if setting in others else None
        colour = class_colour(0 if place is None else len(_SIZES) + place)
        dash = DASHES[0 if place is None else 1 + place % (len(DASHES) - 1)]
        settings.append(_influence(arrays[setting], _EXACT, label, colour, dash))
    omitted = [
        f"{count_label(n, 'prototype')} with ε={epsilon:g}" for n, epsilon in studies if (n, epsilon) not in shown
    ]
    left_out += [f"not drawn: patch studies of {', '.join(omitted)}"] if omitted else []
    first, chosen = studies[default][0], arrays[default]
    styles = [(label, class_colour(size), DASHES[size]) for size, label in enumerate(_SIZES)]
    sizes = [_influence(chosen, size, *style) for size, style in enumerate(styles)]
    calibration = [_calibration(chosen, size, *style) for size, style in enumerate(styles)]
    source = f"{first.config.model.label} · {summarise([first])[0].title}"
    caption = [*_caption([*settings, *sizes], calibration[0]), *_notes(chosen), source]
    return Drawing(_draw(settings, sizes, calibration, varied, caption), tuple(left_out))


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
    values = np.stack([arrays["influence"][size] for arrays in studies])
    return Line(label, colour, dash, np.sqrt(lower * edges[1:]), values, quartiles=True)


def _calibration(studies: Sequence[Arrays], size: int, label: str, colour: str, dash: Any) -> Line:
    values: dict[float, dict[int, float]] = defaultdict(dict)
    for seed, arrays in enumerate(studies):
        for n, error in zip(arrays["calibration_patches"], arrays["calibration_error"][size], strict=True):
            values[float(n)][seed] = float(error)
    return line_of_seeds(label, colour, dash, values)


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


def _draw(
    settings: list[Line], sizes: list[Line], calibration: list[Line], varied: str, caption: Sequence[str]
) -> Figure:
    """Return three panels; the first two share their axes and show medians over seeds with quartiles."""
    rows = max(-(-len(settings) // 2), 1)
    figure, body = new_page(10.0, 3.5 + 0.2 * rows, caption)
    left, right = body.subfigures(1, 2, squeeze=False, width_ratios=(2, 1.15))[0]
    one = Panel(f"exact η, by {varied}" if len(settings) > 1 else "exact η", settings)
    distance = Axis("distance from the patch (scaled units)", base=10)
    y = Axis("largest change of a class probability", limits=(0, None))
    draw_block(left, [PanelRow("", y, [one, Panel("by size of η", sizes)])], distance, 2)
    patches = Axis("number of patches", base=10, ticks=calibration[0].x.tolist())
    y = Axis("expected calibration error", limits=(0, None))
    draw_block(right, [PanelRow("", y, [Panel("calibration, by size of η", calibration)])], patches, 1)
    draw_legend(left, legend_handles(settings), 2)
    draw_legend(right, legend_handles(sizes), -(-len(sizes) // rows))
    return figure


def _caption(lines: Sequence[Line], calibration: Line) -> list[str]:
    seeds = {len(line.values) for line in lines}
    spread = "one seed: no spread" if seeds == {1} else f"median over {seeds_label(seeds)}, with quartiles"
    bins = "largest over all patches and the points in a bin of distances, the first from 0"
    x, _, _, _, counts = line_spread(calibration)
    by_count = {int(n): [f"{patches:g}" for patches in x[counts == n]] for n in sorted(set(counts), reverse=True)}
    parts = [f"{seeds_label({n})} ({', '.join(patches)} patches)" for n, patches in by_count.items()]
    mean = "one seed" if set(by_count) == {1} else f"mean ± std over {', '.join(parts)}"
    return [
        f"left and middle: {bins}; smaller in a bin with few points; {spread}",
        f"right: patches of wrong inputs, one after the other; {mean}",
    ]
