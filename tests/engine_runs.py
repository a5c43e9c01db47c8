"""Training with the engine of a run, without a database."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from idwbench.data.dataset import Dataset
from idwbench.runs.config import RunConfig
from idwbench.runs.results import RunResult
from idwbench.training import fused_engine, torch_engine
from idwbench.training.engine import Context
from idwbench.training.selection import engine_of

ENGINES = {"fused": fused_engine.ENGINES, "torch": torch_engine.ENGINES}


def train_runs(configs: Sequence[RunConfig], dataset: Dataset, **settings: Any) -> list[RunResult]:
    """Train runs of one stack; the settings are those of `Context`."""
    context = Context(**settings)
    return engine_of(configs[0], context).train(configs, dataset, context)


def train_run(config: RunConfig, dataset: Dataset, **settings: Any) -> RunResult:
    """Train one run."""
    (result,) = train_runs([config], dataset, **settings)
    return result


def replace_train(monkeypatch: pytest.MonkeyPatch, name: str, train: Callable[..., Any]) -> Callable[..., Any]:
    """Let an engine train with another function, and return its own."""
    engine = ENGINES[name][name]
    monkeypatch.setitem(ENGINES[name], name, replace(engine, train=train))
    return engine.train
