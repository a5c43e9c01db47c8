"""Stored runs with chosen results, without training."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from idwbench.claims.evidence import Evidence
from idwbench.claims.verdicts import CLAIMS, Judgement, judge
from idwbench.errors import ResultsError
from idwbench.results.records import StoredRun
from idwbench.runs.config import RunConfig, run_config

Settings = tuple[tuple[str, Any], ...]
METHODS = ("fc_relu", "scaled_dot", "neg_dist", "gaussian", "inv_dist", "idw")


class Runs:
    """A growing set of runs; each number may be a function of the seed."""

    def __init__(self) -> None:
        self.runs: list[StoredRun] = []
        self.stored_arrays: dict[str, Mapping[str, np.ndarray]] = {}

    def add(
        self,
        metrics: Mapping[tuple[str, str], float | Callable[[int], float]] | None = None,
        *,
        seeds: Iterable[int] = range(20),
        dataset: str | Mapping[str, Any] = "two_moons",
        kind: str = "prototypes",
        state: str = "complete",
        arrays: Callable[[int], Mapping[str, np.ndarray]] | None = None,
        cases: str = "special",
        **settings: Any,
    ) -> Runs:
        data = dataset if isinstance(dataset, str) else tuple(dataset.items())
        for seed in seeds:
            config = _config(seed, kind, cases, data, tuple(settings.items()))
            key = f"{len(self.runs):064x}"
            found = {name: float(value(seed) if callable(value) else value) for name, value in (metrics or {}).items()}
            found = found if state == "complete" else {}
            self.runs.append(StoredRun(key, config, config.dataset_label, state, found))  # type: ignore[arg-type]
            if arrays is not None:
                self.stored_arrays[key] = arrays(seed)
        return self

    def accuracy(self, method: str, mean: float, prototypes: int = 16, **settings: Any) -> Runs:
        """Add runs on Two Moons or MNIST with accuracies about `mean`, none of them equal."""
        split = "test" if settings.get("dataset") == "mnist" else "holdout"
        extra = {"scale": "prototypes"} if method == "scaled_dot" else {}
        return self.add(
            {(split, "accuracy"): lambda seed: mean + jitter(seed, method)},
            **{"method": method, "prototypes": prototypes, **extra, **settings},
        )

    def quality(self, name: str, method: str, mean: float, prototypes: int = 16, **settings: Any) -> Runs:
        """Add runs with a metric of prototype quality about `mean`."""
        extra = {"scale": "prototypes"} if method == "scaled_dot" else {}
        return self.add(
            {("train", name): lambda seed: mean + jitter(seed, method)},
            **{"method": method, "prototypes": prototypes, **extra, **settings},
        )

    def load_arrays(self, run_key: str) -> Mapping[str, np.ndarray]:
        if run_key not in self.stored_arrays:
            raise ResultsError("no arrays")
        return self.stored_arrays[run_key]

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.runs, self.load_arrays, lambda: self.runs)

    def judge(self, number: int) -> Judgement:
        """Return the verdict on one claim alone."""
        return judge(self.evidence, [CLAIMS[number - 1]])[0]


@functools.cache
def jitter(seed: int, word: str) -> float:
    """Return a number within ±0.002 that depends on the seed and a word."""
    return 0.002 * float(np.random.default_rng([seed, *word.encode()]).uniform(-1, 1))


@functools.cache
def _config(seed: int, kind: str, cases: str, dataset: str | Settings, settings: Settings) -> RunConfig:
    study = {"cases": cases} if kind == "patch_study" else {}
    data = dataset if isinstance(dataset, str) else dict(dataset)
    return run_config(data, seed=seed, **{"kind": kind, **study, **dict(settings)})
