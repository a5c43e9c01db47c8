"""Runs as a pandas table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas

from idwbench.results.records import StoredRun
from idwbench.runs.settings import Settings

__all__ = ["runs_frame"]

_ALWAYS = ["run_key", "dataset", "model", "seed", "state"]
_OTHERS = (
    "n_parameters",
    "diverged_epoch",
    "error",
    "seconds",
    "engine",
    "device",
    "threads",
    "host",
    "attempt",
    "started_at",
    "finished_at",
)


def runs_frame(runs: Sequence[StoredRun]) -> pandas.DataFrame:
    """Return one row for each run; see `idwbench.results.store.Results.to_frame`."""
    rows = [_row(run) for run in runs]
    return pandas.DataFrame(rows) if rows else pandas.DataFrame(columns=_ALWAYS)


def _row(run: StoredRun) -> dict[str, Any]:
    model = _settings(run.config.model)
    parameters = model.pop("parameters", {})
    return {
        "run_key": run.run_key,
        "dataset": run.dataset,
        **{f"dataset_{name}": value for name, value in _settings(run.config.dataset).items()},
        "model": model.pop("kind"),
        **model,
        **parameters,
        **_settings(run.config.protocol),
        "seed": run.config.seed,
        "state": run.state,
        **{f"{split}_{name}": value for (split, name), value in run.metrics.items()},
        **{name: getattr(run, name) for name in _OTHERS},
    }


def _settings(settings: Settings) -> dict[str, Any]:
    """Return all settings, also those that JSON leaves out at their default."""
    return {name: getattr(settings, name) for name in type(settings).model_fields}
