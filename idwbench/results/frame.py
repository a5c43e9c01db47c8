"""Runs as a pandas table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas

from idwbench.results.records import StoredRun

__all__ = ["runs_frame"]

_ALWAYS = ["run_key", "dataset", "model", "seed", "state"]
_OTHERS = (
    *("n_parameters", "diverged_epoch", "error", "seconds", "engine", "device", "threads", "host"),
    *("attempt", "started_at", "finished_at"),
)


def runs_frame(runs: Sequence[StoredRun]) -> pandas.DataFrame:
    """Return a table with one row for each run, see `idwbench.results.store.Results.to_frame`."""
    rows = [_row(run) for run in runs]
    return pandas.DataFrame(rows) if rows else pandas.DataFrame(columns=_ALWAYS)


def _row(run: StoredRun) -> dict[str, Any]:
    model = dict(run.config.model)  # unlike JSON, with settings at their default
    parameters = model.pop("parameters", {})
    return {
        "run_key": run.run_key,
        "dataset": run.dataset,
        **{f"dataset_{name}": value for name, value in run.config.dataset},
        "model": model.pop("kind"),
        "method": run.config.model.method,
        **model,
        **parameters,
        **dict(run.config.protocol),
        "seed": run.config.seed,
        "state": run.state,
        **{f"{split}_{name}": value for (split, name), value in run.metrics.items()},
        **{name: getattr(run, name) for name in _OTHERS},
    }
