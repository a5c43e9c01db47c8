"""What patches change: class probabilities against the distance, and calibration against the number of patches."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.attention.scores import get_method
from idwbench.errors import ConfigError
from idwbench.figures import lines
from idwbench.figures.lines import DASHES, Axis, Line, Panel, PanelRow
from idwbench.figures.patches import KIND
from idwbench.figures.runs import Selection
from idwbench.figures.style import class_colour, draw_legend, new_page, seeds_label
from idwbench.report.labels import count_label
from idwbench.report.summaries import summarise
from idwbench.results.records import StoredRun

__all__ = ["patch_influence_figure"]

# The sizes of η in the order of the arrays of a study.
_SIZES = ("exact η", "logit margin 1", "authors' η")
_EXACT = 0

Setting = tuple[int, float]  # prototypes, epsilon
Studies = Mapping[Setting, Sequence[StoredRun]]
Arrays = Mapping[str, NDArray[Any]]


def patch_influence_figure(selection: Selection) -> Figure:
    """The change of class probabilities against the distance from a patch, and calibration after many patches.

    The first panel shows the exact η for several settings; the others the sizes of η for one setting.

    Raises:
        ConfigError: no complete patch study.
    """
    studies = _studies(selection)
    default, shown, varied = _chosen(studies)
    omitted = ", ".join(f"{count_label(n, 'prototype')} with ε={ε:g}" for n, ε in studies if (n, ε) not in shown)
    selection.leave_out(f"patch studies of {omitted}" if omitted else "")
    arrays = {one: [selection.store.load_arrays(run.run_key) for run in studies[one]] for one in shown}
    # The default setting looks like the exact η in the other panels.
    styles = {default: (class_colour(0), DASHES[0])}
    for place, one in enumerate(one for one in shown if one != default):
        styles[one] = (class_colour(len(_SIZES) + place), DASHES[1 + place % (len(DASHES) - 1)])
    labels = {one: f"ε = {one[1]:g}" if varied == "ε" else count_label(one[0], "prototype") for one in shown}
    settings = [_influence(arrays[one], _EXACT, labels[one], *styles[one]) for one in shown]
    by_size = [(size, label, class_colour(size), DASHES[size]) for size, label in enumerate(_SIZES)]
    sizes = [_influence(arrays[default], *one) for one in by_size]
    calibration = [_calibration(arrays[default], *one) for one in by_size]
    first = studies[default][0]
    source = f"{first.config.model.label} · {summarise([first])[0].title}"
    caption = [*_caption([*settings, *sizes], calibration[0]), *_notes(arrays[default]), source]
    return _draw(settings, sizes, calibration, varied, caption)


def _studies(selection: Selection) -> Studies:
    """Return the complete studies by setting, of which all else is equal and most are stored."""
    complete = [run for run in selection.runs if run.config.model.kind == KIND and run.state == "complete"]
    if not complete:
        hint = "run the sweep paper_patches_two_moons or paper_patches_mnist"
        raise ConfigError(f"no complete run of kind '{KIND}'", hint=hint)
    groups: dict[tuple[str, ...], dict[Setting, list[StoredRun]]] = defaultdict(lambda: defaultdict(list))
    for run in complete:
        config, model = run.config, run.config.model
        others = model.model_dump_json(exclude={"prototypes": True, "parameters": {"epsilon"}})
        setting = (model.prototypes, float(model.parameters["epsilon"]))
        groups[config.dataset.identity("path"), config.protocol.identity(), others][setting].append(run)
    counts = {key: sum(map(len, group.values())) for key, group in groups.items()}
    largest = max(counts, key=lambda key: counts[key])
    if n_others := len(complete) - counts[largest]:
        selection.leave_out(f"{n_others} other patch studies")
    return dict(sorted(groups[largest].items()))


def _chosen(studies: Studies) -> tuple[Setting, list[Setting], str]:
    """Return a default setting, the settings that differ from it in one number alone, and the name of that number.

    The default shares a number with the most others, and its ε is at best that of the method. The number is ε if it
    varies.
    """
    method = get_method(next(iter(studies.values()))[0].config.model.method)
    usual = math.log(float(method.resolve({})["epsilon"]))

    def order(one: Setting) -> tuple[int, float]:
        n_related = sum(one[0] == other[0] or one[1] == other[1] for other in studies)
        return -n_related, abs(math.log(one[1]) - usual)

    central = [setting for setting in studies if order(setting) == min(map(order, studies))]
    default = central[len(central) // 2]
    epsilons = [setting for setting in studies if setting[0] == default[0]]
    counts = [setting for setting in studies if setting[1] == default[1]]
    return (default, counts, "prototypes") if len(epsilons) == 1 < len(counts) else (default, epsilons, "ε")


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
    return lines.line_of_seeds(label, colour, dash, values)


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
    lines.draw_block(left, [PanelRow("", y, [one, Panel("by size of η", sizes)])], distance, 2)
    patches = Axis("number of patches", base=10, ticks=calibration[0].x.tolist())
    y = Axis("expected calibration error", limits=(0, None))
    lines.draw_block(right, [PanelRow("", y, [Panel("calibration, by size of η", calibration)])], patches, 1)
    draw_legend(left, lines.legend_handles(settings), 2)
    draw_legend(right, lines.legend_handles(sizes), -(-len(sizes) // rows))
    return figure


def _caption(influences: Sequence[Line], calibration: Line) -> list[str]:
    seeds = {len(line.values) for line in influences}
    spread = "one seed: no spread" if seeds == {1} else f"median over {seeds_label(seeds)}, with quartiles"
    bins = "largest over all patches and the points in a bin of distances, the first from 0"
    x, _, _, _, counts = lines.line_spread(calibration)
    by_count = {int(n): [f"{patches:g}" for patches in x[counts == n]] for n in sorted(set(counts), reverse=True)}
    parts = [f"{seeds_label({n})} ({', '.join(patches)} patches)" for n, patches in by_count.items()]
    mean = "one seed" if set(by_count) == {1} else f"mean ± std over {', '.join(parts)}"
    return [
        f"left and middle: {bins}; smaller in a bin with few points; {spread}",
        f"right: patches of wrong inputs, one after the other; {mean}",
    ]
