"""Selection of stored runs by sweep or data set, method and number of prototypes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from idwbench.errors import ConfigError, did_you_mean
from idwbench.results.records import ReportedRun, StoredRun
from idwbench.results.store import Results
from idwbench.runs.kinds.models import MODELS

__all__ = ["select_reported_runs", "select_runs"]

_Run = TypeVar("_Run", bound=ReportedRun)


def select_runs(
    results: Results,
    name: str | None = None,
    methods: Collection[str] = (),
    prototypes: Collection[int] = (),
    *,
    setting: str = "table",
) -> list[StoredRun]:
    """Return the runs of a sweep or data set; without a name, of the only data set.

    A name of both a sweep and a data set means the sweep. Empty `methods` and `prototypes` select all. `setting` is the
    location of errors about the name.

    Raises:
        ConfigError: unknown name, or no run is left; `location` is ``(setting,)`` or ``("method",)``.
    """

    def find(sweep: str | None, dataset: str | None) -> list[StoredRun]:
        return results.find_runs(sweep=sweep, dataset=dataset)

    return _selected(results, find, name, methods, prototypes, setting)


def select_reported_runs(
    results: Results,
    name: str | None = None,
    methods: Collection[str] = (),
    prototypes: Collection[int] = (),
    *,
    metric: str | None = None,
    setting: str = "table",
) -> list[ReportedRun]:
    """Return the runs of `select_runs` with what a table of a metric needs, which is faster; raises the same.

    If no run has the metric, they have all metrics, which messages name; of perceptrons alone, too, whose table has
    many.
    """
    return [*select_runs(results, name, methods, prototypes, setting=setting)]


def _selected(
    results: Results,
    find: Callable[[str | None, str | None], Sequence[_Run]],
    name: str | None,
    methods: Collection[str],
    prototypes: Collection[int],
    setting: str,
) -> list[_Run]:
    datasets, sweeps = results.dataset_labels(), [sweep.name for sweep in results.list_sweeps()]
    if name is None:
        if len(datasets) != 1:
            known = ", ".join(sorted({*datasets, *sweeps}))
            hint = f"one of: {known}" if known else "nothing is stored"
            raise ConfigError("the name of a sweep or data set is missing", location=(setting,), hint=hint)
        name = datasets[0]
    if name not in sweeps and name not in datasets:
        problem = f"'{name}' is a kind of model" if name in MODELS else f"nothing is called '{name}'"
        raise ConfigError(problem, location=(setting,), hint=did_you_mean(name, {*datasets, *sweeps}))
    runs = find(name, None) if name in sweeps else find(None, name)
    present = {run.setting.model.method for run in runs}
    for method in methods:
        if method not in present:
            hint = did_you_mean(method, present)
            raise ConfigError(f"no run of {name} is by '{method}'", location=("method",), hint=hint)
    found = [
        run
        for run in runs
        if (not methods or run.setting.model.method in methods)
        and (not prototypes or run.setting.model.prototypes in prototypes)
    ]
    if not found:
        raise ConfigError(f"no runs of {name} have that method and number of prototypes", location=(setting,))
    return found
