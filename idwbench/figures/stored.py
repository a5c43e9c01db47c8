"""The figures by name: functions ``NAME_figure(selection)`` in the files of this folder that return a `Figure`.

Those that draw formulas have no argument.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from matplotlib.figure import Figure

from idwbench import figures
from idwbench.errors import ConfigError, did_you_mean
from idwbench.figures.runs import Selection
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["FIGURES", "FORMULAS", "Drawing", "check_figure_name", "collect_figures", "draw_stored", "stored_drawing"]


class Drawing(NamedTuple):
    """A figure, and one line for each kind of runs that were given and are not in it."""

    figure: Figure
    left_out: tuple[str, ...] = ()


def collect_figures() -> dict[str, Callable[..., Figure]]:
    """Return the functions of the figures by name."""
    collected = {}
    for file in pkgutil.iter_modules(figures.__path__):
        if file.name != "stored":
            for name, function in vars(import_module(f"{figures.__name__}.{file.name}")).items():
                if name.endswith("_figure") and function.__annotations__.get("return") == Figure.__name__:
                    collected[name.removesuffix("_figure")] = function
    return collected


FIGURES = collect_figures()
# Drawn without runs.
FORMULAS = {name: function for name, function in FIGURES.items() if not inspect.signature(function).parameters}


def check_figure_name(name: str) -> None:
    """Raise `ConfigError` for a figure that does not exist."""
    if name not in FIGURES:
        raise ConfigError(f"unknown figure '{name}'", location=("figure",), hint=did_you_mean(name, FIGURES))


def stored_drawing(name: str, store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """Return the figure of that name, see `FIGURES`, and what of `runs` is not in it.

    Raises:
        ConfigError: unknown figure, no complete run, or the figure does not support this data set.
    """
    check_figure_name(name)
    selection = Selection(store, runs, data_dir)
    try:
        figure = FORMULAS[name]() if name in FORMULAS else FIGURES[name](selection)
    except ConfigError as error:
        raise error if error.location else error.at("figure") from None
    return Drawing(figure, tuple(selection.left_out))


def draw_stored(name: str, store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Figure:
    """Return the figure of `stored_drawing` alone; it raises the same."""
    return stored_drawing(name, store, runs, data_dir).figure
