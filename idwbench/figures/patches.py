"""Patch studies: predictions after one patch (the paper's Figures 3 and 6), and what patches change in all."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from idwbench.attention.scores import get_method
from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError, ResultsError
from idwbench.figures import plane
from idwbench.figures.lines import DASHES, Axis, Look, draw_lines
from idwbench.figures.runs import Selection
from idwbench.figures.style import INK, PAPER, QUIET, class_colour, percent_label, write
from idwbench.report.labels import count_label, plain_value
from idwbench.report.statistics import Statistic, statistic
from idwbench.report.summaries import summarise
from idwbench.results.records import StoredRun
from idwbench.runs.kinds.models import ModelConfig

__all__ = ["PatchPanel", "collect_patches", "draw_patch", "draw_patches", "patch_influence_figure", "patches_figure"]

_KIND = "patch_study"
# The sizes of η in the order of the arrays of a study.
_SIZES = ("exact η", "logit margin 1", "authors' η")
_EXACT = 0
# The two parts of the figure of influence.
_ALL = "largest over all patches and the points at a distance"
_ONE_AFTER_THE_OTHER = "patches of wrong inputs, one after the other"
_AXES = {
    _ALL: Axis("largest change of a class probability", limits=(0, None), centre="median"),
    _ONE_AFTER_THE_OTHER: Axis("expected calibration error", limits=(0, None)),
}

Arrays = Mapping[str, NDArray[Any]]
Study = tuple[StoredRun, Arrays]
Setting = tuple[int, float]  # prototypes, epsilon
Related = Mapping[Setting, Sequence[StoredRun]]


@dataclass(frozen=True)
class PatchPanel:
    """One point and label, for one number of prototypes.

    Attributes:
        point: In the data's own units.
        n: Number of seeds.
        n_patched: Number of seeds in which the model had another answer, so that it was patched.
        train: Accuracies before and after, over the patched seeds, or over all seeds if there are none.
        test: The same.
        before: The model of one seed; None if it is not stored.
        after: The model after the patch, without the new key; None if no patch was needed.
    """

    point: tuple[float, float]
    label: int
    prototypes: int
    n: int
    n_patched: int
    train: tuple[Statistic, Statistic]
    test: tuple[Statistic, Statistic]
    before: plane.PlanePicture | None
    after: plane.PlanePicture | None


def patches_figure(selection: Selection) -> Figure:
    """The special cases before and after their patch, with train and test accuracy (the paper's Figures 3 and 6).

    Raises:
        ConfigError: no complete patch study, or its data does not have two classes in two dimensions.
    """
    return draw_patches(*collect_patches(selection))


def collect_patches(selection: Selection) -> tuple[list[PatchPanel], Dataset, str]:
    """Return the panels of the figure, their data, and the model with data set and protocol.

    Raises:
        ConfigError: no complete patch study, or its data does not have two classes in two dimensions.
    """
    hint = "run the sweep paper_patches_two_moons"
    studies = _alike_studies(selection, {"cases": "special"}, lambda model: (model.method, model.versioned_label), hint)
    first = studies[0].config.model
    source = " · ".join(filter(None, (first.method, first.parameters_label, summarise(studies[:1])[0].title)))
    dataset = selection.dataset(studies[0].config.dataset)
    by_prototypes: dict[int, list[Study]] = defaultdict(list)
    for run in studies:
        by_prototypes[run.config.model.prototypes].append((run, selection.store.load_arrays(run.run_key)))
    n_cases = len(next(iter(by_prototypes.values()))[0][1]["labels"])
    counts = sorted(by_prototypes)
    panels = [_panel(selection, by_prototypes[n], case, dataset) for case in range(n_cases) for n in counts]
    return panels, dataset, source


def _alike_studies(
    selection: Selection, chosen: Mapping[str, object], settings: Callable[[ModelConfig], object], hint: str
) -> list[StoredRun]:
    """Return by seed the most complete studies with the same data set and protocol, and with equal `settings`.

    Raises:
        ConfigError: there is no complete study whose model has the `chosen` attributes.
    """
    complete = [run for run in selection.runs if run.config.model.kind == _KIND and run.state == "complete"]
    groups: dict[tuple[object, ...], list[StoredRun]] = defaultdict(list)
    for run in complete:
        config, model = run.config, run.config.model
        if all(getattr(model, name, None) == value for name, value in chosen.items()):
            groups[config.dataset.identity("path"), config.protocol.identity(), settings(model)].append(run)
    if not groups:
        words = " and ".join(f"{name}: {plain_value(value)}" for name, value in chosen.items())
        raise ConfigError(f"no complete run of kind '{_KIND}' with {words}", hint=hint)
    largest = max(groups.values(), key=len)
    others = len(complete) - len(largest)
    selection.leave_out(f"{others} other patch stud{'ies' if others > 1 else 'y'}" if others else "")
    return sorted(largest, key=lambda run: run.config.seed)


def _panel(selection: Selection, studies: Sequence[Study], case: int, dataset: Dataset) -> PatchPanel:
    patched = [(run, arrays) for run, arrays in studies if np.isfinite(arrays["eta"][_EXACT, case])]
    chosen = patched or studies
    run, arrays = chosen[0]
    x, y = dataset.scaling.invert(np.asarray(arrays["inputs"][case], np.float32))
    before, after = _pictures(selection, run, arrays, case, dataset)
    return PatchPanel(
        point=(round(float(x), 6), round(float(y), 6)),
        label=int(arrays["labels"][case]),
        prototypes=run.config.model.prototypes,
        n=len(studies),
        n_patched=len(patched),
        train=_accuracies(chosen, "train", case),
        test=_accuracies(chosen, "test", case),
        before=before,
        after=after,
    )


def _accuracies(studies: Sequence[Study], split: str, case: int) -> tuple[Statistic, Statistic]:
    """Return the accuracy before and after over the seeds of `studies`."""
    before = statistic({run.config.seed: run.metric("accuracy_before", split) for run, _ in studies})
    after = statistic({run.config.seed: float(a[f"accuracy_{split}"][_EXACT, case]) for run, a in studies})
    return before or Statistic(np.nan, None, 0, {}), after or Statistic(np.nan, None, 0, {})


def _pictures(
    selection: Selection, run: StoredRun, study: Arrays, case: int, dataset: Dataset
) -> tuple[plane.PlanePicture | None, plane.PlanePicture | None]:
    assert run.config.required is not None
    try:
        arrays = selection.arrays(run.config.required.run_key)
    except ResultsError:
        return None, None
    before, keys, values = plane.plane_picture(run.config.model, arrays, dataset), arrays["keys"], arrays["values"]
    if not np.isfinite(eta := study["eta"][_EXACT, case]):
        return before, None
    keys = np.concatenate([keys, np.asarray(study["inputs"][case : case + 1], np.float32)])
    value = np.float32(eta) * np.eye(values.shape[1], dtype=np.float32)[[int(study["labels"][case])]]
    after = plane.plane_picture(run.config.model, {"keys": keys, "values": np.concatenate([values, value])}, dataset)
    return before, replace(before, probability=after.probability)


def draw_patches(panels: Sequence[PatchPanel], dataset: Dataset, source: str = "") -> Figure:
    """Return the grid of panels: a row for each point and label, a column for each number of prototypes."""
    places = {((*panel.point, panel.label), panel.prototypes): panel for panel in panels}
    names, rows = dataset.class_names, {}
    for x, y, label in dict.fromkeys(case for case, _ in places):
        words = f"→ class{' ' if len(names[label]) < 7 else chr(10)}{names[label]}"
        rows[x, y, label] = f"({x:g}, {y:g})".replace("-", "−"), words, class_colour(label)
    columns = {count: count_label(count, "prototype") for count in sorted({count for _, count in places})}
    counts, what = {panel.n for panel in panels}, "accuracies in % before → after the patch"
    captions = [plane.accuracies_caption(counts, what, "the seeds that needed it, of "), source]
    *points, key, boundary = plane.legend_handles(names)
    key.set_label("key")
    boundary.set_label("P(class) = ½ after")
    star = plane.legend_mark("*", 11, "patch", color=PAPER, markeredgecolor=INK, markeredgewidth=1.0)
    before = Line2D([], [], color=QUIET, linewidth=0.9, linestyle="dashed", label="before")
    legend = [*points, key, star, boundary, before]
    return plane.draw_plane_grid(places, rows, columns, _draw_panel, dataset, captions, legend, widest=3.6, title=0.44)


def _draw_panel(axes: Axes, panel: PatchPanel) -> None:
    if panel.before is None:
        plane.draw_empty(axes, "the trained model is not stored")
    else:
        plane.draw_plane(axes, panel.after or panel.before, scale=0.7)
        if panel.after is not None:
            plane.draw_boundary(axes, panel.before, "dashed")
        draw_patch(axes, panel)
    for line, (name, pair, colour) in enumerate((("test", panel.test, INK), ("train", panel.train, QUIET))):
        text = f"{name} {' → '.join(map(percent_label, pair if panel.n_patched else pair[:1]))}"
        write(axes, text, (0, 1), (0, 3 + 11 * line), fontsize=8.5, color=colour)
    if panel.n_patched < panel.n:
        plane.draw_note(axes, f"patched in {panel.n_patched} of {panel.n}" if panel.n_patched else "no patch needed")


def draw_patch(axes: Axes, panel: PatchPanel) -> None:
    """Draw a star at the point in the colour of its label."""
    star: dict[str, Any] = {"marker": "*", "edgecolors": INK, "linewidths": 1.1, "zorder": 7, "clip_on": False}
    axes.scatter(*panel.point, s=190, color=class_colour(panel.label), **star)


def patch_influence_figure(selection: Selection) -> Figure:
    """The change of class probabilities against the distance from a patch, and calibration after many patches.

    The first panel shows the exact η for several settings; the others the sizes of η for one setting.

    Raises:
        ConfigError: no complete patch study.
    """
    related: dict[Setting, list[StoredRun]] = defaultdict(list)
    hint = "run the sweep paper_patches_two_moons or paper_patches_mnist"
    # All settings of a study but those that vary among related ones.
    varying: Any = {"prototypes": True, "parameters": {"epsilon"}}
    for run in _alike_studies(
        selection, {"compare": False}, lambda model: model.model_dump_json(exclude=varying), hint
    ):
        related[run.config.model.prototypes, float(run.config.model.parameters["epsilon"])].append(run)
    studies = dict(sorted(related.items()))
    default, shown, varied = _chosen_settings(studies)
    omitted = ", ".join(f"{count_label(n, 'prototype')} with ε={ε:g}" for n, ε in studies if (n, ε) not in shown)
    selection.leave_out(f"patch studies of {omitted}" if omitted else "")
    arrays = {one: [selection.store.load_arrays(run.run_key) for run in studies[one]] for one in shown}
    labels = {one: f"ε = {one[1]:g}" if varied == "ε" else count_label(one[0], "prototype") for one in shown}
    # The default setting looks like the exact η in the other panels.
    looks = {labels[default]: Look(class_colour(0))}
    for place, one in enumerate(one for one in shown if one != default):
        looks[labels[one]] = Look(class_colour(len(_SIZES) + place), DASHES[1 + place % (len(DASHES) - 1)])
    looks |= {label: Look(class_colour(size), DASHES[size]) for size, label in enumerate(_SIZES)}
    title = f"exact η, by {varied}" if len(shown) > 1 else "exact η"
    calibration = pandas.DataFrame(
        {"label": label, "x": float(n), "seed": seed, "value": error}
        for seed, study in enumerate(arrays[default])
        for label, errors in zip(_SIZES, study["calibration_error"], strict=True)
        for n, error in zip(study["calibration_patches"], errors, strict=True)
    )
    table = pandas.concat(
        [
            *(_influence(arrays[one], _EXACT, labels[one]).assign(panel=title) for one in shown),
            *(
                _influence(arrays[default], size, label).assign(panel="by size of η")
                for size, label in enumerate(_SIZES)
            ),
            calibration.assign(
                panel="calibration, by size of η", block=_ONE_AFTER_THE_OTHER, measure=_ONE_AFTER_THE_OTHER
            ),
        ]
    )
    first = studies[default][0]
    source = f"{first.config.model.label} · {summarise([first])[0].title}"
    ticks = sorted({*calibration.x})
    x = {
        _ALL: Axis("distance from the patch (scaled units)", base=10),
        _ONE_AFTER_THE_OTHER: Axis("number of patches", base=10, ticks=ticks),
    }
    return draw_lines(table, looks, x, _AXES, [*_notes(arrays[default]), source], height=2.4)


def _chosen_settings(studies: Related) -> tuple[Setting, list[Setting], str]:
    """Return a default setting, the settings that differ from it in one number alone, and the name of that number.

    They are the most with one number of prototypes, by default with an ε near that of the method; if ε does not vary,
    the most with one ε, by default with the number of prototypes in the middle.
    """
    epsilons = max(([one for one in studies if one[0] == n] for n, _ in studies), key=len)
    counts = max(([one for one in studies if one[1] == epsilon] for _, epsilon in studies), key=len)
    if len(epsilons) == 1 < len(counts):
        return counts[len(counts) // 2], counts, "prototypes"
    method = get_method(next(iter(studies.values()))[0].config.model.method)
    usual = math.log(float(method.resolve({})["epsilon"]))
    return min(epsilons, key=lambda one: abs(math.log(one[1]) - usual)), epsilons, "ε"


def _influence(studies: Sequence[Arrays], size: int, label: str) -> pandas.DataFrame:
    edges = np.asarray(studies[0]["influence_edges"], np.float64)
    # The geometric mean of the edges of a bin; the first, from 0, is drawn as if it were as wide as the second.
    lower = np.concatenate([[edges[1] ** 2 / edges[2]], edges[1:-1]])
    table = pandas.DataFrame([arrays["influence"][size] for arrays in studies], columns=np.sqrt(lower * edges[1:]))
    table = table.rename_axis("seed").melt(var_name="x", ignore_index=False).reset_index()
    return table.assign(label=label, block=_ALL, measure=_ALL)


def _notes(studies: Sequence[Arrays]) -> list[str]:
    """Return sentences with the predictions that patches change, and the patches that hold."""
    split = "holdout" if "changed_holdout" in studies[0] else "test"
    changed = np.concatenate([np.asarray(arrays[f"changed_{split}"]) for arrays in studies], axis=1)
    changed = changed[:, (changed >= 0).all(0)]
    most = max(int(arrays["calibration_patches"][-1]) for arrays in studies)
    held = np.stack([a["patches_held"][:, -1] for a in studies if a["calibration_patches"][-1] == most], 1)
    sentence = f"calibration, and these numbers: {split} points"
    if changed.size:
        sentence += f"; other predictions that one patch changes, mean: {_by_size(changed)}"
    if not most:
        return [sentence]
    return [sentence, f"right labels after {most} patch{'es' if most > 1 else ''}, mean: {_by_size(held)}"]


def _by_size(numbers: NDArray[Any]) -> str:
    """Return the means of `numbers` (3, n)."""
    means = [f"{mean:.3g}" if mean < 100 else f"{mean:,.0f}" for mean in numbers.mean(1)]
    return ", ".join(f"{mean} ({label})" for mean, label in zip(means, _SIZES, strict=True))
