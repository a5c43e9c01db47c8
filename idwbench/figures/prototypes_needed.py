"""A metric against the number of learned prototypes, with a band for kernel regression on the same data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from idwbench.errors import ConfigError
from idwbench.figures.lines import DASHES
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.runs import select_runs_of_kind
from idwbench.figures.style import INK, QUIET, Drawing, method_colour, new_page, seeds_label, style_axes
from idwbench.report.frame import Row, rows, run_table
from idwbench.report.labels import metric_label
from idwbench.report.leaderboard import best_by_validation
from idwbench.report.settings import constants_title, method_order, varying_settings
from idwbench.report.statistics import Statistic
from idwbench.results.records import StoredRun
from idwbench.runs.kinds.models import ModelConfig
from idwbench.runs.metrics import headline_metric
from idwbench.runs.protocol import Protocol

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["Needed", "NeededLine", "collect_prototypes_needed", "prototypes_needed_figure"]

_MEMORY = "kernel_regression"
_OF_KERNELS = ("method", "bandwidth", "power", "epsilon")
_SWEEP = "run the sweep kernel_regression"


@dataclass(frozen=True)
class NeededLine:
    """One method: its metric by the number of prototypes, in increasing order."""

    label: str
    colour: str
    dash: Any
    statistics: dict[int, Statistic]


@dataclass(frozen=True)
class Needed:
    """The data of the figure.

    Attributes:
        axis: The label of the metric.
        percent: Whether values are shown times 100.
        lines: One for each method.
        memory: The label and metric of kernel regression, whose memory are all training data.
        captions: Sentences below the panel.
        left_out: One line for each kind of runs that is not drawn.
    """

    axis: str
    percent: bool
    lines: list[NeededLine]
    memory: tuple[str, Statistic]
    captions: tuple[str, ...]
    left_out: tuple[str, ...]


@figure_of_runs("prototypes_needed")
def prototypes_needed_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The headline metric against the number of learned prototypes, beside kernel regression on all training data.

    Settings of the protocol, and the kernel with its parameters, are those with the best mean metric on the validation
    split; without one, the first in the order of tables. The metric is that of the holdout if there is one.

    Raises:
        ConfigError: no complete run of prototypes, or none of kernel regression on the same data.
    """
    needed = collect_prototypes_needed(runs)
    return Drawing(_draw(needed), needed.left_out)


def collect_prototypes_needed(runs: Sequence[StoredRun]) -> Needed:
    """Return the metric by number of prototypes; it raises as the figure does."""
    section, *others = select_runs_of_kind(runs).sections
    left_out = sorted({other.dataset for other in others if not section.has_data(other.dataset_config)})
    table = run_table(run for run in runs if section.has_data(run.config.dataset) and run.state == "complete")
    metric = headline_metric(section.dataset_config.task)
    memories, networks = (rows(table[table.kind == kind], metric.name) for kind in (_MEMORY, "prototypes"))
    if not memories:
        raise ConfigError("no run of kernel regression on the same data", location=("figure",), hint=_SWEEP)
    split = (
        "holdout"
        if all(run.metric(metric.name, "holdout") is not None for row in memories + networks for run in row.complete)
        else "test"
    )
    memory = _chosen(memories, metric.name, (*_OF_KERNELS, *Protocol.model_fields))[0]
    chosen = _chosen(networks, metric.name, tuple(Protocol.model_fields))
    lines = _lines([(row, row.statistics[split]) for row in chosen])
    captions = (
        _answer(lines, memory.statistics[split].mean, metric.higher_is_better),
        _spread(lines, memory.data_seeds),
        constants_title([group.config for group in networks], (*_varying(networks), "prototypes", "dataset_seed")),
    )
    notes = (f"not drawn: other data sets ({', '.join(left_out)})",) if left_out else ()
    label, named = f"{split} {metric_label(metric.name)}", (f"all data: {_name(memory)}", memory.statistics[split])
    return Needed(label, metric.percent, lines, named, captions, notes)


def _varying(groups: Sequence[Row]) -> tuple[str, ...]:
    return varying_settings([group.settings for group in groups])


def _chosen(groups: list[Row], metric: str, axes: Sequence[str]) -> list[Row]:
    """Return the values of `axes` with the best validation metric, or without one the first."""
    varying = _varying(groups)
    axes = [axis for axis in axes if axis in varying]
    if not axes:
        return groups
    if all(run.metric(metric, "validation") is not None for group in groups for run in group.complete):
        return list(best_by_validation(groups, varying, axes, metric)[0])
    first: dict[tuple[object, ...], Row] = {}
    for group in groups:
        first.setdefault(tuple(group.settings.get(name) for name in varying if name not in axes), group)
    return list(first.values())


def _name(group: Row) -> str:
    model = group.config.model
    method = model.method.replace("_kernel", " kernel")
    return ", ".join(filter(None, (method, model.parameters_label.split(", initialisation")[0])))


def _lines(measured: Sequence[tuple[Row, Statistic]]) -> list[NeededLine]:
    """Return a line for each method with its parameters; those of one method differ in their dashes."""
    lines: dict[str, dict[int, Statistic]] = defaultdict(dict)
    methods: dict[str, str] = {}
    models = [group.config.model for group, _ in measured]
    for model, (_, one) in zip(models, measured, strict=True):
        label = " ".join((model.method, *_telling_parts(model, models)))
        lines[label][model.prototypes] = one
        methods[label] = model.method
    labels = sorted(lines, key=lambda label: (method_order(methods[label]), label))
    alike = {label: [other for other in labels if methods[other] == methods[label]] for label in labels}
    return [
        NeededLine(
            label,
            method_colour(methods[label]),
            DASHES[alike[label].index(label) % len(DASHES)],
            dict(sorted(lines[label].items())),
        )
        for label in labels
    ]


def _telling_parts(model: ModelConfig, models: Sequence[ModelConfig]) -> list[str]:
    """Return the parts of the label of parameters that differ among `models`; the caption has the others."""
    values: dict[str, set[str]] = defaultdict(set)
    for part in {part for other in models for part in other.parameters_label.split(", ")}:
        values[part.partition("=")[0] if "=" in part else part.partition(" ")[0]].add(part)
    telling = {part for parts in values.values() if len(parts) > 1 for part in parts}
    return [part for part in model.parameters_label.split(", ") if part in telling]


def _answer(lines: Sequence[NeededLine], limit: float, higher_is_better: bool) -> str:
    """Return the smallest number of prototypes of each line whose mean is at least as good as a limit."""
    words = []
    for line in lines:
        means = {count: one.mean for count, one in line.statistics.items()}
        enough = [count for count, mean in means.items() if (mean >= limit if higher_is_better else mean <= limit)]
        words.append(f"{line.label}: {min(enough) if enough else 'none of these'}")
    return "Fewest prototypes whose mean is at least as good as with all data: " + "; ".join(words)


def _spread(lines: Sequence[NeededLine], data_seeds: Sequence[int]) -> str:
    counts = {one.n for line in lines for one in line.statistics.values()}
    over = " of the data" if data_seeds else ""
    return f"Mean ± sample standard deviation over {seeds_label(counts)}{over}"


def _draw(needed: Needed) -> Figure:
    """Return one panel: means with bars of ± sample standard deviation, and the band of kernel regression."""
    figure, body = new_page(6.6, 4.4, needed.captions)
    axes = body.subplots()
    factor = 100.0 if needed.percent else 1.0
    label, memory = needed.memory
    mean, std = factor * memory.mean, factor * (memory.std or 0.0)
    axes.axhspan(mean - std, mean + std, color=QUIET, alpha=0.18, linewidth=0)
    axes.axhline(mean, color=QUIET, linewidth=1.6, linestyle="--", label=label)
    for place, line in enumerate(needed.lines):
        shift = 1.02 ** (2 * place - len(needed.lines) + 1)  # so that bars of equal counts do not hide each other
        counts = shift * np.array([*line.statistics], np.float64)
        means, stds = factor * np.array([(one.mean, one.std or 0.0) for one in line.statistics.values()]).T
        style = {"linestyle": line.dash, "linewidth": 1.8, "marker": "o", "markersize": 4.5, "capsize": 2.5}
        axes.errorbar(counts, means, stds, color=line.colour, elinewidth=1.0, label=line.label, **style)
    ticks = sorted({count for line in needed.lines for count in line.statistics})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(count) for count in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(ticks[0] / 1.25, ticks[-1] * 1.25)
    axes.set_xlabel("number of learned prototypes", fontsize=10, color=INK)
    axes.set_ylabel(needed.axis, fontsize=10, color=INK)
    style_axes(axes)
    axes.grid(False, axis="x")
    body.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=8.5, labelcolor=INK, handlelength=2.6)
    return figure
