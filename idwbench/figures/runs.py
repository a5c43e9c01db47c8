"""The runs of a figure: those of one kind, data set and protocol, and the arrays of their models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.scores import METHODS, get_method
from idwbench.errors import ConfigError
from idwbench.report.frame import Row, data_seed
from idwbench.report.labels import count_label
from idwbench.report.summaries import Section, summarise
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = [
    "Model",
    "Selection",
    "first_run",
    "runs_of_row",
    "select_runs_of_kind",
    "select_runs_of_kinds",
    "select_runs_with_keys",
    "stored_models",
]

_FEW = 3


@dataclass(frozen=True)
class Model:
    """A row of a report with the run of its lowest seed: `keys` (prototypes, features) in scaled units, and `values`.

    `values` has the shape (prototypes, outputs).
    """

    row: Row
    run: StoredRun
    keys: NDArray[np.float32]
    values: NDArray[np.float32]


@dataclass(frozen=True)
class Selection:
    """The runs of a figure.

    Attributes:
        sections: One for each data set and protocol, in the order of reports, with at least one complete run.
        runs: Runs of one kind of model in any state.
        left_out: One line for each kind of runs that is not in `runs`.
    """

    sections: tuple[Section, ...]
    runs: tuple[StoredRun, ...]
    left_out: tuple[str, ...]

    def first(self) -> tuple[Section, tuple[str, ...]]:
        """Return the first section, and what is left out if it alone is drawn."""
        others = [section.title for section in self.sections[1:]]
        if not others:
            return self.sections[0], self.left_out
        shown = "; ".join(others[:_FEW]) + ("; …" if len(others) > _FEW else "")
        return self.sections[0], (*self.left_out, f"not drawn: other data sets or protocols ({shown})")


def select_runs_of_kind(runs: Sequence[StoredRun], kind: str = "prototypes") -> Selection:
    """Return the runs of that kind of model, and their sections.

    Raises:
        ConfigError: no such run is complete.
    """
    chosen = tuple(run for run in runs if run.config.model.kind == kind)
    if not any(run.state == "complete" for run in chosen):
        raise ConfigError(f"no run of kind '{kind}' is complete", location=("figure",))
    return _selection(runs, chosen)


def select_runs_of_kinds(runs: Sequence[StoredRun], kinds: Collection[str]) -> Selection:
    """Return the runs of these kinds of models, of which some are complete, and their sections."""
    return _selection(runs, tuple(run for run in runs if run.config.model.kind in kinds))


def select_runs_with_keys(runs: Sequence[StoredRun]) -> Selection:
    """Return the runs of prototype networks, or without any the baselines that have keys: k-means, class means, ….

    Raises:
        ConfigError: no such run is complete.
    """
    baselines = tuple(run for run in runs if run.config.model.kind == "baseline" or _has_class_means(run))
    if any(run.config.model.kind == "prototypes" for run in runs) or not any(r.state == "complete" for r in baselines):
        return select_runs_of_kind(runs)
    return _selection(runs, baselines)


def _has_class_means(run: StoredRun) -> bool:
    return run.config.model.kind == "scikit_learn" and run.config.model.method == "nearest_centroid"


def _selection(runs: Sequence[StoredRun], chosen: tuple[StoredRun, ...]) -> Selection:
    sections = [section for section in summarise(chosen) if any(row.n for row in section.rows)]
    drawn = {id(run) for run in chosen}
    others = Counter(str(run.config.model.kind) for run in runs if id(run) not in drawn)
    left_out = [f"not drawn: {count_label(n, 'run')} of kind '{kind}'" for kind, n in sorted(others.items())]
    return Selection(tuple(sections), chosen, tuple(left_out))


def stored_models(store: Results, selection: Selection, section: Section) -> tuple[list[Model], tuple[str, ...]]:
    """Return the models of a section that were trained with the registered version of their method.

    Raises:
        ConfigError: a plugin is missing, or only other versions were used.
    """
    rows, left_out = _drawable(section)
    models = []
    for row in rows:
        run = first_run(runs_of_row(selection.runs, section, row))
        arrays = store.load_arrays(run.run_key)
        models.append(Model(row, run, arrays["keys"].astype(np.float32), arrays["values"].astype(np.float32)))
    return models, left_out


def first_run(runs: Sequence[StoredRun]) -> StoredRun:
    """Return the run of the lowest seed of the data, and of these of the lowest seed."""
    return min(runs, key=lambda run: (data_seed(run.config.dataset), run.config.seed))


def runs_of_row(runs: Sequence[StoredRun], section: Section, row: Row) -> list[StoredRun]:
    """Return the complete runs of a row of a section."""
    return [run for run in runs if run.state == "complete" and _belongs(run, section, row)]


def _drawable(section: Section) -> tuple[list[Row], tuple[str, ...]]:
    """Return the rows whose method is registered in the version that was trained."""
    complete = [row for row in section.rows if row.n]
    if all(row.model.kind in ("baseline", "scikit_learn") for row in complete):
        return complete, ()
    for row in complete:
        if row.model.method not in METHODS:
            problem = f"method '{row.model.method}' is not registered"
            raise ConfigError(problem, location=("plugin",), hint="load the plugin that defines it")
    rows = [row for row in complete if get_method(row.model.method).sha256 == row.model.plugin_sha256]
    names = ", ".join(sorted({row.model.method for row in complete if row not in rows}))
    problem = f"'{names}' was trained with another version of its plugin"
    if not rows:
        raise ConfigError(problem, location=("plugin",), hint="load that version")
    return rows, (f"not drawn: {problem}",) if names else ()


def _belongs(run: StoredRun, section: Section, row: Row) -> bool:
    config = run.config
    same = config.model == row.model and config.protocol == section.protocol
    return same and section.has_data(config.dataset)
