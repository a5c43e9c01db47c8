"""`idwbench list`: the names that options and sweep files take, with what they stand for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal

from idwbench.attention.kernels import KERNELS
from idwbench.attention.records import Record, parameters_label
from idwbench.attention.scores import METHODS
from idwbench.attention.weightings import WEIGHTINGS
from idwbench.cli.options import argument
from idwbench.cli.output import echo_json, print_facts
from idwbench.runs.datasets import DATASETS
from idwbench.runs.kinds.models import MODELS

__all__ = ["OPTIONS", "Listed", "list_names"]

Listed = Literal["datasets", "methods", "kernels", "weightings", "kinds", "figures"]

OPTIONS = {"what": argument(help="What to list; all if not given.")}


def list_names(what: Listed | None = None, json: bool = False) -> None:
    """List data sets, methods, kernels, weightings, kinds of runs and figures."""
    lists: dict[str, Callable[[], Mapping[str, str]]] = {
        "datasets": lambda: _described(DATASETS),
        "methods": lambda: _formulas(METHODS),
        "kernels": lambda: _formulas(KERNELS),
        "weightings": lambda: _formulas(WEIGHTINGS),
        "kinds": lambda: _described(MODELS),
        "figures": _figures,
    }
    shown = {name: dict(lists[name]()) for name in ([what] if what else lists)}
    if json:
        return echo_json(shown)
    for name, words in shown.items():
        print_facts(words, title="" if what else name)


def _formulas(records: Mapping[str, Record]) -> dict[str, str]:
    """Return the formula of each record, with the defaults of its parameters."""
    defaults = {name: {p.name: p.default for p in one.parameters} for name, one in records.items()}
    words = {name: (one.formula, parameters_label(one, defaults[name])) for name, one in records.items()}
    return {name: "; ".join(filter(None, own)) for name, own in words.items()}


def _described(things: Mapping[str, Any]) -> dict[str, str]:
    """Return the first line of the docstring of each."""
    return {name: (inspect.getdoc(one) or "").split("\n")[0].replace("`", "") for name, one in things.items()}


def _figures() -> dict[str, str]:
    from idwbench.figures.stored import FIGURES  # which imports matplotlib

    return dict(sorted(_described(FIGURES).items()))
