"""The registry of figures: each file of a figure adds its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from idwbench.figures.style import Drawing
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["FIGURES", "FORMULAS", "figure_of_formulas", "figure_of_runs"]

_OfRuns = Callable[["Results", Sequence[StoredRun], Path | None], Drawing]
_OfFormulas = Callable[[], Drawing]
_Function = TypeVar("_Function", bound=Callable[..., Drawing])

FIGURES: dict[str, _OfRuns] = {}
# Drawn without runs.
FORMULAS: dict[str, _OfFormulas] = {}


def figure_of_runs(name: str) -> Callable[[_Function], _Function]:
    """Return a decorator that registers a function ``(store, runs, data_dir) -> Drawing`` as the figure `name`."""

    def register(function: _Function) -> _Function:
        FIGURES[name] = function
        return function

    return register


def figure_of_formulas(name: str) -> Callable[[_Function], _Function]:
    """Return a decorator that registers a function ``() -> Drawing`` as the figure `name`, which needs no runs."""

    def register(function: _Function) -> _Function:
        FORMULAS[name] = function

        @wraps(function)
        def drawing(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
            return function()

        FIGURES[name] = drawing
        return function

    return register
