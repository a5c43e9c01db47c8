"""What stored runs say, by seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.scores import METHODS
from idwbench.claims.definitions import Series
from idwbench.errors import ResultsError
from idwbench.report.labels import count_label
from idwbench.report.references import REFERENCES
from idwbench.results.records import RESULT_STATES
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.datasets import parse_dataset
from idwbench.runs.metrics import headline_metric

if TYPE_CHECKING:
    import pandas

__all__ = ["MNIST", "PAPER_METHODS", "RIVALS", "SPLIT", "TWO_MOONS", "Arrays", "Evidence"]

TWO_MOONS, MNIST = "two_moons", "mnist"
# The six methods of Table 1, and those but IDW.
PAPER_METHODS = tuple(dict.fromkeys(reference.model.method for reference in REFERENCES if reference.dataset == MNIST))
RIVALS = tuple(method for method in PAPER_METHODS if method != "idw")
# On Two Moons the 4,000 new points, since 40 test points are too few to distinguish methods.
SPLIT = {TWO_MOONS: "holdout", MNIST: "test"}

Arrays = Mapping[str, NDArray[np.generic]]

# The paper's tables and figures are by its authors' code, which divides by √prototypes.
_PAPER_PARAMETERS: dict[str, dict[str, str]] = {"scaled_dot": {"scale": "prototypes"}}
# A setting that may have any value: of several runs with one seed the one with the largest value counts.
_FREE = "n_cases"


class Evidence:
    """The complete and diverged runs of a database, selected by their settings.

    Most claims are on the paper's runs: those with the default data and protocol of Two Moons or MNIST. Their models
    are selected by `kind`, `method`, `prototypes`, parameters of the method and others; what is not given has its
    default.
    """

    def __init__(self, results: Results, run_keys: Collection[str] | None = None) -> None:
        """Read the runs of a database when they are asked for; of the paper's only those in `run_keys`, if given."""
        self.results = results
        self._run_keys = None if run_keys is None else set(run_keys)
        self._tables: dict[str, pandas.DataFrame] = {}
        self._finished: dict[str, tuple[pandas.DataFrame, dict[str, pandas.DataFrame]]] = {}

    def accuracy(self, dataset: str, **model: Any) -> Series:
        """Return the accuracy in percent, on new points of Two Moons and on the test images of MNIST."""
        rows = self._complete(dataset, model)
        return _series(_name(dataset, model), rows, 100 * _column(rows, SPLIT[dataset], "accuracy"), "accuracy")

    def metric(self, dataset: str, name: str, split: str = "train", **model: Any) -> Series:
        """Return a metric; the name of the series is that of the model."""
        rows = self._complete(dataset, model)
        return _series(_name(dataset, model), rows, _column(rows, split, name), name)

    def from_arrays(self, dataset: str, what: str, function: Callable[[Arrays], float | None], **model: Any) -> Series:
        """Return a quantity that is computed from the arrays of each run; None where they do not have it."""
        rows = self._complete(dataset, model)
        return _series(_name(dataset, model), rows, (function(self._arrays(key)) for key in rows.run_key), what)

    def finished(self, dataset: str, **model: Any) -> pandas.DataFrame:
        """Return the complete and diverged runs of a model by seed, one for each."""
        wanted = _identity(run_config(dataset, **{**_PAPER_PARAMETERS.get(model["method"], {}), **model}))
        if dataset not in self._finished:
            rows = self._select(dataset, lambda config: True)
            if self._run_keys is not None:
                rows = rows[rows.run_key.isin(self._run_keys)]
            rows = rows.assign(free=[getattr(config.model, _FREE, 0) for config in rows.config])
            rows = rows.sort_values(["seed", "free", "run_key"])
            identities = {one.setting: _identity(one.config) for one in _settings(rows).itertuples()}
            groups = rows.groupby(rows.setting.map(identities).astype(str), sort=False)
            self._finished[dataset] = (
                rows.iloc[:0],
                {identity: group.drop_duplicates("seed", keep="last") for identity, group in groups},
            )
        none, by_model = self._finished[dataset]
        return by_model.get(wanted, none)

    def best_metric(self, name: str, dataset: str, metric: str, split: str = "test", **settings: Any) -> Series:
        """Return a metric of the runs that are `best` by validation; the name of the series is `name`."""
        rows = self.best(dataset, **settings)
        return _series(name, rows, _column(rows, split, metric))

    def best(self, dataset: str, *, epochs: int | None = None, **model: Any) -> pandas.DataFrame:
        """Return the complete runs of the settings that are best by validation, one for each seed.

        `model` are settings that the model must have, and `epochs` those of its protocol. Of those that they leave
        open, and of the data, the combination with the most complete runs counts, of several that with the best mean
        validation metric.
        """
        rows = self.complete(dataset, lambda config: epochs in (None, config.protocol.epochs), **model)
        metric = headline_metric(parse_dataset(dataset).task)
        sign = 1 if metric.higher_is_better else -1

        def rank(group: pandas.DataFrame) -> tuple[int, float]:
            mean = sign * float(_column(group, "validation", metric.name).mean(skipna=False))
            return len(group), mean if math.isfinite(mean) else -math.inf

        return max((group for _, group in rows.groupby("setting", sort=False)), key=rank, default=rows)

    def complete(
        self, dataset: str, is_wanted: Callable[[RunConfig], bool] = lambda config: True, **model: Any
    ) -> pandas.DataFrame:
        """Return the complete runs of models that have these settings and parameters."""

        def has_settings(config: RunConfig) -> bool:
            has = config.model
            return all(getattr(has, name, has.parameters.get(name)) == value for name, value in model.items())

        rows = self._select(dataset, lambda config: has_settings(config) and is_wanted(config))
        return rows[rows.state == "complete"]

    def training_inputs(self, dataset: str) -> NDArray[np.float64]:
        """Return the scaled training inputs of the default data set (n, features)."""
        from idwbench.data.loading import load_dataset

        return load_dataset(parse_dataset(dataset)).train.inputs.astype(np.float64)

    def _select(self, dataset: str, is_wanted: Callable[[RunConfig], bool]) -> pandas.DataFrame:
        """Return the complete and diverged runs with wanted settings."""
        if dataset not in self._tables:
            self._tables[dataset] = self.results.run_table(dataset=dataset)
        table = self._tables[dataset]
        settings = _settings(table)
        wanted = settings.setting[[*map(is_wanted, settings.config)]]
        return table[table.setting.isin(wanted) & table.state.isin(RESULT_STATES)]

    def _complete(self, dataset: str, model: Mapping[str, Any]) -> pandas.DataFrame:
        rows = self.finished(dataset, **model)
        return rows[rows.state == "complete"]

    def _arrays(self, run_key: str) -> Arrays:
        """Return the arrays of a run; nothing if they cannot be read."""
        try:
            return self.results.load_arrays(run_key)
        except ResultsError:
            return {}


def _identity(config: RunConfig) -> str:
    return "\n".join((config.dataset.identity(), config.model.identity(_FREE), config.protocol.identity()))


def _settings(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Return the first run of each setting, with the columns that describe the setting."""
    return rows[["setting", "config"]].drop_duplicates("setting")


def _column(rows: pandas.DataFrame, split: str, metric: str) -> pandas.Series[float]:
    """Return a metric of runs, NaN where they lack it."""
    return rows.get((split, metric), math.nan * rows.seed)


def _series(name: str, rows: pandas.DataFrame, numbers: Iterable[float | None], what: str = "") -> Series:
    """Return the finite numbers of runs by seed, and how many of the runs lack `what`."""
    pairs = zip(rows.seed.tolist(), numbers, strict=True)
    values = {seed: float(value) for seed, value in pairs if value is not None and math.isfinite(value)}
    without = len(rows) - len(values)
    lack = f"{count_label(without, 'run')} without {what.replace('_', ' ')}" if what and without else ""
    return Series(name, values, lack)


def _name(dataset: str, model: Mapping[str, Any]) -> str:
    """Return ``idw, 16 prototypes, p=1``."""
    method = METHODS.get(model["method"])
    numbers = {name: float(value) for name, value in model.items() if name in ("power", "epsilon")}
    words = [model["method"], f"{model['prototypes']} prototypes", method.label(numbers) if method else ""]
    words += ["patch study"] if model.get("kind") == "patch_study" else []
    words += ["MNIST"] if dataset == MNIST else []
    return ", ".join(word for word in words if word)
