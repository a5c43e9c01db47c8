"""The figures by name; each file of this folder that has one registers it."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from idwbench import figures
from idwbench.errors import ConfigError, did_you_mean
from idwbench.figures.registry import FIGURES, FORMULAS
from idwbench.figures.style import Drawing
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["FIGURES", "FORMULAS", "check_figure_name", "draw_stored", "stored_drawing"]

for _module in pkgutil.iter_modules(figures.__path__):
    import_module(f"{figures.__name__}.{_module.name}")


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
    return FIGURES[name](store, runs, data_dir)


def draw_stored(name: str, store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Figure:
    """Return the figure of `stored_drawing` alone; it raises the same."""
    return stored_drawing(name, store, runs, data_dir).figure
