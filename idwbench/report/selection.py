"""Selection of stored runs by sweep or data set, method and number of prototypes."""

from __future__ import annotations

from collections.abc import Collection

from idwbench.errors import ConfigError, did_you_mean
from idwbench.results.records import StoredRun
from idwbench.results.store import Results

__all__ = ["select_runs"]


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
    datasets, sweeps = results.dataset_labels(), [sweep.name for sweep in results.list_sweeps()]
    if name is None:
        if len(datasets) != 1:
            known = ", ".join(sorted({*datasets, *sweeps}))
            hint = f"one of: {known}" if known else "nothing is stored"
            raise ConfigError("the name of a sweep or data set is missing", location=(setting,), hint=hint)
        name = datasets[0]
    if name in sweeps:
        runs = results.find_runs(sweep=name)
    elif name in datasets:
        runs = results.find_runs(dataset=name)
    else:
        hint = did_you_mean(name, {*datasets, *sweeps})
        raise ConfigError(f"nothing is called '{name}'", location=(setting,), hint=hint)
    present = {run.config.model.method for run in runs}
    for method in methods:
        if method not in present:
            hint = did_you_mean(method, present)
            raise ConfigError(f"no run of {name} is by '{method}'", location=("method",), hint=hint)
    runs = [run for run in runs if not methods or run.config.model.method in methods]
    runs = [run for run in runs if not prototypes or run.config.model.prototypes in prototypes]
    if not runs:
        raise ConfigError(f"no runs of {name} have that method and number of prototypes", location=(setting,))
    return runs
