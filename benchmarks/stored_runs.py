"""A database of many finished runs of one sweep, which were not trained: their metrics are random numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from idwbench.results.store import Results
from idwbench.runs.config import RunConfig
from idwbench.runs.results import CurvePoint, RunResult
from idwbench.sweep.spec import plan, read_sweep

__all__ = ["SWEEP", "fill_database", "sweep_text"]

SWEEP = "many"
_AT_ONCE = 2_000
_QUALITY = ("coverage", "relative_coverage", "chamfer", "dead_keys", "key_distance", "key_spacing", "key_agreement")
_SPLITS = ("train", "test", "holdout")
_EPOCHS = 2

# 5,000 settings on each of two data sets.
_TEXT = f"""\
name: {SWEEP}
description: Many settings, for benchmarks.
dataset: {{name: two_moons, noise: [0.1, 0.2]}}
seeds: SEEDS
grid:
  - method: idw
    prototypes: PROTOTYPES
    power: [0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32]
    epsilon: [0, 1.0e-6, 1.0e-5, 1.0e-4, 1.0e-3, 3.0e-3, 1.0e-2, 3.0e-2, 0.1, 0.3, 1, 3]
  - {{method: inv_dist, prototypes: PROTOTYPES, epsilon: [0, 1.0e-5, 1.0e-4, 1.0e-3, 1.0e-2, 0.1, 1, 2, 3, 4, 5, 6]}}
  - {{method: neg_dist, prototypes: PROTOTYPES, power: [0.5, 1, 1.5, 2, 3, 4, 6, 8, 10, 12, 14, 16]}}
  - {{method: gaussian, prototypes: PROTOTYPES, sigma_squared: WIDTHS}}
  - {{method: [scaled_dot, fc_relu], prototypes: PROTOTYPES}}
"""


def sweep_text(n_runs: int, n_seeds: int) -> str:
    """Return a sweep file of `n_runs` runs, a multiple of 400 · `n_seeds`."""
    prototypes = [2 * place for place in range(1, 1 + n_runs // (400 * n_seeds))]
    widths = [place / 10 for place in range(1, 31)]
    return _TEXT.replace("SEEDS", str(n_seeds)).replace("PROTOTYPES", str(prototypes)).replace("WIDTHS", str(widths))


def fill_database(file: Path, db: Path) -> int:
    """Store a result for each run of a sweep file, and return the number of runs."""
    spec = read_sweep(file)
    configs = plan(spec)
    results = Results(db)
    results.register_sweep(spec.name, spec.description, spec.source, configs)
    for stack in _stacks(configs):
        results.lease([config.run_key for config in stack])
        results.finish(_results(stack), data_sha256="0" * 64)
    return len(configs)


def _stacks(configs: Sequence[RunConfig]) -> Iterator[Sequence[RunConfig]]:
    for start in range(0, len(configs), _AT_ONCE):
        yield configs[start : start + _AT_ONCE]


def _results(configs: Sequence[RunConfig]) -> list[RunResult]:
    generator = np.random.default_rng(configs[0].seed)
    # As on 200, 40 and 4,000 points, so that means have ties.
    accuracies = [generator.binomial(n, 0.9, len(configs)) / n for n in (200, 40, 4_000)]
    quality = generator.random((len(configs), len(_QUALITY) + len(_SPLITS)))
    names = [("train", name) for name in _QUALITY] + [(split, "nearest_key_accuracy") for split in _SPLITS]
    return [
        _result(
            config,
            {(split, "accuracy"): float(found[place]) for split, found in zip(_SPLITS, accuracies, strict=True)}
            | {name: float(value) for name, value in zip(names, quality[place], strict=True)},
        )
        for place, config in enumerate(configs)
    ]


def _result(config: RunConfig, metrics: dict[tuple[str, str], float]) -> RunResult:
    keys = np.full((2, 2), config.seed, np.float32)
    return RunResult(
        config=config,
        state="complete",
        curve=tuple(CurvePoint(epoch, {("train", "loss"): 0.5}) for epoch in range(1, 1 + _EPOCHS)),
        metrics=metrics,
        arrays={"keys": keys, "values": keys},
        n_parameters=4 * config.network.prototypes,
        diverged_epoch=None,
        seconds=0.01,
        engine="fused",
        device="cpu",
        threads=1,
        instruction_set="AVX2",
    )
