"""Selection of stored runs by sweep or data set, method and number of prototypes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar, get_args

from idwbench.errors import ConfigError, did_you_mean
from idwbench.report.dual_form import has_only_perceptrons
from idwbench.results.records import StoredRun
from idwbench.results.store import Results
from idwbench.runs.datasets import Task
from idwbench.runs.kinds.models import MODELS
from idwbench.runs.metrics import QUALITY_METRICS, headline_metric

__all__ = ["select_reported_runs", "select_runs"]

_Run = TypeVar("_Run", bound=StoredRun)


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
) -> list[StoredRun]:
    """Return the runs of `select_runs` with what a table of a metric needs, which is faster; raises the same.

    If no run has the metric, they have all metrics, which messages name; of perceptrons alone, too, whose table has
    many.
    """
    names = {headline_metric(task).name for task in get_args(Task)} | ({metric} if metric else set())
    names |= {"coverage"} if metric in QUALITY_METRICS else set()  # tells whether the quality of a run was measured

    def find(sweep: str | None, dataset: str | None) -> list[StoredRun]:
        runs = results.find_runs(sweep=sweep, dataset=dataset, metrics=names)
        is_dual = metric is None and has_only_perceptrons(runs)
        if is_dual or any(run.state == "complete" and not _has(run, metric) for run in runs):
            return results.find_runs(sweep=sweep, dataset=dataset)
        return runs

    return _selected(results, find, name, methods, prototypes, setting)


def _has(run: StoredRun, metric: str | None) -> bool:
    wanted = metric or headline_metric(run.config.dataset.task).name
    return any(name == wanted for _, name in run.metrics)


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
