"""The figures by name: functions ``NAME_figure`` in the files of this folder that return a `Drawing`.

They have the arguments ``(store, runs, data_dir)``, or none if they draw formulas.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from idwbench import figures
from idwbench.errors import ConfigError, did_you_mean
from idwbench.figures.style import Drawing
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["FIGURES", "FORMULAS", "check_figure_name", "collect_figures", "draw_stored", "stored_drawing"]


def collect_figures() -> dict[str, Callable[..., Drawing]]:
    """Return the functions of the figures by name."""
    collected = {}
    for file in pkgutil.iter_modules(figures.__path__):
        if file.name != "stored":
            for name, function in vars(import_module(f"{figures.__name__}.{file.name}")).items():
                if name.endswith("_figure") and function.__annotations__.get("return") == Drawing.__name__:
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
    return FORMULAS[name]() if name in FORMULAS else FIGURES[name](store, runs, data_dir)


def draw_stored(name: str, store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Figure:
    """Return the figure of `stored_drawing` alone; it raises the same."""
    return stored_drawing(name, store, runs, data_dir).figure
