from collections.abc import Callable
from typing import Any

import pytest

from idwbench.results.records import StoredRun
from idwbench.runs.config import run_config
from idwbench.runs.metrics import headline_metric


@pytest.fixture
def stored_run() -> Callable[..., StoredRun]:
    """Return a function that makes one run as the database returns it; `test=None` means that it has no metrics."""

    def make(
        test: float | None = 0.9,
        *,
        dataset: Any = "mnist",
        seed: int = 0,
        state: str = "complete",
        holdout: float | None = None,
        train: float | None = 0.95,
        validation: float | None = None,
        metrics: dict[tuple[str, str], float] | None = None,
        n_parameters: int = 15_880,
        **settings: Any,
    ) -> StoredRun:
        counts = {} if settings.get("kind") == "scikit_learn" else {"prototypes": 20}
        config = run_config(dataset, seed=seed, **{**counts, **settings})
        name = headline_metric(config.dataset.task).name
        values = {"test": test, "holdout": holdout, "train": train, "validation": validation}
        found = {(split, name): value for split, value in values.items() if value is not None}
        complete = state == "complete"
        return StoredRun(
            run_key=config.run_key,
            config=config,
            dataset=config.dataset_label,
            state=state,  # type: ignore[arg-type]
            metrics={**found, **(metrics or {})} if complete else {},
            n_parameters=n_parameters if complete else None,
            diverged_epoch=3 if state == "diverged" else None,
        )

    return make
