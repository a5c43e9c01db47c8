"""What the recording of an LSTM costs: trainings on real texts without and with it, in turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from benchmarks.tables import header, row
from benchmarks.timing import side_by_side
from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.runs.config import RunConfig
from idwbench.sweep.spec import plan, read_sweep
from idwbench.training import language_model_engine
from idwbench.training.engine import Context
from idwbench.training.language_model_engine import ENGINES

__all__ = ["lstm"]

SWEEP = Path(__file__).parents[1] / "sweeps" / "lstm_history.yaml"
# Steps and pairs of trainings by text.
SIZES = {"aesop": (100, 3), "wikitext_2": (30, 3)}


def lstm(mnist: Dataset) -> None:
    """The runs of `sweeps/lstm_history.yaml`, cut to some steps, without evaluation."""
    header("training with / without recording", "steps", "pairs", "ratio", "range", "ms a step", "must", numbers=5)
    with TemporaryDirectory() as folder, _without_evaluation():
        for config in plan(read_sweep(SWEEP)):
            steps, pairs = SIZES[config.dataset.name]
            dataset = load_dataset(config.dataset)
            with _steps_of_epoch(steps):
                _row(config, dataset, Path(folder), steps, pairs)


def _row(config: RunConfig, dataset: Dataset, folder: Path, steps: int, pairs: int) -> None:
    plain = config.model.model_copy(update={"record": False, "record_dtype": "float32"})
    times = side_by_side(
        lambda: _train(config.model_copy(update={"model": plain}), dataset, folder),
        lambda: _train(config, dataset, folder),
        rounds=pairs,
    )
    ratios = [recorded / unrecorded for unrecorded, recorded in times.rounds]
    per_step = " and ".join(f"{1e3 * times.seconds(place) / steps:.0f}" for place in (0, 1))
    span = f"{min(ratios):.2f} to {max(ratios):.2f}"
    row(config.dataset.name, f"{steps}", f"{pairs}", f"{times.ratio(1, 0):.2f}", span, per_step, "< 3")


def _train(config: RunConfig, dataset: Dataset, folder: Path) -> None:
    """Train one epoch; the recording, if there is one, is complete then."""
    epoch = config.model_copy(update={"protocol": config.protocol.model_copy(update={"epochs": 1})})
    ENGINES["lstm_lm"].train([epoch], dataset, Context(recording_folder=folder))


@contextmanager
def _without_evaluation() -> Iterator[None]:
    with patch.object(language_model_engine, "_metrics", lambda model, dataset, names: {}):
        yield


@contextmanager
def _steps_of_epoch(steps: int) -> Iterator[None]:
    """Cut an epoch: its windows are drawn at random from the whole text."""

    def cut(n_train: int, context: int, batch_size: int) -> int:
        return steps

    with patch.object(language_model_engine, "steps_of_epoch", cut):
        yield
