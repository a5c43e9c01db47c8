"""What stored runs say, by seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas
from numpy.typing import NDArray

from idwbench.attention.records import parameters_label
from idwbench.attention.scores import METHODS
from idwbench.claims.findings import Series, difference
from idwbench.errors import ResultsError
from idwbench.report.labels import count_label
from idwbench.report.references import PAPER_METHODS, PAPER_PARAMETERS
from idwbench.results.records import RESULT_STATES
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.datasets import parse_dataset
from idwbench.runs.metrics import HEADLINES, METRICS

__all__ = ["MNIST", "RIVALS", "SPLIT", "TWO_MOONS", "Arrays", "Evidence", "Model"]

TWO_MOONS, MNIST = "two_moons", "mnist"
RIVALS = tuple(method for method in PAPER_METHODS if method != "idw")
# On Two Moons the 4,000 new points, since 40 test points are too few to distinguish methods.
SPLIT = {TWO_MOONS: "holdout", MNIST: "test"}

Arrays = Mapping[str, NDArray[np.generic]]
Model = Mapping[str, Any]  # settings of a model by name

# A setting that may have any value: of several runs with one seed the one with the largest value counts.
_FREE = "n_cases"
_NO_RUNS = pandas.DataFrame(columns=["run_key", "seed", "state"])


class Evidence:
    """The complete and diverged runs of a database, selected by their settings.

    Most claims are on the paper's runs: those with the default data and protocol of Two Moons or MNIST. Their models
    are selected by `kind`, `method`, `prototypes`, parameters of the method and others; what is not given has its
    default.
    """

    def __init__(self, results: Results) -> None:
        """Read the runs of a database when they are asked for."""
        self.results = results
        self._by_dataset: dict[str, dict[str, pandas.DataFrame]] = {}

    def metric(self, dataset: str, name: str, split: str = "train", **model: Any) -> Series:
        """Return a metric of one of the paper's models, whose name is that of the series.

        The accuracy is in percent, on new points of Two Moons and on the test images of MNIST.
        """
        rows = self.finished(dataset, **model)
        is_accuracy = name == "accuracy"
        numbers = _column(rows, SPLIT[dataset] if is_accuracy else split, name, in_percent=is_accuracy)
        return _series(_name(dataset, model), rows, numbers, name)

    def less(self, label: str, dataset: str, name: str, first: Model, second: Model) -> Series:
        """Return the `metric` of a model less that of another; the name of the series is `label`."""
        return difference(label, self.metric(dataset, name, **first), self.metric(dataset, name, **second))

    def from_arrays(self, dataset: str, what: str, function: Callable[[Arrays], float], **model: Any) -> Series:
        """Return a quantity that is computed from the arrays of each run, which older runs may lack."""

        def of(run_key: str) -> float:
            try:
                return function(self.results.load_arrays(run_key))
            except (ResultsError, KeyError):
                return math.nan

        rows = self.finished(dataset, **model)
        rows = rows[rows.state == "complete"]
        return _series(_name(dataset, model), rows, map(of, rows.run_key), what)

    def finished(self, dataset: str, **model: Any) -> pandas.DataFrame:
        """Return the complete and diverged runs of a model by seed, one for each."""
        config = run_config(dataset, **{**PAPER_PARAMETERS.get(model["method"], {}), **model})
        return self._settings(dataset).get(_identity(config), _NO_RUNS)

    def best_metric(
        self, name: str, dataset: str, metric: str, split: str = "test", *, epochs: int | None = None, **model: Any
    ) -> Series:
        """Return a metric of the settings that are best by validation, shares in percent, as a series called `name`.

        `model` are settings that the model must have, and `epochs` those of its protocol. Of those that they leave
        open, and of the data, the combination with the most complete runs counts, of several that with the best mean
        validation metric.
        """
        headline = HEADLINES[parse_dataset(dataset).task]
        sign = 1 if headline.higher_is_better else -1

        def rank(rows: pandas.DataFrame) -> tuple[int, float]:
            mean = sign * float(_column(rows, "validation", headline.name).mean(skipna=False))
            return len(rows), mean if math.isfinite(mean) else -math.inf

        wanted = self.complete(dataset, lambda config: epochs in (None, config.protocol.epochs), **model)
        rows = max(wanted, key=rank, default=_NO_RUNS)
        return _series(name, rows, _column(rows, split, metric, in_percent=True))

    def over_splits(self, name: str, dataset: str, metric: str, split: str = "test", **settings: Any) -> Series:
        """Return a metric of the runs with these settings by the seed of the data, as `best_metric` returns it.

        `settings` are those of `run_config`; what is not given has its default. Of several runs on one split that with
        the lowest seed counts.
        """
        wanted = _identity(run_config(dataset, **settings), "seed")
        values: dict[int, float] = {}
        for rows in self.complete(dataset, lambda config: _identity(config, "seed") == wanted):
            numbers = _series(name, rows, _column(rows, split, metric, in_percent=True)).values
            if numbers:
                values[rows.config.iloc[0].dataset.seed] = numbers[min(numbers)]
        return Series(name, values)

    def complete(
        self, dataset: str, is_wanted: Callable[[RunConfig], bool] = lambda config: True, **model: Any
    ) -> list[pandas.DataFrame]:
        """Return the complete runs of each setting whose model has these settings and parameters."""

        def has_settings(config: RunConfig) -> bool:
            has = config.model
            return all(getattr(has, name, has.parameters.get(name)) == value for name, value in model.items())

        settings = self._settings(dataset).values()
        chosen = [rows for rows in settings if has_settings(rows.config.iloc[0]) and is_wanted(rows.config.iloc[0])]
        return [rows[rows.state == "complete"] for rows in chosen if "complete" in rows.state.values]

    def _settings(self, dataset: str) -> dict[str, pandas.DataFrame]:
        """Return the complete and diverged runs of each setting, one for each seed, by its identity."""
        if dataset not in self._by_dataset:
            table = self.results.run_table(dataset=dataset, facts=())
            table = table[table.state.isin(RESULT_STATES)]
            configs = table.drop_duplicates("setting").set_index("setting").config
            identities = table.setting.map(configs.map(_identity))
            table = table.assign(free=table.setting.map(configs.map(lambda one: getattr(one.model, _FREE, 0))))
            self._by_dataset[dataset] = {
                identity: rows.sort_values(["seed", "free", "run_key"]).drop_duplicates("seed", keep="last")
                for identity, rows in table.groupby(identities, sort=False)
            }
        return self._by_dataset[dataset]


def _identity(config: RunConfig, *of_data: str) -> str:
    """Return what the runs of a model have in common, without some settings of the data."""
    return "\n".join((config.dataset.identity(*of_data), config.model.identity(_FREE), config.protocol.identity()))


def _column(rows: pandas.DataFrame, split: str, metric: str, *, in_percent: bool = False) -> pandas.Series[float]:
    """Return a metric of runs, NaN where they lack it, and if it is a share perhaps in percent."""
    factor = 100 if in_percent and METRICS[metric].percent else 1
    return factor * rows.get((split, metric), math.nan * rows.seed)


def _series(name: str, rows: pandas.DataFrame, numbers: Iterable[float], what: str = "") -> Series:
    """Return the finite numbers of complete runs by seed, and how many of the runs lack `what`."""
    seeds = zip(rows.seed.tolist(), rows.state.tolist(), numbers, strict=True)
    numbers_by_seed = {seed: number for seed, state, number in seeds if state == "complete"}
    values = {seed: float(one) for seed, one in numbers_by_seed.items() if math.isfinite(one)}
    without = len(numbers_by_seed) - len(values)
    lack = f"{count_label(without, 'run')} without {what.replace('_', ' ')}" if what and without else ""
    return Series(name, values, lack)


def _name(dataset: str, model: Model) -> str:
    """Return ``idw, 16 prototypes, p=1``."""
    method = METHODS.get(model["method"])
    numbers = {name: float(value) for name, value in model.items() if name in ("power", "epsilon")}
    words = [model["method"], f"{model['prototypes']} prototypes", parameters_label(method, numbers) if method else ""]
    words += ["patch study"] if model.get("kind") == "patch_study" else []
    words += ["MNIST"] if dataset == MNIST else []
    return ", ".join(word for word in words if word)
