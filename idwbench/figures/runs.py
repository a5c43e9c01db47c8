"""The runs of a figure: those of one kind, data set and protocol, and the arrays of their models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pandas
from numpy.typing import NDArray

from idwbench.attention.scores import METHODS, get_method
from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError
from idwbench.report.frame import Row, rows, run_table
from idwbench.report.labels import count_label, value_label, varying_settings
from idwbench.report.leaderboard import best_by_validation
from idwbench.report.summaries import Section, summarise
from idwbench.results.records import StoredRun
from idwbench.runs.dataset_base import DatasetConfig

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["Keys", "Model", "Selection", "best_rows", "first_run", "key_order", "measured_label", "row_labels"]

_FEW = 3
_BASELINES = ("baseline", "scikit_learn")

Keys = NDArray[np.float32]
T = TypeVar("T")


@dataclass(frozen=True)
class Model:
    """A row of a report, with the arrays of its lowest seed.

    Attributes:
        run: That of the lowest seed.
        arrays: Its arrays by name: keys (prototypes, features), in scaled units, values (prototypes, outputs), ….
    """

    row: Row
    run: StoredRun
    arrays: Mapping[str, Keys]

    @property
    def keys(self) -> Keys:
        """Keys (prototypes, features), in scaled units."""
        return self.arrays["keys"]

    @property
    def values(self) -> Keys:
        """Values (prototypes, outputs)."""
        return self.arrays["values"]

    @property
    def has_points(self) -> bool:
        """Whether the keys are points among the inputs; those of dot products are directions, without units."""
        model = self.row.model
        return model.kind in _BASELINES or (model.method in METHODS and METHODS[model.method].has_points)

    def title(self, metric: str) -> str:
        """Return method, parameters, seed and the test metric over seeds: ``idw · p=2, ε=0.001 · seed 0 · …``."""
        config = self.row.model
        prototypes = count_label(config.prototypes or len(self.keys), "prototype")
        parameters = "" if config.kind == "baseline" else config.parameters_label  # all say "nearest key"
        words = (config.method, parameters, prototypes, measured_label(self.row, self.run, metric))
        return " · ".join(filter(None, words))


@dataclass(frozen=True)
class Selection:
    """The runs that a figure is asked for, and lines on those that it does not draw.

    Attributes:
        store: Where their arrays and curves are.
        runs: In any state.
        data_dir: The folder of data sets that are files, or None for the default.
        left_out: One line for each kind of runs that are not drawn; figures add to it.
    """

    store: Results
    runs: Sequence[StoredRun]
    data_dir: Path | None = None
    left_out: list[str] = field(default_factory=list)

    def leave_out(self, *words: str) -> None:
        """Add a line for each text that is not empty."""
        self.left_out.extend(f"not drawn: {one}" for one in words if one)

    def first(self, found: Sequence[T], most: int, word: str) -> list[T]:
        """Return the first of some things; a line has the number of the others, if there are any."""
        others = len(found[most:])
        self.leave_out(count_label(others, word) if others else "")
        return list(found[:most])

    def of_kind(self, kind: str = "prototypes") -> list[StoredRun]:
        """Return the runs of a kind of model in any state.

        Raises:
            ConfigError: none of them is complete.
        """
        chosen = [run for run in self.runs if run.config.model.kind == kind]
        if not any(run.state == "complete" for run in chosen):
            raise ConfigError(f"no run of kind '{kind}' is complete")
        return chosen

    def sections(self, chosen: Sequence[StoredRun]) -> list[Section]:
        """Return the sections of `chosen` with a complete run, in the order of reports; other kinds are left out."""
        drawn = {id(run) for run in chosen}
        others = Counter(str(run.config.model.kind) for run in self.runs if id(run) not in drawn)
        self.leave_out(*(f"{count_label(n, 'run')} of kind '{kind}'" for kind, n in sorted(others.items())))
        return [section for section in summarise(chosen) if any(row.n for row in section.rows)]

    def first_section(self, chosen: Sequence[StoredRun]) -> Section:
        """Return the first of `sections`; the others are left out."""
        first, *others = self.sections(chosen)
        if others:
            shown = "; ".join(section.title for section in others[:_FEW]) + ("; …" if len(others) > _FEW else "")
            self.leave_out(f"other data sets or protocols ({shown})")
        return first

    def on_first_data(self, kind: str, *others: str) -> tuple[Section, list[list[Row]]]:
        """Return the first section of runs of a kind, and the rows of this and other kinds on its data set.

        Rows are of any protocol; runs of these kinds on other data sets are left out.
        """
        section, *more = (one for one in summarise(self.of_kind(kind)) if any(row.n for row in one.rows))
        left_out = sorted({one.data for one in more if not section.has_data(one.config.dataset)})
        self.leave_out(f"other data sets ({', '.join(left_out)})" if left_out else "")
        table = run_table(run for run in self.runs if section.has_data(run.config.dataset) and run.state == "complete")
        return section, [rows(table[table.kind == one], section.metric) for one in (kind, *others)]

    def dataset(self, config: DatasetConfig) -> Dataset:
        """Return a data set of runs."""
        return load_dataset(config, self.data_dir)

    def arrays(self, run_key: str) -> dict[str, Keys]:
        """Return the arrays of a run of prototypes; raises `ResultsError` if they are not stored."""
        return {name: array.astype(np.float32) for name, array in self.store.load_arrays(run_key).items()}

    def models(self, section: Section) -> list[Model]:
        """Return the models of a section that were trained with the registered version of their method.

        Raises:
            ConfigError: a plugin is missing, or only other versions were used.
        """
        rows = [row for row in section.rows if row.n]
        if not all(row.model.kind in _BASELINES for row in rows):
            rows = self._registered(rows)
        return [Model(row, run, self.arrays(run.run_key)) for row in rows for run in [first_run(row)]]

    def point_models(self, section: Section) -> list[Model]:
        """Return those of `models` whose keys are points; the others are left out.

        Raises:
            ConfigError: see `models`, or the keys of all are directions.
        """
        models = self.models(section)
        points = [model for model in models if model.has_points]
        others = ", ".join(dict.fromkeys(model.row.model.method for model in models if not model.has_points))
        if not points:
            raise ConfigError(f"the keys of {others} are directions, not points")
        self.leave_out(f"{others}, whose keys are directions, not points" if others else "")
        return points

    def _registered(self, complete: list[Row]) -> list[Row]:
        """Return the rows whose method is registered in the version that was trained."""
        for name in dict.fromkeys(row.model.method for row in complete):
            try:
                get_method(name)  # it also looks into the plugins of the project
            except ConfigError:
                problem = f"method '{name}' is not registered"
                raise ConfigError(problem, location=("plugin",), hint="load the plugin that defines it") from None
        rows = [row for row in complete if get_method(row.model.method).sha256 == row.model.plugin_sha256]
        names = ", ".join(sorted({row.model.method for row in complete if row not in rows}))
        problem = f"'{names}' was trained with another version of its plugin"
        if not rows:
            raise ConfigError(problem, location=("plugin",), hint="load that version")
        self.leave_out(problem if names else "")
        return rows


def key_order(values: NDArray[np.floating]) -> NDArray[np.intp]:
    """Return the indices of prototypes sorted by the argmax of their values (stable)."""
    return np.argsort(np.argmax(values, axis=1), kind="stable")


def best_rows(chosen_from: list[Row], metric: str, axes: Sequence[str]) -> list[Row]:
    """Return the values of the settings `axes` with the best validation metric, or without one the first."""
    varying = varying_settings([row.settings for row in chosen_from])
    axes = [axis for axis in axes if axis in varying]
    if axes and all(run.metric(metric, "validation") is not None for row in chosen_from for run in row.complete):
        return best_by_validation(chosen_from, varying, axes, metric)[0]
    first: dict[tuple[object, ...], Row] = {}
    for row in chosen_from:
        first.setdefault(tuple(row.settings.get(name) for name in varying if name not in axes), row)
    return [*first.values()]


def row_labels(chosen: Sequence[Row]) -> list[str]:
    """Return the method of each row with the parts of the label of its parameters that not all of that method have."""
    words = pandas.Series([row.model.versioned_label.split(", ") for row in chosen])
    methods = [row.model.method for row in chosen]
    shared = words.groupby(methods).agg(lambda own: set.intersection(*map(set, own)))
    shown = ([word for word in own if word not in shared[name]] for name, own in zip(methods, words, strict=True))
    return [f"{method} {', '.join(own)}".strip() for method, own in zip(methods, shown, strict=True)]


def measured_label(row: Row, run: StoredRun, metric: str) -> str:
    """Return the seed and test accuracy of a run, and those of its row: ``seed 0 · test accuracy 90.00 % (…, n=3)``."""
    test = row.statistics.get("test")
    own = value_label(metric, run.metric(metric) or 0.0)
    over = f" ({value_label(metric, test.mean, test.std)}, n={test.n})" if test and test.n > 1 else ""
    return f"seed {run.config.seed} · test accuracy {own} %{over}"


def first_run(row: Row) -> StoredRun:
    """Return the complete run of the lowest seed of the data, and of these of the lowest seed."""
    return min(row.complete, key=lambda run: (run.config.dataset.seed, run.config.seed))
