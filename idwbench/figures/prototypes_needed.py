"""A metric against the number of learned prototypes, with a band for kernel regression on the same data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.figure import Figure

from idwbench.errors import ConfigError
from idwbench.figures.lines import DASHES, Axis, Line, Panel, PanelRow, Style, draw_rows, line_spread, lines_of
from idwbench.figures.runs import Selection, best_rows, differing_labels
from idwbench.figures.style import QUIET, method_colour, seeds_label
from idwbench.report.labels import constants_title, metric_label, sortable, varying_settings
from idwbench.report.statistics import Statistic
from idwbench.runs.kinds.models import ModelConfig
from idwbench.runs.metrics import HEADLINES
from idwbench.runs.protocol import Protocol

__all__ = ["prototypes_needed_figure"]

_OF_KERNELS = ("method", "bandwidth", "power", "epsilon")


def prototypes_needed_figure(selection: Selection) -> Figure:
    """The headline metric against the number of learned prototypes, beside kernel regression on all training data.

    Settings of the protocol, and the kernel with its parameters, are those with the best mean metric on the validation
    split; without one, the first in the order of tables. The metric is that of the holdout if there is one.

    Raises:
        ConfigError: no complete run of prototypes, or none of kernel regression on the same data.
    """
    section, (networks, memories) = selection.on_first_data("prototypes", "kernel_regression")
    metric = HEADLINES[section.config.dataset.task]
    if not memories:
        problem = "no run of kernel regression on the same data"
        raise ConfigError(problem, hint="run the sweep kernel_regression")
    complete = [run for row in memories + networks for run in row.complete]
    split = "holdout" if all(run.metric(metric.name, "holdout") is not None for run in complete) else "test"
    memory = best_rows(memories, metric.name, (*_OF_KERNELS, *Protocol.model_fields))[0]
    chosen = best_rows(networks, metric.name, tuple(Protocol.model_fields))
    lines = _lines([(row.config.model, row.statistics[split]) for row in chosen])
    counts = sorted({int(count) for line in lines for count in line.x})
    limit = memory.statistics[split]
    kernel = memory.config.model
    names = (kernel.method.replace("_kernel", " kernel"), kernel.parameters_label.split(", initialisation")[0])
    label = f"all data: {', '.join(filter(None, names))}"
    on_all_data = ((label, count, seed, value) for count in counts for seed, value in limit.values.items())
    all_data = lines_of(on_all_data, {label: (QUIET, "--")})
    seeds = seeds_label({int(n) for line in lines for n in line_spread(line)[-1]})
    over = f"{seeds}{' of the data' if memory.data_seeds else ''}"
    spread = f"Mean ± sample standard deviation over {over}, within the range of the seeds"
    varying = varying_settings([group.settings for group in networks])
    constants = constants_title([group.config for group in networks], (*varying, "prototypes", "dataset_seed"))
    captions = (_answer(lines, limit.mean, metric.higher_is_better), spread, constants)
    # Points of equal counts stand beside each other.
    shifts = [1.02 ** (2 * place - len(lines) + 1) for place in range(len(lines))]
    drawn = [replace(line, x=shift * line.x, markers=True) for line, shift in zip(lines, shifts, strict=True)]
    x = Axis("number of learned prototypes", base=2, limits=(counts[0] / 1.25, counts[-1] * 1.25), ticks=counts)
    y = Axis(f"{split} {metric_label(metric.name)}", metric.percent)
    return draw_rows([PanelRow("", y, [Panel("", [*all_data, *drawn])])], x, captions, height=3.2)


def _lines(measured: Sequence[tuple[ModelConfig, Statistic]]) -> list[Line]:
    """Return a line for each method with its parameters; those of one method differ in their dashes."""
    labels = differing_labels([model for model, _ in measured])
    labelled = [(label, model, one) for label, (model, one) in zip(labels, measured, strict=True)]
    labelled.sort(key=lambda each: (sortable({"method": each[1].method}), each[0]))
    styles: dict[str, Style] = {}
    for label, model, _ in labelled:
        colour = method_colour(model.method)
        dash = DASHES[sum(colour == other for other, _ in styles.values()) % len(DASHES)]
        styles.setdefault(label, (colour, dash))
    points = (
        (label, model.prototypes, seed, value) for label, model, one in labelled for seed, value in one.values.items()
    )
    return lines_of(points, styles)


def _answer(lines: Sequence[Line], limit: float, higher_is_better: bool) -> str:
    """Return the smallest number of prototypes of each line whose mean is at least as good as a limit."""
    words = []
    for line in lines:
        x, means, *_ = line_spread(line)
        enough = x[means >= limit if higher_is_better else means <= limit]
        words.append(f"{line.label}: {f'{enough[0]:g}' if enough.size else 'none of these'}")
    return "Fewest prototypes whose mean is at least as good as with all data: " + "; ".join(words)
