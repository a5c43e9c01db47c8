"""The engine of language models: windows of a text, drawn at random, and cross-entropy of the next tokens.

An epoch has as many steps as windows of the context fit into the training text, divided by the batch size and rounded
up; each step draws its windows at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from idwbench.data.dataset import Dataset, Split
from idwbench.data.text import text_tokenizer
from idwbench.dual.layer_calls import lstm_layers, record_lstm
from idwbench.dual.recorder import Recorder
from idwbench.models.modules import parameter_arrays
from idwbench.models.text_model import LstmLanguageModel, NextTokenModel, language_network, text_metrics
from idwbench.runs.config import RunConfig
from idwbench.runs.dataset_base import LanguageConfig
from idwbench.runs.kinds.lstm_lm import LstmConfig
from idwbench.runs.kinds.transformer_lm import LanguageModelConfig, check_context
from idwbench.runs.results import CurvePoint
from idwbench.training.engine import Context, Fitted
from idwbench.training.layer_statistics import WatchedTraining
from idwbench.training.module_training import (
    Batches,
    Measured,
    ModuleTraining,
    Values,
    checkpoint_file,
    fit_module,
    module_engine,
    run_recorder,
)
from idwbench.training.torch_engine import resolve_device

__all__ = ["ENGINES", "random_windows", "steps_of_epoch"]


def _check(model: LanguageModelConfig | LstmConfig, dataset: Dataset) -> None:
    """Raise `ConfigError` if the training text is shorter than the context."""
    assert isinstance(dataset.config, LanguageConfig)
    check_context(model.context, len(dataset.train), text_tokenizer(dataset.config).unit)


def _fit(config: RunConfig, dataset: Dataset, context: Context) -> Fitted:
    """Train one language model.

    A recorded LSTM has the layers ``lstm.input``, ``lstm.recurrent`` and ``head``. The embedding of tokens is not
    recorded: its keys would be the numbers of the tokens.
    """
    generator, device = np.random.default_rng(config.seed), resolve_device(context.device)
    assert isinstance(config.dataset, LanguageConfig) and isinstance(config.model, LanguageModelConfig | LstmConfig)
    tokenizer = text_tokenizer(config.dataset)
    _check(config.model, dataset)
    draws = torch.Generator().manual_seed(int(generator.integers(2**63)))
    model = language_network(config.model, dataset.n_outputs, draws).to(device)
    losses, size = _losses_of_windows(model, dataset.train, device), config.protocol.batch_size
    watched = WatchedTraining(model, losses, random_windows(len(dataset.train), model.context, size))
    if isinstance(config.model, LanguageModelConfig) and config.model.statistics:
        n_steps = steps_of_epoch(len(dataset.train), model.context, size)
        watched = watched.with_statistics(config.protocol.epochs, n_steps)

    def measure(curve: Sequence[CurvePoint]) -> Measured:
        # The last point of the curve has the values of the test and validation text.
        others = {key: value for key, value in curve[-1].values.items() if key[0] != "train"}
        arrays = {**parameter_arrays(model), "vocabulary": tokenizer.vocabulary_array(dataset.class_names)}
        metrics = {**others, **_metrics(model, dataset, ("train",)), **watched.metrics}
        return metrics, {**arrays, **watched.arrays}

    training = ModuleTraining(
        watched.module,
        config.protocol,
        losses,
        watched.batches,
        generator,
        evaluate=lambda: _metrics(model, dataset, ("test", "validation")),
        checkpoint=checkpoint_file(config, dataset, context),
        recorder=_recorder(config, dataset, context, model),
    )
    return fit_module(training, context.on_epoch, measure)


def _recorder(config: RunConfig, dataset: Dataset, context: Context, model: NextTokenModel) -> Recorder | None:
    """Return the recorder of an LSTM that is to be recorded, otherwise None."""
    settings, protocol = config.model, config.protocol
    if not isinstance(settings, LstmConfig) or not settings.record:
        return None
    assert isinstance(model, LstmLanguageModel)
    steps = protocol.epochs * steps_of_epoch(len(dataset.train), settings.context, protocol.batch_size)
    layers = {**lstm_layers(model.lstm), "head": model.head}
    slots = steps * protocol.batch_size * settings.context
    recorder = run_recorder(config, dataset, context, layers, steps=steps, slots=slots, dtype=settings.record_dtype)
    record_lstm(recorder.take, model.lstm)
    return recorder


def random_windows(n_train: int, context: int, batch_size: int) -> Batches:
    """Return a function that yields the rows (batch, context) of each batch of one epoch: windows at random places."""
    n_steps = steps_of_epoch(n_train, context, batch_size)

    def batches(generator: np.random.Generator, epoch: int) -> Iterator[NDArray[np.int64]]:
        for _ in range(n_steps):
            starts = generator.integers(0, n_train - context + 1, size=(batch_size, 1))
            yield starts + np.arange(context)

    return batches


def steps_of_epoch(n_train: int, context: int, batch_size: int) -> int:
    """Return the number of batches of windows that fit into the training text, rounded up."""
    return math.ceil(n_train / (context * batch_size))


def _losses_of_windows(
    model: NextTokenModel, train: Split, device: torch.device
) -> Callable[[NDArray[np.int64]], Tensor]:
    """Return a function from windows (batch, context) of rows to the cross-entropy at each row."""
    inputs = torch.from_numpy(train.inputs[:, 0].astype(np.int64)).to(device)
    labels = torch.from_numpy(train.labels).to(device)

    def losses(rows: NDArray[np.int64]) -> Tensor:
        where = torch.from_numpy(rows).to(device)
        return functional.cross_entropy(model(inputs[where]).flatten(0, 1), labels[where].flatten(), reduction="none")

    return losses


def _metrics(model: NextTokenModel, dataset: Dataset, names: Sequence[str]) -> Values:
    """Return the metrics of splits; of the training text only those of its end, as long as the test text."""
    metrics = Values()
    for name in (name for name in names if name in dataset.splits):
        split = dataset.splits[name]
        first = max(0, len(split) - len(dataset.test)) if name == "train" else 0
        metrics |= {(name, metric): value for metric, value in text_metrics(model, split, first).items()}
    return metrics


ENGINES = dict.fromkeys(("transformer_lm", "lstm_lm"), module_engine(_fit, _check))
