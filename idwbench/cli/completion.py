"""The words that a shell offers when an argument is completed; nothing is printed when they cannot be had."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from idwbench.errors import IdwbenchError
from idwbench.results import DEFAULT_DATABASE

__all__ = ["complete_dataset", "complete_figure", "complete_method", "complete_sweep", "complete_table"]


def complete_sweep(incomplete: str) -> list[str]:
    """Return the shipped sweeps, and the folders and YAML files, that begin so."""
    from idwbench.sweep.shipped import shipped_sweeps

    return [*_beginning(shipped_sweeps(), incomplete), *_sweep_files(incomplete)]


def complete_dataset(incomplete: str) -> list[str]:
    """Return the names of data sets that begin so."""
    from idwbench.runs.datasets import DATASETS, FileConfig

    return _beginning((name for name, kind in DATASETS.items() if not issubclass(kind, FileConfig)), incomplete)


def complete_method(incomplete: str) -> list[str]:
    """Return the names of methods that begin so, without those of plugins."""
    from idwbench.attention.scores import METHODS

    return _beginning(METHODS, incomplete)


def complete_figure(incomplete: str) -> list[str]:
    """Return the names of figures that begin so."""
    from idwbench.figures.stored import FIGURES

    return _beginning(FIGURES, incomplete)


def complete_table(ctx: Any, incomplete: str) -> list[str]:
    """Return the names of the sweeps and data sets in the database of the command line that begin so."""
    from idwbench.results.store import Results

    try:
        found = Results(ctx.params.get("db") or DEFAULT_DATABASE, read_only=True).list_sweeps()
    except IdwbenchError:
        return []
    names = [sweep.name for sweep in found]
    return _beginning(dict.fromkeys([*names, *complete_dataset(incomplete)]), incomplete)


def _beginning(words: Iterable[str], incomplete: str) -> list[str]:
    return sorted(word for word in words if word.startswith(incomplete))


def _sweep_files(incomplete: str) -> list[str]:
    """Return folders, with a separator behind, and YAML files whose path begins with the text."""
    head = incomplete[: incomplete.rfind("/") + 1]
    try:
        paths = [path for path in Path(head or ".").iterdir() if path.is_dir() or path.suffix in (".yaml", ".yml")]
    except OSError:
        return []
    return _beginning((f"{head}{path.name}{'/' if path.is_dir() else ''}" for path in paths), incomplete)
