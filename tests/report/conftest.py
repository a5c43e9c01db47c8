from collections.abc import Callable
from typing import Any

import pytest

from idwbench.config import default_protocol, parse_dataset, parse_protocol, parse_run
from idwbench.results.records import StoredRun


@pytest.fixture
def stored_run() -> Callable[..., StoredRun]:
    """One run as the database hands it out; `test=None` means that it has no accuracies."""

    def make(
        test: float | None = 0.9,
        *,
        dataset: Any = "mnist",
        method: str = "idw",
        prototypes: int = 20,
        seed: int = 0,
        parameters: dict[str, Any] | None = None,
        protocol: dict[str, Any] | None = None,
        state: str = "complete",
        holdout: float | None = None,
        train: float | None = 0.95,
        features: int | None = 784,
        classes: int | None = 10,
    ) -> StoredRun:
        data = parse_dataset(dataset)
        config = parse_run(
            data,
            method,
            prototypes,
            parse_protocol(protocol or {}, default_protocol(data.name)),
            seed,
            parameters,
        )
        ended = state == "complete"
        return StoredRun(
            run_key=config.run_key,
            config=config,
            dataset=config.dataset_label,
            state=state,  # type: ignore[arg-type]
            train_accuracy=train if ended else None,
            test_accuracy=test if ended else None,
            holdout_accuracy=holdout if ended else None,
            n_features=features if ended else None,
            n_classes=classes if ended else None,
            diverged_epoch=3 if state == "diverged" else None,
            error=None,
            engine="torch",
            device="cpu",
            threads=1,
            host="here",
            seconds=1.0,
            started_at=None,
            finished_at=None,
        )

    return make
