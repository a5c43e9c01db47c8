"""The runs of a figure: those of one kind, data set and protocol, and the arrays of their models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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

__all__ = ["Model", "first_run", "first_section", "runs_of_kind", "select_sections", "stored_models"]

_FEW = 3


@dataclass(frozen=True)
class Model:
    """A row of a report, with the arrays of its lowest seed.

    Attributes:
        run: That of the lowest seed.
        keys: (prototypes, features), in scaled units.
        values: (prototypes, outputs).
    """

    row: Row
    run: StoredRun
    keys: NDArray[np.float32]
    values: NDArray[np.float32]


def runs_of_kind(runs: Sequence[StoredRun], kind: str = "prototypes") -> list[StoredRun]:
    """Return the runs of a kind of model in any state.

    Raises:
        ConfigError: none of them is complete.
    """
    chosen = [run for run in runs if run.config.model.kind == kind]
    if not any(run.state == "complete" for run in chosen):
        raise ConfigError(f"no run of kind '{kind}' is complete", location=("figure",))
    return chosen


def select_sections(runs: Sequence[StoredRun], chosen: Sequence[StoredRun]) -> tuple[list[Section], list[str]]:
    """Return the sections of `chosen` with a complete run, in the order of reports, and a line for each other kind."""
    drawn = {id(run) for run in chosen}
    others = Counter(str(run.config.model.kind) for run in runs if id(run) not in drawn)
    left_out = [f"not drawn: {count_label(n, 'run')} of kind '{kind}'" for kind, n in sorted(others.items())]
    return [section for section in summarise(chosen) if any(row.n for row in section.rows)], left_out


def first_section(runs: Sequence[StoredRun], chosen: Sequence[StoredRun]) -> tuple[Section, list[str]]:
    """Return the first of the sections of `select_sections`, and a line for each kind of runs that is not in it."""
    (first, *others), left_out = select_sections(runs, chosen)
    if others:
        shown = "; ".join(section.title for section in others[:_FEW]) + ("; …" if len(others) > _FEW else "")
        left_out.append(f"not drawn: other data sets or protocols ({shown})")
    return first, left_out


def first_run(row: Row) -> StoredRun:
    """Return the complete run of the lowest seed of the data, and of these of the lowest seed."""
    return min(row.complete, key=lambda run: (data_seed(run.config.dataset), run.config.seed))


def stored_models(store: Results, section: Section) -> tuple[list[Model], list[str]]:
    """Return the models of a section that were trained with the registered version of their method.

    Raises:
        ConfigError: a plugin is missing, or only other versions were used.
    """
    rows, left_out = _drawable([row for row in section.rows if row.n])
    models = []
    for row in rows:
        run = first_run(row)
        keys, values = (store.load_arrays(run.run_key)[name].astype(np.float32) for name in ("keys", "values"))
        models.append(Model(row, run, keys, values))
    return models, left_out


def _drawable(complete: list[Row]) -> tuple[list[Row], list[str]]:
    """Return the rows whose method is registered in the version that was trained."""
    if all(row.model.kind in ("baseline", "scikit_learn") for row in complete):
        return complete, []
    for row in complete:
        if row.model.method not in METHODS:
            problem = f"method '{row.model.method}' is not registered"
            raise ConfigError(problem, location=("plugin",), hint="load the plugin that defines it")
    rows = [row for row in complete if get_method(row.model.method).sha256 == row.model.plugin_sha256]
    names = ", ".join(sorted({row.model.method for row in complete if row not in rows}))
    problem = f"'{names}' was trained with another version of its plugin"
    if not rows:
        raise ConfigError(problem, location=("plugin",), hint="load that version")
    return rows, [f"not drawn: {problem}"] if names else []
